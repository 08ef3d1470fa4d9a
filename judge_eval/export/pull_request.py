"""A comparison with its gate as Markdown for a pull request."""

from collections.abc import Sequence

from judge_eval.compare.comparison import Check, Comparison
from judge_eval.runs.folder.run import Run
from judge_eval.views.blocks import Section, Sentence, View
from judge_eval.views.comparison import REPORT_TRACES, comparison_view, with_gate
from judge_eval.views.markdown import markdown_of
from judge_eval.views.run import MOST_MISSED, summary_view

MARKER = "<!-- judge-eval report -->"
"""Stands at the head of the comment, unseen; a bot finds its own comment by it and updates it."""
MOST = 65_000
"""A comment may hold 65,536 characters; this leaves room for what a bot adds."""


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
