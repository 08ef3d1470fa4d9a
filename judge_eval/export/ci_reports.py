"""A gate in the reports that CI shows: JUnit XML, and Markdown for a pull request."""

from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

from judge_eval.compare.comparison import Check, Comparison
from judge_eval.runs.folder.run import Run
from judge_eval.safe_text import printable
from judge_eval.views.blocks import Remark, Section, Sentence, View
from judge_eval.views.comparison import REPORT_TRACES, check_lines, comparison_view, gate_title, with_gate
from judge_eval.views.gate_sentences import check_sentence
from judge_eval.views.markdown import markdown_of
from judge_eval.views.run import MOST_MISSED, summary_view

MARKER = "<!-- judge-eval report -->"
"""Stands at the head of the comment, unseen; a bot finds its own comment by it and updates it."""
MOST = 65_000
"""A comment may hold 65,536 characters; this leaves room for what a bot adds."""


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


def pull_request_comment(
    run: Run | None, comparison: Comparison | None, checks: Sequence[Check], fault: str | None = None
) -> str:
    """Write the comment, at most `MOST` characters, the marker first.

    Without a run it holds the comparison alone. `fault`, which stands first, says why a run is incomplete or was not
    made.
    """
    sections = [] if run is None else [*summary_view(run).sections]
    sections = [*with_gate(checks, sections)]
    if fault is not None:
        sections.insert(0, Section("fault", (Sentence(fault, "strong"),)))
    if comparison is not None:
        sections += comparison_view(comparison, traces=REPORT_TRACES, claims=MOST_MISSED).sections
    return f"{MARKER}\n\n{markdown_of(View('comment', tuple(sections)), MOST - len(MARKER))}"
