"""Tables made of others: failed verdicts with grades, texts that count once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import MetricError
from judge_eval.metrics.ragged import offsets_of
from judge_eval.metrics.table import MISSING, Grades, GradeTable, IntValues, Values


def regraded(table: GradeTable, rows: IntValues, grades: Grades) -> GradeTable:
    """Return a table of these rows of another, in this order, any of them repeated, with other grades.

    Args:
        table: Whose totals, pools and likelihoods the rows keep.
        rows: Which row each new one stands for.
        grades: int8, the new grades, as many in each row as there were.
    """
    places, offsets = _gather(table.offsets, rows)
    pool, pool_offsets = _taken(table.pool, table.pool_offsets, rows)
    rest, rest_offsets = _taken(table.rest, table.rest_offsets, rows)
    return replace(
        table,
        grades=grades,
        offsets=offsets,
        totals=None if table.totals is None else table.totals[rows],
        ids=None,
        maximum=table.top_grade,
        pool=pool,
        pool_offsets=pool_offsets,
        rest=rest,
        rest_offsets=rest_offsets,
        probable=_assumed(table, table.probable, places, grades >= table.relevant),
        expected=_assumed(table, table.expected, places, grades),
        repeats=None if table.repeats is None else table.repeats[places],
        claims=None,
        chances=_chances_assumed(table, places, grades),
    )


def without_repeats(table: GradeTable) -> GradeTable:
    """Return a table in which a chunk that reads like an earlier one has grade 0, its verdict failed or not.

    Raises:
        MetricError: The table does not know which chunks repeat a text.
    """
    if table.repeats is None:
        raise MetricError("which chunks repeat an earlier text is not known; give the table `repeats`")
    grades = np.where(table.repeats, 0, table.grades).astype(np.int8)
    return replace(table, grades=grades, maximum=table.top_grade)


def _taken(
    values: Grades | None, offsets: NDArray[np.int64] | None, rows: IntValues
) -> tuple[Grades | None, NDArray[np.int64] | None]:
    if values is None or offsets is None:
        return None, None
    places, made = _gather(offsets, rows)
    return values[places], made


def _assumed(
    table: GradeTable, likely: Values | None, places: IntValues, assumed: NDArray[Any]
) -> Values | None:
    """Take the likelihoods of the cells at these places; what failed is as sure as what is assumed."""
    if likely is None:
        return None
    return np.where(table.grades[places] == MISSING, assumed, likely[places]).astype(np.float64)


def _chances_assumed(table: GradeTable, places: IntValues, grades: Grades) -> Values | None:
    """Take the probabilities of each grade; what failed is sure of the grade it is given."""
    if table.chances is None:
        return None
    sure = np.eye(table.chances.shape[1])[np.maximum(grades, 0)]
    chances: Values = np.where((table.grades[places] == MISSING)[:, None], sure, table.chances[places])
    return chances


def _gather(offsets: NDArray[np.int64], rows: IntValues) -> tuple[IntValues, NDArray[np.int64]]:
    """Return where the cells of these rows stand, and the offsets of the rows one after the other."""
    lengths = offsets[rows + 1] - offsets[rows]
    made = offsets_of(lengths)
    return np.arange(made[-1]) + np.repeat(offsets[rows] - made[:-1], lengths), made
