"""What a metric can be, whatever the failed verdicts would have said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement, product
from math import comb
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from judge_eval.metrics.completing import regraded
from judge_eval.metrics.table import MISSING, Grades, GradeTable, Values

Reads: TypeAlias = Literal["relevance", "grades", "gains", "anything"]
"""What a metric looks at: which chunks are relevant, their grades, or what is not known.

The first three also say that the value never falls where a better chunk changes places with a worse one
below; `gains` that it never falls where any grade rises.
"""

MOST_COMPLETIONS = 20_000
"""A row with more ways to be completed gets outer bounds."""
_CELLS = 1 << 20
"""How many grades are completed at a time."""


class Bounds(NamedTuple):
    """The least and the greatest value of each row, over all grades that its failed verdicts could have."""

    low: Values
    high: Values
    exact: NDArray[np.bool_]
    """Where both are reached; elsewhere no value lies beyond them, but they may be too wide."""


@dataclass(frozen=True, slots=True)
class Bounding:
    """What bounds are asked for."""

    compute: Callable[[GradeTable], Values]
    reads: Reads
    cutoff: int | None
    """How many ranks count in any order; the others only by what they hold."""
    limits: tuple[float, float]
    """The least and the greatest value that the metric can have; infinite where there is no greatest."""
    below: bool = True
    """Whether what stands below the cutoff can change the value."""


def bounds(table: GradeTable, rows: NDArray[np.int64], question: Bounding) -> Bounds:
    """Return the bounds of the rows named.

    Among completions with the same grades in the top K (and the same below), a metric that never falls where
    a better chunk moves up is greatest with the best grades on top, and least with the worst: so two orders
    of each choice of grades are enough, and these are few. For average precision: moving a relevant chunk
    from rank q up to p, past b relevant ones, changes the sum of precisions by at least
    (h + 1) / p + b / q - (h + b + 1) / q >= 0, where h are relevant above p.

    Args:
        table: The grades.
        rows: Which rows, each with a failed verdict.
        question: The metric.
    """
    low, high = np.empty(len(rows)), np.empty(len(rows))
    exact = np.ones(len(rows), dtype=np.bool_)
    known: dict[bytes, int] = {}
    waiting: list[tuple[int, int, NDArray[np.int8]]] = []
    same: list[tuple[int, int]] = []
    cells = 0
    alike = table.pool is None and table.rest is None and table.probable is None and table.expected is None
    for place, row in enumerate(rows.tolist()):
        grades = table.row(row)
        if alike:
            total = -1 if table.totals is None else int(table.totals[row])
            key = grades.tobytes() + total.to_bytes(8, "big", signed=True)
            if key in known:
                same.append((place, known[key]))
                continue
            known[key] = place
        gaps = np.flatnonzero(grades == MISSING)
        filling = _completions(gaps, question, table.top_grade)
        if filling is None:
            low[place], high[place] = question.limits
            exact[place] = False
            continue
        grids = np.repeat(grades[None, :], len(filling), axis=0)
        grids[:, gaps] = filling
        waiting.append((place, row, grids))
        cells += grids.size
        if cells > _CELLS:
            _settle(table, waiting, question, low, high)
            waiting, cells = [], 0
    _settle(table, waiting, question, low, high)
    for place, other in same:
        low[place], high[place], exact[place] = low[other], high[other], exact[other]
    return Bounds(low, high, exact)


def _settle(
    table: GradeTable,
    waiting: list[tuple[int, int, NDArray[np.int8]]],
    question: Bounding,
    low: Values,
    high: Values,
) -> None:
    if not waiting:
        return
    counts = np.array([len(each) for _, _, each in waiting])
    rows = np.repeat([row for _, row, _ in waiting], counts)
    grades = np.concatenate([each.ravel() for _, _, each in waiting])
    values = question.compute(regraded(table, rows, grades))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    places = [place for place, _, _ in waiting]
    low[places], high[places] = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)


def _completions(gaps: NDArray[np.int64], question: Bounding, top: int) -> Grades | None:
    """Return grades for the failed verdicts of a row, one completion a row; None where there are too many."""
    head = len(gaps) if question.cutoff is None else int((gaps < question.cutoff).sum())
    tail = len(gaps) - head
    if question.below or not tail:
        return _fillings(head, tail, question.reads, top)
    filling = _fillings(head, 0, question.reads, top)
    return None if filling is None else np.pad(filling, ((0, 0), (0, tail)))


@lru_cache(maxsize=64)
def _fillings(head: int, tail: int, reads: Reads, top: int) -> Grades | None:
    if reads == "anything":
        if (top + 1) ** (head + tail) > MOST_COMPLETIONS:
            return None
        return np.array(list(product(range(top + 1), repeat=head + tail)), dtype=np.int8)
    if reads == "gains":
        return np.array([[0] * (head + tail), [top] * (head + tail)], dtype=np.int8)
    levels = (0, top) if reads == "relevance" else tuple(range(top + 1))
    extra = len(levels) - 1
    if 2 * comb(head + extra, extra) * comb(tail + extra, extra) > MOST_COMPLETIONS:
        return None
    below = list(combinations_with_replacement(levels, tail))
    return np.array([above + rest for above in _orders(levels, head) for rest in below], dtype=np.int8)


def _orders(levels: tuple[int, ...], count: int) -> Iterator[tuple[int, ...]]:
    """Give each choice of grades with the worst on top and with the best on top."""
    for chosen in combinations_with_replacement(levels, count):
        yield chosen
        if chosen[0:1] != chosen[-1:]:
            yield chosen[::-1]
