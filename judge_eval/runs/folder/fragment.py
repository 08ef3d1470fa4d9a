"""A judged trace as a small HTML fragment, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from judge_eval.quotes import marked
from judge_eval.runs.folder.judgedclaims import (
    SAID_SIGNS,
    SAID_WORDS,
    JudgedClaim,
    Said,
    cover_sentence,
    judged_claims,
    needed_first,
    vital_word,
)
from judge_eval.runs.folder.signs import sign
from judge_eval.runs.folder.wording import number, word
from judge_eval.schema import ClaimsJudged, ClaimSupport, Outcome, Trace

_SQUARE = "display:inline-block;width:1.1em;text-align:center;border:1px solid #888;margin-right:1px;"


def strip_html(trace: Trace, outcomes: Sequence[Outcome]) -> str:
    """Draw a square a rank: `+` relevant, a dot not, a digit where graded, `!` failed; hover for more."""
    squares = []
    for rank, (chunk, outcome) in enumerate(zip(trace.chunks, outcomes, strict=True), 1):
        if outcome.kind == "no_verdict":
            said = f"no verdict: {outcome.why}"
            colour = "repeating-linear-gradient(45deg,#fff,#fff 2px,#c66 4px)"
        else:
            said = ("relevant" if outcome.relevant else "not relevant") + f": {outcome.explanation}"
            colour = "#9bd39b" if outcome.relevant else "#f4f4f4"
        title = escape(f"{rank}. {chunk.id}: {said}", quote=True)
        squares.append(
            f"<span style='{_SQUARE}background:{colour};color:#111' title=\"{title}\">{sign(outcome)}</span>"
        )
    return "".join(squares) or "(nothing retrieved)"


def trace_html(
    trace: Trace,
    outcomes: Sequence[Outcome],
    scores: Mapping[str, float | None],
    claims: ClaimsJudged | None = None,
) -> str:
    """Write one trace: question, scores, rank strip, claims, and every chunk with its verdict, quotes marked.

    All text is escaped; the fragment runs nothing and loads nothing.
    """
    said = (("query", trace.query), ("reference", trace.reference), ("answer", trace.answer))
    texts = "".join(f"<br>{name}: {escape(text)}" for name, text in said if text)
    values = ", ".join(f"{escape(name)} {number(value)}" for name, value in scores.items())
    parts = [f"<p><b>trace {escape(trace.id)}</b>{texts}<br>{values}</p><p>{strip_html(trace, outcomes)}</p>"]
    if (found := judged_claims(claims, outcomes)) is not None:
        parts.append(_claims_html(found))
    rows = []
    for rank, (chunk, outcome) in enumerate(zip(trace.chunks, outcomes, strict=True), 1):
        title = f"<i>{escape(chunk.title)}</i> " if chunk.title else ""
        rows.append(
            f"<tr><td>{rank}</td><td>{escape(chunk.id)}</td><td>{escape(word(outcome))}</td>"
            f"<td style='text-align:left'>{escape(outcome.explanation)}</td>"
            f"<td style='text-align:left'>{title}{_marked(chunk.text, outcome.quote)}</td></tr>"
        )
    head = "<tr><th>rank</th><th>chunk</th><th>verdict</th><th>reason</th><th>text</th></tr>"
    parts.append(f"<table>{head}{''.join(rows)}</table>" if rows else "")
    return "<div>" + "".join(parts) + "</div>"


def _claims_html(claims: Sequence[JudgedClaim]) -> str:
    """Draw a row a claim with a square a rank, what is missing first; hover for what is said."""
    colours: dict[Said, str] = {
        "full": "#9bd39b",
        "partial": "#d3e6e2",
        "contradicts": "#f0b35a",
        None: "#eaa",
    }
    rows = []
    for one in needed_first(claims):
        squares = []
        for rank, (said, told) in enumerate(zip(one.said, one.supports, strict=True), 1):
            quote = f": {told.quote}" if isinstance(told, ClaimSupport) and told.quote else ""
            title = escape(f"rank {rank} {SAID_WORDS[said]}{quote}", quote=True)
            style = f"{_SQUARE}background:{colours.get(said, '#f4f4f4')};color:#111"
            squares.append(f"<span style='{style}' title=\"{title}\">{SAID_SIGNS[said]}</span>")
        rows.append(
            f"<tr><td>{one.word}</td><td>{vital_word(one.claim.vital)}</td><td>{''.join(squares)}</td>"
            f"<td style='text-align:left'>{escape(one.claim.text)}</td></tr>"
        )
    head = "<tr><th></th><th></th><th>ranks</th><th>claim</th></tr>"
    table = f"<table>{head}{''.join(rows)}</table>" if rows else ""
    return f"<p>{cover_sentence(claims)}</p>{table}"


def _marked(text: str, quote: str) -> str:
    pieces = marked(" ".join(text.split()), quote)
    return "".join(f"<mark>{escape(p)}</mark>" if place % 2 else escape(p) for place, p in enumerate(pieces))
