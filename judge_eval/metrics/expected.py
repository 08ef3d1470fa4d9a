"""Ranking metrics in expectation, each chunk being relevant by itself with a probability of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import MetricError
from judge_eval.metrics.blocks import Rows, add_down, cut_blocks
from judge_eval.metrics.expected_grades import expected_graded_ndcg
from judge_eval.metrics.relevance import COMMON, EXACT_RANKS, MULTIPLES
from judge_eval.metrics.soft import likelihoods
from judge_eval.metrics.table import GradeTable, Values


def expected_average_precision(table: GradeTable, k: int | None = None) -> Values:
    """Return the mean of AP@K over all ways in which the top `k` chunks can be relevant.

    Exact: the sum of precisions is carried from rank to rank for each number of relevant chunks so far, and
    divided by that number at the end. It takes time in proportion to the square of the ranks.

    Args:
        table: The grades with `probable`; a chunk without a probability counts as 1 where its grade is
            relevant, else as 0.
        k: The cutoff; None takes the whole list.

    Returns:
        float64 in [0, 1], one value a row; AP@K's where every probability is 0 or 1, and so 0 where nothing
        can be relevant.

    Raises:
        MetricError: A probability is not between 0 and 1.
    """
    values = np.zeros(len(table))
    for rows, chances in _chances(table, k):
        hits = np.arange(1.0, len(chances) + 1)
        values[rows] = _mean_share(chances, _precisions(len(chances)), hits * COMMON)
    return values


def expected_reciprocal_rank(table: GradeTable, k: int | None = None) -> Values:
    """Return the mean of RR@K over all ways in which the top `k` chunks can be relevant.

    sum over ranks i <= k of p_i / i * product over j < i of (1 - p_j).

    Args:
        table: The grades with `probable`, as `expected_average_precision` takes them.
        k: The cutoff; None takes the whole list.

    Returns:
        float64 in [0, 1], one value a row; RR@K's where every probability is 0 or 1.

    Raises:
        MetricError: A probability is not between 0 and 1.
    """
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
    """Return the mean of NDCG@K over all ways in which the chunks can be relevant, or graded.

    Exact, since the ideal list depends on how many chunks are relevant only (of each grade or above): DCG is
    carried from rank to rank for each such number (up to `k`), and divided by its ideal at the end.

    Args:
        table: The grades with `probable`, as `expected_average_precision` takes them; on a graded scale with
            `chances`: a chunk without them counts with its grade.
        k: The cutoff of both lists; None takes them whole.
        gain: `"linear"` gains the grade; `"binary"` gains 1 where a chunk is relevant, whatever the scale.
        ideal: What is sorted to make the ideal list: `"retrieved"`, all retrieved chunks, or `"top"`, the
            first `k` alone.

    Returns:
        float64 in [0, 1], one value a row; NDCG@K's where every probability is 0 or 1.

    Raises:
        MetricError: `gain="linear"` and the scale is unknown, a chunk has a probability of being relevant
            without one of each grade, or these can be counted in too many ways; or a probability is not
            between 0 and 1.
    """
    if gain == "linear" and table.maximum != 1:
        return expected_graded_ndcg(table, k, ideal=ideal)
    values = np.zeros(len(table))
    for rows, chances in _chances(table, k if ideal == "top" else None):
        width = len(chances) if k is None else min(k, len(chances))
        gains = 1 / np.log2(np.arange(2.0, width + 2))
        values[rows] = _mean_share(chances, gains[:, None, None], np.add.accumulate(gains))
    return values


def err(table: GradeTable, k: int | None = None) -> Values:
    """Expected reciprocal rank of graded relevance (Chapelle, Metzler, Zhang & Grinspan 2009).

    sum over ranks i <= k of R_i / i * product over j < i of (1 - R_j), R_i = (2**grade_i - 1) / 2**maximum
    being the probability that a reader who got to rank i stops there, content.

    Args:
        table: The grades with `maximum`, the highest grade of the scale; a chunk without a grade has 0.
        k: The cutoff; None takes the whole list.

    Returns:
        float64 in [0, 1), one value a row.

    Raises:
        MetricError: The highest grade of the scale is unknown.
    """
    if table.maximum is None:
        raise MetricError("the highest grade of the scale is unknown; give the table `maximum`")
    stops = (np.exp2(np.arange(table.maximum + 1.0)) - 1) / 2.0**table.maximum
    values = np.zeros(len(table))
    for rows, grid in table.blocks(k):
        values[rows] = _first_stop(stops[np.maximum(grid, 0)])
    return values


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
    """Return the mean of what the relevant ranks bring over what as many would bring at best.

    Args:
        chances: Shape (ranks, rows): the probabilities of relevance.
        shares: For each of the first k ranks what a relevant chunk there brings, being the first, the second,
            ... relevant one: shape (rank, 1), or (1, 1) where that does not matter.
        whole: Shape (k,): what the best list brings with 1, 2, ... relevant chunks; more bring what k do.
    """
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
