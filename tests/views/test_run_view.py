"""A run is one view: every medium shows all that a reader of its numbers should know."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from io import StringIO
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from judge_eval import EvalRun, Evaluator, FakeBackend
from judge_eval.errors import RefusedError
from judge_eval.export.ci_reports import junit, pull_request_comment
from judge_eval.export.inspect_log import inspect_log
from judge_eval.export.text import as_markdown
from judge_eval.pages.rows import Table as RunTable
from judge_eval.pages.runpage import run_page
from judge_eval.pytest_plugin.assertions import failure_message
from judge_eval.views import run_remarks
from judge_eval.views.blocks import Remark
from judge_eval.views.run import terminal_view
from judge_eval.views.run_remarks import remarks_of
from judge_eval.views.terminal import for_terminal
from tests.support.blocks_of_pages import data_of
from tests.support.reports import run_report


def terminal(run: EvalRun) -> str:
    """What a command prints of a run."""
    console = Console(record=True, width=400, file=StringIO(), highlight=False, markup=False)
    for printed in for_terminal(terminal_view(run)):
        console.print(printed)
    return console.export_text()


def media(run: EvalRun) -> dict[str, str]:
    """What each medium shows of a run, as the text that a person or a program reads."""
    properties = ElementTree.fromstring(junit([], remarks_of(run.manifest))).iter("property")
    return {
        "terminal": terminal(run),
        "markdown": as_markdown(run),
        "comment": pull_request_comment(run, None, []),
        "notebook": html.unescape(run._repr_html_()),
        "page": _texts(run_page(RunTable(run))["head"]["remarks"]),
        "report": _texts(data_of(run_report(run))["head"]["remarks"]),
        "pytest": failure_message(run, {"AP@5": 1.0}, None),
        "junit": "\n".join(item.get("value") or "" for item in properties),
        "inspect": _texts(json.loads(inspect_log(run))["eval"]["metadata"]["remarks"]),
    }


def _texts(data: Any) -> str:
    return "\n".join(_strings(data))


def _strings(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    for inner in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from _strings(inner)


def plain(text: str) -> str:
    """A text without the signs by which Markdown is kept from reading it as markup."""
    return text.replace("\\", "").replace("\u2060", "")


@pytest.fixture(scope="module")
def run() -> EvalRun:
    """A run of which there is much to say: a record skipped, a text repeated, a verdict failed."""
    twice = ["We open at nine.", "We open at nine."]
    refused = [{"id": "bad", "text": "In Rome."}]
    rows = [
        {"id": "q1", "query": "When?", "reference": "At nine.", "chunks": twice},
        {"id": "q2", "query": "Where?", "reference": "In Rome.", "chunks": refused},
        {"id": "q3", "reference": "No question."},
    ]
    judge = FakeBackend.table({"c1": True, "c2": True, "bad": RefusedError("the filter said no")})
    with Evaluator(judge, metrics=["AP@5"], cache=False) as evaluator:
        return evaluator.evaluate(rows, on_invalid="skip")


def test_every_medium_shows_every_remark(run: EvalRun) -> None:
    """Failed verdicts, repeated texts and skipped records stand in each medium, in the same words."""
    remarks = {remark.about: remark.text for remark in remarks_of(run.manifest)}
    assert {"failures", "repeats", "skipped"} <= set(remarks)
    for medium, text in media(run).items():
        for remark in remarks.values():
            assert remark in plain(text), medium


def test_a_remark_that_is_added_appears_everywhere(run: EvalRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one function yields is read on the terminal, in Markdown, notebook, page, report, JSON and CI."""
    data = run_remarks._data
    monkeypatch.setattr(run_remarks, "_data", lambda m: [*data(m), Remark("moon", "the moon was full")])
    for medium, text in media(run).items():
        assert plain(text).count("the moon was full") == 1, medium


@pytest.mark.parametrize(("skipped", "words"), [(1, "1 invalid record was"), (2, "2 invalid records were")])
def test_one_is_not_several(run: EvalRun, skipped: int, words: str) -> None:
    """A count of one stands before a noun and a verb in the singular."""
    dataset = run.manifest.dataset.model_copy(update={"skipped": skipped})
    manifest = run.manifest.model_copy(update={"dataset": dataset})
    assert f"{words} skipped" in [remark.text for remark in remarks_of(manifest)]
