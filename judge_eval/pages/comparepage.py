"""Two runs side by side, as the JSON that a page shows; differences are candidate minus baseline."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from judge_eval.comparison import pairing
from judge_eval.comparison.changes import KINDS, counts_of, kinds_of, most_moved
from judge_eval.comparison.compare import draws_for
from judge_eval.pages.overview import Table
from judge_eval.pages.rows import Row
from judge_eval.pages.runpage import head
from judge_eval.runs.folder.records import Manifest, TraceResult
from judge_eval.stats import compare_paired, holm

JSON: TypeAlias = dict[str, Any]

POINTS = 5_000
"""The most points of a scatter that are told apart exactly."""
NAMED = 200
"""The most traces that a point of the scatter names."""


@dataclass(eq=False)
class Pairing:
    """A candidate run held against a baseline, trace by trace (by id).

    Args:
        baseline: The run to compare with.
        candidate: The run in question; where it does not hold all rows, it is made to hold those that
            `lead` chooses.
        lead: Whether a large candidate holds the rows that lost most, or those that moved most.
    """

    baseline: Table
    candidate: Table
    lead: Literal["lost", "moved"] = "lost"
    rows: list[Row] = field(init=False, default_factory=list)
    """The candidate's rows with their differences and what changed."""
    metrics: dict[str, JSON] = field(init=False, default_factory=dict)
    """By metric: the paired comparison over the traces both have a value for."""
    pairs: pairing.Pairing = field(init=False)
    kinds: NDArray[np.int8] = field(init=False)
    """What changed in each pair; see `judge_eval.comparison.changes`."""

    def __post_init__(self) -> None:
        there = self.baseline.columns.metrics
        names = [name for name in self.candidate.metrics if name in there]
        self.pairs = pairing.pair_up(
            self.baseline.columns.only(names), self.candidate.columns.only(names), by_question=False
        )
        self.kinds = kinds_of(self.pairs)
        if not self.candidate.whole:
            self._choose()
        for column, name in enumerate(names):
            before, after = self.pairs.values(column)
            both = ~(np.isnan(before) | np.isnan(after))
            if both.any():
                clusters = pairing.cluster_codes(self.pairs.first.clusters[self.pairs.a[both]])
                self.metrics[name] = pair_data(before[both], after[both], clusters)
        adjusted = holm([told["p"] for told in self.metrics.values()])
        for told, p in zip(self.metrics.values(), adjusted, strict=True):
            told["p_holm"] = p
        self._at = np.full(len(self.candidate.columns), -1, dtype=np.int64)
        self._at[self.pairs.b] = np.arange(len(self.pairs))
        for row, place in zip(self.candidate.rows, self.candidate.places, strict=True):
            pair = int(self._at[place])
            deltas = {} if pair < 0 else self._deltas(pair)
            changed = None if pair < 0 else KINDS[self.kinds[pair]]
            self.rows.append(replace(row, deltas=deltas, change=changed or ""))

    def _choose(self) -> None:
        """Have a large candidate hold the rows that are worth a look beside the baseline."""
        most = len(self.candidate.rows)
        if self.lead == "moved" or not self.pairs.first.metrics:
            chosen = most_moved(self.pairs, self.kinds, most)
        else:
            before, after = self.pairs.values(0)
            lost = after - before
            chosen = np.lexsort((self.kinds == 0, np.where(np.isnan(lost), 0.0, lost)))[:most]
        self.candidate.take(self.pairs.b[chosen].tolist())

    def _deltas(self, pair: int) -> dict[str, float]:
        before = self.pairs.first.scores[self.pairs.a[pair]].tolist()
        after = self.pairs.second.scores[self.pairs.b[pair]].tolist()
        named = zip(self.pairs.first.metrics, before, after, strict=True)
        return {name: b - a for name, a, b in named if a == a and b == b}

    def both(self, metric: str) -> list[tuple[Row, float]]:
        """Return the rows for which both runs have a value, with the baseline's."""
        column = self.pairs.first.metrics.index(metric)
        scores = self.pairs.first.scores[:, column]
        return [
            (row, float(scores[self.pairs.a[self._at[place]]]))
            for row, place in zip(self.rows, self.candidate.places, strict=True)
            if metric in row.deltas
        ]

    def read(self, row: Row) -> tuple[TraceResult, TraceResult]:
        """Read the results of a row that is paired."""
        place = self.candidate.places[bisect_left(self.rows, row.position, key=lambda r: r.position)]
        old = int(self.pairs.a[self._at[place]])
        return self.baseline.run.results[old], self.candidate.run.results[place]


def pair_data(
    baseline: NDArray[np.float64], candidate: NDArray[np.float64], clusters: Sequence[int] | None = None
) -> JSON:
    """Return a paired comparison as JSON; `clusters` names what belongs together, one id a trace."""
    told = compare_paired(baseline, candidate, clusters=clusters, permutations=draws_for(len(baseline)))
    return {
        "n": told.n,
        "baseline": told.baseline_mean,
        "candidate": told.candidate_mean,
        "difference": told.difference,
        "interval": None if told.interval is None else [told.interval.low, told.interval.high],
        "p": told.p_randomisation,
        "p_t": told.p_t,
        "wins": told.wins,
        "ties": told.ties,
        "losses": told.losses,
        "detectable": told.detectable,
    }


def compare_page(pairing: Pairing) -> JSON:
    """Return everything of a compare page but its changed traces."""
    a, b = pairing.baseline.run.manifest, pairing.candidate.run.manifest
    names = list(pairing.metrics)
    counts = counts_of(pairing.kinds)
    same = int((pairing.kinds == 0).sum())
    changed = sum(counts.values())
    shown = sum(bool(row.change) for row in pairing.rows)
    return {
        "a": head(a),
        "b": head(b),
        "banner": [*differing(a, b), *dataset_differs(pairing)],
        "metrics": [{"name": name, **pairing.metrics[name]} for name in names],
        "points": {name: points(pairing, name) for name in names},
        "differences": {name: differences(pairing, name) for name in names},
        "changes": {**({"same": same} if same else {}), **counts},
        "common": len(pairing.pairs),
        "only_a": len(pairing.pairs.only_first),
        "only_b": len(pairing.pairs.only_second),
        "shown": None if shown == changed else {"n": shown, "of": changed},
    }


def points(pairing: Pairing, metric: str) -> list[JSON]:
    """Return the points of the scatter, traces with equal scores as one; of many, those about equal."""
    before, after = pairing.pairs.values(pairing.pairs.first.metrics.index(metric))
    both = ~(np.isnan(before) | np.isnan(after))
    scores = np.column_stack([before[both], after[both]])
    digits = None
    found, counts = np.unique(scores, axis=0, return_counts=True)
    if len(found) > POINTS:
        digits = 2
        found, counts = np.unique(scores.round(digits), axis=0, return_counts=True)
    ids: dict[tuple[float, float], list[str]] = {(a, b): [] for a, b in found.tolist()}
    for row, old in pairing.both(metric):
        point = (old, row.scores[metric] or 0.0)
        ids[point if digits is None else (round(point[0], digits), round(point[1], digits))].append(row.id)
    told = zip(found.tolist(), counts.tolist(), strict=True)
    return [{"a": a, "b": b, "n": n, "ids": ids[a, b][:NAMED]} for (a, b), n in told]


def differences(pairing: Pairing, metric: str) -> JSON:
    """Return the differences that are not zero, ascending, with their traces, and how many are zero."""
    before, after = pairing.pairs.values(pairing.pairs.first.metrics.index(metric))
    zero = int((np.abs(after - before) <= 1e-12).sum())
    rows = sorted((row for row, _ in pairing.both(metric)), key=lambda row: row.deltas[metric])
    moved = [[row.id, row.deltas[metric]] for row in rows if abs(row.deltas[metric]) > 1e-12]
    return {"list": moved, "zero": zero}


def differing(a: Manifest, b: Manifest) -> list[JSON]:
    """Name what makes two runs' scores incomparable or hard to compare: prompt, judge, model."""
    told: list[JSON] = []
    ours, theirs = a.model_dump(mode="json"), b.model_dump(mode="json")
    old_prompt, new_prompt = ours["judge"].pop("prompt", None), theirs["judge"].pop("prompt", None)
    if old_prompt != new_prompt:
        told.append({"what": "prompt", "a": _ref(old_prompt), "b": _ref(new_prompt)})
    for what in ("judge", "backend"):
        for key in sorted(ours[what].keys() | theirs[what].keys()):
            old, new = ours[what].get(key), theirs[what].get(key)
            if old != new:
                told.append(
                    {
                        "what": f"{'judge' if what == 'backend' else what} {key}",
                        "a": _brief(old),
                        "b": _brief(new),
                    }
                )
    return told


def dataset_differs(pairing: Pairing) -> list[JSON]:
    """Tell whether the questions differ: other chunks for the same questions are what is compared."""
    a, b = pairing.baseline.run.manifest.dataset, pairing.candidate.run.manifest.dataset
    pairs = pairing.pairs
    changed = len(pairs.other_question)
    if not (changed or pairs.only_first.size or pairs.only_second.size):
        return []
    told = f"; {changed} under another question, reference or answer" if changed else ""
    return [
        {"what": "dataset", "a": f"{a.name} ({a.traces} traces)", "b": f"{b.name} ({b.traces} traces{told})"}
    ]


def _ref(prompt: Any) -> str:
    if not isinstance(prompt, dict):
        return "none"
    return f"{prompt.get('id')}@{prompt.get('version')} ({str(prompt.get('digest'))[:12]})"


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {inner}" for name, inner in value.items()) or "none"
    return "none" if value in (None, "") else str(value)
