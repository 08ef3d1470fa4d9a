"""Runs whose results are large: their rows are read in the background, once."""

from __future__ import annotations

import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from judge_eval import EvalRun, Evaluator, FakeBackend, Trace
from judge_eval.errors import RefusedError, RunError
from judge_eval.pages.rows import Table
from judge_eval.runs.columns.verdict_table import VerdictTable
from judge_eval.runs.folder import journal
from judge_eval.runs.folder.labels import Label, add_label, with_labels
from judge_eval.server import library
from judge_eval.server.library import IndexingError, Library
from judge_eval.server.server_settings import ServerSettings
from tests.support.serving import ask, serving


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EvalRun:
    """Thirty traces with tags, labels, failed verdicts and texts of all kinds; every size counts as large."""
    monkeypatch.setattr(library, "LARGE", 0)
    traces = [
        Trace.parse(
            {
                "id": f"q{n} é",
                "query": f"What is\n {n}? " + "long " * (n * 10),
                "reference": "r",
                "tags": [f"t{n % 3}"],
                "chunks": [
                    {"id": f"{n}-{k}", "text": f"text {n} {k}", **({"label": k % 2} if n % 2 else {})}
                    for k in range(n % 5)
                ],
            }
        )
        for n in range(30)
    ]
    answers = {f"{n}-0": RefusedError("no") if n % 7 == 1 else 1 for n in range(30)}
    judge = FakeBackend.table(answers, default=0)
    with Evaluator(judge, metrics=["AP@3", "NDCG@3"], cache=False) as evaluator:
        evaluator.evaluate(traces, out=tmp_path / "runs")
    (folder,) = (tmp_path / "runs").iterdir()
    return EvalRun.load(folder)


def again(run: EvalRun) -> EvalRun:
    """Open a run anew."""
    assert run.folder is not None
    return EvalRun.load(run.folder)


def test_later_labels_change_rows_without_reading_results(run: EvalRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and columns are those of a table that is made with the labels."""
    assert run.folder is not None
    table = Table(again(run))
    add_label(run.folder, Label(trace_id="q3 é", chunk_id="3-1", label=0))
    add_label(run.folder, Label(trace_id="q4 é", chunk_id="4-2", label=1))
    labelled = with_labels(again(run))
    with monkeypatch.context() as patched:
        patched.setattr(journal, "read_result", None)
        made = table.with_labels_of(labelled)
    other = Table(labelled)
    assert (made.rows, made.places, made.scale) == (other.rows, other.places, other.scale)
    assert made.rows != table.rows
    assert (made.columns.metrics, made.columns.names) == (other.columns.metrics, other.columns.names)
    for name in {field.name for field in fields(VerdictTable)} - {"metrics", "names"}:
        np.testing.assert_array_equal(getattr(made.columns, name), getattr(other.columns, name))


@pytest.mark.slow
def test_the_server_says_how_far_it_is(run: EvalRun, tmp_path: Path) -> None:
    """The first look at a large run is answered at once with how far its rows are; then they come."""
    place = f"/api/v1/runs/{run.id}"
    with serving(ServerSettings(tmp_path / "runs")) as url:
        code = 503
        while code == 503:
            code, result, _ = ask(f"{url}{place}/rows?sort=score")
            assert code == 200 or (result["error"]["type"], "%" in result["error"]["message"]) == ("indexing", True)
        assert result["total"] == 30
        label = {"trace_id": "q3 é", "chunk_id": "3-1", "label": 0}
        assert ask(f"{url}{place}/labels", method="POST", body=label)[0] == 201
        rows = ask(f"{url}{place}/rows")[1]["rows"]
        assert rows == [row.data() | {"tags": list(row.tags)} for row in Table(with_labels(again(run))).rows]


def test_a_large_run_that_cannot_be_read_is_told(run: EvalRun) -> None:
    """After a look that only said how far it is, the next one says what is wrong with the results."""
    assert run.folder is not None
    path = run.folder / "results.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"grade":1', b'"grade":0', 1))
    there = Library(run.folder.parent)
    with pytest.raises(IndexingError):
        there.table(run.id, patient=False)
    while there._indexed:
        time.sleep(0.01)
    with pytest.raises(RunError, match="not what was written"):
        there.table(run.id, patient=False)
