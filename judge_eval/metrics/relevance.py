"""Metrics that ask which ranks hold relevant chunks."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from judge_eval.metrics.blocks import add_down, run_down
from judge_eval.metrics.table import GradeTable, IntValues, Values

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


def mean_precision(
    table: GradeTable, k: int | None, by: Values | IntValues, rel: int | None = None
) -> Values:
    """Sum P@i over the relevant ranks i <= k of each row, divided by `by`; 0 where `by` is 0."""
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
    """Divide, with 0 where the divisor is 0."""
    quotients: Values = np.divide(values, by, out=np.zeros(len(values)), where=by > 0)
    return quotients


def _total(table: GradeTable, rel: int | None) -> IntValues:
    return table.totals_at(table.relevant if rel is None else rel)


def precision(
    table: GradeTable,
    k: int | None = None,
    *,
    rel: int | None = None,
    norm: Literal["retrieved", "k"] = "retrieved",
) -> Values:
    """Share of the first `k` chunks that are relevant.

    Args:
        table: The grades.
        k: The cutoff; None takes the whole list.
        rel: The least relevant grade; None takes the table's.
        norm: `"retrieved"` divides by min(k, retrieved), `"k"` by k.

    Returns:
        float64 in [0, 1], one value a row; 0 for an empty list.
    """
    hits = count_relevant(table, k, rel)
    return hits / k if norm == "k" and k is not None else divide(hits, depth(table, k))


def recall(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """Share of the relevant chunks that exist which are among the first `k`.

    Returns:
        float64 in [0, 1], one value a row; 0 where no relevant chunk exists.

    Raises:
        MetricError: How many relevant chunks exist is unknown.
    """
    hits = count_relevant(table, k, rel)
    return divide(hits, _total(table, rel))


def f1(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """Harmonic mean of precision (over min(k, retrieved)) and recall: 2 hits / (min(k, retrieved) + total).

    Returns:
        float64 in [0, 1], one value a row; 0 where there is no hit.

    Raises:
        MetricError: How many relevant chunks exist is unknown.
    """
    hits = count_relevant(table, k, rel)
    return divide(2 * hits, depth(table, k) + _total(table, rel))


def hit_rate(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """1.0 where a relevant chunk is among the first `k`, else 0.0; float64, one value a row."""
    return (count_relevant(table, k, rel) > 0).astype(np.float64)


def reciprocal_rank(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """1 / rank of the first relevant chunk, 0 where none is among the first `k`; float64 in [0, 1]."""
    least = table.relevant if rel is None else rel
    values = np.zeros(len(table))
    for rows, grid in table.blocks(k):
        shares = (grid >= least) * (1 / np.arange(1, len(grid) + 1))[:, None]
        values[rows] = shares.max(axis=0, initial=0)
    return values


def average_precision(
    table: GradeTable,
    k: int | None = None,
    *,
    rel: int | None = None,
    norm: Literal["found", "min", "total"] = "found",
) -> Values:
    """Average precision: (1 / N) * sum over ranks i <= k of P@i * v_i.

    Args:
        table: The grades.
        k: The cutoff; None takes the whole list.
        rel: The least relevant grade; None takes the table's.
        norm: What N is. `"found"`: relevant chunks within the top `k`. `"min"`: min(k, relevant chunks that
            exist). `"total"`: all relevant chunks that exist.

    Returns:
        float64 in [0, 1], one value a row; exactly 0 where N is 0 and exactly 1.0 for a perfect list.

    Raises:
        MetricError: `norm` needs the number of relevant chunks, which is unknown.
    """
    hits = count_relevant(table, k, rel)
    by: Values | IntValues = hits
    if norm != "found":
        by = _total(table, rel)
        if norm == "min" and k is not None:
            by = np.minimum(by, k)
    return mean_precision(table, k, by, rel)
