"""Metrics that ask which ranks hold relevant chunks."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from judge_eval.metrics.table import Floats, GradeTable, Ints

EXACT_RANKS = 36
"""Down to this rank precisions are added as whole multiples of 1 / COMMON, which float64 holds exactly."""
COMMON = math.lcm(*range(1, EXACT_RANKS + 1))


def count_relevant(table: GradeTable, k: int | None, rel: int | None = None) -> Floats:
    """Count the relevant chunks in the first `k` ranks of each row (None: in the whole list)."""
    least = table.relevant if rel is None else rel
    hits = np.zeros(len(table))
    for rows, grid in table.blocks(k):
        hits[rows] = (grid >= least).sum(axis=0)
    return hits


def mean_precision(table: GradeTable, k: int | None, by: Floats | Ints, rel: int | None = None) -> Floats:
    """Sum P@i over the relevant ranks i <= k of each row, divided by `by`; 0 where `by` is 0."""
    least = table.relevant if rel is None else rel
    values = np.zeros(len(table))
    for rows, grid in table.blocks(k):
        n = grid.shape[1]
        hits, term, head, tail = np.zeros(n), np.empty(n), np.zeros(n), np.zeros(n)
        for rank, relevant in enumerate(grid >= least, 1):
            hits += relevant
            np.multiply(hits, relevant, out=term)
            if rank <= EXACT_RANKS:
                term *= COMMON // rank
                head += term
            else:
                term /= rank
                tail += term
        # One division of two whole numbers is rounded once; further ranks need a second rounding.
        block = divide(head, np.multiply(by[rows], COMMON, dtype=np.float64))
        if len(grid) > EXACT_RANKS:
            block = np.where(tail > 0, divide(head / COMMON + tail, by[rows]), block)
        values[rows] = block
    return values


def depth(table: GradeTable, k: int | None) -> Ints:
    """Return min(k, retrieved) for each row."""
    return table.lengths if k is None else np.minimum(table.lengths, k)


def divide(values: Floats, by: Floats | Ints) -> Floats:
    """Divide, with 0 where the divisor is 0."""
    return np.divide(values, by, out=np.zeros(len(values)), where=np.asarray(by) > 0)


def _totals(table: GradeTable, rel: int | None, hits: Floats) -> Ints:
    """Return the relevant chunks that exist, at least as many as were seen among the top ranks."""
    known = table.totals_at(table.relevant if rel is None else rel)
    return np.maximum(known, hits.astype(np.int64))


def precision(
    table: GradeTable,
    k: int | None = None,
    *,
    rel: int | None = None,
    norm: Literal["retrieved", "k"] = "retrieved",
) -> Floats:
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


def recall(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Floats:
    """Share of the relevant chunks that exist which are among the first `k`.

    Returns:
        float64 in [0, 1], one value a row; 0 where no relevant chunk exists.

    Raises:
        MetricError: How many relevant chunks exist is unknown.
    """
    hits = count_relevant(table, k, rel)
    return divide(hits, _totals(table, rel, hits))


def f1(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Floats:
    """Harmonic mean of precision (over min(k, retrieved)) and recall: 2 hits / (min(k, retrieved) + total).

    Returns:
        float64 in [0, 1], one value a row; 0 where there is no hit.

    Raises:
        MetricError: How many relevant chunks exist is unknown.
    """
    hits = count_relevant(table, k, rel)
    return divide(2 * hits, depth(table, k) + _totals(table, rel, hits))


def hit_rate(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Floats:
    """1.0 where a relevant chunk is among the first `k`, else 0.0; float64, one value a row."""
    return (count_relevant(table, k, rel) > 0).astype(np.float64)


def reciprocal_rank(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Floats:
    """1 / rank of the first relevant chunk, 0 where none is among the first `k`; float64 in [0, 1]."""
    least = table.relevant if rel is None else rel
    values = np.zeros(len(table))
    for rows, grid in table.blocks(k):
        found = np.zeros(grid.shape[1])
        # From the last rank up, so that the first relevant one is written last.
        for rank in range(len(grid), 0, -1):
            np.copyto(found, 1 / rank, where=grid[rank - 1] >= least)
        values[rows] = found
    return values


def average_precision(
    table: GradeTable,
    k: int | None = None,
    *,
    rel: int | None = None,
    norm: Literal["found", "min", "total"] = "found",
) -> Floats:
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
    by: Floats | Ints = hits
    if norm != "found":
        by = _totals(table, rel, hits)
        if norm == "min" and k is not None:
            by = np.minimum(by, k)
    return mean_precision(table, k, by, rel)
