"""Expected values of metrics under the probabilities that the judge gives."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import combinations_with_replacement, zip_longest
from math import comb
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import MetricError
from judge_eval.metrics.families.gain import IDEAL, NDCG_FORMULA, ndcg
from judge_eval.metrics.families.relevance import (
    AP_FORMULA,
    COMMON,
    EXACT_RANKS,
    MULTIPLES,
    PRECISION_NORM,
    depth,
    divide,
)
from judge_eval.metrics.ragged import Rows, add_down, cut_blocks, ranks_of
from judge_eval.metrics.spec import Parameter, rag
from judge_eval.metrics.table import GradeTable, Values


def soft_precision(table: GradeTable, k: int | None = None, *, norm: Literal["retrieved", "k"] = "retrieved") -> Values:
    """Return the expected precision: the mean probability of relevance over the first `k` ranks."""
    sums = _sum_down(table, likelihoods(table), k, discount=False)
    return sums / k if norm == "k" and k is not None else divide(sums, depth(table, k))


def expected_dcg(table: GradeTable, k: int | None = None) -> Values:
    """Return the expected discounted cumulative gain: sum over ranks i <= k of E[grade_i] / log2(i + 1)."""
    # By linearity this is the mean of DCG over the judge's distribution of grades. A chunk without an
    # expected grade counts with its grade.
    decided = np.maximum(table.grades, 0).astype(np.float64)
    return _sum_down(table, _or_else(table.expected, decided), k, discount=True)


def likelihoods(table: GradeTable) -> NDArray[np.float64]:
    """Return the probability that each chunk is relevant, laid out like the table's grades."""
    # If it is unknown it is 1 for a relevant grade and 0 for any other one or a failed verdict.
    decided = (table.grades >= table.relevant).astype(np.float64)
    likely = _or_else(table.probable, decided)
    if len(likely) and not 0 <= likely.min() <= likely.max() <= 1:
        raise MetricError("a probability of relevance is not between 0 and 1")
    return likely


def _or_else(likely: NDArray[np.float64] | None, decided: NDArray[np.float64]) -> NDArray[np.float64]:
    return decided if likely is None else np.where(np.isnan(likely), decided, likely)


def _sum_down(table: GradeTable, values: NDArray[np.float64], k: int | None, *, discount: bool) -> Values:
    rows, ranks = np.repeat(np.arange(len(table)), table.lengths), ranks_of(table.offsets)
    cells = values / np.log2(ranks + 2.0) if discount else values
    if k is not None:
        cells = np.where(ranks < k, cells, 0.0)
    return np.bincount(rows, weights=cells, minlength=len(table)).astype(np.float64)


MOST_STATES = 50_000
"""With more ways to count the chunks of each grade the mean is refused."""


def expected_graded_ndcg(
    table: GradeTable, k: int | None = None, *, ideal: Literal["retrieved", "top"] = "retrieved"
) -> Values:
    """Return the mean of NDCG@K over all grades that the chunks can have, independent of each other."""
    # Exact: the ideal list follows from how many chunks have at least grade 1, 2, ..., each number up to K.
    # For each such state its probability, and that times the mean of DCG, are carried from rank to rank. It
    # takes time in proportion to the ranks and the states, of which there are (K + g choose g) on a scale 0
    # to g, at most `MOST_STATES`. A chunk without `chances` has its grade for sure.
    top = _highest(table)
    width = table.longest if k is None else min(k, table.longest)
    if comb(width + top, top) > MOST_STATES:
        raise MetricError(
            f"{width} ranks of grades 0 to {top} can be counted in {comb(width + top, top):,} ways, more "
            f"than {MOST_STATES:,}; take a smaller cutoff, or gain=binary, which asks only what is relevant"
        )
    known_chances = np.zeros(len(table.grades), dtype=np.bool_)
    if table.chances is not None:
        known_chances = ~np.isnan(table.chances[:, 0])
    for known in (table.probable, table.expected):
        if known is not None and (~known_chances & ~np.isnan(known)).any():
            raise MetricError(
                "a verdict has a probability of being relevant and not one of each grade, which is needed on "
                "a graded scale and not given by some judges; judge again (the cache answers), "
                "or use gain=binary, which asks only what is relevant, or EDCG"
            )
    values = ndcg(table, k, ideal=ideal)
    if table.chances is None:
        return values
    sure = np.eye(top + 1)[np.maximum(table.grades, 0)]
    chances = np.where(known_chances[:, None], table.chances, sure)
    for row in range(len(table)):
        here = slice(int(table.offsets[row]), int(table.offsets[row + 1]))
        if known_chances[here].any():
            values[row] = _mean(chances[here], k, top, ideal)
    return values


def _mean(chances: Values, k: int | None, top: int, ideal: Literal["retrieved", "top"]) -> float:
    """Return the mean of one list; `chances` has shape (ranks, grades)."""
    cutoff = len(chances) if k is None else min(k, len(chances))
    following, best = _states(cutoff, top)
    size, goals = len(best), following.ravel()
    likely, brought = np.zeros(size), np.zeros(size)
    likely[0] = 1
    grades = np.arange(top + 1.0)
    for rank, chance in enumerate(chances[:cutoff] if ideal == "top" else chances, 1):
        moved = likely[:, None] * chance
        carried = brought[:, None] * chance
        if rank <= cutoff:
            carried += moved * (grades / np.log2(rank + 1))
        likely = np.bincount(goals, weights=moved.ravel(), minlength=size).astype(np.float64)
        brought = np.bincount(goals, weights=carried.ravel(), minlength=size).astype(np.float64)
    return min(1.0, float((brought[1:] / best[1:]).sum()))


@lru_cache(maxsize=8)
def _states(cutoff: int, top: int) -> tuple[NDArray[np.int64], Values]:
    """Number the states: how many chunks have at least grade 1, 2, ..., `top`, none above `cutoff`.

    Returns the state after a chunk of each grade, shape (states, grades), and what the best list of such chunks brings.
    """
    # The numbers of a state never rise with the grade; nothing relevant comes first.
    counts = np.array([each[::-1] for each in combinations_with_replacement(range(cutoff + 1), top)])
    places = {tuple(each): place for place, each in enumerate(counts.tolist())}
    following = np.empty((len(counts), top + 1), dtype=np.int64)
    for grade in range(top + 1):
        after = counts.copy()
        after[:, :grade] = np.minimum(after[:, :grade] + 1, cutoff)
        following[:, grade] = [places[tuple(each)] for each in after.tolist()]
    discounts = np.concatenate([[0.0], np.add.accumulate(1 / np.log2(np.arange(2.0, cutoff + 2)))])
    return following, discounts[counts].sum(axis=1)


def expected_average_precision(table: GradeTable, k: int | None = None) -> Values:
    """Return the mean of AP@K over all ways in which the top `k` chunks can be relevant."""
    # Exact: the sum of precisions is carried from rank to rank for each number of relevant chunks so far, and
    # divided by that number at the end. It takes time in proportion to the square of the ranks.
    values = np.zeros(len(table))
    for rows, chances in _chances(table, k):
        hits = np.arange(1.0, len(chances) + 1)
        values[rows] = _mean_share(chances, _precisions(len(chances)), hits * COMMON)
    return values


def expected_reciprocal_rank(table: GradeTable, k: int | None = None) -> Values:
    """Return the mean of RR@K over all ways in which the top `k` chunks can be relevant."""
    values = np.zeros(len(table))
    for rows, chances in _chances(table, k):
        values[rows] = _first_stop(chances)
    return values


def expected_ndcg(
    table: GradeTable,
    k: int | None = None,
    *,
    gain: Literal["linear", "binary"] = "linear",
    ideal: Literal["retrieved", "top"] = "retrieved",
) -> Values:
    """Return the mean of NDCG@K over all ways in which the chunks can be relevant, or graded."""
    # Exact, since the ideal list depends only on how many chunks are relevant (of each grade or above): DCG
    # is carried from rank to rank for each such number (up to `k`), and divided by its ideal at the end.
    if gain == "linear" and table.maximum != 1:
        return expected_graded_ndcg(table, k, ideal=ideal)
    values = np.zeros(len(table))
    for rows, chances in _chances(table, k if ideal == "top" else None):
        width = len(chances) if k is None else min(k, len(chances))
        gains = 1 / np.log2(np.arange(2.0, width + 2))
        values[rows] = _mean_share(chances, gains[:, None, None], np.add.accumulate(gains))
    return values


def err(table: GradeTable, k: int | None = None) -> Values:
    """Return the expected reciprocal rank of graded relevance (Chapelle, Metzler, Zhang & Grinspan 2009)."""
    # R_i is the probability that a reader who got to rank i is content and stops there.
    top = _highest(table)
    stops = (np.exp2(np.arange(top + 1.0)) - 1) / 2.0**top
    values = np.zeros(len(table))
    for rows, grid in table.blocks(k):
        values[rows] = _first_stop(stops[np.maximum(grid, 0)])
    return values


def _highest(table: GradeTable) -> int:
    if table.maximum is None:
        raise MetricError("the highest grade of the scale is unknown; give the table `maximum`")
    return table.maximum


def _chances(table: GradeTable, k: int | None) -> Iterator[tuple[Rows, NDArray[np.float64]]]:
    """Give the probabilities of the first `k` ranks in blocks of shape (ranks, rows), 0 below a list."""
    width = table.longest if k is None else min(k, table.longest)
    for rows, grid in cut_blocks(likelihoods(table), table.offsets, table.lengths, width):
        yield rows, np.maximum(grid, 0.0, out=grid)


def _first_stop(chances: NDArray[np.float64]) -> Values:
    """Return the mean of 1 / rank of the first stop, 0 without one, each rank stopping by itself."""
    values, left = np.zeros(chances.shape[1]), np.ones(chances.shape[1])
    for rank, chance in enumerate(chances, 1):
        stopped = left * chance
        values += stopped * (1 / rank)
        left -= stopped
    return np.minimum(values, 1.0)


def _precisions(ranks: int) -> Iterator[NDArray[np.float64]]:
    """Give for each rank its precision with 1, 2, ... hits down to it, in multiples of 1 / COMMON."""
    hits = np.arange(1.0, ranks + 1)[:, None]
    for rank in range(1, ranks + 1):
        # Whole numbers down to EXACT_RANKS, as where AP is computed.
        yield hits[:rank] * MULTIPLES[rank - 1] if rank <= EXACT_RANKS else hits[:rank] / rank * COMMON


def _mean_share(chances: NDArray[np.float64], shares: Iterable[NDArray[np.float64]], whole: Values) -> Values:
    """Return the mean gain of the relevant ranks over that of as many ranks at best."""
    # `chances` are the probabilities of relevance, shape (ranks, rows). `shares` has for each of the first k
    # ranks the gain of a relevant chunk there, as the first, the second, ... relevant one: shape (rank, 1),
    # or (1, 1) if that does not matter. `whole` is the gain of the best list with 1, 2, ... relevant chunks,
    # shape (k,); more gain what k do.
    most, rows = len(whole), chances.shape[1]
    likely, brought = np.zeros((most + 1, rows)), np.zeros((most + 1, rows))
    likely[0] = 1  # by hits so far: how likely they are, and that times the mean of what they brought
    for rank, (chance, share) in enumerate(zip_longest(chances, shares), 1):
        top = min(rank, most)
        moved, carried = likely[:top] * chance, brought[:top] * chance
        likely[:top] -= moved
        brought[:top] -= carried
        if share is not None:
            carried += moved * share
        likely[1 : top + 1] += moved
        brought[1 : top + 1] += carried
    return np.minimum(add_down(brought[1:] / whole[:, None]), 1.0)


EXPECTED_GAIN = Parameter(
    "gain",
    "linear",
    {
        "linear": "gain_i = the grade at rank i",
        "binary": "gain_i = 1 if the chunk at rank i is relevant, else 0, whatever the scale",
    },
    "gain",
)

EXPECTED_IDEAL = Parameter("ideal", "retrieved", {name: IDEAL.choices[name] for name in ("retrieved", "top")}, "ideal")

P_I = (
    "p_i = the judge's probability that the chunk at rank i is relevant (1 or 0 by its verdict if the server gave none)"
)

MEAN_OVER = f"over all ways in which the chunks can be relevant, each by itself with probability p_i; {P_I}"

SPECS = (
    rag(
        "SoftP",
        (PRECISION_NORM,),
        soft_precision,
        f"(1/n) * sum over ranks i <= K of p_i, {P_I}; 0 if n = 0",
        probabilities=True,
    ),
    rag(
        "SoftRR",
        (),
        expected_reciprocal_rank,
        "sum over ranks i <= K of (1/i) * p_i * (the product of 1 - p_j over ranks j < i), the mean of "
        f"RR@K {MEAN_OVER}",
        probabilities=True,
        reads="gains",
    ),
    rag(
        "EAP",
        (),
        expected_average_precision,
        f"the mean of AP@K {MEAN_OVER}; AP@K = {AP_FORMULA}; N = the relevant chunks within the top K; "
        "exactly 0 if N = 0",
        probabilities=True,
    ),
    rag(
        "ENDCG",
        (EXPECTED_GAIN, EXPECTED_IDEAL),
        expected_ndcg,
        f"the mean of NDCG@K {MEAN_OVER}; on a graded scale over all grades, each with the judge's "
        f"probability of it; NDCG@K = {NDCG_FORMULA}",
        probabilities=True,
        reads="grades",
    ),
    rag(
        "EDCG",
        (),
        expected_dcg,
        "sum over ranks i <= K of e_i / log2(i + 1), e_i = the mean grade of the chunk at rank i under the "
        "judge's probabilities (its grade if the server gave none)",
        probabilities=True,
        any_threshold=True,
        reads="gains",
        limits=(0.0, None),
    ),
    rag(
        "ERR",
        (),
        err,
        "sum over ranks i <= K of (1/i) * R_i * (the product of 1 - R_j over ranks j < i), R_i = "
        "(2^grade_i - 1) / 2^g, g = the highest grade of the scale (Chapelle et al. 2009: how soon a reader "
        "is content; it does not use the judge's probabilities)",
        reads="gains",
    ),
)
