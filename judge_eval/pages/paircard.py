"""A changed trace of two runs in full, as the JSON that a page shows."""

from __future__ import annotations

from collections.abc import Sequence

from judge_eval.comparison.changes import change_of
from judge_eval.comparison.movedclaims import claim_changes
from judge_eval.pages.claimgrid import changed_claims
from judge_eval.pages.rows import JSON, TraceRow, agrees, reason_data
from judge_eval.quotes import marked
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.signs import sign
from judge_eval.schema import Chunk, Outcome, Scale

SNIPPET = 240
"""Characters of a chunk's text that a card shows."""
_LEAD = 60
"""Characters of a snippet that may stand before its quote."""


def changed_trace(
    row: TraceRow, old: TraceResult, new: TraceResult, metrics: Sequence[str], scales: tuple[Scale, Scale]
) -> JSON:
    """Return a changed trace: both lists of chunks with their verdicts, and what moved or flipped.

    `moves` holds a chunk each, those of the candidate first; `notable` the places in it of those that
    moved, flipped, came or went, the ones that tell most first. These carry a snippet of their text.
    """
    change = change_of(row.change, old, new, metrics)
    flipped = {flip.chunk_id for flip in change.flips}
    before = [int(rank) if rank else None for rank in change.moves]
    moves = [
        _move(
            chunk,
            (was, old.outcomes[was - 1] if was else None),
            (rank, outcome),
            flipped=was is not None and outcome.chunk_id in flipped,
        )
        for rank, (was, chunk, outcome) in enumerate(
            zip(before, new.trace.chunks, new.outcomes, strict=True), 1
        )
    ]
    stayed = set(before)
    moves += [
        _move(chunk, (rank, outcome), (None, None), flipped=False)
        for rank, (chunk, outcome) in enumerate(zip(old.trace.chunks, old.outcomes, strict=True), 1)
        if rank not in stayed
    ]
    notable = [place for place, move in enumerate(moves) if move["flipped"] or move["a"] != move["b"]]
    return {
        "id": row.id,
        "q": row.query,
        "change": change.kind,
        "d": change.differences,
        "a": {"id": old.trace_id, "strip": _signs(old, scales[0]), "scores": old.scores},
        "b": {"id": new.trace_id, "strip": _signs(new, scales[1]), "scores": new.scores},
        "ties": [[move["a"], move["b"]] for move in moves if move["a"] and move["b"]],
        "claims": changed_claims(claim_changes(old, new)),
        "moves": moves,
        "notable": sorted(notable, key=lambda place: _weight(moves[place])),
    }


def _move(
    chunk: Chunk,
    was: tuple[int | None, Outcome | None],
    now: tuple[int | None, Outcome | None],
    *,
    flipped: bool,
) -> JSON:
    move: JSON = {
        "id": chunk.id,
        "a": was[0],
        "b": now[0],
        "was": was[1] and _said(was[1]),
        "now": now[1] and _said(now[1]),
        "flipped": flipped,
    }
    if flipped or was[0] != now[0]:
        said = now[1] or was[1]
        quote = said.quote if said is not None else ""
        move |= {"title": chunk.title, "text": snippet(chunk.text, quote)}
    return move


def _weight(move: JSON) -> tuple[int, int]:
    """Order chunks by how much they tell: flipped, relevant, come or gone, moved; then the upper ones."""
    relevant = any(said and said.get("relevant") for said in (move["was"], move["now"]))
    alone = move["a"] is None or move["b"] is None
    kind = 0 if move["flipped"] else 1 if relevant else 2 if alone else 3
    return kind, min(rank for rank in (move["a"], move["b"]) if rank is not None)


def snippet(text: str, quote: str) -> list[str]:
    """Return the part of a text that a card shows, around its quote: pieces, every second of them quoted."""
    whole = marked(text, quote) if quote else [text]
    if len(whole) > 1 and len(whole[0]) > _LEAD:
        whole = ["…" + whole[0][-_LEAD:], *whole[1:]]
    pieces, left = list[str](), SNIPPET
    for piece in whole:
        if left <= 0:
            break
        pieces.append(piece[:left])
        left -= len(piece)
    if sum(map(len, whole)) <= SNIPPET:
        return pieces
    return [*pieces[:-1], pieces[-1] + "…"] if len(pieces) % 2 else [*pieces, "…"]


def _said(outcome: Outcome) -> JSON:
    if outcome.kind == "no_verdict":
        return {"sign": sign(outcome), "why": outcome.why, "reason": outcome.detail}
    return {
        "sign": sign(outcome),
        "relevant": outcome.relevant,
        "stage": outcome.stage,
        **reason_data(outcome),
    }


def _signs(result: TraceResult, scale: Scale) -> list[JSON]:
    return [
        {"id": chunk.id, "s": sign(outcome), "o": agrees(chunk.label, outcome, scale) is False}
        for chunk, outcome in zip(result.trace.chunks, result.outcomes, strict=True)
    ]
