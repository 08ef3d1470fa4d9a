"""A comparison as a small HTML fragment, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from judge_eval.comparison.findings import Difference, RunRef, TraceChange

SHOWN = 20
"""How many changed traces the fragment lists."""

_SQUARE = (
    "display:inline-block;width:1.1em;text-align:center;border:1px solid #888;margin-right:1px;color:#111;"
)


def comparison_html(
    runs: Sequence[RunRef],
    warnings: Sequence[str],
    notes: Sequence[str],
    differences: Sequence[Difference],
    traces: Sequence[TraceChange],
    changed: int,
    openings: Sequence[str] = (),
) -> str:
    """Write a comparison: the runs, the differences, and the changed traces with their rank strips.

    All text is escaped; the fragment runs nothing and loads nothing.
    """
    names = [escape(run.name) for run in runs]
    parts = [f"<p><b>{names[0]}</b> (baseline) against <b>{', '.join(names[1:])}</b></p>"]
    parts += [f"<p><b>{escape(told)}</b></p>" for told in openings]
    parts += [f"<p><b>{escape(warning)}</b></p>" for warning in warnings]
    parts += [f"<p>{escape(note)}</p>" for note in notes]
    rows = []
    for d in differences:
        span = f"[{d.interval[0]:+.4f}, {d.interval[1]:+.4f}]" if d.interval else ""
        rows.append(
            f"<tr><td>{names[d.candidate]}</td><td>{escape(d.metric)}</td><td>{d.baseline_mean:.4f}</td>"
            f"<td>{d.candidate_mean:.4f}</td><td>{d.difference:+.4f}</td><td>{span}</td>"
            f"<td>{d.p_holm:.3g}</td><td>{d.wins}/{d.ties}/{d.losses}</td>"
            f"<td style='text-align:left'>{escape(d.sentence)}</td></tr>"
        )
    head = "".join(
        f"<th>{name}</th>"
        for name in (
            "run", "metric", "baseline", "candidate", "difference", "95% interval", "p (Holm)",
            "wins/ties/losses", "",
        )
    )  # fmt: skip
    parts.append(f"<table><tr>{head}</tr>{''.join(rows)}</table>")
    metrics = list(dict.fromkeys(d.metric for d in differences))[:3]
    parts.append(_changed(traces, changed, metrics, names))
    return "<div>" + "".join(parts) + "</div>"


def _changed(traces: Sequence[TraceChange], total: int, metrics: Sequence[str], names: Sequence[str]) -> str:
    if not traces:
        return "<p>No trace changed.</p>"
    head = "".join(f"<th>{escape(name)}</th>" for name in metrics)
    rows = []
    for change in traces[:SHOWN]:
        moved = (change.differences.get(name) for name in metrics)
        scores = "".join(f"<td>{'' if value is None else format(value, '+.4f')}</td>" for value in moved)
        rows.append(
            f"<tr><td>{names[change.candidate]}</td><td>{escape(change.trace_id)}</td>"
            f"<td>{_strip(change.before)}</td><td>{_strip(change.after, change)}</td>"
            f"<td>{change.what}</td>{scores}"
            f"<td style='text-align:left'>{escape(change.query)}</td></tr>"
        )
    more = f"<p>... and {total - len(rows)} more changed traces</p>" if total > len(rows) else ""
    columns = f"<th>run</th><th>trace</th><th>before</th><th>after</th><th>what</th>{head}<th>query</th>"
    return f"<table><tr>{columns}</tr>{''.join(rows)}</table>{more}"


def _strip(signs: str, change: TraceChange | None = None) -> str:
    squares = []
    for rank, sign in enumerate(signs, 1):
        colour = {"+": "#9bd39b", ".": "#f4f4f4", "!": "#eaa"}.get(sign, "#cfe8cf")
        title = f"rank {rank}"
        if change is not None:
            was = change.moves[rank - 1]
            title += f", was {was}" if was else ", new"
            colour += ";border-style:" + ("solid" if was == str(rank) else "dashed")
        squares.append(f"<span style='{_SQUARE}background:{colour}' title='{title}'>{escape(sign)}</span>")
    return "".join(squares) or "(nothing retrieved)"
