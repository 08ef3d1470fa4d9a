"""The table of cells, claim by chunk, that every metric over claims is a function of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judge_eval.errors import MetricError
from judge_eval.metrics.ragged import offsets_of, ranks_of, read_only

Cells: TypeAlias = NDArray[np.int8]
"""What chunks say of claims: `CONTRADICTED`, `LEFT_ALONE`, `PARTLY`, `FULLY`, or `OPEN`."""
Numbers: TypeAlias = NDArray[np.int64]
"""One whole number a trace, a claim, a chunk or a cell."""

CONTRADICTED, LEFT_ALONE, PARTLY, FULLY = -1, 0, 1, 2
OPEN = -3
"""The judge failed here: nobody knows what the chunk says of the claim, or the chunks together."""
UNASKED = -2
"""Nobody asked whether the chunks cover the claim together."""
NOBODY_KNOWS = -1
"""In place of a number of claims: the judge failed to find out which there are."""

WORDS = {"contradicts": CONTRADICTED, "none": LEFT_ALONE, "partial": PARTLY, "full": FULLY, None: OPEN}
TOGETHER = {True: FULLY, False: LEFT_ALONE, None: OPEN, "unasked": UNASKED}


@dataclass(frozen=True, eq=False, repr=False)
class ClaimTable:
    """What the chunks of each trace say of the claims of its reference; immutable.

    The arrays are not copied; do not change them.

    Args:
        cells: int8, trace after trace, in each claim after claim, for each claim its chunks in rank order.
        lengths: int64, how many chunks each trace has.
        counts: int64, how many claims each trace has; `NOBODY_KNOWS` where that is not known, and then it has no cells.
        vital: bool, one a claim: whether an answer must say it.
        together: int8, one a claim: whether all chunks cover it together, `FULLY`, `LEFT_ALONE`, `UNASKED` or `OPEN`.
        by_id: int64, one a chunk: its place among the chunks of its trace by id, the greatest first; None if
            the ids are unknown.

    Raises:
        MetricError: The arrays do not fit together, or hold what means nothing.
    """

    cells: Cells
    lengths: Numbers
    counts: Numbers
    vital: NDArray[np.bool_]
    together: Cells
    by_id: Numbers | None = None

    def __post_init__(self) -> None:
        if len(self.lengths) != len(self.counts):
            raise MetricError(f"claims of {len(self.counts)} traces, chunks of {len(self.lengths)}")
        known = np.maximum(self.counts, 0)
        claims, cells = int(known.sum()), int((known * self.lengths).sum())
        for name, values, wanted in (
            ("cells", self.cells, cells),
            ("vital", self.vital, claims),
            ("together", self.together, claims),
        ):
            if len(values) != wanted:
                raise MetricError(f"{name} of claims must hold {wanted} values, and holds {len(values)}")
            object.__setattr__(self, name, read_only(values))
        if self.by_id is not None and len(self.by_id) != int(self.lengths.sum()):
            raise MetricError(f"by_id of claims must hold {int(self.lengths.sum())} values")
        if not np.isin(self.cells, (CONTRADICTED, LEFT_ALONE, PARTLY, FULLY, OPEN)).all():
            raise MetricError("a cell of a claim must be contradicted, left alone, partly, fully or open")

    @classmethod
    def from_rows(
        cls,
        rows: Sequence[Sequence[Sequence[str | None] | None]],
        vital: Sequence[Sequence[bool] | None],
        together: Sequence[Sequence[bool | str | None]] | None = None,
        ids: Sequence[Sequence[str]] | None = None,
    ) -> ClaimTable:
        """Make a table from lists of words.

        Args:
            rows: For each trace its chunks in rank order; for each chunk what it says of each claim:
                `"full"`, `"partial"`, `"contradicts"` or `"none"`, None for a cell that failed. None in
                place of a chunk's list: all its cells failed.
            vital: For each trace one truth value a claim: whether an answer must say it. None where nobody
                knows the claims.
            together: For each trace and claim whether all chunks cover it together; None where that failed,
                `"unasked"` where nobody asked, as everywhere without this argument.
            ids: For each trace the ids of its chunks, which only `alpha-NDCG(ties=id)` needs.

        Raises:
            MetricError: A word means nothing, or the lengths differ.
        """
        if len(rows) != len(vital) or (together is not None and len(together) != len(rows)):
            raise MetricError(f"{len(rows)} traces with chunks, {len(vital)} with claims")
        parts: list[Cells] = []
        for place, (chunks, claims) in enumerate(zip(rows, vital, strict=True)):
            if not claims:
                continue
            failed = (None,) * len(claims)
            try:
                codes = [[WORDS[word] for word in (failed if row is None else row)] for row in chunks]
            except (KeyError, TypeError) as error:
                raise MetricError(
                    f"row {place} of the claims: {error} is not one of 'full', 'partial', 'contradicts', "
                    "'none' and None"
                ) from None
            if any(len(row) != len(claims) for row in codes):
                raise MetricError(f"row {place}: each chunk needs one cell for each of {len(claims)} claims")
            parts.append(np.array(codes, dtype=np.int8).reshape(-1, len(claims)).T.ravel())
        asked = [["unasked"] * len(claims or ()) for claims in vital] if together is None else together
        return cls(
            np.concatenate(parts) if parts else np.empty(0, dtype=np.int8),
            np.array([len(chunks) for chunks in rows], dtype=np.int64),
            np.array([NOBODY_KNOWS if claims is None else len(claims) for claims in vital], dtype=np.int64),
            np.array([*chain.from_iterable(claims or () for claims in vital)], dtype=np.bool_),
            np.array([TOGETHER[each] for each in chain.from_iterable(asked)], dtype=np.int8),
            None if ids is None else np.array([*chain.from_iterable(map(_by_id, ids))], dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.counts)

    def __repr__(self) -> str:
        return f"<ClaimTable of {len(self)} traces, {len(self.vital)} claims, {len(self.cells)} cells>"

    @cached_property
    def row_of_claim(self) -> Numbers:
        """Which trace each claim is of."""
        return np.repeat(np.arange(len(self)), np.maximum(self.counts, 0))

    @cached_property
    def starts(self) -> Numbers:
        """Where the cells of each claim begin, with the end of the last."""
        return offsets_of(self.lengths[self.row_of_claim])

    @cached_property
    def claim(self) -> Numbers:
        """Which claim each cell is of."""
        return np.repeat(np.arange(len(self.vital)), np.diff(self.starts))

    @cached_property
    def rank(self) -> Numbers:
        """At which rank each cell's chunk stands, counted from 0."""
        return ranks_of(self.starts)

    @cached_property
    def chunk_starts(self) -> Numbers:
        """Where the chunks of each trace begin, counted over all traces, with the end of the last."""
        return offsets_of(self.lengths)

    @cached_property
    def chunk(self) -> Numbers:
        """Which chunk each cell is of, counted over all traces."""
        return self.chunk_starts[:-1][self.row_of_claim][self.claim] + self.rank

    @cached_property
    def row_of_chunk(self) -> Numbers:
        """Which trace each chunk is of."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @cached_property
    def has_missing(self) -> bool:
        """Whether the judge failed anywhere."""
        return bool((self.counts < 0).any() or (self.cells == OPEN).any() or (self.together == OPEN).any())

    def missing(self) -> Numbers:
        """Count the chunks of each trace with a failed cell."""
        failed = np.zeros(int(self.lengths.sum()), dtype=np.bool_)
        failed[self.chunk[self.cells == OPEN]] = True
        return np.bincount(self.row_of_chunk[failed], minlength=len(self))

    def down_to(self, k: int | None) -> NDArray[np.bool_]:
        """Return for each cell whether its chunk is among the first `k`; None takes all."""
        return np.ones(len(self.cells), dtype=np.bool_) if k is None else self.rank < k

    def filled(self, cell: int, together: int) -> ClaimTable:
        """Return the table with these in place of failed cells."""
        return replace(
            self,
            cells=np.where(self.cells == OPEN, cell, self.cells).astype(np.int8),
            together=np.where(self.together == OPEN, together, self.together).astype(np.int8),
        )

    def without(self, chunks: NDArray[np.bool_]) -> ClaimTable:
        """Return the table in which the chosen chunks (one truth value a chunk) leave all claims alone."""
        return replace(self, cells=np.where(chunks[self.chunk], LEFT_ALONE, self.cells).astype(np.int8))

    def per_row(self, claims: ArrayLike) -> NDArray[np.float64]:
        """Add up one number a claim, trace by trace."""
        return self._sums(self.row_of_claim, claims)

    def per_row_of_chunks(self, chunks: ArrayLike) -> NDArray[np.float64]:
        """Add up one number a chunk, trace by trace, from the first rank to the last."""
        return self._sums(self.row_of_chunk, chunks)

    def _sums(self, rows: Numbers, values: ArrayLike) -> NDArray[np.float64]:
        sums = np.bincount(rows, weights=np.asarray(values, dtype=np.float64), minlength=len(self))
        return sums.astype(np.float64)

    def any_claim(self, cells: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return for each claim whether any of its cells is chosen."""
        return np.bincount(self.claim[cells], minlength=len(self.vital)) > 0

    def any_chunk(self, cells: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return for each chunk whether any of its cells is chosen."""
        return np.bincount(self.chunk[cells], minlength=len(self.row_of_chunk)) > 0

    def seen_before(self, cells: NDArray[np.bool_]) -> Numbers:
        """Count for each cell the chosen ones of its claim at better ranks."""
        running = np.concatenate([[0], np.cumsum(cells)])
        before: Numbers = running[:-1] - running[self.starts[:-1]][self.claim]
        return before


def _by_id(ids: Sequence[str]) -> list[int]:
    ordered = sorted(range(len(ids)), key=lambda place: ids[place].encode(), reverse=True)
    places = {place: rank for rank, place in enumerate(ordered)}
    return [places[place] for place in range(len(ids))]
