"""A gate as JUnit XML, which CI servers show."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

from judge_eval.comparison.findings import Check
from judge_eval.shown import printable


def junit(checks: Sequence[Check], cascade: Sequence[str] = ()) -> str:
    """Write one test case a limit, with the sentence and the traces that lost most where it failed.

    A limit that is undecided and let pass is a skipped case with its sentence.

    Args:
        checks: What became of the limits.
        cascade: What is to be said of the cascade that judged; a property each.
    """
    failed = sum(not check.passed for check in checks)
    skipped = sum(check.passed and check.outcome == "undecided" for check in checks)
    counts = f'tests="{len(checks)}" failures="{failed}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites {counts}>",
        f'<testsuite name="judge-eval" {counts} errors="0" skipped="{skipped}">',
    ]
    if cascade:
        told = [f'<property name="cascade" value={_quoted(one)}/>' for one in cascade]
        lines += ["<properties>", *told, "</properties>"]
    for check in checks:
        name = f"{check.kind} {check.metric}={check.limit:g}"
        case = f"<testcase classname={_quoted(check.run)} name={_quoted(name)}"
        if check.passed:
            remark = f"<skipped message={_quoted(check.sentence)}/></testcase>"
            lines.append(f"{case}>{remark}" if check.outcome == "undecided" else f"{case}/>")
            continue
        moved = "".join(
            f"\n{m.trace_id}: {m.differences[check.metric]:+.4f} ({m.before} to {m.after}) {m.query}"
            for m in check.movers
        )
        # An attribute, not text: it needs no second way of escaping, and readers show it.
        lines.append(
            f"{case}><failure type={_quoted(check.kind)} "
            f"message={_quoted(f'{check.outcome}: {check.sentence}{moved}')}/>"
        )
        lines.append("</testcase>")
    return "\n".join([*lines, "</testsuite>", "</testsuites>"]) + "\n"


def _quoted(text: str) -> str:
    """Quote an attribute; what XML cannot hold, or hides, is shown as an escape."""
    return quoteattr(printable(text), {"\n": "&#10;"})
