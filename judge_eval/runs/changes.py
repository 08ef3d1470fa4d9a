"""What changed in a trace between two runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from judge_eval.runs.comparison import Change, Flip, TraceChange
from judge_eval.runs.pairing import Row


def changes(
    pairs: Sequence[tuple[Row, Row]], metrics: Sequence[str], candidate: int, keep: int
) -> tuple[dict[Change, int], list[TraceChange]]:
    """Classify every changed trace.

    Args:
        pairs: The same traces, baseline first.
        metrics: The names of `Row.scores`.
        candidate: The candidate's place among the runs.
        keep: How many changes to return, those that moved most first.

    Returns:
        How many traces changed in which way, and the changes.
    """
    found = []
    for before, after in pairs:
        kind = kind_of(before, after)
        if kind is not None:
            moved = max((abs(d) for d in _moves(before, after, metrics).values()), default=0.0)
            found.append((moved, kind, before, after))
    counts: Counter[Change] = Counter(kind for _, kind, _, _ in found)
    found.sort(key=lambda entry: -entry[0])
    return dict(counts), [
        _change(kind, before, after, metrics, candidate) for _, kind, before, after in found[:keep]
    ]


def kind_of(before: Row, after: Row) -> Change | None:
    """Say what changed; None where nothing did."""
    retrieval = before.passages != after.passages
    verdicts = bool(flips(before, after))
    if retrieval:
        return "both" if verdicts else "retrieval"
    if verdicts:
        return "verdicts"
    return None if before.scores == after.scores else "scores"


def flips(before: Row, after: Row) -> list[Flip]:
    """List the chunks of both that got another grade; the same chunk is the same title and text."""
    graded = dict(zip(before.passages, before.grades, strict=True))
    out, seen = [], set()
    for passage, chunk_id, grade in zip(after.passages, after.chunk_ids, after.grades, strict=True):
        if passage in graded and passage not in seen and graded[passage] != grade:
            out.append(Flip(chunk_id=chunk_id, before=graded[passage], after=grade))
        seen.add(passage)
    return out


def _change(kind: Change, before: Row, after: Row, metrics: Sequence[str], candidate: int) -> TraceChange:
    ranks: dict[bytes, int] = {}
    for rank, passage in enumerate(before.passages, 1):
        ranks.setdefault(passage, rank)
    return TraceChange(
        candidate=candidate,
        trace_id=before.trace_id,
        query=before.query,
        kind=kind,
        before=before.strip,
        after=after.strip,
        moves=tuple(str(ranks.get(passage, "")) for passage in after.passages),
        flips=tuple(flips(before, after)),
        differences=_moves(before, after, metrics),
    )


def _moves(before: Row, after: Row, metrics: Sequence[str]) -> dict[str, float]:
    return {
        name: b - a
        for name, a, b in zip(metrics, before.scores, after.scores, strict=True)
        if a is not None and b is not None
    }
