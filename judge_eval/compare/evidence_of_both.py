"""Metrics with a cutoff in words, of two runs, by the evidence that the verdicts of both quote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import MetricError
from judge_eval.metrics import ClaimTable, GradeTable, Metric
from judge_eval.metrics.bounds import Bounds
from judge_eval.metrics.claim_table import NOBODY_KNOWS, UNASKED
from judge_eval.metrics.words import EvidenceRead, grams
from judge_eval.quotes import SHORTEST
from judge_eval.runs.columns.verdict_table import AnyResult, Places, light_results
from judge_eval.runs.folder.run import Run, blocks
from judge_eval.runs.scoring.aggregate import FilledColumn
from judge_eval.runs.scoring.evidence import Evidence, ShownList, read_evidence
from judge_eval.runs.scoring.rescore import scale_of

REACHED: Final = 0.9
"""The common budget is reached in this share of the questions of each run."""
OVERLAPS_READ: Final = 500
"""In about so many lists repeated words are counted, at equal distances."""
_BLOCK: Final = 256
_STEPS: Final = (1, 1.5, 2, 3, 5, 7)
_CURVE: Final = (1, 1.5, 2, 2.5, 3, 4, 5, 7)


@dataclass(frozen=True, slots=True, eq=False)
class SideRead:
    """One run's lists of the common traces, one a row."""

    both: GradeTable
    """After how many words they show the evidence of both runs."""
    alone: GradeTable
    """And that of their own verdicts."""
    words: NDArray[np.int64]
    """How many words each list has."""
    repeated: float
    """The mean over lists of the share of words in a run of 8 words that stands further up in the same list."""
    median_words: float
    """Of its chunks, 0 without one."""
    failed: NDArray[np.bool_]
    """In which lists a verdict failed."""
    unquoted: float
    """The share of supporting verdicts that quote no words of their chunk, so that all its words are evidence."""


@dataclass(frozen=True, slots=True, eq=False)
class PairsRead:
    """The lists of two runs, read word by word."""

    before: SideRead
    after: SideRead
    same_text: NDArray[np.bool_]
    """Which of the common traces have the same words in the same order in both runs."""

    def columns(self, metric: Metric) -> tuple[FilledColumn, FilledColumn]:
        """Return a metric's values of both runs, trace by trace, with the evidence of both."""
        failed = self.before.failed | self.after.failed
        first, second = (_filled(metric.bounds(side.both), failed) for side in (self.before, self.after))
        for column in (first, second):  # the same text shows the same, whatever a failed verdict would have said
            for ends in (column.low, column.high):
                ends[self.same_text] = first.value[self.same_text]
        second.value[self.same_text] = first.value[self.same_text]
        return first, second

    def alone(self, metric: Metric) -> tuple[FilledColumn, FilledColumn]:
        """Return the same with the evidence of each run's own verdicts."""
        before, after = self.before, self.after
        return _filled(metric.bounds(before.alone), before.failed), _filled(metric.bounds(after.alone), after.failed)

    @property
    def quoted(self) -> bool:
        """Whether evidence can be placed in the lists."""
        return max(self.before.unquoted, self.after.unquoted) < 1

    @property
    def undefined(self) -> NDArray[np.bool_]:
        """Which traces have no claim in one of the runs."""
        empty = np.zeros(len(self.before.words), dtype=np.bool_)
        for side in (self.before, self.after):
            if side.both.claims is not None:
                empty |= side.both.claims.counts == 0
        return empty

    @property
    def budget(self) -> int:
        """The largest of 1, 1.5, 2, 3, 5, 7 times 10^n words that both runs reach (`reached`); 0 if there is none."""
        least = min(reached(self.before.words), reached(self.after.words))
        steps = (step * 10**n for n in range(9) for step in _STEPS)
        return int(max((step for step in steps if step <= least and step == int(step)), default=0))


def reached(words: NDArray[np.int64]) -> int:
    """Return how many words a run's lists have, or more, in `REACHED` of its questions."""
    return int(np.sort(words)[int((1 - REACHED) * len(words))]) if len(words) else 0


def read_pairs(runs: tuple[Run, Run], places: tuple[Places, Places], wanted: Sequence[Evidence]) -> PairsRead:
    """Read the common traces of two runs, at these places of each, word by word.

    Raises:
        MetricError: The evidence of claims is wanted, and a run was not judged by claims.
    """
    scales = scale_of(runs[0]), scale_of(runs[1])
    same_scale = scales[0] == scales[1]
    step = 1 + len(places[0]) // OVERLAPS_READ
    sides = [_SideBuilder(run, wanted, step) for run in runs]
    results = zip(*(light_results(run, at) for run, at in zip(runs, places, strict=True)), strict=True)
    same = list[bool]()
    for block in blocks(results, _BLOCK):
        lists = [side.take([pair[place] for pair in block]) for place, side in enumerate(sides)]
        same += (np.array_equal(first.words, second.words) for first, second in zip(*lists, strict=True))
        for side, own, other, scale in zip(sides, lists, lists[::-1], scales, strict=True):
            alone, both = read_evidence(own, other, scale, same_scale)
            side.alone.append(alone)
            side.both.append(both)
    first, second = (side.done() for side in sides)
    return PairsRead(first, second, np.array(same, dtype=np.bool_))


class _SideBuilder:
    """Makes one side, block by block."""

    def __init__(self, run: Run, wanted: Sequence[Evidence], step: int) -> None:
        self._step = step
        self._run, self._wanted, self._scale = run, wanted, scale_of(run)
        self.both, self.alone = list[EvidenceRead](), list[EvidenceRead]()
        self._counts, self._vital, self._words, self._sizes = list[int](), list[bool](), list[int](), list[int]()
        self._repeated, self._failed = list[float](), list[bool]()
        self._quoted = self._unquoted = 0

    def take(self, results: Sequence[AnyResult]) -> list[ShownList]:
        judged = [(result.trace, result.outcomes, result.claims) for result in results]
        lists = ShownList.of(judged, self._wanted, self._scale.minimum)
        for result, made in zip(results, lists, strict=True):
            if "of claims" in self._wanted and result.claims is None and len(made.failed) < len(result.outcomes):
                raise MetricError(
                    f"trace {result.trace_id} of run {self._run.name} was not judged by claims; judge it by them, or "
                    "leave ClaimRecall out"
                )
            known = result.trace.claims if result.claims is None else result.claims.claims
            self._counts.append(NOBODY_KNOWS if known is None else len(known))
            self._vital += [claim.vital for claim in known or ()]
            self._words.append(len(made.words))
            self._failed.append(bool(made.failed) or known is None)
            self._sizes += [size for size in made.sizes if size]
            if len(self._words) % self._step == 0:
                self._repeated.append(repeated_words(made) / max(1, len(made.words)))
            self._quoted += made.quoted
            self._unquoted += made.unquoted
        return lists

    def done(self) -> SideRead:
        n, scale = len(self._counts), self._scale
        nowhere = np.zeros(n, dtype=np.int64)
        vital = np.array(self._vital, dtype=np.bool_)
        counts = np.array(self._counts, dtype=np.int64)
        together = np.full(len(vital), UNASKED, dtype=np.int8)
        claims = None
        if "of claims" in self._wanted:
            claims = ClaimTable(np.empty(0, dtype=np.int8), nowhere, counts, vital, together)
        both, alone = (
            GradeTable(
                np.empty(0, dtype=np.int8),
                np.zeros(n + 1, dtype=np.int64),
                relevant=scale.relevant - scale.minimum,
                maximum=scale.maximum - scale.minimum,
                minimum=scale.minimum,
                claims=claims,
                reading=_joined(parts),
            )
            for parts in (self.both, self.alone)
        )
        words = np.array(self._words, dtype=np.int64)
        return SideRead(
            both,
            alone,
            words,
            repeated=float(np.mean(self._repeated)) if self._repeated else 0.0,
            median_words=float(np.median(self._sizes)) if self._sizes else 0.0,
            failed=np.array(self._failed, dtype=np.bool_),
            unquoted=self._unquoted / max(1, self._quoted + self._unquoted),
        )


def repeated_words(shown: ShownList) -> int:
    """Count the words of a list in runs of 8 words that stand in a chunk further up."""
    starts = np.concatenate([[0], np.cumsum(shown.sizes)]).astype(np.int64)
    chunk = np.repeat(np.arange(len(shown.sizes)), shown.sizes)
    runs = grams(shown.words, np.zeros(len(chunk), dtype=np.int64), SHORTEST)
    inside = np.flatnonzero(chunk[: len(runs)] == chunk[SHORTEST - 1 :])
    _, first, which = np.unique(runs[inside], return_index=True, return_inverse=True)
    again = inside[chunk[inside[first]][which] < chunk[inside]]
    marks = np.zeros(len(chunk) + 1, dtype=np.int64)
    np.add.at(marks, again, 1)
    np.add.at(marks, again + SHORTEST, -1)
    return int((np.cumsum(marks)[:-1] > 0).sum()) if len(starts) > 2 else 0


def _joined(blocks: Sequence[EvidenceRead]) -> EvidenceRead:
    names = ("full", "partly", "possible", "hits", "hits_possible")
    return EvidenceRead(*(np.concatenate([getattr(each, name) for each in blocks]) for name in names))


def _filled(ends: Bounds, failed: NDArray[np.bool_]) -> FilledColumn:
    known = np.where(ends.low == ends.high, ends.low, np.nan)
    return FilledColumn.of(known, ends.low, ends.high, incomplete=failed)


def curve_budgets(read: PairsRead, *more: int) -> list[int]:
    """Return round numbers of words up to the longest list, and some more, for a curve."""
    longest = max(int(side.words.max(initial=0)) for side in (read.before, read.after))
    grid = (round(step * 10**n) for n in range(1, 6) for step in _CURVE)
    return sorted({words for words in (*grid, *more) if words <= longest})
