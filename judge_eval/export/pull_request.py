"""A comparison with its gate as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from judge_eval.comparison.findings import Check, TraceChange
from judge_eval.comparison.movedclaims import ClaimsMoved
from judge_eval.comparison.record import Comparison
from judge_eval.export.text import MOST_MISSED, as_markdown, linked
from judge_eval.runs.folder.run import Run
from judge_eval.runs.folder.wording import interval
from judge_eval.shown import markdown, shortened

MARKER = "<!-- judge-eval report -->"
"""Stands at the head of the comment, unseen; a bot finds its own comment by it and updates it."""
MOST = 65_000
"""A comment may hold 65,536 characters; this leaves room for what a bot adds."""
_TRACES = 50


def pull_request_comment(run: Run | None, comparison: Comparison | None, checks: Sequence[Check]) -> str:
    """Write the comment, at most `MOST` characters, the marker first.

    Args:
        run: The run, whose means are shown; None shows only the comparison.
        comparison: Its comparison with a baseline, where there is one.
        checks: What became of the limits.
    """
    parts = [MARKER]
    if run is not None:
        parts.append(as_markdown(run).rstrip())
    parts += _verdict(checks)
    if comparison is not None:
        parts += _differences(comparison)
        parts += _pairs(comparison)
    head = "\n\n".join(parts)
    if len(head) > MOST - 1000:  # hundreds of metrics or runs: cut at a line, so that no table row breaks
        head = head[: MOST - 1000].rpartition("\n")[0] + "\n\n... (cut: the report is too long)"
    return head + (_traces(comparison, MOST - len(head) - 200) if comparison is not None else "") + "\n"


def _verdict(checks: Sequence[Check]) -> list[str]:
    if not checks:
        return []
    failed = sum(not check.passed for check in checks)
    undecided = sum(check.passed and check.outcome == "undecided" for check in checks)
    title = f"**Gate failed: {failed} of {len(checks)}**" if failed else "**Gate passed**"
    if undecided:
        title += f", {undecided} of {len(checks)} undecided"
    lines = [f"- {_marked(check)}: {markdown(f'{check.kind} {check.sentence}')}" for check in checks]
    return [title, "\n".join(lines)]


def _marked(check: Check) -> str:
    return check.outcome if check.outcome == "passed" else f"**{check.outcome}**"


def _differences(comparison: Comparison) -> list[str]:
    names = [markdown(run.name) for run in comparison.runs]
    titles = [linked(run.name, run.href) for run in comparison.runs]
    out = [f"### {', '.join(titles[1:])} against {titles[0]}"]
    out += [f"**{markdown(told)}**" for told in comparison.sentences]
    out += [f"> **{markdown(warning)}**" for warning in comparison.warnings]
    out += [f"> {markdown(note)}" for note in comparison.notes]
    out += [
        _claims(moved, told) for moved, told in zip(comparison.claims, comparison.claims_told, strict=True)
    ]
    rows = [
        "| run | metric | baseline | candidate | difference | 95% interval | p (Holm) | wins/ties/losses |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for d in comparison.differences:
        span = interval(d.interval, "+")
        rows.append(
            f"| {names[d.candidate]} | {markdown(d.metric)} | {d.baseline_mean:.4f} | "
            f"{d.candidate_mean:.4f} | {d.difference:+.4f} | {span} | {d.p_holm:.3g} | "
            f"{d.wins}/{d.ties}/{d.losses} |"
        )
    out.append("\n".join(rows))
    out.append("\n".join(f"- {names[d.candidate]}: {markdown(d.sentence)}" for d in comparison.differences))
    return out


def _claims(moved: ClaimsMoved, told: str) -> str:
    """Say which claims were lost and won, the worst first."""
    lines = [markdown(told), ""]
    for one in moved.changes[:MOST_MISSED]:
        kind = f"{one.kind}, vital" if one.vital else one.kind
        claim = markdown(shortened(one.text, 200))
        lines.append(f"- {kind}: **{claim}**; {markdown(one.query)}")
    return "\n".join(lines).rstrip()


def _pairs(comparison: Comparison) -> list[str]:
    if not comparison.pairs:
        return []
    names = [markdown(run.name) for run in comparison.runs]
    rows = ["| metric | pair | difference | p (Tukey) |", "|---|---|---|---|"]
    for pair in comparison.pairs:
        who = f"{names[pair.second]} - {names[pair.first]}"
        rows.append(f"| {markdown(pair.metric)} | {who} | {pair.difference:+.4f} | {pair.p:.3g} |")
    return ["#### All pairs", "\n".join(rows)]


def _traces(comparison: Comparison, room: int) -> str:
    """List the traces that moved most, as many as there is room for."""
    total = sum(sum(counts.values()) for counts in comparison.changed)
    if not total:
        return "\n\nNo trace changed."
    metric = comparison.differences[0].metric if comparison.differences else ""
    head = (
        f"\n\n<details><summary>{total} changed trace{'s' if total > 1 else ''}</summary>\n\n"
        f"| trace | what | before | after | {markdown(metric)} | query |\n|---|---|---|---|---|---|\n"
    )
    tail = "\n</details>"
    room -= len(head) + len(tail) + 100
    rows = []
    for change in comparison.traces[:_TRACES]:
        row = _row(change, metric)
        if len(row) + 1 > room:
            break
        room -= len(row) + 1
        rows.append(row)
    more = f"\n\n... and {total - len(rows)} more" if total > len(rows) else ""
    return head + "\n".join(rows) + more + tail


def _row(change: TraceChange, metric: str) -> str:
    moved = change.differences.get(metric)
    before, after = (f"`{strip[:40]}`" if strip else "" for strip in (change.before, change.after))
    return (
        f"| {markdown(change.trace_id[:100])} | {change.what} | {before} | {after} | "
        f"{'' if moved is None else format(moved, '+.4f')} | {markdown(change.query)} |"
    )
