"""What a new user meets in a notebook: a frame in five lines, and errors of three lines."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

from tests.support.blocks import ROOT
from tests.support.chat_server import ChatServer

pytestmark = pytest.mark.foreign

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("pandas")

EXAMPLE = """import pandas as pd
from judge_eval import evaluate
frame = pd.read_json("traces.jsonl", lines=True)
evaluate(frame, "fake/overlap", metrics=["AP@5", "NDCG@5"], cache=False).to_pandas()"""
BAD = """rows = [{"query": "When?", "reference": "9.", "chunks": ["a"]}, {"query": "Who?", "chunks": ["b"]}]
def judge(rows):
    return evaluate(rows, "fake/overlap", cache=False)
judge(rows)
"""
AWAITED = """from judge_eval import Evaluator
run = await Evaluator("fake/overlap", cache=False).aevaluate(frame.assign(reference=None))
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Run the cells in a real kernel, in a folder with the first dataset; they come with what they showed."""
    folder = tmp_path_factory.mktemp("notebook")
    shutil.copy(ROOT / "judge_eval/cli/starter/traces.jsonl", folder)  # what `init` writes
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(code) for code in (EXAMPLE, BAD, AWAITED)]
    with ChatServer() as server:
        variables = {
            "OPENAI_API_KEY": "sk-notebook",
            "OPENAI_BASE_URL": server.url,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "JUPYTER_PLATFORM_DIRS": "1",
        }
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            nbclient.NotebookClient(
                notebook,
                timeout=60,
                kernel_name="python3",
                allow_errors=True,
                resources={"metadata": {"path": str(folder)}},
            ).execute()
    return list(notebook.cells)


def test_the_example_shows_one_frame(cells: list[Any]) -> None:
    """The example runs as it stands, and its last line shows a table with the metrics beside the columns."""
    *progress, shown = cells[0].outputs
    assert all("3 of 3 traces" in output.data["text/plain"] for output in progress)
    assert shown.output_type == "execute_result"
    html = "".join(shown.data["text/html"])
    for column in ("query", "reference", "chunks", "AP@5", "NDCG@5", "verdicts", "reasons"):
        assert f"<th>{column}</th>" in html
    assert html.count("<tr>") == 3


def test_an_error_is_three_lines(cells: list[Any]) -> None:
    """A row that does not fit is told in three lines: where, the call, and the row with its fault."""
    (error,) = cells[1].outputs
    assert error.ename == "DataError"
    assert "\n".join(error.traceback).splitlines() == [
        "line 3 of the cell",
        '    return evaluate(rows, "fake/overlap", cache=False)',
        "DataError: row 1: reference: the prompt needs the reference, and this trace has none; "
        '`on_invalid="skip"` (`--on-invalid skip`) leaves it out; if no trace has one, '
        '`prompt="relevance/binary"` (`--prompt relevance/binary`) needs none',
    ]


def test_an_error_of_what_is_awaited_is_three_lines_too(cells: list[Any]) -> None:
    """Inside the notebook's own event loop the error is as short."""
    (error,) = cells[2].outputs
    lines = "\n".join(error.traceback).splitlines()
    assert len(lines) == 3
    assert lines[1].strip().startswith("run = await Evaluator")
    assert lines[2].startswith("DataError: row 0: reference: the prompt needs the reference")
