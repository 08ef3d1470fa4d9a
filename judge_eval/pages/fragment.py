"""Runs and results as small HTML fragments, for notebooks."""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING

from judge_eval.export.text import describe, failures, interval, number
from judge_eval.runs.folder.signs import word

if TYPE_CHECKING:
    from judge_eval.runs.folder.records import TraceResult
    from judge_eval.runs.folder.run import EvalRun

SHOWN = 20
"""How many traces the fragment lists."""

_SQUARE = "display:inline-block;width:1.1em;text-align:center;border:1px solid #888;margin-right:1px;"


def run_html(run: EvalRun) -> str:
    """Write a run: its metrics, what failed, and the first traces with their rank strips.

    All text is escaped; the fragment runs nothing and loads nothing.
    """
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{number(a.mean)}</td><td>{interval(a.interval)}</td>"
        f"<td>{a.n}</td><td>{a.n_failed}</td></tr>"
        for name, a in run.aggregates.items()
    )
    head = "<tr><th>metric</th><th>mean</th><th>95% interval</th><th>n</th><th>failed</th></tr>"
    parts = [f"<p><b>{escape(run.label or run.id[:8])}</b> {escape(describe(run))}</p>"]
    parts.append(f"<table>{head}{rows}</table>")
    if run.manifest.tally.failed_verdicts:
        parts.append(f"<p><b>{escape(failures(run))}</b></p>")
    parts.append(_traces(run))
    return "<div>" + "".join(parts) + "</div>"


def _traces(run: EvalRun) -> str:
    metrics = run.manifest.metrics[:3]
    head = "".join(f"<th>{escape(name)}</th>" for name in metrics)
    rows = []
    for result in islice(run.results, SHOWN):
        scores = "".join(f"<td>{number(result.scores.get(name))}</td>" for name in metrics)
        query = result.trace.query if len(result.trace.query) <= 80 else result.trace.query[:77] + "..."
        rows.append(
            f"<tr><td>{escape(result.trace_id)}</td><td>{strip_html(result)}</td>{scores}"
            f"<td style='text-align:left'>{escape(query)}</td></tr>"
        )
    more = run.manifest.tally.traces - len(rows)
    tail = f"<p>... and {more} more traces in <code>run.results</code></p>" if more > 0 else ""
    return f"<table><tr><th>trace</th><th>ranks</th>{head}<th>query</th></tr>{''.join(rows)}</table>{tail}"


def strip_html(result: TraceResult) -> str:
    """Draw a square a rank: `+` relevant, a dot not, a digit where graded, `!` failed; hover for more."""
    squares = []
    for rank, (chunk, outcome) in enumerate(zip(result.trace.chunks, result.outcomes, strict=True), 1):
        if outcome.kind == "no_verdict":
            mark, told, colour = (
                "!",
                f"no verdict: {outcome.why}",
                "repeating-linear-gradient(45deg,#fff,#fff 2px,#c66 4px)",
            )
        else:
            mark = str(outcome.grade) if outcome.grade > 1 else "+" if outcome.relevant else "·"
            told = ("relevant" if outcome.relevant else "not relevant") + f": {outcome.reason}"
            colour = "#9bd39b" if outcome.relevant else "#f4f4f4"
        title = escape(f"{rank}. {chunk.id}: {told}", quote=True)
        squares.append(
            f"<span style='{_SQUARE}background:{colour};color:#111' title=\"{title}\">{mark}</span>"
        )
    return "".join(squares) or "(nothing retrieved)"


def result_html(result: TraceResult) -> str:
    """Write one trace: question, scores, rank strip, and every chunk with its verdict, the quote marked.

    All text is escaped; the fragment runs nothing and loads nothing.
    """
    trace = result.trace
    said = (("query", trace.query), ("reference", trace.reference), ("answer", trace.answer))
    told = "".join(f"<br>{name}: {escape(text)}" for name, text in said if text)
    scores = ", ".join(f"{escape(name)} {number(value)}" for name, value in result.scores.items())
    parts = [f"<p><b>trace {escape(result.trace_id)}</b>{told}<br>{scores}</p><p>{strip_html(result)}</p>"]
    rows = []
    for rank, (chunk, outcome) in enumerate(zip(trace.chunks, result.outcomes, strict=True), 1):
        reason = outcome.reason if outcome.kind == "verdict" else outcome.detail
        quote = outcome.evidence if outcome.kind == "verdict" else ""
        title = f"<i>{escape(chunk.title)}</i> " if chunk.title else ""
        rows.append(
            f"<tr><td>{rank}</td><td>{escape(chunk.id)}</td><td>{escape(word(outcome))}</td>"
            f"<td style='text-align:left'>{escape(reason)}</td>"
            f"<td style='text-align:left'>{title}{_marked(chunk.text, quote)}</td></tr>"
        )
    head = "<tr><th>rank</th><th>chunk</th><th>verdict</th><th>reason</th><th>text</th></tr>"
    parts.append(f"<table>{head}{''.join(rows)}</table>" if rows else "")
    return "<div>" + "".join(parts) + "</div>"


def _marked(text: str, quote: str) -> str:
    text, quote = " ".join(text.split()), " ".join(quote.split())
    start = text.find(quote) if quote else -1
    if start < 0:
        return escape(text)
    end = start + len(quote)
    return f"{escape(text[:start])}<mark>{escape(quote)}</mark>{escape(text[end:])}"
