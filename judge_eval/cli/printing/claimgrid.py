"""The claims of a trace on the terminal: what each rank says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from judge_eval.cli.printing.door import BAD, DOUBTFUL, GOOD
from judge_eval.runs.folder.judgedclaims import (
    SAID_SIGNS,
    SAID_WORDS,
    Cover,
    cover_sentence,
    judged_claims,
    needed_first,
    vital_word,
)
from judge_eval.shown import one_line

if TYPE_CHECKING:
    from judge_eval.runs.folder.records import TraceResult

_STYLES: dict[Cover, str] = {"missing": BAD, "partly": DOUBTFUL, "unknown": DOUBTFUL, "covered": GOOD}


def claim_grid(result: TraceResult) -> list[Text]:
    """Draw the claims of a trace, a line each, with a sign a rank: what is missing stands first.

    Returns:
        Lines without a line's end; none where the trace was not judged by claims.
    """
    claims = judged_claims(result.claims, result.outcomes)
    if claims is None:
        return []
    lines = [Text(f"{'claims:':<11}{cover_sentence(claims)}")]
    if not claims:
        return lines
    first, width = needed_first(claims), max(len(one.word) for one in claims)
    legend = ", ".join(f"{SAID_SIGNS[said]} {word}" for said, word in SAID_WORDS.items())
    lines.append(Text(f"   a sign a rank: {legend}", style="dim"))
    for one in first:
        line = Text("   ").append(one.word.ljust(width), style=_STYLES[one.cover])
        line.append(f"  {vital_word(one.claim.vital):<5}  {one.signs or '(nothing retrieved)'}  ")
        lines.append(line.append(one_line(one.claim.text)))
    return lines


def claim_lines(result: TraceResult, rank: int) -> list[Text]:
    """Write what the chunk at a rank, from 1, says of the claims, with its quotes, a line each."""
    outcome = result.outcomes[rank - 1]
    if result.claims is None or outcome.kind == "no_verdict":
        return []
    texts = {claim.id: claim.text for claim in result.claims.claims}
    lines = []
    for one in outcome.supports or ():
        line = Text(f"   [{SAID_SIGNS[one.support]}] {one_line(texts.get(one.claim, one.claim)).rstrip('.')}")
        if one.quote:
            line.append(f": {one_line(one.quote)!r}")
        if one.quote and one.quote_found is False:
            line.append(" (not found in the chunk, or too short)", style=DOUBTFUL)
        lines.append(line)
    return lines
