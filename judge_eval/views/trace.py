"""What people read of one judged trace: its scores, its claims, and every verdict with its evidence."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from judge_eval.quotes import marked
from judge_eval.runs.folder.judgedclaims import CLAIM_SIGNS, ClaimVerdict, Cover, JudgedClaim, judged_claims
from judge_eval.runs.folder.records import TraceResult
from judge_eval.safe_text import number, one_line, shortened
from judge_eval.schema import Chunk, ClaimSupport, Outcome, Scale
from judge_eval.views.blocks import Mark, Pieces, Sentence, Strip, Toned, View, ViewBlock, make_section, view_of
from judge_eval.views.claims import SAID_WORDS, claims_in_words, cover_sentence, cover_word, needed_first, vital_word
from judge_eval.views.run import outcome_tone, strip_of
from judge_eval.views.tones import Tone

_COVER_TONES: Final[dict[Cover, Tone]] = {
    "missing": "bad",
    "partly": "doubtful",
    "unknown": "doubtful",
    "covered": "good",
}
_SUPPORT_TONES: Final[dict[ClaimVerdict, Tone]] = {"full": "good", "contradicts": "doubtful", None: "bad"}


def word(outcome: Outcome, scale: Scale | None = None) -> str:
    """Name the grade (with its description if the scale has one), the probability of relevance and the stage."""
    if outcome.kind == "no_verdict":
        return f"no verdict ({outcome.why})"
    levels = {} if scale is None else dict(zip(scale.grades, scale.levels, strict=False))
    level = levels.get(outcome.grade)
    details = [f"{outcome.grade}: {one_line(level)}" if level else str(outcome.grade)]
    if outcome.confidence is not None:
        details.append(f"probability of relevance {outcome.confidence:.2f}")
    if outcome.stage is not None:
        details.append(f"{outcome.stage} judge")
    return f"{'relevant' if outcome.relevant else 'not relevant'} (grade {', '.join(details)})"


@view_of.register
def trace_view(result: TraceResult, scale: Scale | None = None) -> View:
    """Build what people read of a trace: every verdict, its reason, and the chunk with the quote marked."""
    ranks = enumerate(zip(result.trace.chunks, result.outcomes, strict=True), 1)
    chunks = (make_section("chunk", *_chunk(rank, *judged, result, scale)) for rank, judged in ranks)
    return View("trace", (make_section("trace", *_opening(result)), *chunks))


def _opening(result: TraceResult) -> Iterator[ViewBlock]:
    trace = result.trace
    yield Sentence(one_line(f"trace {result.trace_id}"), "strong")
    yield from (_named(turn.role, turn.content) for turn in trace.history)
    for name, text in (("query", trace.query), ("reference", trace.reference), ("answer", trace.answer)):
        if text:
            yield _named(name, text)
    yield _named("scores", _scores_line(result.scores))
    yield Pieces((f"{'ranks:':<11}", strip_of(trace.chunks, result.outcomes)))
    if (claims := judged_claims(result.claims, result.outcomes)) is not None:
        yield from _claims(claims)


def _named(name: str, text: str) -> Pieces:
    return Pieces((f"{name + ':':<11}{text}",))


def _scores_line(scores: Mapping[str, float | None]) -> str:
    return "  ".join(f"{one_line(name)} {number(value)}" for name, value in scores.items())


def _claims(claims: Sequence[JudgedClaim]) -> Iterator[ViewBlock]:
    """Draw the claims, a line each, with a sign a rank: what is missing stands first."""
    yield _named("claims", cover_sentence(claims))
    if claims:
        legend = ", ".join(f"{CLAIM_SIGNS[verdict]} {meaning}" for verdict, meaning in SAID_WORDS.items())
        yield Pieces((Toned(f"a sign a rank: {legend}", "quiet"),), 3)
    width = max((len(cover_word(claim)) for claim in claims), default=0)
    for claim in needed_first(claims):
        state = Toned(cover_word(claim).ljust(width), _COVER_TONES[claim.cover])
        kind, text = f"  {vital_word(claim.claim.vital):<5}  ", f"  {one_line(claim.claim.text)}"
        yield Pieces((state, kind, _supports(claim), text), 3)


def _supports(claim: JudgedClaim) -> Strip:
    marks = []
    for rank, (verdict, support) in enumerate(zip(claim.verdicts, claim.supports, strict=True), 1):
        quote = f": {support.quote}" if isinstance(support, ClaimSupport) and support.quote else ""
        title = f"rank {rank} {SAID_WORDS[verdict]}{quote}"
        marks.append(Mark(CLAIM_SIGNS[verdict], _SUPPORT_TONES.get(verdict, "plain"), title))
    return Strip(tuple(marks))


def _chunk(rank: int, chunk: Chunk, outcome: Outcome, result: TraceResult, scale: Scale | None) -> Iterator[ViewBlock]:
    verdict = f"NO VERDICT ({outcome.why})" if outcome.kind == "no_verdict" else word(outcome, scale)
    label = "" if chunk.label is None else f", human label {chunk.label}"
    state = Toned(verdict, outcome_tone(outcome))
    yield Pieces((f"{rank}. [{outcome.sign}] ", state, one_line(f"  {chunk.id}{label}")))
    title = (f"{one_line(chunk.title)}: ",) if chunk.title else ()
    lines = _lines(chunk.text, outcome.quote)
    yield Pieces((*title, *lines[0].pieces), 3)
    yield from lines[1:]
    if reason := outcome.explanation:
        name = "" if outcome.kind == "verdict" and outcome.reason is None else "reason: "
        yield Pieces((f"{name}{one_line(reason)}",), 3)
    yield from (Pieces((Toned(note, "doubtful"),), 3) for note in outcome_notes(outcome))
    yield from _chunk_claims(outcome, result)


def _lines(text: str, quote: str) -> list[Pieces]:
    """Return a chunk's text with the quote marked: as one line, or line by line if lines are set in, as in code."""
    is_code = re.search(r"\n[ \t]+\S", text) is not None
    parts = marked(text.strip().expandtabs(4) if is_code else " ".join(text.split()), quote)
    lines: list[list[Toned | Strip | str]] = [[]]
    for place, part in enumerate(parts):  # every second part is evidence
        for after, piece in enumerate(part.split("\n")):
            if after:
                lines.append([])
            if piece:
                lines[-1].append(Toned(piece, "evidence") if place % 2 else piece)
    made = []
    for line in lines:
        first = line[0] if line and isinstance(line[0], str) else ""
        indent = len(first) - len(first.lstrip())
        made.append(Pieces((first[indent:], *line[1:]) if first else tuple(line), 3 + indent if line else 0))
    return made


def outcome_notes(outcome: Outcome) -> Iterator[str]:
    """Yield what makes a verdict doubtful: no quote behind a relevant one, an instruction to the judge."""
    if outcome.kind == "verdict" and outcome.relevant and outcome.evidence and not outcome.evidence_found:
        yield f"quote not found in the chunk, or too short: {outcome.evidence!r}"
    if outcome.kind == "verdict" and outcome.instruction_in_chunk:
        yield "the judge saw an instruction in this chunk"


def _chunk_claims(outcome: Outcome, result: TraceResult) -> Iterator[Pieces]:
    if result.claims is None or outcome.kind == "no_verdict":
        return
    texts = {claim.id: claim.text for claim in result.claims.claims}
    for support in outcome.supports or ():
        text = one_line(texts.get(support.claim, support.claim)).rstrip(".")
        quote = f": {one_line(support.quote)!r}" if support.quote else ""
        pieces: list[Toned | str] = [f"[{CLAIM_SIGNS[support.support]}] {text}{quote}"]
        if support.quote and support.quote_found is False:
            pieces.append(Toned(" (not found in the chunk, or too short)", "doubtful"))
        yield Pieces(tuple(pieces), 3)


def verdicts_in_words(result: TraceResult) -> str:
    """Write a trace's outcomes as text: a line a chunk with grade and reason, then the claims not covered."""
    ranks = enumerate(result.outcomes, 1)
    lines = [f"{rank}. {o.chunk_id}: {word(o)} {o.explanation}".rstrip() for rank, o in ranks]
    lines = lines or ["nothing was retrieved"]
    if (claims := judged_claims(result.claims, result.outcomes)) is not None:
        lines += claims_in_words(claims)
    return "\n".join(lines)


def failures_in_words(result: TraceResult) -> str:
    """Say how many verdicts of a trace failed, and of what."""
    whys = Counter(o.why for o in result.outcomes if o.kind == "no_verdict")
    reasons = ", ".join(f"{why} {count}" for why, count in whys.items())
    return f"{result.failed} of {len(result.outcomes)} verdicts failed ({reasons})"


def brief_lines(result: TraceResult) -> Iterator[str]:
    """Write a trace in short lines: strip and scores, its question, a verdict and a text for each rank."""
    signs = strip_of(result.trace.chunks, result.outcomes)
    yield f"trace {one_line(result.trace_id)}  {signs}  {_scores_line(result.scores)}"
    yield from (f"  {turn.role}: {_brief(turn.content)}" for turn in result.trace.history)
    yield f"  query: {_brief(result.trace.query)}"
    if result.trace.reference:
        yield f"  reference: {_brief(result.trace.reference)}"
    for rank, (chunk, outcome) in enumerate(zip(result.trace.chunks, result.outcomes, strict=True), 1):
        reason = outcome.explanation
        verdict = f"{word(outcome)}: {_brief(reason)}" if reason else word(outcome)
        yield f"  {rank:>3} {outcome.sign} {one_line(chunk.id)}  {verdict}"
        yield f"        {_brief(chunk.text)}"


def _brief(text: str) -> str:
    return shortened(one_line(" ".join(text.split())), 90)
