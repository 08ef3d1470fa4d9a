"""Bounds of a metric over all grades that the failed verdicts could have."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement, product
from math import comb
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from judge_eval.metrics.table import MISSING, Grades, GradeTable, Values, taken

Reads: TypeAlias = Literal["relevance", "grades", "gains", "monotone", "anything"]
"""What a metric reads: which chunks are relevant, their grades, or anything.

The first three also say that the value never falls if a chunk moves up past a worse one; `gains` says that it
never falls if a grade rises, and `monotone` that alone, or that it never rises.
"""

WithCells = TypeVar("WithCells", bound=tuple[Any, ...])
MOST_COMPLETIONS = 20_000
"""A row with more ways to be completed gets outer bounds."""
_CELLS = 1 << 20
"""How many grades are completed at a time."""


class Bounds(NamedTuple):
    """The least and the greatest value of each row."""

    low: Values
    high: Values
    exact: NDArray[np.bool_]
    """Whether both are reached; else no value lies beyond them, but they may be too wide."""


@dataclass(frozen=True, slots=True)
class Bounding:
    """A metric as its bounds need it."""

    compute: Callable[[GradeTable], Values]
    reads: Reads
    cutoff: int | None
    """How many ranks count by their order; the others count only by their grades."""
    limits: tuple[float, float]
    """The least and the greatest value that the metric can have, or infinite."""
    below: bool = True
    """Whether what stands below the cutoff can change the value."""


def bounds(table: GradeTable, rows: NDArray[np.int64], question: Bounding) -> Bounds:
    """Return the bounds of these rows, each with a failed verdict."""
    # Among completions with the same grades in the top K (and the same below), a metric that never falls
    # where a better chunk moves up is greatest with the best grades on top, and least with the worst: so two
    # orders of each choice of grades are enough, and these are few. For average precision: moving a relevant
    # chunk from rank q up to p, past b relevant ones, changes the sum of precisions by at least (h + 1) / p +
    # b / q - (h + b + 1) / q >= 0, where h are relevant above p.
    low, high = np.empty(len(rows)), np.empty(len(rows))
    exact = np.ones(len(rows), dtype=np.bool_)
    known: dict[bytes, int] = {}
    same: list[tuple[int, int]] = []

    def completed_rows() -> Iterator[tuple[int, int, Grades]]:
        for place, row in enumerate(rows.tolist()):
            grades = table.row(row)
            if table.grades_alone:
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
            yield place, row, grids

    for batch in in_batches(completed_rows(), _CELLS):
        places, counts = [place for place, _, _ in batch], [len(grids) for _, _, grids in batch]
        repeated = np.repeat([row for _, row, _ in batch], counts)
        grades = np.concatenate([grids.ravel() for _, _, grids in batch])
        low[places], high[places] = extremes(question.compute(taken(table, repeated, grades)), counts)
    for place, other in same:
        low[place], high[place], exact[place] = low[other], high[other], exact[other]
    return Bounds(low, high, exact)


def in_batches(items: Iterable[WithCells], most: int) -> Iterator[list[WithCells]]:
    """Group items, whose last part is an array, as they come: a group is full with more than `most` cells."""
    batch, cells = list[WithCells](), 0
    for item in items:
        batch.append(item)
        cells += item[-1].size
        if cells > most:
            yield batch
            batch, cells = [], 0
    if batch:
        yield batch


def extremes(values: Values, counts: Sequence[int]) -> tuple[Values, Values]:
    """Return the least and the greatest value of each group of neighbours; `counts` are the groups' sizes."""
    starts = np.cumsum([0, *counts[:-1]])
    return np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)


def _completions(gaps: NDArray[np.int64], question: Bounding, top: int) -> Grades | None:
    """Return grades for the failed verdicts of a row, one completion a row; None if there are too many."""
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
    if reads in ("gains", "monotone"):
        return np.array([[0] * (head + tail), [top] * (head + tail)], dtype=np.int8)
    levels = (0, top) if reads == "relevance" else tuple(range(top + 1))
    extra = len(levels) - 1
    if 2 * comb(head + extra, extra) * comb(tail + extra, extra) > MOST_COMPLETIONS:
        return None
    below = list(combinations_with_replacement(levels, tail))
    return np.array([above + rest for above in _orders(levels, head) for rest in below], dtype=np.int8)


def _orders(levels: tuple[int, ...], count: int) -> Iterator[tuple[int, ...]]:
    for chosen in combinations_with_replacement(levels, count):
        yield chosen
        if chosen[0:1] != chosen[-1:]:
            yield chosen[::-1]
