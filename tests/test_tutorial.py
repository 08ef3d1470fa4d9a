"""The tutorial's page and its questions; `tests/real` runs it."""

from __future__ import annotations

import json

import pytest

from tests.support.blocks import ROOT, blocks_of

FOLDER = ROOT / "docs" / "tutorial"
QUESTIONS, PAGES = (
    [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    for name in ("questions", "pages")
)
TEXTS = {page["page"]: " ".join(page["text"].split()) for page in PAGES}


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["id"])
def test_references_stand_on_the_pages(question: dict[str, str]) -> None:
    """The quote under a reference is on its page; a question without an answer has neither."""
    if "answerable" in question:
        assert question.keys() == {"id", "query", "answerable"}
        return
    assert question["quote"] in TEXTS[question["page"]]
    assert question["reference"]
    assert question["claims"]


def test_five_of_the_questions_have_no_answer() -> None:
    """25 questions, five of them unanswerable, each with an id of its own."""
    assert len({question["id"] for question in QUESTIONS}) == 25
    assert sum(question.get("answerable") is False for question in QUESTIONS) == 5


def test_the_page_shows_what_the_scripts_hold() -> None:
    """Each piece of Python on the page stands in a script, and each question shown in the file of questions."""
    scripts = "\n".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py"))
    blocks = blocks_of((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    assert [block for block in blocks if block.language == "python" and block.code not in scripts] == []
    shown = [line for block in blocks for line in block.code.splitlines() if line.startswith('{"id"')]
    assert shown
    assert [line for line in shown if json.loads(line) not in QUESTIONS] == []
