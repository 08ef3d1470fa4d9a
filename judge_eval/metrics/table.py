"""The table of grades that every metric is a function of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import MetricError
from judge_eval.metrics.blocks import Rows, cut_blocks
from judge_eval.metrics.cells import ClaimTable
from judge_eval.metrics.order import trec_grades
from judge_eval.metrics.ragged import (
    check_beside,
    check_grades,
    check_layout,
    count_at_least,
    flatten,
    flatten_chances,
    flatten_numbers,
    off_scale,
    read_only,
)

Grades: TypeAlias = NDArray[np.int8]
IntValues: TypeAlias = NDArray[np.int64]
"""One whole number a row, such as how many chunks it holds."""
Values: TypeAlias = NDArray[np.float64]
"""One number a row, such as a metric's value."""

UNJUDGED = -1
"""In the pool, but nobody graded it (trec_eval's negative grade)."""
OUTSIDE = -2
"""Retrieved, but not in the pool at all."""
MISSING = -3
"""The judge failed here: no grade, and never a 0."""

KEPT_CELLS = 1 << 24


@dataclass(frozen=True, eq=False, repr=False)
class GradeTable:
    """Graded lists of different lengths, one row a query, best rank first; immutable.

    The arrays are not copied: whoever hands them over leaves them as they are.

    Args:
        grades: int8, all rows one after the other; 0..127 or a mark (`UNJUDGED`, `OUTSIDE`, `MISSING`).
        offsets: int64, one more than there are rows; row i is `grades[offsets[i]:offsets[i + 1]]`.
        totals: int64 or None; how many chunks at or above `relevant` the whole pool holds, -1 where unknown.
        ids: The rows' names for messages; None names them by their number from 0.
        relevant: The least grade that counts as relevant, >= 1; a metric's `rel=` overrides it.
        maximum: The highest grade of the scale; None takes the highest present (at least `relevant`).
        pool: int8 grades >= 0 of every judged chunk of each query's pool, laid out like `grades`, or None.
        pool_offsets: The offsets of `pool`; None exactly where `pool` is None.
        probable: float64, laid out like `grades`: the probability that each chunk is relevant; NaN where it
            is not known; None where none is.
        expected: float64, laid out like `grades`: each chunk's mean grade under the judge's probabilities.
        chances: float64, shape (grades, maximum + 1): each chunk's probability of each grade; NaN likewise.
        rest: int8 grades >= 0 of the judged chunks of each query's pool that were not retrieved, laid out
            like `grades`, with `rest_offsets`; the pool is these and `grades` then. Not beside `pool`.
        repeats: bool, laid out like `grades`: whether a chunk reads like an earlier one of its row; None
            where that is not known.
        claims: What the same chunks say of the claims of each row's reference; None where nobody asked.

    Raises:
        MetricError: The arrays do not fit together, or a grade is off the scale.
    """

    grades: Grades
    offsets: NDArray[np.int64]
    totals: IntValues | None = None
    ids: Sequence[str] | None = None
    relevant: int = 1
    maximum: int | None = None
    pool: Grades | None = None
    pool_offsets: NDArray[np.int64] | None = None
    probable: NDArray[np.float64] | None = None
    expected: NDArray[np.float64] | None = None
    rest: Grades | None = None
    rest_offsets: NDArray[np.int64] | None = None
    repeats: NDArray[np.bool_] | None = None
    claims: ClaimTable | None = None
    chances: NDArray[np.float64] | None = None
    has_missing: bool = field(init=False)
    """Whether any verdict failed."""
    top_grade: int = field(init=False)
    """The highest grade of the scale: `maximum`, or the highest seen (at least `relevant`)."""
    _kept: dict[int | None, list[tuple[Rows, Grades]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.relevant < 1:
            raise MetricError(f"relevant is {self.relevant}; the least relevant grade is at least 1")
        if self.maximum is not None and not self.relevant <= self.maximum <= 127:
            raise MetricError(f"maximum is {self.maximum}; it lies between relevant={self.relevant} and 127")
        grades = check_layout("grades", self.grades, self.offsets)
        low, high = (int(grades.min()), int(grades.max())) if len(grades) else (0, 0)
        if low < MISSING or (self.maximum is not None and high > self.maximum):
            raise off_scale(grades, self.offsets, self.ids, MISSING, self.maximum)
        keep = object.__setattr__
        keep(self, "has_missing", low == MISSING)
        keep(self, "top_grade", self.maximum if self.maximum is not None else max(self.relevant, high))
        keep(self, "grades", read_only(grades))
        keep(self, "offsets", read_only(self.offsets))
        if (self.pool is None) != (self.pool_offsets is None):
            raise MetricError("pool and pool_offsets come together or not at all")
        if self.pool is not None and self.pool_offsets is not None:
            pool = check_layout("pool", self.pool, self.pool_offsets)
            if len(self.pool_offsets) != len(self.offsets):
                raise MetricError(f"pool has {len(self.pool_offsets) - 1} rows, the table {len(self)}")
            check_grades("the pool", pool, self.maximum)
            if self.maximum is None and len(pool):
                keep(self, "top_grade", max(self.top_grade, int(pool.max())))
            keep(self, "pool", read_only(pool))
            keep(self, "pool_offsets", read_only(self.pool_offsets))
        if self.rest is not None:
            offsets = self.rest_offsets
            if self.pool is not None or offsets is None or len(offsets) != len(self.offsets):
                raise MetricError("rest comes with its offsets, one row for each, and not beside a pool")
            check_grades("rest", check_layout("rest", self.rest, offsets), self.maximum)
        beside = {"probable": self.probable, "expected": self.expected, "repeats": self.repeats}
        check_beside(beside, self.chances, len(grades), self.maximum)
        if self.claims is not None and not np.array_equal(self.claims.lengths, np.diff(self.offsets)):
            raise MetricError("the claims are of other lists: not as many chunks in each row")
        for name, values in (("totals", self.totals), ("ids", self.ids)):
            if values is not None and len(values) != len(self):
                raise MetricError(f"{name} has {len(values)} entries, the table {len(self)} rows")

    @classmethod
    def from_rows(
        cls,
        rows: Sequence[Sequence[int | None]],
        totals: Sequence[int | None] | None = None,
        ids: Sequence[str] | None = None,
        relevant: int = 1,
        *,
        maximum: int | None = None,
        pool: Sequence[Sequence[int]] | None = None,
        probable: Sequence[Sequence[float | None]] | None = None,
        expected: Sequence[Sequence[float | None]] | None = None,
        rest: Sequence[Sequence[int]] | None = None,
        repeats: Sequence[Sequence[bool]] | None = None,
        claims: ClaimTable | None = None,
        chances: Sequence[Sequence[Sequence[float] | None]] | None = None,
    ) -> GradeTable:
        """Make a table from lists of grades.

        Args:
            rows: One list a query, in rank order, of whole grades >= 0; None stands for a failed verdict.
            totals: For each row how many relevant chunks the whole pool holds; None or -1 where unknown.
            ids: The rows' names for messages.
            relevant: The least grade that counts as relevant.
            maximum: The highest grade of the scale, where it is known.
            pool: For each row the grades of all judged chunks, retrieved or not, in any order.
            probable: Laid out like `rows`: the probability that a chunk is relevant; None where not known.
            expected: Laid out like `rows`: a chunk's mean grade; None where it is not known.
            rest: For each row the grades of the judged chunks that were not retrieved, in place of `pool`.
            repeats: Laid out like `rows`: whether a chunk reads like an earlier one of its row.
            claims: What the chunks say of the claims of each row's reference.
            chances: Laid out like `rows`: a chunk's probability of each grade from 0 to `maximum`; None where
                they are not known.

        Raises:
            MetricError: A grade is not a whole number on the scale, or the lengths differ.
        """
        grades, offsets = flatten(rows, ids, missing=MISSING)
        flat_pool, pool_offsets = (None, None) if pool is None else flatten(pool, ids)
        known = None
        if totals is not None:
            known = np.array([-1 if total is None else total for total in totals], dtype=np.int64)
        likely, mean = flatten_numbers(probable), flatten_numbers(expected)
        flat_rest, rest_offsets = (None, None) if rest is None else flatten(rest, ids)
        scale = ids, relevant, maximum, flat_pool, pool_offsets
        again = None if repeats is None else np.array([*chain.from_iterable(repeats)], dtype=np.bool_)
        each = flatten_chances(chances, maximum)
        return cls(grades, offsets, known, *scale, likely, mean, flat_rest, rest_offsets, again, claims, each)

    @classmethod
    def from_trec(
        cls,
        qrels: Mapping[str, Mapping[str, int]],
        run: Mapping[str, Mapping[str, float]],
        *,
        relevant: int = 1,
        complete: bool = False,
    ) -> GradeTable:
        """Make a table from judgments and a run, as trec_eval reads them.

        A list is ordered by score descending, then document id descending; scores are compared as 32-bit
        floats, as trec_eval holds them. A document without a judgment is not relevant, a negative grade
        means "in the pool, unjudged". A query without judgments is left out.

        Args:
            qrels: Query id to document id to grade.
            run: Query id to document id to score.
            relevant: The least relevant grade (trec_eval's `-l`).
            complete: Keep queries of `qrels` that the run lacks, as empty lists (trec_eval's `-c`).

        Raises:
            MetricError: A score is not a number, or a grade is above 127 or not whole.
        """
        ids = [query for query in qrels if complete or query in run]
        rows = [trec_grades(qrels[each], run.get(each, {}), each, UNJUDGED, OUTSIDE) for each in ids]
        pools = [[grade for grade in qrels[query].values() if grade >= 0] for query in ids]
        grades, offsets = flatten(rows, ids, low=OUTSIDE)
        pool, pool_offsets = flatten(pools, ids)
        return cls(grades, offsets, ids=ids, relevant=relevant, pool=pool, pool_offsets=pool_offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"<GradeTable of {len(self)} rows, {len(self.grades)} grades, relevant >= {self.relevant}>"

    @cached_property
    def lengths(self) -> IntValues:
        """How many chunks each row holds."""
        return self.offsets[1:] - self.offsets[:-1]

    @cached_property
    def longest(self) -> int:
        """The length of the longest row, 0 where there is none."""
        return int(np.maximum.reduce(self.lengths, initial=0))

    @property
    def missing(self) -> IntValues:
        """How many verdicts failed in each row."""
        return self.missing_within(None)

    def missing_within(self, k: int | None) -> IntValues:
        """Count the failed verdicts in the first `k` ranks of each row; None counts them all."""
        counts = np.zeros(len(self), dtype=np.int64)
        if self.has_missing:
            for rows, grid in self.blocks(k):
                counts[rows] = (grid == MISSING).sum(axis=0)
        return counts

    def row(self, row: int) -> Grades:
        """Return the grades of a row, the best rank first."""
        return self.grades[self.offsets[row] : self.offsets[row + 1]]

    def name(self, row: int) -> str:
        """Return the row's id, or its number where it has none."""
        return str(row) if self.ids is None else self.ids[row]

    def names(self, rows: IntValues) -> str:
        """Write how many rows these are, with the first few names."""
        shown = ", ".join(self.name(int(row)) for row in rows[:5])
        return f"{len(rows)} of {len(self)} traces ({shown}{', ...' if len(rows) > 5 else ''})"

    def blocks(self, k: int | None) -> Iterator[tuple[Rows, Grades]]:
        """Give the first `k` ranks as rectangles small enough for the processor's cache.

        Yields:
            Which rows, then their grades as (ranks, rows), `ABSENT` below the end of a list. Together the
            blocks hold each row once. Rows of very different lengths are sorted by length first, so that
            one long list does not widen all others.
        """
        kept = self._kept.get(k)
        if kept is not None:
            yield from kept
            return
        width = self.longest if k is None else min(k, self.longest)
        if width * len(self) > KEPT_CELLS:
            yield from cut_blocks(self.grades, self.offsets, self.lengths, width)
            return
        # The metrics of a run share a cutoff or two, so the last one is worth a byte a cell.
        blocks = list(cut_blocks(self.grades, self.offsets, self.lengths, width))
        self._kept.clear()
        self._kept[k] = blocks
        yield from blocks

    def totals_at(self, relevant: int) -> IntValues:
        """Count the relevant chunks of each row's whole pool, at least as many as were retrieved.

        Args:
            relevant: The least grade that counts.

        Raises:
            MetricError: They are unknown for some row, or known for another threshold only.
        """
        if self.pool is not None and self.pool_offsets is not None:
            counts: IntValues = count_at_least(self.pool, self.pool_offsets, [relevant])[0].astype(np.int64)
            return np.maximum(counts, self.found_at(relevant))
        if self.rest is not None and self.rest_offsets is not None:
            unseen: IntValues = count_at_least(self.rest, self.rest_offsets, [relevant])[0].astype(np.int64)
            return unseen + self.found_at(relevant)
        unknown = np.arange(len(self)) if self.totals is None else np.flatnonzero(self.totals < 0)
        if len(unknown):
            raise MetricError(
                f"how many relevant chunks exist is unknown for {self.names(unknown)}; give relevant_total, "
                "labels of the whole pool, or qrels (the retrieved chunks are not the pool)"
            )
        assert self.totals is not None
        if relevant != self.relevant:
            raise MetricError(
                f"the totals count grades >= {self.relevant}, not >= {relevant}; give the pool's grades or "
                "drop rel="
            )
        return np.maximum(self.totals, self.found_at(relevant))

    def found_at(self, relevant: int) -> IntValues:
        """Count the retrieved chunks of each row, of its whole list, with at least this grade."""
        counts: IntValues = count_at_least(self.grades, self.offsets, [relevant])[0].astype(np.int64)
        return counts

    def at_least_each(self) -> NDArray[Any]:
        """Count the retrieved chunks with at least grade 1, 2, ...: shape (highest grade present, rows)."""
        highest = max(1, int(self.grades.max())) if len(self.grades) else 1
        return count_at_least(self.grades, self.offsets, range(1, highest + 1))

    def pool_at_least_each(self) -> NDArray[Any]:
        """Count the chunks of the pool with at least grade 1, 2, ...: shape (highest grade present, rows).

        Raises:
            MetricError: The pool's grades are unknown (on a binary scale the totals tell them).
        """
        if self.pool is not None and self.pool_offsets is not None:
            highest = max(1, int(self.pool.max())) if len(self.pool) else 1
            return count_at_least(self.pool, self.pool_offsets, range(1, highest + 1))
        if self.rest is not None and self.rest_offsets is not None:
            both = [grades for grades in (self.grades, self.rest) if len(grades)]
            levels = range(1, max(1, *(int(grades.max()) for grades in both)) + 1 if both else 2)
            mine = count_at_least(self.grades, self.offsets, levels).astype(np.int64)
            return mine + count_at_least(self.rest, self.rest_offsets, levels).astype(np.int64)
        if self.maximum != 1:
            raise MetricError(
                "the grades of the whole pool are unknown; give pool= or qrels (a total is enough on a "
                "binary scale only, maximum=1)"
            )
        return self.totals_at(1)[None, :]

    def pool_judged(self) -> IntValues:
        """Count the judged chunks, of any grade, of each row's pool.

        Raises:
            MetricError: The pool's grades are unknown.
        """
        if self.rest_offsets is not None:
            known: IntValues = count_at_least(self.grades, self.offsets, [0])[0].astype(np.int64)
            known += np.diff(self.rest_offsets)
            return known
        if self.pool_offsets is None:
            raise MetricError("the judged chunks of the whole pool are unknown; give pool= or qrels")
        return np.diff(self.pool_offsets)
