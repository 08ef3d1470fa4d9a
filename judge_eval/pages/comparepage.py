"""Two runs side by side, as the JSON that a page shows; differences are candidate minus baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from judge_eval.comparison.changes import KINDS, Kinds, most_moved
from judge_eval.comparison.compare import scored_by, weigh
from judge_eval.comparison.findings import Difference
from judge_eval.comparison.moving import moved_between
from judge_eval.comparison.pairing import Pairing
from judge_eval.comparison.record import Comparison
from judge_eval.errors import DataError, MetricError
from judge_eval.pages.claimgrid import moved_data
from judge_eval.pages.overview import Table
from judge_eval.pages.paircard import changed_trace
from judge_eval.pages.rows import JSON, TraceRow
from judge_eval.pages.runpage import head
from judge_eval.runs.columns.loading import columns_of
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import cutoff_of, less_is_better, main_metric

POINTS = 5_000
"""The most points of a scatter that are told apart exactly."""
NAMED = 200
"""The most traces that a point of the scatter names."""


@dataclass(eq=False)
class SideBySide:
    """A candidate run held against a baseline: the record of their comparison with what pages draw of it.

    They are compared by the baseline's metrics, as `compare` does; by those of both where one of the
    baseline's is undefined for the candidate.

    Args:
        baseline: The run to compare with.
        candidate: The run in question; where it does not hold all rows, it is made to hold those that
            `lead` chooses.
        lead: Whether a large candidate holds the rows that lost most, or those that moved most.
    """

    baseline: Table
    candidate: Table
    lead: Literal["lost", "moved"] = "lost"
    after: Run = field(init=False)
    """The candidate, scored by what is compared."""
    record: Comparison = field(init=False)
    rows: list[TraceRow] = field(init=False, default_factory=list)
    """The candidate's rows with their differences and what changed."""
    pairs: Pairing = field(init=False)
    kinds: Kinds = field(init=False)

    def __post_init__(self) -> None:
        names: Sequence[str] = self.baseline.metrics
        there = self.candidate.columns
        try:
            self.after = scored_by(self.candidate.run, names)
        except (DataError, MetricError):
            self.after = self.candidate.run
            names = [name for name in names if name in there.metrics]
        if self.after is not self.candidate.run:
            there = columns_of(self.after, names, self.baseline.run.manifest.intervals.cluster)
        runs = self.baseline.run, self.candidate.run
        columns = self.baseline.columns.only(names), there.only(names)
        moved = moved_between(runs, (self.baseline.run, self.after), columns, 1)
        self.pairs, self.kinds = moved.pairing, moved.kinds
        self.record = weigh(self.baseline.run, [self.candidate.run], [moved])
        if not self.candidate.whole:
            self._choose()
        at = np.full(len(there), -1, dtype=np.int64)
        at[self.pairs.b] = np.arange(len(self.pairs))
        held = at[self.candidate.places]
        strips = iter(self.baseline.strips(self.pairs.a[held[held >= 0]].tolist()))
        self._pair = dict[int, int]()
        for row, pair in zip(self.candidate.rows, held.tolist(), strict=True):
            if pair >= 0:
                self._pair[row.position] = pair
                change, before = KINDS[self.kinds[pair]], next(strips)
                deltas = self._deltas(pair)
                row = replace(row, deltas=deltas, change=change, before=before if change else None)
            self.rows.append(row)

    def _choose(self) -> None:
        """Have a large candidate hold the rows that are worth a look beside the baseline."""
        most = len(self.candidate.rows)
        if self.lead == "moved" or not self.pairs.first.metrics:
            chosen = most_moved(self.pairs, self.kinds, most)
        else:
            before, after = self.pairs.values(0)
            lost = before - after if less_is_better(self.pairs.first.metrics[0]) else after - before
            chosen = np.lexsort((self.kinds == 0, np.where(np.isnan(lost), 0.0, lost)))[:most]
        self.candidate.take(self.pairs.b[chosen].tolist())

    def _deltas(self, pair: int) -> dict[str, float]:
        before = self.pairs.first.scores[self.pairs.a[pair]].tolist()
        after = self.pairs.second.scores[self.pairs.b[pair]].tolist()
        named = zip(self.pairs.first.metrics, before, after, strict=True)
        return {name: b - a for name, a, b in named if a == a and b == b}

    @property
    def changed(self) -> list[TraceRow]:
        """The rows that changed."""
        return [row for row in self.rows if row.change]

    def told(self, who: str) -> JSON | None:
        """Return what is to be said first of the candidate, called `who`, with what makes it doubtful.

        None where nothing was compared.
        """
        if not self.record.openings:
            return None
        (first,) = self.record.openings
        return {
            "finding": first.finding,
            "sentence": first.told(who),
            "warnings": self.record.warnings,
            "claims": self.record.claims_told,
        }

    def row(self, position: int) -> TraceRow | None:
        """Return the row of a trace with its differences, where it is held."""
        return self._rows.get(position)

    @cached_property
    def _rows(self) -> dict[int, TraceRow]:
        return {row.position: row for row in self.rows}

    @property
    def claims(self) -> JSON | None:
        """The claims won and lost, as JSON; None where they were not judged by claims."""
        told = zip(self.record.claims, self.record.claims_told, strict=True)
        return next((moved_data(moved, sentence) for moved, sentence in told), None)

    @property
    def metrics(self) -> dict[str, JSON]:
        """The differences by metric, as JSON, the one that is looked at first before the others."""
        lead = main_metric(self.pairs.first.metrics)
        ordered = sorted(self.record.differences, key=lambda each: each.metric != lead)
        return {each.metric: difference_data(each) for each in ordered}

    def in_full(self, rows: Sequence[TraceRow]) -> Iterator[JSON]:
        """Yield changed traces in full, reading both runs as needed."""
        scales = (self.baseline.scale, self.candidate.scale)
        for row in rows:
            pair = self._pair[row.position]
            old = self.baseline.run.results[int(self.pairs.a[pair])]
            new = self.after.results[int(self.pairs.b[pair])]
            yield changed_trace(row, old, new, self.pairs.first.metrics, scales)

    def points(self, metric: str) -> list[JSON]:
        """Return the points of the scatter, traces with equal scores as one; of many, those about equal."""
        scores = np.column_stack(self.pairs.values(self.pairs.first.metrics.index(metric)))
        both = scores[~np.isnan(scores).any(axis=1)]
        places, counts = np.unique(both, axis=0, return_counts=True)
        if len(places) > POINTS:
            scores = scores.round(2)
            places, counts = np.unique(both.round(2), axis=0, return_counts=True)
        ids: dict[tuple[float, ...], list[str]] = {tuple(place): [] for place in places.tolist()}
        for row in self.rows:
            if metric in row.deltas:
                ids[tuple(scores[self._pair[row.position]].tolist())].append(row.id)
        counted = zip(places.tolist(), counts.tolist(), strict=True)
        return [{"a": a, "b": b, "n": n, "ids": ids[a, b][:NAMED]} for (a, b), n in counted]

    def ladder(self, metric: str) -> JSON:
        """Return the differences that are not zero, ascending, with their traces; how many are zero."""
        before, after = self.pairs.values(self.pairs.first.metrics.index(metric))
        moved = [[row.id, row.deltas[metric]] for row in self.rows if abs(row.deltas.get(metric, 0)) > 1e-12]
        return {
            "list": sorted(moved, key=lambda pair: pair[1]),
            "zero": int((np.abs(after - before) <= 1e-12).sum()),
        }


def difference_data(difference: Difference) -> JSON:
    """Return a difference as JSON, under the names a page calls things by."""
    return {
        **difference.model_dump(mode="json"),
        "name": difference.metric,
        "baseline": difference.baseline_mean,
        "candidate": difference.candidate_mean,
        "cutoff": cutoff_of(difference.metric),
        "way": difference.way,
    }


def compare_page(sides: SideBySide) -> JSON:
    """Return everything of a compare page but its changed traces."""
    record, metrics = sides.record, sides.metrics
    counts, same = record.changed[0], int((sides.kinds == 0).sum())
    shown, changed = len(sides.changed), sum(counts.values())
    return {
        "a": head(sides.baseline.run.manifest),
        "b": head(sides.candidate.run.manifest),
        "opening": sides.told("B"),
        "warnings": record.warnings,
        "notes": record.notes,
        "metrics": list(metrics.values()),
        "points": {name: sides.points(name) for name in metrics},
        "differences": {name: sides.ladder(name) for name in metrics},
        "changes": {**({"same": same} if same else {}), **counts},
        "claims": sides.claims,
        "common": record.paired[0],
        "only_a": record.only_baseline[0],
        "only_b": record.only_candidate[0],
        "shown": None if shown == changed else {"n": shown, "of": changed},
    }
