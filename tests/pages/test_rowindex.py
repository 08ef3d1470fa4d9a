"""Rows of a large run that are kept: what they say is what the results say, or they are made again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judge_eval import EvalRun, Evaluator, FakeBackend, Trace
from judge_eval.errors import RefusedError, RunError
from judge_eval.pages import rowindex
from judge_eval.pages.rows import Table
from judge_eval.pages.runpage import run_page
from judge_eval.runs.folder import journal
from judge_eval.runs.folder.labels import Label, add_label, with_labels
from judge_eval.server.library import IndexingError, Library
from judge_eval.server.server_settings import ServerSettings
from tests.support.serving import ask, serving
from tests.support.waiting import until


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EvalRun:
    """Thirty traces with tags, labels, failed verdicts and texts of all kinds; every size counts as large."""
    monkeypatch.setattr(rowindex, "LARGE", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
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


def made(run: EvalRun) -> tuple[Table, Any]:
    """Make rows and page from the results."""
    table = Table(run)
    return table, run_page(table)


def same(table: Table, other: Table) -> None:
    """Check that two tables hold the same."""
    assert table.rows == other.rows
    assert table.places == other.places
    assert table.scale == other.scale
    for name in (*rowindex._ARRAYS, "metrics"):
        np.testing.assert_array_equal(getattr(table.columns, name), getattr(other.columns, name))


def test_kept_rows_are_those_of_the_results(run: EvalRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, columns and page are the same, and no result is read for them; its results can be read after."""
    table, page = made(run)
    rowindex.keep(table, page)
    with monkeypatch.context() as patched:
        patched.setattr(journal, "read_result", None)
        opened = again(run)
        assert rowindex.has_rows(opened)
        actual = rowindex.kept(opened)
    assert actual is not None
    same(actual[0], table)
    assert json.dumps(actual[1]) == json.dumps(page)
    assert [result.trace_id for result in actual[0].run.results] == [row.id for row in table.rows]


def test_later_labels_are_in_kept_rows(run: EvalRun) -> None:
    """A label that came later changes the rows as it does without an index."""
    rowindex.keep(*made(run))
    assert run.folder is not None
    add_label(run.folder, Label(trace_id="q3 é", chunk_id="3-1", label=0))
    add_label(run.folder, Label(trace_id="q4 é", chunk_id="4-2", label=1))
    result = rowindex.kept(again(run))
    assert result is not None
    same(rowindex.labelled(result[0], with_labels(again(run))), Table(with_labels(again(run))))


def results_touched(run: EvalRun) -> None:
    """Write the same results again: whether they are the same is not known."""
    assert run.folder is not None
    path = run.folder / "results.jsonl"
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)


def manifest_edited(run: EvalRun) -> None:
    """Change a word of the manifest."""
    assert run.folder is not None
    path = run.folder / "manifest.json"
    path.write_text(path.read_text().replace('"label": null', '"label": "new"'))


def kept_file() -> Path:
    """Return the one file of kept rows."""
    (path,) = Path(os.environ["XDG_CACHE_HOME"]).glob("judge_eval_pages/*.rows")
    return path


def kept_spoiled(_: EvalRun) -> None:
    """Turn a byte of the kept rows."""
    data = bytearray(kept_file().read_bytes())
    data[len(data) // 2] ^= 1
    kept_file().write_bytes(data)


def kept_cut(_: EvalRun) -> None:
    """Leave half of the kept rows."""
    kept_file().write_bytes(kept_file().read_bytes()[: 2**11])


@pytest.mark.parametrize("change", [results_touched, manifest_edited, kept_spoiled, kept_cut])
def test_rows_that_do_not_fit_are_made_again(run: EvalRun, change: Any) -> None:
    """Whatever has changed, the rows are read from the results, and kept anew."""
    rowindex.keep(*made(run))
    change(run)
    assert rowindex.kept(again(run)) is None
    assert run.folder is not None
    library = Library(run.folder.parent)
    assert library.table(run.id).rows == Table(again(run)).rows
    assert rowindex.kept(again(run)) is not None


def test_edited_results_are_refused_beside_kept_rows(run: EvalRun) -> None:
    """Kept rows hide no change of the results: the run is refused as it is without them."""
    rowindex.keep(*made(run))
    assert run.folder is not None
    path = run.folder / "results.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"grade":1', b'"grade":0', 1))
    with pytest.raises(RunError, match="not what was written"):
        Library(run.folder.parent).table(run.id)


KEEPING = """
import sys
from pathlib import Path
from judge_eval.eval_run import EvalRun
from judge_eval.pages import rowindex
from judge_eval.pages.rows import Table
run = EvalRun.load(sys.argv[1])
table = Table(run)
Path(sys.argv[2]).touch()
while True:
    rowindex.keep(table, {"n": 1})
"""


@pytest.mark.slow
def test_a_kill_leaves_whole_rows_or_none(run: EvalRun, tmp_path: Path) -> None:
    """Killed while it writes, a process leaves what fits; what is there can be read."""
    for turn in range(5):
        ready = tmp_path / f"ready-{turn}"
        process = subprocess.Popen([sys.executable, "-c", KEEPING, str(run.folder), str(ready)])
        until(ready.exists, process)
        time.sleep(0.003 * turn)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        result = rowindex.kept(again(run))
        assert result is None or result[1] == {"n": 1}
    assert Library(run.folder.parent).table(run.id).rows == Table(again(run)).rows  # type: ignore[union-attr]


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
        page = ask(f"{url}{place}/page")[1]
    with serving(ServerSettings(tmp_path / "runs")) as url:  # from the kept rows
        assert ask(f"{url}{place}/rows?sort=score")[1] == result
        assert ask(f"{url}{place}/page")[1] == page
        label = {"trace_id": "q3 é", "chunk_id": "3-1", "label": 0}
        assert ask(f"{url}{place}/labels", method="POST", body=label)[0] == 201
        rows = ask(f"{url}{place}/rows")[1]["rows"]
        assert rows == [row.data() | {"tags": list(row.tags)} for row in Table(with_labels(again(run))).rows]


def test_a_large_run_that_cannot_be_read_is_told(run: EvalRun) -> None:
    """After a look that only said how far it is, the next one says what is wrong with the results."""
    assert run.folder is not None
    path = run.folder / "results.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"grade":1', b'"grade":0', 1))
    library = Library(run.folder.parent)
    with pytest.raises(IndexingError):
        library.table(run.id, patient=False)
    while library._indexed:
        time.sleep(0.01)
    with pytest.raises(RunError, match="not what was written"):
        library.table(run.id, patient=False)
