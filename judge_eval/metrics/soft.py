"""Metrics over what a judge holds likely rather than what it decided."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import MetricError
from judge_eval.metrics.relevance import divide
from judge_eval.metrics.table import GradeTable, Values


def soft_precision(
    table: GradeTable, k: int | None = None, *, norm: Literal["retrieved", "k"] = "retrieved"
) -> Values:
    """Return the expected precision: the mean probability of relevance over the first `k` ranks.

    Args:
        table: The grades with `probable`; a chunk without a probability counts as 1 where its grade is
            relevant, else as 0.
        k: The cutoff; None takes the whole list.
        norm: `"retrieved"` divides by min(k, retrieved), `"k"` by k however short the list is.

    Returns:
        float64 in [0, 1], one value a row; 0 for an empty list.

    Raises:
        MetricError: A probability is not between 0 and 1.
    """
    sums = _sum_down(table, likelihoods(table), k, discount=False)
    if norm == "k" and k is not None:
        return sums / k
    lengths = table.lengths if k is None else np.minimum(table.lengths, k)
    return divide(sums, lengths.astype(np.float64))


def expected_dcg(table: GradeTable, k: int | None = None) -> Values:
    """Return the expected discounted cumulative gain: sum over ranks i <= k of E[grade_i] / log2(i + 1).

    By linearity this is the mean of DCG over the judge's distribution of grades.

    Args:
        table: The grades with `expected`; a chunk without an expected grade counts with its grade.
        k: The cutoff; None takes the whole list.

    Returns:
        float64 >= 0, one value a row.
    """
    decided = np.maximum(table.grades, 0).astype(np.float64)
    return _sum_down(table, _or_else(table.expected, decided), k, discount=True)


def likelihoods(table: GradeTable) -> NDArray[np.float64]:
    """Return the probability that each chunk is relevant, laid out like the table's grades.

    Where none is known it is 1 for a relevant grade and 0 for any other, and so for a failed verdict: whoever
    asks sees to those.

    Raises:
        MetricError: A probability is not between 0 and 1.
    """
    decided = (table.grades >= table.relevant).astype(np.float64)
    likely = _or_else(table.probable, decided)
    if len(likely) and not 0 <= likely.min() <= likely.max() <= 1:
        raise MetricError("a probability of relevance is not between 0 and 1")
    return likely


def _or_else(likely: NDArray[np.float64] | None, decided: NDArray[np.float64]) -> NDArray[np.float64]:
    return decided if likely is None else np.where(np.isnan(likely), decided, likely)


def _sum_down(table: GradeTable, values: NDArray[np.float64], k: int | None, *, discount: bool) -> Values:
    """Add up each row's values down to rank k, from the first rank to the last."""
    rows: NDArray[np.int64] = np.repeat(np.arange(len(table)), table.lengths)
    ranks = np.arange(len(values)) - table.offsets[:-1][rows]
    cells = values / np.log2(ranks + 2.0) if discount else values
    if k is not None:
        cells = np.where(ranks < k, cells, 0.0)
    return np.bincount(rows, weights=cells, minlength=len(table)).astype(np.float64)
