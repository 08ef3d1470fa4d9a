"""Runs and results as small HTML fragments, for notebooks."""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING

from judge_eval.runs.folder.describing import cascaded, describe, doubts, failures
from judge_eval.runs.folder.fragment import strip_html
from judge_eval.runs.folder.judgedclaims import vital_word
from judge_eval.runs.folder.wording import interval, number

if TYPE_CHECKING:
    from judge_eval.runs.folder.run import Run

MISSED = 5
"""How many missed claims the fragment lists."""
SHOWN = 20
"""How many traces the fragment lists."""


def run_html(run: Run) -> str:
    """Write a run: its metrics, what failed, and the first traces with their rank strips.

    All text is escaped; the fragment runs nothing and loads nothing.
    """
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{number(a.mean)}</td><td>{interval(a.interval)}</td>"
        f"<td>{a.n}</td><td>{a.n_failed}</td></tr>"
        for name, a in run.aggregates.items()
    )
    head = "<tr><th>metric</th><th>mean</th><th>95% interval</th><th>n</th><th>failed</th></tr>"
    parts = [f"<p><b>{escape(run.name)}</b> {escape(describe(run.manifest))}</p>"]
    parts.append(f"<table>{head}{rows}</table>")
    if run.manifest.tally.failed_verdicts:
        parts.append(f"<p><b>{escape(failures(run.manifest.tally))}</b></p>")
    parts += [f"<p>{escape(told)}</p>" for told in (*doubts(run.manifest.tally), *cascaded(run.manifest))]
    parts += _missed(run)
    parts.append(_traces(run))
    return "<div>" + "".join(parts) + "</div>"


def _missed(run: Run) -> list[str]:
    """Say what is covered of the claims, and which are missed most."""
    from judge_eval.runs.scoring.missedclaims import missed_claims

    told = missed_claims(run.results)
    if told is None:
        return []
    items = [
        f"<li>{escape(one.text)} ({vital_word(one.vital)}): {one.told}; {escape(one.query)}</li>"
        for one in told.missed[:MISSED]
    ]
    listed = f"<p>Missed most:</p><ul>{''.join(items)}</ul>" if items else ""
    return [f"<p>{told.sentence}</p>{listed}"]


def _traces(run: Run) -> str:
    metrics = run.manifest.metrics[:3]
    head = "".join(f"<th>{escape(name)}</th>" for name in metrics)
    rows = []
    for result in islice(run.results, SHOWN):
        scores = "".join(f"<td>{number(result.scores.get(name))}</td>" for name in metrics)
        query = result.trace.query if len(result.trace.query) <= 80 else result.trace.query[:77] + "..."
        strip = strip_html(result.trace, result.outcomes)
        rows.append(
            f"<tr><td>{escape(result.trace_id)}</td><td>{strip}</td>{scores}"
            f"<td style='text-align:left'>{escape(query)}</td></tr>"
        )
    more = run.manifest.tally.traces - len(rows)
    tail = f"<p>... and {more} more traces in <code>run.results</code></p>" if more > 0 else ""
    return f"<table><tr><th>trace</th><th>ranks</th>{head}<th>query</th></tr>{''.join(rows)}</table>{tail}"
