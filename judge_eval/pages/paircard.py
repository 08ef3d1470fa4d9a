"""A changed trace of two runs in full, as the JSON that a page shows."""

from __future__ import annotations

from collections.abc import Sequence

from judge_eval.comparison.changes import change_of
from judge_eval.pages.rows import JSON, TraceRow, agrees
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.signs import sign
from judge_eval.schema import Outcome, Scale


def changed_trace(
    row: TraceRow, old: TraceResult, new: TraceResult, metrics: Sequence[str], scales: tuple[Scale, Scale]
) -> JSON:
    """Return a changed trace: both lists of chunks with their verdicts, and what flipped."""
    change = change_of(row.change, old, new, metrics)
    flipped = {flip.chunk_id for flip in change.flips}
    before = [int(rank) if rank else None for rank in change.moves]
    moves: list[JSON] = [
        {
            "id": outcome.chunk_id,
            "a": was,
            "b": rank,
            "was": _said(old.outcomes[was - 1]) if was else None,
            "now": _said(outcome),
            "flipped": outcome.chunk_id in flipped,
        }
        for rank, (was, outcome) in enumerate(zip(before, new.outcomes, strict=True), 1)
    ]
    moves += [
        {"id": outcome.chunk_id, "a": rank, "b": None, "was": _said(outcome)}
        for rank, outcome in enumerate(old.outcomes, 1)
        if rank not in before
    ]
    return {
        "id": row.id,
        "q": row.query,
        "change": change.kind,
        "d": change.differences,
        "a": {"id": old.trace_id, "strip": _signs(old, scales[0]), "scores": old.scores},
        "b": {"id": new.trace_id, "strip": _signs(new, scales[1]), "scores": new.scores},
        "ties": [[move["a"], move["b"]] for move in moves if move["a"] and move["b"]],
        "moves": moves,
    }


def _said(outcome: Outcome) -> JSON:
    if outcome.kind == "no_verdict":
        return {"sign": sign(outcome), "why": outcome.why, "reason": outcome.detail}
    return {"sign": sign(outcome), "relevant": outcome.relevant, "reason": outcome.reason}


def _signs(result: TraceResult, scale: Scale) -> list[JSON]:
    return [
        {"id": chunk.id, "s": sign(outcome), "o": agrees(chunk.label, outcome, scale) is False}
        for chunk, outcome in zip(result.trace.chunks, result.outcomes, strict=True)
    ]
