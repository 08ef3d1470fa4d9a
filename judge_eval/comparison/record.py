"""The record of a comparison: what the same traces say about two runs or more."""

from __future__ import annotations

from collections.abc import Iterator

from judge_eval.comparison.findings import Change, Check, Difference, PairOfRuns, RunRef, TraceChange
from judge_eval.comparison.movedclaims import ClaimsMoved
from judge_eval.comparison.opening import Opening
from judge_eval.record import Record
from judge_eval.runs.folder.records import FORMAT
from judge_eval.runs.scoring.aggregate import less_is_better


class Comparison(Record):
    """Two runs or more on the same traces; the first is the baseline."""

    v: int = FORMAT
    runs: tuple[RunRef, ...]
    warnings: tuple[str, ...] = ()
    """What makes the comparison doubtful: other judge, prompt or data, unpaired traces, failures."""
    notes: tuple[str, ...] = ()
    """What differs as it should, such as the retrieved chunks."""
    paired: tuple[int, ...]
    """How many traces each candidate has in common with the baseline."""
    only_baseline: tuple[int, ...]
    only_candidate: tuple[int, ...]
    sentences: tuple[str, ...] = ()
    """What is to be said first, a sentence a candidate, each under its name."""
    openings: tuple[Opening, ...] = ()
    """What these sentences say, of each candidate that has a value in common with the baseline."""
    differences: tuple[Difference, ...]
    pairs: tuple[PairOfRuns, ...] = ()
    """All pairs of three runs or more."""
    changed: tuple[dict[Change, int], ...]
    """For each candidate how many traces changed in which way."""
    traces: tuple[TraceChange, ...] = ()
    """The changed traces that moved most, of each candidate at most as many as were asked for."""
    claims: tuple[ClaimsMoved, ...] = ()
    """The claims won and lost, of each candidate that was judged by claims as the baseline was."""
    checks: tuple[Check, ...] = ()
    """What became of the limits, where a gate was asked for."""

    @property
    def baseline(self) -> RunRef:
        """The run the others are compared with."""
        return self.runs[0]

    @property
    def claims_told(self) -> list[str]:
        """What was won and lost of the claims, a sentence a candidate, each under its name."""
        several = len(self.runs) > 2
        return [(f"{self.runs[c.candidate].name}, " if several else "") + c.sentence for c in self.claims]

    def of(self, candidate: int = 1) -> Iterator[Difference]:
        """Yield the differences of one candidate, metric by metric."""
        return (each for each in self.differences if each.candidate == candidate)

    def __getitem__(self, metric: str) -> Difference:
        """Return a metric's difference of the first candidate.

        Raises:
            KeyError: It was not compared.
        """
        return {each.metric: each for each in self.of(1)}[metric]

    def movers(self, metric: str, candidate: int = 1, most: int = 5) -> list[TraceChange]:
        """Return the traces that moved a metric most, the greatest loss first."""
        sign = -1.0 if less_is_better(metric) else 1.0
        moved = [t for t in self.traces if t.candidate == candidate and t.differences.get(metric)]
        return sorted(moved, key=lambda t: sign * t.differences[metric])[:most]

    def _repr_html_(self) -> str:
        from judge_eval.comparison.fragment import comparison_html

        total = sum(sum(counts.values()) for counts in self.changed)
        return comparison_html(
            self.runs,
            self.warnings,
            [*self.notes, *self.claims_told],
            self.differences,
            self.traces,
            total,
            self.sentences,
        )
