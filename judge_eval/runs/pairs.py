"""Two runs side by side, as the JSON that a page shows; differences are candidate minus baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from judge_eval.runs.aggregate import fill_clusters
from judge_eval.runs.comparison import Change
from judge_eval.runs.pagedata import Table, head
from judge_eval.runs.records import Manifest, TraceResult
from judge_eval.runs.rows import Row, human_relevant
from judge_eval.schema import NoVerdict, Scale, Verdict
from judge_eval.stats import compare_paired, holm

JSON: TypeAlias = dict[str, Any]

NAMED = 200
"""The most traces that a point of the scatter names."""


@dataclass(eq=False)
class Pairing:
    """A candidate run held against a baseline, trace by trace (by id).

    Args:
        baseline: The run to compare with.
        candidate: The run in question.
    """

    baseline: Table
    candidate: Table
    rows: list[Row] = field(init=False, default_factory=list)
    """The candidate's rows with their differences and what changed."""
    metrics: dict[str, JSON] = field(init=False, default_factory=dict)
    """By metric: the paired comparison over the traces both have a value for."""

    def __post_init__(self) -> None:
        self.named = {row.id: row for row in self.baseline.rows}
        self.before: dict[str, Row] = {}
        for row in self.candidate.rows:
            old = self.named.get(row.id)
            if old is not None and old.question != row.question:
                old = None  # the same id, but not the same question
            if old is not None:
                self.before[row.id] = old
            deltas = {
                name: b - a
                for name, b in row.scores.items()
                if old is not None and b is not None and (a := old.scores.get(name)) is not None
            }
            changed = "" if old is None else change(old, row)
            self.rows.append(replace(row, deltas=deltas, change=changed))
        for name in self.candidate.metrics:
            after = self.both(name)
            before = [self.before[row.id] for row in after]
            if after:
                self.metrics[name] = pair_data(
                    [row.scores[name] or 0.0 for row in before],
                    [row.scores[name] or 0.0 for row in after],
                    fill_clusters([row.cluster for row in before]),
                )
        adjusted = holm([told["p"] for told in self.metrics.values()])
        for told, p in zip(self.metrics.values(), adjusted, strict=True):
            told["p_holm"] = p

    def both(self, metric: str) -> list[Row]:
        """Return the candidate's rows for which both runs have a value."""
        return [row for row in self.rows if metric in row.deltas]


def change(old: Row, new: Row) -> Change | Literal[""]:
    """Name what changed in a trace: `retrieval`, `verdicts`, `both`, `scores`, or nothing.

    Other chunks or another order are the retrieval, where the same chunk is the same title and text;
    another grade (or none, or one where there was none) for a chunk that both retrieved is the verdict.
    """
    before = dict(zip(old.chunks, old.strip, strict=True))
    flipped = any(
        chunk in before and before[chunk] != sign for chunk, sign in zip(new.chunks, new.strip, strict=True)
    )
    if old.chunks != new.chunks:
        return "both" if flipped else "retrieval"
    if flipped:
        return "verdicts"
    common = old.scores.keys() & new.scores.keys()
    return "scores" if any(old.scores[name] != new.scores[name] for name in common) else ""


def pair_data(
    baseline: Sequence[float], candidate: Sequence[float], clusters: Sequence[Hashable] | None = None
) -> JSON:
    """Return a paired comparison as JSON; `clusters` names what belongs together, one id a trace."""
    told = compare_paired(baseline, candidate, clusters=clusters)
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
    mine = {row.id for row in pairing.rows}
    counts = Counter(row.change or "same" for row in pairing.rows if row.id in pairing.before)
    return {
        "a": head(a),
        "b": head(b),
        "banner": [*differing(a, b), *dataset_differs(pairing)],
        "metrics": [{"name": name, **pairing.metrics[name]} for name in names],
        "points": {name: points(pairing, name) for name in names},
        "differences": {name: differences(pairing, name) for name in names},
        "changes": dict(counts),
        "common": counts.total(),
        "only_a": sum(row.id not in mine for row in pairing.baseline.rows),
        "only_b": sum(row.id not in pairing.named for row in pairing.rows),
    }


def points(pairing: Pairing, metric: str) -> list[JSON]:
    """Return the points of the scatter, traces with equal scores as one."""
    found: dict[tuple[float, float], list[str]] = {}
    for row in pairing.both(metric):
        a, b = pairing.before[row.id].scores[metric], row.scores[metric]
        found.setdefault((a or 0.0, b or 0.0), []).append(row.id)
    return [{"a": a, "b": b, "n": len(ids), "ids": ids[:NAMED]} for (a, b), ids in sorted(found.items())]


def differences(pairing: Pairing, metric: str) -> JSON:
    """Return the differences that are not zero, ascending, with their traces, and how many are zero."""
    rows = sorted(pairing.both(metric), key=lambda row: row.deltas[metric])
    moved = [[row.id, row.deltas[metric]] for row in rows if abs(row.deltas[metric]) > 1e-12]
    return {"list": moved, "zero": len(rows) - len(moved)}


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
    changed = sum(row.id in pairing.named and row.id not in pairing.before for row in pairing.rows)
    same_ids = pairing.named.keys() == {row.id for row in pairing.rows}
    if same_ids and not changed:
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


def changed_trace(row: Row, old: TraceResult, new: TraceResult, scales: tuple[Scale, Scale]) -> JSON:
    """Return a changed trace: both lists of chunks with their verdicts, and what flipped."""
    ranks = {key: rank for rank, key in enumerate(_keys(old))}
    moves = []
    for rank, (key, chunk, outcome) in enumerate(
        zip(_keys(new), new.trace.chunks, new.outcomes, strict=True), 1
    ):
        before = ranks.pop(key, None)
        was = None if before is None else _said(old.outcomes[before])
        now = _said(outcome)
        moves.append(
            {
                "id": chunk.id,
                "a": None if before is None else before + 1,
                "b": rank,
                "was": was,
                "now": now,
                "flipped": was is not None and was["sign"] != now["sign"],
            }
        )
    for before in ranks.values():
        gone = old.trace.chunks[before].id
        moves.append({"id": gone, "a": before + 1, "b": None, "was": _said(old.outcomes[before])})
    return {
        "id": row.id,
        "q": row.query,
        "change": row.change,
        "d": row.deltas,
        "a": {"strip": _signs(old, scales[0]), "scores": old.scores},
        "b": {"strip": _signs(new, scales[1]), "scores": new.scores},
        "ties": [[move["a"], move["b"]] for move in moves if move["a"] and move["b"]],
        "moves": moves,
    }


def _keys(result: TraceResult) -> list[tuple[str | None, str, int]]:
    """Tell chunks apart by what they say: title, text, and which time in this trace."""
    seen: Counter[tuple[str | None, str]] = Counter()
    keys = []
    for chunk in result.trace.chunks:
        said = (chunk.title, chunk.text)
        keys.append((*said, seen[said]))
        seen[said] += 1
    return keys


def _said(outcome: Verdict | NoVerdict) -> JSON:
    if outcome.kind == "no_verdict":
        return {"sign": "!", "why": outcome.why, "reason": outcome.detail}
    return {"sign": str(outcome.grade), "relevant": outcome.relevant, "reason": outcome.reason}


def _signs(result: TraceResult, scale: Scale) -> list[JSON]:
    signs = []
    for chunk, outcome in zip(result.trace.chunks, result.outcomes, strict=True):
        verdict = outcome.kind == "verdict"
        differs = (
            outcome.kind == "verdict"
            and chunk.label is not None
            and human_relevant(chunk.label, scale) != outcome.relevant
        )
        sign = str(outcome.grade) if outcome.kind == "verdict" else "!"
        signs.append({"id": chunk.id, "s": sign, "r": verdict and sign >= str(scale.relevant), "o": differs})
    return signs
