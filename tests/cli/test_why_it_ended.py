"""Why a run is incomplete, or was not made, on the terminal, in Markdown and in JUnit, with its exit code."""

from __future__ import annotations

import json
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from judge_eval.cli.stopping import Terminated
from judge_eval.evaluator import Evaluator
from tests.support.canned import error
from tests.support.chat_server import ChatServer
from tests.support.desk import Desk

REPORTS = ("-o", "build/report.md", "-o", "build/junit.xml")
ROWS = [
    {"id": f"t{k}", "query": f"q{k}", "reference": "the sky is blue", "chunks": [{"id": "a", "text": f"rain {k}"}]}
    for k in range(3)
]


@pytest.fixture
def data(desk: Desk) -> Desk:
    """Three questions."""
    (desk.folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return desk


def reported(folder: Path, fault: str) -> None:
    """Markdown begins with the fault, and JUnit has it as its one error."""
    marker, _, first, *_ = (folder / "build/report.md").read_text(encoding="utf-8").split("\n")
    assert marker.startswith("<!--")
    assert fault in first.replace("\\", "")
    root = ET.parse(folder / "build/junit.xml").getroot()
    (found,) = root.iter("error")
    assert fault in found.attrib["message"]
    assert (root.attrib["errors"], root[0].attrib["errors"]) == ("1", "1")


@pytest.mark.parametrize("gate", [(), ("--fail-under", "AP@5=0")])
def test_an_incomplete_run_says_why(data: Desk, gate: tuple[str, ...]) -> None:
    """The first line says how many verdicts failed and how many may, also beside a gate; allowed ones are no fault."""
    run = ("run", "data.jsonl", "-m", "fake/refused", *gate)
    done = data(*run, *REPORTS)
    fault = "incomplete: 3 verdicts failed, --max-failures is 0"
    assert done.err.splitlines()[0] == f"error: {fault}"
    assert done.code == (3 if not gate else done.code)
    assert done.code != 0
    reported(data.folder, fault)
    assert "::error title=incomplete::3 verdicts failed" in data(*run, GITHUB_ACTIONS="true").err
    allowed = data(*run, "--max-failures", "3", *REPORTS)
    assert "incomplete" not in allowed.err
    assert "<error" not in (data.folder / "build/junit.xml").read_text(encoding="utf-8")


def test_a_retriever_that_failed_makes_a_run_incomplete(data: Desk) -> None:
    """Its questions are in no mean: code 3, and the first line says for how many it failed."""
    name = f"away_{time.time_ns()}"
    (data.folder / f"{name}.py").write_text(
        "def find(query):\n    if query == 'q1':\n        raise OSError('away')\n    return ['the sky is blue']\n"
    )
    questions = [{key: value for key, value in row.items() if key != "chunks"} for row in ROWS]
    (data.folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions), encoding="utf-8")
    done = data("run", "data.jsonl", "-m", "fake/overlap", "--retriever", f"{name}:find", *REPORTS)
    assert done.code == 3
    fault = "incomplete: the retriever failed for 1 question"
    assert f"error: {fault}" in done.err
    reported(data.folder, fault)


@pytest.mark.parametrize(
    ("status", "code", "end", "fault"),
    [
        (429, "insufficient_quota", 4, "no credit is left; add some, then resume"),
        (402, None, 4, "no credit is left"),
        (401, None, 2, "the key was not accepted"),
    ],
)
def test_a_server_that_declines(data: Desk, status: int, code: str | None, end: int, fault: str) -> None:
    """No credit ends with 4, a key that is not accepted with 2; both are in the reports."""
    with ChatServer() as server:
        server.script(*[error(status, "no", code=code)] * 9)
        keys = {"OPENAI_API_KEY": "sk-x", "JUDGE_EVAL_BASE_URL": server.url, "JUDGE_EVAL_ATTEMPTS": "1"}
        done = data("run", "data.jsonl", "-m", "openai/x", *REPORTS, **keys)
    assert done.code == end, done.err
    reported(data.folder, fault)


def test_a_missing_key_and_bad_data(data: Desk) -> None:
    """What is found before the first call is in the reports too, in one line."""
    assert data("run", "data.jsonl", "-m", "openai/x", *REPORTS).code == 2
    reported(data.folder, "OPENAI_API_KEY")
    (data.folder / "bad.jsonl").write_text('{"query": 1\n', encoding="utf-8")
    assert data("run", "bad.jsonl", "-m", "fake/overlap", *REPORTS).code == 2
    reported(data.folder, "error: bad.jsonl:1")
    assert data("compare", "label:none", "latest", *REPORTS).code == 2
    reported(data.folder, "error: no run")


def test_a_stopped_run(data: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM writes the reports with its reason, and keeps its code."""

    def stop(*_: object, **__: object) -> None:
        raise Terminated

    monkeypatch.setattr(Evaluator, "evaluate", stop)
    assert data("run", "data.jsonl", "-m", "fake/overlap", *REPORTS).code == 143
    reported(data.folder, "stopped by SIGTERM")


def test_a_file_that_cannot_be_written_costs_nothing(data: Desk) -> None:
    """It is tried before judging: one message, and no run; the folder is made if it can be."""
    (data.folder / "file").write_text("x")
    for output in ("file/report.md", "runs.md"):
        (data.folder / "runs.md").mkdir(exist_ok=True)
        done = data("run", "data.jsonl", "-m", "fake/overlap", "-o", output)
        assert (done.code, f"cannot write {output}: " in done.err) == (2, True), done.err
    assert not (data.folder / "runs").exists()


def test_a_failed_gate_keeps_its_code(data: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the report cannot be written in the end, that is said, and the code is still that of the gate."""
    from judge_eval.errors import ConfigError
    from judge_eval.export import text

    def full(*_: object) -> None:
        raise ConfigError("cannot write build/report.md: No space left on device")

    monkeypatch.setattr(text, "write_text", full)
    done = data("run", "data.jsonl", "-m", "fake/overlap", "--fail-under", "AP@5=0.99", *REPORTS)
    assert done.code == 1
    assert "No space left on device" in done.err
    assert data("run", "data.jsonl", "-m", "fake/overlap", *REPORTS).code == 2
