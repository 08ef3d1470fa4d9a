"""Tables of grades: the rows that every metric is computed over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import MetricError
from judge_eval.metrics import ragged
from judge_eval.metrics.claim_table import ClaimTable
from judge_eval.metrics.words import EvidenceRead


def trec_order(scores: Mapping[str, float], query: str = "") -> list[str]:
    """Put documents in trec_eval's order: score (as a 32-bit float) descending, then id descending."""
    documents = sorted(scores, reverse=True)
    values = np.array([scores[document] for document in documents], dtype=np.float64)
    if np.isnan(values).any():
        document = documents[int(np.flatnonzero(np.isnan(values))[0])]
        raise MetricError(f"query {query}: the score of document {document} is not a number")
    with np.errstate(over="ignore"):
        order = np.argsort(-values.astype(np.float32), kind="stable")
    return [documents[int(i)] for i in order]


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


@dataclass(frozen=True, eq=False, repr=False)
class GradeTable:
    """Graded lists of different lengths, one row a query, best rank first; immutable.

    The arrays are not copied; do not change them.

    Args:
        grades: int8, all rows one after the other, each counted from the lowest of the scale, so that the
            lowest gains 0; 0..127 or a mark (`UNJUDGED`, `OUTSIDE`, `MISSING`).
        offsets: int64, one more than there are rows; row i is `grades[offsets[i]:offsets[i + 1]]`.
        totals: int64 or None; how many chunks at or above `relevant` the whole pool holds, -1 where unknown.
        ids: The rows' names for messages; None names them by their number from 0.
        relevant: The least grade that counts as relevant, >= 1; a metric's `rel=` overrides it.
        maximum: The highest grade of the scale; None takes the highest present (at least `relevant`).
        probable: float64, laid out like `grades`: the probability that each chunk is relevant; NaN if it is
            unknown; None if all are.
        expected: float64, laid out like `grades`: each chunk's mean grade under the judge's probabilities.
        chances: float64, shape (grades, maximum + 1): each chunk's probability of each grade; NaN likewise.
        rest: int8 grades >= 0 of the judged chunks of each query's pool that were not retrieved, laid out
            like `grades`, with `rest_offsets`; the pool is these and `grades` then.
        repeats: bool, laid out like `grades`: whether a chunk reads like an earlier one of its row.
        claims: What the same chunks say of the claims of each row's reference; None if nobody asked.
        abstains: float64, laid out like `grades`: the probability that a reader abstains with the chunk alone; NaN
            if it is unknown; None if all are.
        abstains_relevant: The same where a chunk is relevant, if that is another probability; None if it is not.
        reading: After how many words of each list its evidence has been read; None if that is not known.
        minimum: The lowest grade of the scale, which is subtracted from `grades`, `relevant`, `maximum`,
            `rest` and `expected`, as `on_scale` does.

    Raises:
        MetricError: The arrays do not fit together, or a grade is off the scale.
    """

    grades: Grades
    offsets: NDArray[np.int64]
    totals: IntValues | None = None
    ids: Sequence[str] | None = None
    relevant: int = 1
    maximum: int | None = None
    probable: NDArray[np.float64] | None = None
    expected: NDArray[np.float64] | None = None
    rest: Grades | None = None
    rest_offsets: NDArray[np.int64] | None = None
    repeats: NDArray[np.bool_] | None = None
    claims: ClaimTable | None = None
    chances: NDArray[np.float64] | None = None
    abstains: NDArray[np.float64] | None = None
    abstains_relevant: NDArray[np.float64] | None = None
    reading: EvidenceRead | None = None
    minimum: int = 0
    has_missing: bool = field(init=False)
    """Whether any verdict failed."""
    top_grade: int = field(init=False)
    """The highest grade of the scale: `maximum`, or the highest seen (at least `relevant`)."""

    def __post_init__(self) -> None:
        if self.relevant < 1:
            raise MetricError(f"relevant is {self.relevant}; the least relevant grade is at least 1")
        if self.maximum is not None and not self.relevant <= self.maximum <= 127:
            raise MetricError(f"maximum must be between relevant={self.relevant} and 127, got {self.maximum}")
        grades = ragged.check_layout("grades", self.grades, self.offsets)
        low, high = (int(grades.min()), int(grades.max())) if len(grades) else (0, 0)
        if low < MISSING or (self.maximum is not None and high > self.maximum):
            top = self.maximum or 127
            cell = int(np.flatnonzero((grades < MISSING) | (grades > top))[0])
            where = ragged.cell_name(cell, self.offsets, self.ids)
            raise MetricError(f"{where}: the grade {grades[cell]} is off the scale 0..{top}")
        keep = object.__setattr__
        keep(self, "has_missing", low == MISSING)
        keep(self, "top_grade", self.maximum if self.maximum is not None else max(self.relevant, high))
        keep(self, "grades", ragged.read_only(grades))
        keep(self, "offsets", ragged.read_only(self.offsets))
        if self.rest is not None:
            offsets = self.rest_offsets
            if offsets is None or len(offsets) != len(self.offsets):
                raise MetricError("rest comes with its offsets, one row for each")
            rest = ragged.check_layout("rest", self.rest, offsets)
            if len(rest) and not 0 <= rest.min() <= rest.max() <= (self.maximum or 127):
                raise MetricError(f"the grades of rest must lie between 0 and {self.maximum or 127}")
            if self.maximum is None and len(rest):
                keep(self, "top_grade", max(self.top_grade, int(rest.max())))
            keep(self, "rest", ragged.read_only(rest))
        beside = {
            name: getattr(self, name) for name in ("probable", "expected", "repeats", "abstains", "abstains_relevant")
        }
        ragged.check_beside(beside, self.chances, len(grades), self.maximum)
        if self.claims is not None and not np.array_equal(self.claims.lengths, np.diff(self.offsets)):
            raise MetricError("the claims are of other lists: not as many chunks in each row")
        if self.reading is not None:
            claims = 0 if self.claims is None else len(self.claims.vital)
            if len(self.reading.hits) != len(self) or (claims and len(self.reading.full) != claims):
                raise MetricError("what has been read is of other lists: not as many rows or claims")
        for name, values in (("totals", self.totals), ("ids", self.ids)):
            if values is not None and len(values) != len(self):
                raise MetricError(f"{name} has {len(values)} entries, the table {len(self)} rows")

    @property
    def grades_alone(self) -> bool:
        """Whether rows of the same grades and totals have the same values."""
        beside = (self.rest, self.probable, self.expected, self.abstains)
        return all(each is None for each in beside)

    @classmethod
    def from_rows(
        cls,
        rows: Sequence[Sequence[int | None]],
        totals: Sequence[int | None] | None = None,
        ids: Sequence[str] | None = None,
        relevant: int = 1,
        *,
        maximum: int | None = None,
        probable: Sequence[Sequence[float | None]] | None = None,
        expected: Sequence[Sequence[float | None]] | None = None,
        rest: Sequence[Sequence[int]] | None = None,
        repeats: Sequence[Sequence[bool]] | None = None,
        claims: ClaimTable | None = None,
        chances: Sequence[Sequence[Sequence[float] | None]] | None = None,
    ) -> GradeTable:
        """Make a table from lists of grades, one list a query, in rank order; None is a failed verdict.

        The other arguments are those of the class, as one list a row; None (or -1, of `totals`) is unknown.

        Raises:
            MetricError: A grade is not a whole number on the scale, or the lengths differ.
        """
        grades, offsets = ragged.flatten(rows, ids, missing=MISSING)
        flat_rest, rest_offsets = (None, None) if rest is None else ragged.flatten(rest, ids)
        known = None if totals is None else [-1 if total is None else total for total in totals]
        return cls(
            grades,
            offsets,
            totals=None if known is None else np.array(known, dtype=np.int64),
            ids=ids,
            relevant=relevant,
            maximum=maximum,
            probable=ragged.flatten_numbers(probable),
            expected=ragged.flatten_numbers(expected),
            rest=flat_rest,
            rest_offsets=rest_offsets,
            repeats=None if repeats is None else np.array([*chain.from_iterable(repeats)], dtype=np.bool_),
            claims=claims,
            chances=ragged.flatten_chances(chances, maximum),
        )

    @classmethod
    def on_scale(cls, rows: Sequence[Sequence[int | None]], scale: range, relevant: int, **beside: Any) -> GradeTable:
        """Make a table from lists of grades on a scale: the gain of a grade is its distance from the lowest.

        Args:
            rows: One list a query, in rank order; None is a failed verdict.
            scale: All grades, the lowest first.
            relevant: The least grade that counts as relevant.
            beside: The other arguments of `from_rows` except `maximum`; rest and expected grades are on
                the scale too, and chances are of its grades.

        Raises:
            MetricError: A grade is not a whole number on the scale, or the lengths differ.
        """
        lowest, top = scale[0], scale[-1] - scale[0]
        if not lowest:
            return cls.from_rows(rows, relevant=relevant, maximum=top, **beside)

        def above_lowest(name: str, lists: Sequence[Sequence[Any]]) -> list[list[Any]]:
            for row, grades in enumerate(lists):
                for rank, grade in enumerate(grades, 1):
                    if grade is not None and grade < lowest:
                        trace = (beside.get("ids") or range(row + 1))[row]
                        where = f"trace {trace}, " + (f"rank {rank}" if name == "grades" else name)
                        raise MetricError(f"{where}: {grade!r} is below the lowest grade, {lowest}")
            return [[None if grade is None else grade - lowest for grade in row] for row in lists]

        made = above_lowest("grades", rows)
        others = {name: beside[name] for name in ("rest", "expected") if beside.get(name) is not None}
        beside |= {name: above_lowest(name, lists) for name, lists in others.items()}
        return replace(cls.from_rows(made, relevant=relevant - lowest, maximum=top, **beside), minimum=lowest)

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
        floats, as in trec_eval. A document without a judgment is not relevant, a negative grade means "in
        the pool, unjudged". A query without judgments is left out.

        Args:
            qrels: Query id to document id to grade.
            run: Query id to document id to score.
            relevant: The least relevant grade (trec_eval's `-l`).
            complete: Keep queries of `qrels` that the run lacks, as empty lists (trec_eval's `-c`).

        Raises:
            MetricError: A score is not a number, or a grade is above 127 or not whole.
        """
        ids = [query for query in qrels if complete or query in run]
        rows, others = [], []
        for query in ids:
            judged = {document: max(grade, UNJUDGED) for document, grade in qrels[query].items()}
            listed = run.get(query, {})
            rows.append([judged.get(each, OUTSIDE) for each in trec_order(listed, query)])
            others.append([grade for document, grade in judged.items() if grade >= 0 and document not in listed])
        grades, offsets = ragged.flatten(rows, ids, low=OUTSIDE)
        rest, rest_offsets = ragged.flatten(others, ids)
        return cls(grades, offsets, ids=ids, relevant=relevant, rest=rest, rest_offsets=rest_offsets)

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

    def blocks(self, k: int | None) -> Iterator[tuple[ragged.Rows, Grades]]:
        """Yield the first `k` ranks in blocks that fit the processor's cache, as `cut_blocks` does."""
        width = self.longest if k is None else min(k, self.longest)
        return ragged.cut_blocks(self.grades, self.offsets, self.lengths, width)

    def totals_at(self, relevant: int) -> IntValues:
        """Count the chunks of each row's whole pool with at least this grade, not fewer than were retrieved.

        Raises:
            MetricError: They are unknown for some row, or known for another threshold only.
        """
        if self.rest is not None and self.rest_offsets is not None:
            return _count(self.rest, self.rest_offsets, relevant) + self.found_at(relevant)
        unknown = np.arange(len(self)) if self.totals is None else np.flatnonzero(self.totals < 0)
        if len(unknown):
            raise MetricError(
                f"how many relevant chunks exist is unknown for {self.names(unknown)}; give relevant_total, "
                "labels of the whole pool, or qrels (the retrieved chunks are not the pool)"
            )
        assert self.totals is not None
        if relevant != self.relevant:
            raise MetricError(
                f"the totals count grades >= {self.relevant}, not >= {relevant}; give the pool's grades or drop rel="
            )
        return np.maximum(self.totals, self.found_at(relevant))

    def found_at(self, relevant: int) -> IntValues:
        """Count the retrieved chunks of each row with at least this grade."""
        return _count(self.grades, self.offsets, relevant)

    def at_least_each(self) -> NDArray[Any]:
        """Count the retrieved chunks with at least grade 1, 2, ...: shape (highest grade present, rows)."""
        return ragged.count_at_least(self.grades, self.offsets, range(1, int(self.grades.max(initial=1)) + 1))

    def pool_at_least_each(self) -> NDArray[Any]:
        """Count the chunks of the pool with at least grade 1, 2, ...: shape (highest grade present, rows).

        Raises:
            MetricError: The pool's grades are unknown (on a binary scale the totals tell them).
        """
        if self.rest is not None and self.rest_offsets is not None:
            levels = range(1, int(max(self.grades.max(initial=1), self.rest.max(initial=1))) + 1)
            mine = ragged.count_at_least(self.grades, self.offsets, levels).astype(np.int64)
            return mine + ragged.count_at_least(self.rest, self.rest_offsets, levels).astype(np.int64)
        if self.maximum != 1:
            raise MetricError(
                "the grades of the whole pool are unknown; give rest= or qrels (a total is enough on a "
                "binary scale only, maximum=1)"
            )
        return self.totals_at(1)[None, :]

    def pool_judged(self) -> IntValues:
        """Count the judged chunks, of any grade, of each row's pool.

        Raises:
            MetricError: The pool's grades are unknown.
        """
        if self.rest_offsets is None:
            raise MetricError("the judged chunks of the whole pool are unknown; give rest= or qrels")
        return self.found_at(0) + np.diff(self.rest_offsets)


def _count(grades: Grades, offsets: NDArray[np.int64], level: int) -> IntValues:
    counts: IntValues = ragged.count_at_least(grades, offsets, [level])[0].astype(np.int64)
    return counts


_BESIDE = ("probable", "expected", "repeats", "chances", "abstains", "abstains_relevant")
"""The columns that are laid out like the grades."""


def taken(table: GradeTable, rows: IntValues, grades: Grades | None = None) -> GradeTable:
    """Return a table of these rows of another, which may repeat, with the same pools and without claims.

    With new `grades` a failed verdict has its new grade for sure, whatever the judge thought likely.
    """
    places, offsets = _gather(table.offsets, rows)
    own = table.grades[places]
    columns = {name: column[places] for name in _BESIDE if (column := getattr(table, name)) is not None}
    if grades is not None:
        failed = own == MISSING
        sure = grades[failed]
        for name, values in (("probable", sure >= table.relevant), ("expected", sure)):
            if name in columns:
                columns[name][failed] = values
        if "chances" in columns:
            columns["chances"][failed] = np.eye(columns["chances"].shape[1])[np.maximum(sure, 0)]
    if table.rest is not None and table.rest_offsets is not None:
        others, columns["rest_offsets"] = _gather(table.rest_offsets, rows)
        columns["rest"] = table.rest[others]
    if table.totals is not None:
        columns["totals"] = table.totals[rows]
    made = own if grades is None else grades
    return replace(
        table, grades=made, offsets=offsets, maximum=table.top_grade, ids=None, claims=None, reading=None, **columns
    )


def without_repeats(table: GradeTable) -> GradeTable:
    """Return a table in which a chunk that reads like an earlier one has grade 0, even without a verdict."""
    if table.repeats is None:
        raise MetricError("which chunks repeat an earlier text is not known; give the table `repeats`")
    grades = np.where(table.repeats, 0, table.grades).astype(np.int8)
    return replace(table, grades=grades, maximum=table.top_grade)


def _gather(offsets: NDArray[np.int64], rows: IntValues) -> tuple[IntValues, NDArray[np.int64]]:
    """Return where the cells of these rows stand, and the offsets of the rows one after the other."""
    lengths = offsets[rows + 1] - offsets[rows]
    made = ragged.offsets_of(lengths)
    return np.arange(made[-1]) + np.repeat(offsets[rows] - made[:-1], lengths), made
