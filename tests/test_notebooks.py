"""What notebooks show, and that everything works inside their running event loop."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Chunk, FakeBackend, NotebookProgress, Trace, evaluate
from judge_eval.errors import RefusedError
from judge_eval.runs.scoring.counting import Progress
from judge_eval.views.blocks import Pieces, bare_value
from judge_eval.views.trace import trace_view

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "example.ipynb"
HOSTILE = "<script>alert(1)</script>"


def _cells() -> list[dict[str, Any]]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def _text(cell: dict[str, Any]) -> list[str]:
    """What a cell showed as plain text."""
    return ["".join(out["data"]["text/plain"]) for out in cell["outputs"] if "data" in out]


def test_a_result_shows_verdicts_with_the_quote_marked() -> None:
    """A result's HTML holds the strip, the reason, and the quote between marks."""
    judge = FakeBackend.table({"c1": {"grade": True, "evidence": "at nine", "reason": "It says so."}, "c2": False})
    trace = Trace(query="When?", reference="At nine.", chunks=["We open at nine.", "Parking."])
    html = evaluate(trace, judge, cache=False).results[0]._repr_html_()
    assert "We open <mark>at nine</mark>." in html
    assert "It says so." in html
    assert html.count("not relevant (grade 0)") == 1
    assert html.count("<span") == 2


def test_markup_in_data_stays_text() -> None:
    """Whatever data or judge say, the fragments hold no markup of theirs."""
    judge = FakeBackend.table({"c1": {"grade": True, "evidence": HOSTILE, "reason": HOSTILE}})
    chunk = Chunk(id="c1", text=f"a {HOSTILE} b", title=HOSTILE)
    trace = Trace(id=HOSTILE, query=HOSTILE, reference=HOSTILE, answer=HOSTILE, chunks=[chunk])
    run = evaluate(trace, judge, cache=False)
    for html in (run.results[0]._repr_html_(), run._repr_html_()):
        assert "&lt;script&gt;" in html
        assert "<script" not in html


def test_code_keeps_its_lines_and_its_indentation() -> None:
    """A chunk whose lines are set in is shown line by line, in a notebook and on the terminal; prose is one line."""
    code = "We open\nat nine:\n\ndef opens(day):\n    if day == 'Sunday':\n\treturn None\n"
    judge = FakeBackend.table({"c1": {"grade": True, "evidence": "if day == 'Sunday'", "reason": "x"}, "c2": False})
    trace = Trace(query="When?", reference="At nine.", chunks=[code, "Parking\nis free."])
    result = evaluate(trace, judge, cache=False).results[0]
    assert "margin-left:7ch'><mark>if day == &#x27;Sunday&#x27;</mark>:</div>" in result._repr_html_()
    shown = [block for block in trace_view(result).blocks if isinstance(block, Pieces)]
    pieces = [(block.indent, "".join(str(bare_value(piece)) for piece in block.pieces)) for block in shown]
    assert (3, "Parking is free.") in pieces
    at = pieces.index((3, "We open"))
    assert pieces[at : at + 6] == [
        (3, "We open"), (3, "at nine:"), (0, ""), (3, "def opens(day):"), (7, "if day == 'Sunday':"),
        (7, "return None"),
    ]  # fmt: skip


def test_a_failed_verdict_is_shown_as_one() -> None:
    """A result without verdicts says why, and shows no score."""
    judge = FakeBackend.table({"c1": RefusedError("the filter said no")})
    trace = Trace(query="When?", reference="At nine.", chunks=["We open at nine."])
    html = evaluate(trace, judge, metrics=["AP"], cache=False).results[0]._repr_html_()
    assert "NO VERDICT (refused)" in html
    assert "the filter said no" in html
    assert "AP none" in html


def test_an_empty_retrieval_is_shown() -> None:
    """A trace without chunks has a fragment too."""
    html = (
        evaluate(Trace(query="When?", reference="At nine.", chunks=()), "fake/overlap", cache=False)
        .results[0]
        ._repr_html_()
    )
    assert "nothing retrieved" in html


@pytest.mark.foreign
def test_progress_is_harmless_outside_a_notebook() -> None:
    """Without a kernel the progress shows nothing more, and the evaluation goes on."""
    trace = Trace(query="When?", reference="At nine.", chunks=["We open at nine."])
    from judge_eval import Evaluator

    with Evaluator("fake/overlap", cache=False) as evaluator:
        assert evaluator.evaluate(trace, watch=NotebookProgress(every=0)).status == "done"


def test_the_example_is_stored_executed() -> None:
    """Every cell of the example was run, in order and without an error, and shows what it should."""
    cells = _cells()
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [out for cell in cells for out in cell["outputs"]]
    assert {out["output_type"] for out in outputs} <= {"execute_result", "display_data"}
    assert sum("text/html" in out.get("data", {}) for out in outputs) == 4
    assert "0.5" in _text(cells[2])
    assert _text(cells[1])[0] == "1 of 1 traces, 3 verdicts"  # progress is shown without being asked for


@pytest.mark.foreign
@pytest.mark.slow
def test_the_example_runs_in_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a real kernel, whose event loop runs, sync and async calls work and show what is stored."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    stored = [_text(cell) for cell in _cells()]
    nbclient.NotebookClient(
        notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    again = [_text(cell) for cell in notebook.cells if cell["cell_type"] == "code"]
    assert again == stored


class _Cell:
    """Stands for the output of a notebook's cell."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def update(self, shown: object) -> None:
        """Keep what is shown."""
        self.lines.append(repr(shown))


@pytest.mark.foreign
def test_progress_says_how_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a run goes on the line ends with the time that is left, at the rate so far; at its end it does not."""
    display = pytest.importorskip("IPython.display")
    cell = _Cell()
    monkeypatch.setattr(display, "display", lambda *_, **__: cell)
    show = NotebookProgress(every=0)
    common = {"failed": 0, "calls": 0, "hits": 0, "retries": 0, "folder": None}
    for traces, seconds in ((10, 20.0), (1, 60.0), (40, 80.0)):
        show(Progress(traces=traces, total=40, verdicts=traces, seconds=seconds, **common))
    assert [line.partition("/s, ")[2] for line in cell.lines] == ["about 60 s left", "about 39 min left", ""]


_INTERRUPTED = """
import glob, os, signal, threading
from judge_eval import EvalRun, Evaluator, Options, evaluate
rows = [dict(id=f"q{k}", query=f"When {k}?", reference="At nine.", chunks=["We open at nine."]) for k in range(400)]
def stop():
    while not glob.glob("runs/*/results.jsonl") or os.path.getsize(glob.glob("runs/*/results.jsonl")[0]) < 2000:
        pass
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=stop, daemon=True).start()
options = Options(params={"latency": 0.05}, concurrency=4)
"""
_EVALUATIONS = [
    ('evaluate(rows, "fake/overlap", cache=False, out="runs", options=options)', "KeyboardInterrupt"),
    ('await Evaluator("fake/overlap", cache=False, options=options).aevaluate(rows, out="runs")', "CancelledError"),
]


@pytest.mark.foreign
@pytest.mark.slow
@pytest.mark.parametrize(("evaluation", "raised"), _EVALUATIONS)
def test_an_evaluation_that_is_interrupted_in_a_kernel_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evaluation: str, raised: str
) -> None:
    """In a real kernel one line says, without a traceback, where the run is and what continues it; it then ends."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    resumed = "run = evaluate(rows, 'fake/overlap', cache=False, out='runs', resume=True); run.status, len(run.results)"
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(code) for code in (_INTERRUPTED + evaluation, resumed)]
    )
    nbclient.NotebookClient(
        notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}, allow_errors=True
    ).execute()
    first, second = notebook.cells
    assert [out.get("ename") for out in first.outputs] == [None, raised]
    assert first.outputs[1]["traceback"] == [raised]
    line = first.outputs[0]["data"]["text/plain"]
    assert line.startswith("interrupted: ")
    assert "; the run is kept in runs/" in line
    assert line.endswith(", `resume=True` continues it")
    assert second.outputs[-1]["data"]["text/plain"] == "('done', 400)"
