"""A changed trace of two runs in full, as the JSON that a page shows."""

from __future__ import annotations

from typing import Any, TypeAlias

from judge_eval.comparison.changes import numbered
from judge_eval.pages.rows import Row, disagrees
from judge_eval.runs.folder.records import TraceResult
from judge_eval.schema import NoVerdict, Scale, Verdict

JSON: TypeAlias = dict[str, Any]


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


def _keys(result: TraceResult) -> list[tuple[tuple[str | None, str], int]]:
    """Tell chunks apart by what they say: title, text, and which time in this trace."""
    return numbered([(chunk.title, chunk.text) for chunk in result.trace.chunks])


def _said(outcome: Verdict | NoVerdict) -> JSON:
    if outcome.kind == "no_verdict":
        return {"sign": "!", "why": outcome.why, "reason": outcome.detail}
    return {"sign": str(outcome.grade), "relevant": outcome.relevant, "reason": outcome.reason}


def _signs(result: TraceResult, scale: Scale) -> list[JSON]:
    signs = []
    for chunk, outcome in zip(result.trace.chunks, result.outcomes, strict=True):
        verdict = outcome.kind == "verdict"
        differs = outcome.kind == "verdict" and disagrees(chunk.label, outcome.relevant, scale)
        sign = str(outcome.grade) if outcome.kind == "verdict" else "!"
        signs.append({"id": chunk.id, "s": sign, "r": verdict and sign >= str(scale.relevant), "o": differs})
    return signs
