"""A run as light rows, one a trace: what a list of traces shows and filters by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from judge_eval.alignment.matching import MOST_GRADE
from judge_eval.comparison.findings import Change
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.signs import sign
from judge_eval.runs.scoring.aggregate import less_is_better
from judge_eval.schema import Outcome, Scale

QUERY = 240
"""Characters of a question that a row shows."""
STRIP = 60
"""Ranks that a row shows."""

JSON: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class TraceRow:
    """One trace of a run, without its texts.

    `strip` has a sign a rank (see `judge_eval.runs.folder.signs`); `off` has a `1` where a human label
    disagrees with the verdict.
    """

    position: int
    id: str
    query: str
    strip: str
    off: str
    scores: dict[str, float | None]
    tags: tuple[str, ...]
    failed: int
    labelled: str = ""
    """A sign a rank: `1` where there is a human label."""
    deltas: dict[str, float] = field(default_factory=dict)
    """By metric: the score minus the baseline's, where both have one."""
    change: Change | None = None
    """None where nothing changed or there is no baseline."""

    before: str | None = None
    """The baseline's strip, where something changed."""

    @property
    def disagreements(self) -> int:
        """How many verdicts a human label disagrees with."""
        return self.off.count("1")

    def data(self) -> JSON:
        """Return it as JSON for a page."""
        return {
            "p": self.position,
            "id": self.id,
            "q": self.query,
            "s": self.strip[:STRIP],
            "o": self.off[:STRIP],
            "n": len(self.strip),
            "v": self.scores,
            "d": self.deltas,
            "c": self.change or "",
            "b": None if self.before is None else self.before[:STRIP],
            "m": None if self.before is None else len(self.before),
            "t": self.tags,
            "f": self.failed,
            "x": self.disagreements,
        }


def agrees(label: int | None, outcome: Outcome, scale: Scale) -> bool | None:
    """Tell whether a human label and a verdict say the same of relevance; None where there are not both.

    A label below 0 says "unjudged", and no scale goes beyond 9.
    """
    if outcome.kind == "no_verdict" or label is None or not 0 <= label <= MOST_GRADE:
        return None
    return (label >= scale.relevant) == outcome.relevant


def reason_data(outcome: Outcome) -> JSON:
    """Return what stands where a page gives the reason: the judge's own words, or that there are none."""
    if outcome.kind == "verdict" and outcome.reason is None:
        return {"reason": None, "no_reason": outcome.explanation}
    return {"reason": outcome.explanation}


def row_of(result: TraceResult, scale: Scale) -> TraceRow:
    """Make the row of a trace."""
    query = " ".join(result.trace.query[: 4 * QUERY].split())
    ranks = list(zip(result.trace.chunks, result.outcomes, strict=True))
    return TraceRow(
        position=result.position,
        id=result.trace_id,
        query=query if len(query) <= QUERY else query[: QUERY - 1] + "…",
        strip="".join(sign(outcome) for _, outcome in ranks),
        off="".join("1" if agrees(c.label, outcome, scale) is False else "0" for c, outcome in ranks),
        scores=result.scores,
        tags=result.trace.tags,
        failed=result.failed,
        labelled="".join("0" if chunk.label is None else "1" for chunk, _ in ranks),
    )


def sort_rows(
    rows: list[TraceRow], by: str, metrics: Sequence[str], metric: str | None = None
) -> list[TraceRow]:
    """Sort rows; of equals the dataset's order stays.

    Args:
        rows: What to sort.
        by: `order` (the dataset's), `score` (lowest first), `-score` (highest first), `change` (largest
            loss first, a rise where less is better), `-change` (largest gain first), `failed` or `disagree`
            (most first). Rows without the value go last.
        metrics: The run's metrics.
        metric: Which one `score` and `change` mean; the first where None.
    """
    name = metric if metric is not None and metric in metrics else next(iter(metrics), "")
    sign = -1.0 if by.startswith("-") else 1.0
    if by.endswith("change") and less_is_better(name):
        sign = -sign
    if by in ("score", "-score", "change", "-change"):

        def place(row: TraceRow) -> tuple[bool, float]:
            value = row.scores.get(name) if by.endswith("score") else row.deltas.get(name)
            return (value is None, 0.0 if value is None else sign * value)

        return sorted(rows, key=place)
    most = {"failed": lambda row: -row.failed, "disagree": lambda row: -row.disagreements}
    return sorted(rows, key=most.get(by, lambda row: row.position))
