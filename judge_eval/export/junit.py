"""A gate as JUnit XML, which CI servers show."""

from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

from judge_eval.compare.comparison import Check
from judge_eval.safe_text import printable
from judge_eval.views.blocks import Remark
from judge_eval.views.comparison import check_lines, gate_title
from judge_eval.views.gate_sentences import check_sentence


def junit(checks: Sequence[Check], remarks: Sequence[Remark] = (), fault: str | None = None) -> str:
    """Write one test case a limit; where it failed with the gate's title, the sentence and the traces to look at.

    `fault` says why the run is incomplete, or was not made: a case of its own with an error.
    """
    # A limit that is undecided and let pass is a skipped case. Each remark is a property, named by its subject.
    errors = 0 if fault is None else 1
    failed = sum(not check.passed for check in checks)
    skipped = sum(check.passed and check.outcome == "undecided" for check in checks)
    counts = f'tests="{len(checks) + errors}" failures="{failed}" errors="{errors}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites {counts}>",
        f'<testsuite name="judge-eval" {counts} skipped="{skipped}">',
    ]
    if remarks:
        properties = [f"<property name={_quoted(r.about)} value={_quoted(r.text)}/>" for r in remarks]
        lines += ["<properties>", *properties, "</properties>"]
    if fault is not None:
        kind, message = fault.partition(":")[0], _quoted(fault)
        error = f"<error type={_quoted(kind)} message={message}/>"
        lines.append(f'<testcase classname="judge-eval" name="run">{error}</testcase>')
    for check in checks:
        case = f"<testcase classname={_quoted(check.run)} name={_quoted(check.title)}"
        if check.passed:
            remark = f"<skipped message={_quoted(check_sentence(check))}/></testcase>"
            lines.append(f"{case}>{remark}" if check.outcome == "undecided" else f"{case}/>")
            continue
        # An attribute, not text: it needs no second way of escaping, and readers show it.
        message = "\n".join([gate_title(checks), *check_lines(check)])
        lines.append(f"{case}><failure type={_quoted(check.kind)} message={_quoted(message)}/>")
        lines.append("</testcase>")
    return "\n".join([*lines, "</testsuite>", "</testsuites>"]) + "\n"


def _quoted(text: str) -> str:
    return quoteattr(printable(text), {"\n": "&#10;"})
