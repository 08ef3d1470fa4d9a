"""`compare` of files of data: they are judged first, as runs that are labelled by the files' names."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from judge_eval import EvalRun
from tests.support.desk import Desk

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture
def files(desk: Desk) -> Desk:
    """The same questions, answered by two retrievers."""
    for name, retriever in (("before", "text"), ("after", "title")):
        shutil.copy(FIXTURES / f"docs_qa_by_{retriever}.jsonl", desk.folder / f"{name}.jsonl")
    return desk


COMPARE = ("compare", "before.jsonl", "after.jsonl", "-m", "fake/overlap")


@pytest.mark.slow
def test_files_are_judged_and_compared(files: Desk) -> None:
    """The first line of output is what each file took; the sentence follows; the runs are kept under their names."""
    done = files(*COMPARE)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("before.jsonl: 185 verdicts, 185 calls, 0 from the cache, ")
    assert lines[1].startswith("after.jsonl: 135 verdicts, ")
    assert "after is worse: AP@5 -0.240" in done.out
    assert {EvalRun.load(folder).manifest.label for folder in (files.folder / "runs").iterdir()} == {"before", "after"}
    again = files(*COMPARE)
    assert "before.jsonl: 185 verdicts, 0 calls, 185 from the cache" in again.out
    assert "after is worse" in files("compare", "label:before", "after.jsonl", "-m", "fake/overlap").out


@pytest.mark.slow
def test_limits_json_and_failures(files: Desk) -> None:
    """A gate and `--json` work as for runs; failed verdicts above `--max-failures` end with 3."""
    done = files(*COMPARE, "--max-drop", "AP@5=0.03", "--json")
    assert done.code == 1
    assert json.loads(done.out)["checks"][0]["outcome"] == "failed"
    row = {"id": "e", "query": "q", "reference": "a", "chunks": [{"id": "a", "text": "a b"}, {"id": "b", "text": " "}]}
    for name in ("before", "after"):
        (files.folder / f"{name}.jsonl").write_text((json.dumps(row) + "\n") + json.dumps(row | {"id": "f"}))
    assert files(*COMPARE).code == 0  # chunks without text are not counted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("before.jsonl", "after.jsonl"), "before.jsonl is a file of data, not a run; name who judges it"),
        (("before.jsonl", "other.jsonl", "-m", "fake/overlap"), "before.jsonl and other.jsonl have no question in"),
        (("before.jsonl", "broken.jsonl", "-m", "fake/overlap"), "broken.jsonl"),
        (("before.jsonl", "absent.jsonl", "-m", "fake/overlap"), "absent.jsonl: no such file"),
        ((*COMPARE[1:], "--max-drop", "AP@5=x"), "AP@5=x"),
    ],
)
def test_what_cannot_be_compared_costs_nothing(files: Desk, arguments: tuple[str, ...], message: str) -> None:
    """All files are read, and limits checked, before the first call: no run is begun."""
    (files.folder / "broken.jsonl").write_text('{"query": "q"')
    (files.folder / "other.jsonl").write_text(
        json.dumps({"id": "x", "query": "another", "reference": "r", "chunks": [{"id": "a", "text": "t"}]})
    )
    done = files("compare", *arguments)
    assert (done.code, message in done.err) == (2, True), done.err
    assert not (files.folder / "runs").exists()
