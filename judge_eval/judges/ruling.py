"""From what a chunk says of each claim to its verdict, by a rule that is stated and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from judge_eval.judges.claim_replies import RowReading
from judge_eval.judges.parsing import evidence_found, fault_of
from judge_eval.schema import Claim, ClaimSupport, EvidencePolicy, NoVerdict, Outcome, Scale, Support, Verdict
from judge_eval.wire import Passage

COUNTED = "Counted: "
"""What the reasons of such verdicts begin with: they are made from the claims, not written by the judge."""
NO_CLAIMS = "the reference makes no claim that a chunk could support"
"""Why no chunk of a trace without claims has a verdict."""
_NAMED = 3
_LENGTH = 60


class RuledRow(NamedTuple):
    """What a row of the matrix comes to."""

    supports: tuple[ClaimSupport, ...]
    grade: int
    reason: str
    evidence: str | None
    evidence_found: bool | None


def checked_supports(
    row: RowReading, claims: Sequence[Claim], passage: Passage, *, quotes: bool
) -> tuple[ClaimSupport, ...]:
    """Return a row as it is kept, every quote looked for in the chunk.

    Args:
        row: What was read; its numbers are places in `claims`, from 1.
        claims: The claims of the trace.
        passage: The chunk.
        quotes: Whether the judge quotes at all.
    """
    return tuple(
        ClaimSupport(
            claim=claims[cell.number - 1].id,
            support=cell.support,
            quote=cell.quote,
            quote_found=evidence_found(cell.quote, passage) if quotes else None,
        )
        for cell in row.cells
    )


def grade_of_supports(supports: Sequence[ClaimSupport], claims: Sequence[Claim], scale: Scale) -> int:
    """Return the grade that follows from a row.

    On a binary scale 1 where the chunk supports at least one claim, fully or partly, else 0. On a graded
    one 3 where it supports every vital claim fully (every claim, where none is vital), else 2 where it
    supports at least one, fully or partly, else 1 where it contradicts one, else 0.

    Args:
        supports: The row.
        claims: The claims of the trace, at least one.
        scale: Binary, or graded 0 to 3.
    """
    kinds = {one.claim: one.support for one in supports}
    some = any(kind != "contradicts" for kind in kinds.values())
    if scale.maximum == 1:
        return int(some)
    needed = [claim.id for claim in claims if claim.vital] or [claim.id for claim in claims]
    if all(kinds.get(claim) == "full" for claim in needed):
        return 3
    return 2 if some else int(bool(kinds))


def ruled(
    supports: tuple[ClaimSupport, ...], claims: Sequence[Claim], scale: Scale, *, quotes: bool
) -> RuledRow:
    """Return grade, reason and evidence of a row.

    The evidence is the first quote for a claim that was found in the chunk, else the first that was given;
    of a chunk that supports nothing, what contradicts.
    """
    by_weight = sorted(supports, key=lambda one: (one.support == "contradicts", not one.quote_found))
    evidence = next((one for one in by_weight if one.quote.strip()), None)
    return RuledRow(
        supports,
        grade_of_supports(supports, claims, scale),
        reason_of_supports(supports, claims),
        (evidence.quote if evidence else "") if quotes else None,
        evidence.quote_found if evidence else None,
    )


def reason_of_supports(supports: Sequence[ClaimSupport], claims: Sequence[Claim]) -> str:
    """Say a row in words."""
    texts = {claim.id: claim.text for claim in claims}

    def told(kind: Support) -> str:
        named = [texts[one.claim] for one in supports if one.support == kind]
        shown = ", ".join(f'"{_cut(text)}"' for text in named[:_NAMED])
        return shown + (f" and {len(named) - _NAMED} more" if len(named) > _NAMED else "")

    count = sum(one.support != "contradicts" for one in supports)
    of = f"{len(claims)} claim{'s' if len(claims) != 1 else ''}"
    parts = [f"supports {count or 'none'} of {of}"]
    if full := told("full"):
        parts.append(f"states {full}")
    if partial := told("partial"):
        parts.append(f"in part {partial}")
    if denied := told("contradicts"):
        parts.append(f"contradicts {denied}")
    return COUNTED + "; ".join(parts) + "."


def outcome_of_row(
    chunk_id: str, row: RuledRow, scale: Scale, passage: Passage, policy: EvidencePolicy, *, steered: bool
) -> Outcome:
    """Return the verdict of a row; where evidence is required and one claim lacks it, why there is none."""
    for one in row.supports:
        if policy == "required" and one.support != "contradicts" and not one.quote_found:
            detail = f"supports claim {one.claim}, but {fault_of(one.quote, passage)}"
            return NoVerdict(chunk_id=chunk_id, why="unsupported", detail=detail)
    return Verdict(
        chunk_id=chunk_id,
        grade=row.grade,
        relevant=row.grade >= scale.relevant,
        reason=row.reason,
        evidence=row.evidence,
        evidence_found=row.evidence_found,
        instruction_in_chunk=steered,
        supports=row.supports,
    )


def _cut(text: str) -> str:
    text = text.rstrip(".。")
    return text if len(text) <= _LENGTH else text[: _LENGTH - 3].rstrip() + "..."
