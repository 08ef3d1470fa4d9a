"""What a corpus holds of what a retriever lost, on the page of its run: in a report and served."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator, FakeBackend, Trace
from judge_eval.missing import search_corpus
from judge_eval.runs.folder.labels import Label, add_label
from judge_eval.server.server_settings import ServerSettings
from tests.support.browsing import shoot, violations
from tests.support.reports import run_report

pytestmark = pytest.mark.browser


def searched(folder: Path) -> EvalRun:
    """Search a corpus for three lost questions, one of which it does not answer."""
    answers = {"library": "Nine.", "museum": "Ten.", "pool": "Never."}
    rows = [{"query": name, "reference": answers[name], "chunks": [{"id": "c", "text": "Other."}]} for name in answers]
    corpus = folder / "corpus.jsonl"
    texts = ("A library from nine.", "A museum from ten.", "A deep pool.")
    corpus.write_text("".join(json.dumps({"id": f"d{k}", "text": text}) + "\n" for k, text in enumerate(texts)))
    judge = FakeBackend.table({"c": False, "d0": True, "d1": True, "d2": False})
    with Evaluator(judge, metrics=["AP@5"], cache=False) as evaluator:
        run = evaluator.evaluate([Trace.parse({"id": f"q{k}", **row}) for k, row in enumerate(rows)])
        found = search_corpus(run, corpus)
        assert found is not None
        return found.judged(evaluator, out=folder / "runs", label="found")


@pytest.mark.parametrize(("place", "width", "dark"), [("report", 1280, False), ("served", 390, True)])
def test_the_search_has_a_tab(
    tmp_path: Path,
    open_page: Callable[..., Any],
    serve: Callable[..., str],
    axe: str,
    place: str,
    width: int,
    dark: bool,
) -> None:
    """Quotes, what was looked at and the bound from labels; a question leads to its chunks; axe is content."""
    run = searched(tmp_path)
    assert run.folder is not None
    add_label(run.folder, Label(trace_id="q0", chunk_id="d0", label=1))
    report = tmp_path / "found.html"
    report.write_text(run_report(run), encoding="utf-8")
    url = report.as_uri() if place == "report" else serve(ServerSettings(tmp_path / "runs")) + f"/runs/{run.id}"
    page = open_page(url, width=width, height=900, dark=dark)
    page.locator("[role=tab]", has_text="Missing").click()
    panel = page.locator("[role=tabpanel]:visible")
    shown = panel.inner_text()
    assert "For 1 nothing was accepted among" in shown
    assert "1 confirmed by people, 1 of 2 read: at least" in shown
    assert "A library from nine." in shown
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page, axe, dark) == []
    shoot(page, f"missing-{place}-{width}")
    panel.locator("a", has_text="q1").click()
    page.locator("#trace-title", has_text="museum").wait_for()
