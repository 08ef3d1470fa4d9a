"""Metrics that ask which ranks hold relevant chunks."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import MetricError
from judge_eval.metrics.bounds import Bounds
from judge_eval.metrics.ragged import add_down, run_down
from judge_eval.metrics.spec import DEDUP, REL, Parameter, rag
from judge_eval.metrics.table import GradeTable, IntValues, Values
from judge_eval.metrics.words import RUN, SHARE, EvidenceRead
from judge_eval.quotes import SHORTEST

EXACT_RANKS = 36
"""Down to this rank precisions are added as whole multiples of 1 / COMMON, which float64 holds exactly."""
COMMON = math.lcm(*range(1, EXACT_RANKS + 1))
MULTIPLES = np.array([[COMMON // rank] for rank in range(1, EXACT_RANKS + 1)], dtype=np.float64)


def count_relevant(table: GradeTable, k: int | None, rel: int | None = None) -> Values:
    """Count the relevant chunks in the first `k` ranks of each row (None: in the whole list)."""
    least = table.relevant if rel is None else rel
    hits = np.zeros(len(table))
    for rows, grid in table.blocks(k):
        hits[rows] = np.add.reduce(grid >= least, axis=0, dtype=np.int64)
    return hits


def mean_precision(table: GradeTable, k: int | None, by: Values | IntValues, rel: int | None = None) -> Values:
    """Sum P@i over the relevant ranks i <= k of each row, divided by `by`; 0 if `by` is 0."""
    least = table.relevant if rel is None else rel
    values = np.zeros(len(table))
    for rows, grid in table.blocks(k):
        relevant = grid >= least
        terms = relevant.astype(np.float64)
        run_down(terms)
        terms *= relevant
        head = terms[:EXACT_RANKS]
        head *= MULTIPLES[: len(head)]
        # One division of two whole numbers is rounded once; further ranks need a second rounding.
        whole = add_down(head)
        block = divide(whole, np.multiply(by[rows], COMMON, dtype=np.float64))
        if len(grid) > EXACT_RANKS:
            tail = terms[EXACT_RANKS:]
            tail /= np.arange(EXACT_RANKS + 1, len(grid) + 1)[:, None]
            rest = add_down(tail)
            block = np.where(rest > 0, divide(whole / COMMON + rest, by[rows]), block)
        values[rows] = block
    return values


def depth(table: GradeTable, k: int | None) -> IntValues:
    """Return min(k, retrieved) for each row."""
    return table.lengths if k is None else np.minimum(table.lengths, k)


def divide(values: Values, by: NDArray[Any]) -> Values:
    """Divide, with 0 if the divisor is 0."""
    quotients: Values = np.divide(values, by, out=np.zeros(len(values)), where=by > 0)
    return quotients


def total_relevant(table: GradeTable, rel: int | None) -> IntValues:
    """Count the relevant chunks of each row's pool."""
    return table.totals_at(table.relevant if rel is None else rel)


def precision(
    table: GradeTable, k: int | None = None, *, rel: int | None = None, norm: Literal["retrieved", "k"] = "retrieved"
) -> Values:
    """Return the share of the first `k` chunks that are relevant, of min(k, retrieved) or of k (`norm`)."""
    hits = count_relevant(table, k, rel)
    return hits / k if norm == "k" and k is not None else divide(hits, depth(table, k))


def recall(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """Return the share of all relevant chunks that are among the first `k`; 0 if there is none."""
    return divide(count_relevant(table, k, rel), total_relevant(table, rel))


def f1(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """Return the harmonic mean of precision and recall: 2 hits / (min(k, retrieved) + total)."""
    return divide(2 * count_relevant(table, k, rel), depth(table, k) + total_relevant(table, rel))


def hit_rate(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """Return 1.0 if a relevant chunk is among the first `k`, else 0.0."""
    return (count_relevant(table, k, rel) > 0).astype(np.float64)


def reading_of(table: GradeTable) -> EvidenceRead:
    """Return after how many words of the lists of a table their evidence has been read."""
    if table.reading is None:
        raise MetricError("it is not known what the words of the lists show; give the table `reading`")
    return table.reading


def hit_rate_in_words(table: GradeTable, words: int, *, rel: int | None = None) -> Values:
    """Return 1.0 if evidence of a relevant chunk has been read within the first words of the list, else 0.0."""
    hits = reading_of(table).hits
    least = table.relevant if rel is None else rel
    return (hits[:, least] <= words).astype(np.float64) if least < hits.shape[1] else np.zeros(len(table))


def hit_rate_in_words_bounds(table: GradeTable, words: int, *, rel: int | None = None) -> Bounds:
    """Return the bounds of `hit_rate_in_words`: a failed chunk may be relevant by any words of it."""
    low = hit_rate_in_words(table, words, rel=rel)
    possible = reading_of(table).hits_possible <= words
    return Bounds(low, np.maximum(low, possible), np.ones(len(table), dtype=np.bool_))


def reciprocal_rank(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """Return 1 / rank of the first relevant chunk, 0 if none is among the first `k`."""
    least = table.relevant if rel is None else rel
    values = np.zeros(len(table))
    for rows, grid in table.blocks(k):
        shares = (grid >= least) * (1 / np.arange(1, len(grid) + 1))[:, None]
        values[rows] = shares.max(axis=0, initial=0)
    return values


def average_precision(
    table: GradeTable, k: int | None = None, *, rel: int | None = None, norm: Literal["found", "min", "total"] = "found"
) -> Values:
    """Return average precision: (1 / N) * sum over ranks i <= k of P@i * v_i."""
    # `norm` says what N is: the relevant chunks within the top `k` (`found`), all that exist (`total`), or
    # min(k, total), with k the length of the list if it is None. The value is exactly 0 if N is 0, and
    # exactly 1.0 for a perfect list.
    if norm == "found":
        return mean_precision(table, k, count_relevant(table, k, rel), rel)
    total = total_relevant(table, rel)
    most = total if norm == "total" else np.minimum(total, table.lengths if k is None else k)
    return mean_precision(table, k, most, rel)


def precision_shares(relevant: Sequence[bool]) -> list[float]:
    """Return what each rank adds to average precision: P@i / N at a relevant rank, else 0."""
    total, hits, shares = max(1, sum(relevant)), 0, list[float]()
    for rank, hit in enumerate(relevant, 1):
        hits += hit
        shares.append(hits / rank * hit / total)
    return shares


PRECISION_NORM = Parameter(
    "norm", "retrieved", {"retrieved": "n = min(K, retrieved)", "k": "n = K, however short the list is"}, "n"
)

AP_NORM = Parameter(
    "norm",
    "found",
    {
        "found": "N = the relevant chunks within the top K",
        "min": "N = min(K, R), R = the relevant chunks that exist (at least those retrieved)",
        "total": "N = R, the relevant chunks that exist (at least those retrieved)",
    },
    "N",
)

V = "v_i = 1 if the chunk at rank i is relevant, else 0"

R = "R = the relevant chunks that exist (at least those retrieved)"

AP_FORMULA = f"(1/N) * sum over ranks i <= K of P@i * v_i, with {V}, P@i = the share of relevant chunks in the first i"

_RR = "1 / rank of the first relevant chunk within the top K; 0 if there is none"

READ = (
    f"evidence: the words that a verdict quotes from its chunk, widened to {SHORTEST}, or all of its words if no quote "
    f"stands there; read: the list shows {SHARE:.0%} of them, each in a run of {RUN}"
)

SPECS = (
    rag(
        "AP",
        (REL, AP_NORM, DEDUP),
        average_precision,
        f"{AP_FORMULA}; exactly 0 if N = 0",
        expected_by="EAP",
        main=True,
        perfect_is_one=True,
        rank_shares=precision_shares,
    ),
    rag(
        "MAP",
        (REL, AP_NORM, DEDUP),
        average_precision,
        f"the mean over traces of average precision: {AP_FORMULA}; exactly 0 if N = 0",
        expected_by="EAP",
        perfect_is_one=True,
    ),
    rag(
        "P",
        (REL, PRECISION_NORM, DEDUP),
        precision,
        f"(1/n) * sum over ranks i <= K of v_i, with {V}; 0 if n = 0",
        additive=True,
    ),
    rag("Recall", (REL,), recall, f"(1/R) * sum over ranks i <= K of v_i, with {V}; {R}; 0 if R = 0", needs_total=True),
    rag(
        "F1",
        (REL,),
        f1,
        f"2 * h / (min(K, retrieved) + R), the harmonic mean of P@K and Recall@K, h = the relevant chunks "
        f"within the top K; {R}",
        needs_total=True,
    ),
    rag(
        "HitRate",
        (REL,),
        hit_rate,
        "1 if the top K hold a relevant chunk, else 0",
        perfect_is_one=True,
        in_words=rag(
            "HitRate",
            (REL,),
            hit_rate_in_words,
            "1 if evidence of a relevant chunk is read within the first B words of the list, else 0; " + READ,
            bounds=hit_rate_in_words_bounds,
            evidence="any",
        ),
    ),
    rag("RR", (REL,), reciprocal_rank, _RR, expected_by="SoftRR", perfect_is_one=True),
    rag(
        "MRR",
        (REL,),
        reciprocal_rank,
        f"the mean over traces of the reciprocal rank: {_RR}",
        expected_by="SoftRR",
        perfect_is_one=True,
    ),
)

ALIASES = {
    "ContextPrecision": "AP",
    "AveragePrecision": "AP",
    "Precision": "P",
    "ReciprocalRank": "RR",
    "Hit": "HitRate",
}
