"""A comparison is one view: every medium shows the same warnings, notes and words."""

from __future__ import annotations

import html
from io import StringIO

import pytest
from rich.console import Console

from judge_eval import EvalRun, Evaluator, FakeBackend
from judge_eval.compare.comparison import Comparison
from judge_eval.export.ci_reports import pull_request_comment
from judge_eval.note import Note
from judge_eval.pages.blind import blind_page
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.comparepage import compare_page
from judge_eval.pages.rows import Table
from judge_eval.pages.runpage import run_page
from judge_eval.views.comparison import CHANGE_WORDS, change_in_words, comparison_view, finding_words
from judge_eval.views.findings import headlines
from judge_eval.views.markdown import markdown_of
from judge_eval.views.terminal import for_terminal


def judged(label: str, *relevant: str) -> EvalRun:
    """Two questions with a chunk each, of which some are relevant."""
    rows = [
        {"id": "q1", "query": "When?", "reference": "At nine.", "chunks": [{"id": "a", "text": "At nine."}]},
        {"id": "q2", "query": "Where?", "reference": "Rome.", "chunks": [{"id": "b", "text": "In Rome."}]},
    ]
    judge = FakeBackend.table({"a": "a" in relevant, "b": "b" in relevant})
    with Evaluator(judge, metrics=["AP@5"], cache=False) as evaluator:
        return evaluator.evaluate(rows, label=label)


def media(comparison: Comparison) -> dict[str, str]:
    """What each medium shows of a comparison."""
    console = Console(record=True, width=300, file=StringIO(), highlight=False, markup=False)
    for printed in for_terminal(comparison_view(comparison, traces=10, claims=10)):
        console.print(printed)
    return {
        "terminal": console.export_text(),
        "comment": pull_request_comment(None, comparison, []).replace("\\", ""),
        "notebook": html.unescape(comparison._repr_html_()),
    }


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """A verdict of one trace flipped."""
    return judged("main", "a", "b").compare(judged("other", "a"))


def test_every_medium_shows_warnings_notes_and_findings(comparison: Comparison) -> None:
    """A warning or a note that is added to the record is read in each medium, once."""
    added = {"warnings": (Note(kind="inverted"),), "notes": (Note(kind="in words", names=("it rained",)),)}
    for medium, text in media(comparison.model_copy(update=added)).items():
        assert text.count("warning: random chunks are graded above gold ones: the prompt is inverted.") == 1, medium
        assert text.count("note: it rained.") == 1, medium
        assert text.count(headlines(comparison)[0]) == 1, medium
        assert finding_words(comparison.differences[0]) in text, medium


def test_a_difference_is_printed_once_beside_the_headline(comparison: Comparison) -> None:
    """A metric's difference, interval and p stand in one table, with what they show."""
    d = comparison.differences[0]
    for medium, text in media(comparison).items():
        assert d.interval is not None
        assert text.count(f"{d.interval[0]:+.4f}") == 1, medium
        assert "no difference shown in" not in text


def test_a_kind_of_change_has_one_wording(comparison: Comparison) -> None:
    """Terminal, comment, notebook and page call a kind of change by the same words."""
    (change,) = comparison.traces
    assert change_in_words(change) == CHANGE_WORDS[change.kind] == "verdict flipped"
    for medium, text in media(comparison).items():
        assert text.count("verdict flipped") == 2, medium
        assert "1 trace changed" in text, medium
    page = compare_page(ComparedRuns(Table(judged("main", "a")), Table(judged("other", "b"))))
    assert page["words"] == CHANGE_WORDS
    assert set(page["changes"]) <= {*CHANGE_WORDS, "same"}


def test_a_comment_is_cut_to_its_room_and_says_by_how_much(comparison: Comparison) -> None:
    """Rows of changed traces give way, and those left out are counted."""
    (change,) = comparison.traces
    crowded = comparison.model_copy(update={"traces": (change,) * 50, "changed": ({"verdicts": 50},)})
    for room in (4_000, 5_000, 65_000):
        text = markdown_of(comparison_view(crowded, traces=50, claims=3), room)
        rows = sum(line.startswith("| q2 |") for line in text.splitlines())
        assert len(text) <= room
        assert 0 < rows <= 50
        assert rows == 50 or f"... and {50 - rows} more" in text
        assert text.endswith("</details>\n")
    assert rows == 50


def test_a_page_with_hidden_verdicts_has_the_words_too() -> None:
    """A row whose chunks all have a label keeps its change on a blind page, which needs its wording."""
    sides = ComparedRuns(Table(judged("main", "a")), Table(judged("other", "b")))
    page = run_page(sides.candidate, sides)
    assert blind_page(page)["words"] == page["words"] == CHANGE_WORDS
