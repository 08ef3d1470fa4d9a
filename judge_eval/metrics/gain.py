"""Metrics that weigh grades by a discount of their rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from judge_eval.metrics.ragged import count_at_least
from judge_eval.metrics.ranking import divide
from judge_eval.metrics.table import Floats, Grades, GradeTable

Gain: TypeAlias = Literal["linear", "exp"]


def _gain(grade: float, gain: Gain) -> float:
    return 2.0**grade - 1 if gain == "exp" else grade


def _discounted(gains: Floats) -> Floats:
    """Sum gains of shape (ranks, rows) over log2(rank + 1), rank by rank, so that equal lists sum equally."""
    total = np.zeros(gains.shape[1])
    gains /= np.log2(np.arange(2, len(gains) + 2))[:, None]
    for row in gains:
        total += row
    return total


def _dcg_of(grid: Grades, gain: Gain) -> Floats:
    gains = np.maximum(grid, 0).astype(np.float64)
    if gain == "exp":
        np.exp2(gains, out=gains)
        gains -= 1
    return _discounted(gains)


def dcg(table: GradeTable, k: int | None = None, *, gain: Gain = "linear") -> Floats:
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


def _ideal_of(reaching: list[NDArray[Any]], levels: list[int], k: int | None, gain: Gain) -> Floats:
    """DCG of the sorted grades, unsorted: rank i holds the highest level that at least i chunks reach."""
    n = len(reaching[0]) if reaching else 0
    width = int(reaching[0].max()) if n else 0
    if k is not None:
        width = min(k, width)
    ranks = np.arange(width, dtype=np.min_scalar_type(width))[:, None]
    gains = np.zeros((width, n))
    before = 0.0
    for level, count in zip(levels, reaching, strict=True):
        gains += (count > ranks) * (_gain(level, gain) - before)
        before = _gain(level, gain)
    return _discounted(gains)


def ndcg(
    table: GradeTable,
    k: int | None = None,
    *,
    gain: Gain = "linear",
    ideal: Literal["retrieved", "judged"] = "retrieved",
) -> Floats:
    """DCG over the DCG of an ideal list.

    Args:
        table: The grades; a chunk without a grade gains 0.
        k: The cutoff of both lists; None takes them whole.
        gain: `"linear"` gains the grade, `"exp"` 2**grade - 1.
        ideal: What is sorted to make the ideal list: `"retrieved"`, all retrieved chunks, or `"judged"`, all
            judged chunks of the pool.

    Returns:
        float64 in [0, 1], one value a row; 0 where the ideal is 0 and exactly 1.0 for a perfect list. Where
        grades that the pool does not hold lift DCG above the ideal, 1.0.

    Raises:
        MetricError: `ideal="judged"` and the pool's grades are unknown.
    """
    count: Callable[[int], NDArray[Any]]
    if ideal == "judged":
        top = int(table.pool.max()) if table.pool is not None and len(table.pool) else 1
        count = table.pool_at_least
        table.pool_at_least(1)
    else:
        top = int(table.grades.max()) if len(table.grades) else 1

        def count(level: int) -> NDArray[Any]:
            return count_at_least(table.grades, table.offsets, level)

    levels = list(range(1, max(top, 1) + 1))
    reaching = [count(level) for level in levels]
    values = np.zeros(len(table))
    for rows, grid in table.blocks(k):
        best = _ideal_of([counts[rows] for counts in reaching], levels, k, gain)
        values[rows] = np.minimum(divide(_dcg_of(grid, gain), best), 1.0)
    return values
