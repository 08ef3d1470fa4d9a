"""Metrics that weigh grades by a discount of their rank."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from judge_eval.metrics.blocks import BLOCK_CELLS, add_down
from judge_eval.metrics.relevance import divide
from judge_eval.metrics.table import Grades, GradeTable, Values

Gain: TypeAlias = Literal["linear", "exp"]


def _discounted(gains: NDArray[np.float64]) -> Values:
    """Sum gains of shape (ranks, rows) over log2(rank + 1), rank by rank, so that equal lists sum equally."""
    gains /= _discounts(len(gains))
    return add_down(gains)


@lru_cache(maxsize=16)
def _discounts(width: int) -> NDArray[np.float64]:
    discounts: NDArray[np.float64] = np.log2(np.arange(2.0, width + 2))[:, None]
    return discounts


def _dcg_of(grid: Grades, gain: Gain) -> Values:
    gains = np.maximum(grid, 0).astype(np.float64)
    if gain == "exp":
        np.exp2(gains, out=gains)
        gains -= 1
    return _discounted(gains)


def dcg(table: GradeTable, k: int | None = None, *, gain: Gain = "linear") -> Values:
    """Discounted cumulative gain: sum over ranks i <= k of gain_i / log2(i + 1) (Järvelin & Kekäläinen 2002).

    Args:
        table: The grades; a chunk without a grade gains 0.
        k: The cutoff; None takes the whole list.
        gain: `"linear"` gains the grade, `"exp"` 2**grade - 1 (Burges et al. 2005).

    Returns:
        float64 >= 0, one value a row.
    """
    values = np.zeros(len(table))
    for rows, grid in table.blocks(k):
        values[rows] = _dcg_of(grid, gain)
    return values


def _ideal(reaching: NDArray[Any], k: int | None, gain: Gain) -> Values:
    """DCG of the sorted grades without a sort: rank i holds the highest level that at least i chunks reach.

    Args:
        reaching: Shape (levels, rows): how many chunks have at least grade 1, 2, ...
        k: The cutoff.
        gain: What a grade gains.
    """
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
    """DCG over the DCG of an ideal list.

    Args:
        table: The grades; a chunk without a grade gains 0.
        k: The cutoff of both lists; None takes them whole.
        gain: `"linear"` gains the grade, `"exp"` 2**grade - 1.
        ideal: What is sorted to make the ideal list: `"retrieved"`, all retrieved chunks, those below `k`
            too, as in scikit-learn's `ndcg_score`; `"top"`, the first `k` alone; or `"judged"`, all judged
            chunks of the pool.

    Returns:
        float64 in [0, 1], one value a row; 0 where the ideal is 0 and exactly 1.0 for a perfect list. Where
        grades that the pool does not hold lift DCG above the ideal, 1.0.

    Raises:
        MetricError: `ideal="judged"` and the pool's grades are unknown.
    """
    if ideal == "judged":
        best = _ideal(table.pool_at_least_each(), k, gain)
    elif ideal == "top":
        best = _ideal(_top_at_least_each(table, k), k, gain)
    else:
        best = _ideal(table.at_least_each(), k, gain)
    return np.minimum(divide(dcg(table, k, gain=gain), best), 1.0)
