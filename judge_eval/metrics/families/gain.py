"""Metrics that weigh grades by a discount of their rank."""

from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from judge_eval.metrics.families.relevance import divide
from judge_eval.metrics.ragged import BLOCK_CELLS, add_down
from judge_eval.metrics.spec import Parameter, rag
from judge_eval.metrics.table import GradeTable, Values

Gain: TypeAlias = Literal["linear", "exp"]


def _discounted(gains: NDArray[np.float64]) -> Values:
    """Sum gains of shape (ranks, rows) over log2(rank + 1), rank by rank, so that equal lists sum equally."""
    gains /= _discounts(len(gains))
    return add_down(gains)


@lru_cache(maxsize=16)
def _discounts(width: int) -> NDArray[np.float64]:
    discounts: NDArray[np.float64] = np.log2(np.arange(2.0, width + 2))[:, None]
    return discounts


def dcg(table: GradeTable, k: int | None = None, *, gain: Gain = "linear") -> Values:
    """Return DCG (Järvelin & Kekäläinen 2002): the sum over ranks i <= k of gain_i / log2(i + 1)."""
    # With `gain="exp"` as Burges et al. 2005; no grade gains 0.
    values = np.zeros(len(table))
    for rows, grid in table.blocks(k):
        gains = np.maximum(grid, 0).astype(np.float64)
        if gain == "exp":
            np.exp2(gains, out=gains)
            gains -= 1
        values[rows] = _discounted(gains)
    return values


def _ideal(reaching: NDArray[Any], k: int | None, gain: Gain) -> Values:
    """Return DCG of the sorted grades without a sort: rank i holds the highest level that i chunks reach."""
    # `reaching` has shape (levels, rows): how many chunks have at least grade 1, 2, ...
    values = np.zeros(reaching.shape[1])
    width = int(reaching[0].max()) if len(values) else 0
    if k is not None:
        width = min(k, width)
    ranks = np.arange(width, dtype=reaching.dtype)[:, None]
    step = max(1, BLOCK_CELLS // max(1, width))
    for start in range(0, len(values), step):
        counts = reaching[:, start : start + step]
        gains = (counts[0] > ranks).astype(np.float64)
        for level, count in enumerate(counts[1:], 1):
            reached = count > ranks
            gains += reached * 2.0**level if gain == "exp" else reached
        values[start : start + step] = _discounted(gains)
    return values


def _top_at_least_each(table: GradeTable, k: int | None) -> NDArray[np.int64]:
    """Count the chunks in the first `k` ranks with at least grade 1, 2, ...: shape (highest grade, rows)."""
    counts = np.zeros((table.top_grade, len(table)), dtype=np.int64)
    for rows, grid in table.blocks(k):
        for level in range(1, table.top_grade + 1):
            counts[level - 1, rows] = (grid >= level).sum(axis=0)
    return counts


def ndcg(
    table: GradeTable,
    k: int | None = None,
    *,
    gain: Gain = "linear",
    ideal: Literal["retrieved", "top", "judged"] = "retrieved",
) -> Values:
    """Return DCG over the DCG of an ideal list: 0 if that is 0, exactly 1.0 for a perfect list, never above.

    The ideal list sorts all retrieved chunks (as scikit-learn's `ndcg_score` does), the `top` k alone, or all
    judged chunks of the pool.
    """
    if ideal == "judged":
        reaching = table.pool_at_least_each()
    else:
        reaching = _top_at_least_each(table, k) if ideal == "top" else table.at_least_each()
    return np.minimum(divide(dcg(table, k, gain=gain), _ideal(reaching, k, gain)), 1.0)


GAIN_OF_GRADE = Parameter(
    "gain", "linear", {"linear": "gain_i = the grade at rank i", "exp": "gain_i = 2^grade - 1"}, "gain"
)

IDEAL = Parameter(
    "ideal",
    "retrieved",
    {
        "retrieved": "all retrieved chunks, those below K too",
        "top": "the top K alone, whatever stands below",
        "judged": "all judged chunks of the pool, retrieved or not",
    },
    "ideal",
)

NDCG_FORMULA = (
    "DCG@K / IDCG@K, with DCG@K = sum over ranks i <= K of gain_i / log2(i + 1), IDCG@K = the same sum over "
    "the grades sorted downwards; 0 if IDCG@K = 0, never above 1"
)

SPECS = (
    rag(
        "DCG",
        (GAIN_OF_GRADE,),
        dcg,
        "sum over ranks i <= K of gain_i / log2(i + 1)",
        reads="gains",
        limits=(0.0, None),
        additive=True,
    ),
    rag("NDCG", (GAIN_OF_GRADE, IDEAL), ndcg, NDCG_FORMULA, reads="grades", perfect_is_one=True),
)

ALIASES = {"nDCG": "NDCG"}
