"""`runs import`: verdicts given elsewhere, from the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from judge_eval.errors import DataError
from judge_eval.importing import import_verdicts
from tests.support.blocks_of_pages import data_of
from tests.support.command import FIXTURES, Shell

DATA = FIXTURES / "docs_qa.jsonl"


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """Judgments of all chunks but the last of each trace, and one of a chunk that is nowhere."""
    path = tmp_path / "people.qrels"
    lines = []
    for line in DATA.read_text(encoding="utf-8").splitlines():
        trace = json.loads(line)
        lines += [f"{trace['id']} 0 {chunk['id']} {chunk['label']}" for chunk in trace["chunks"][:-1]]
    path.write_text("\n".join([*lines, "elsewhere 0 d1 1"]) + "\n")
    return path


@pytest.mark.slow
def test_an_import_is_kept_shown_and_used(tmp_path: Path, people: Path) -> None:
    """The summary says where the verdicts are from and what is missing; every verb works on the run."""
    shell = Shell(tmp_path)
    result = shell("runs", "import", people, "--data", DATA, "--label", "people", "--metrics", "AP@5,P@4")
    assert result.code == 3, result.err
    assert "verdicts imported from people.qrels (sha256 " in result.out
    assert "(unjudged 37)" in result.out
    assert "1 verdict of the file is of chunks that the data do not hold" in result.out
    allowed = shell("runs", "import", people, "--data", DATA, "--max-failures", "37", "--json")
    assert allowed.code == 0
    assert json.loads(allowed.out)["backend"]["model"] == "people.qrels"
    whole = shell("runs", "import", DATA, "--data", DATA, "--label", "all", "-k", "AP@5")
    assert whole.code == 0, whole.err
    assert shell("run", DATA, "--model", "fake/overlap", "-q", "--label", "judge").code == 0
    for command in (
        ["score", "label:people", "-k", "P@3"],
        ["compare", "label:all", "label:judge"],
        ["agree", "label:judge", "label:people"],
        ["show", "label:people", "docs-002"],
        ["export", "label:people", "--format", "csv", "-o", "people.csv"],
        ["report", "label:people", "-o", "people.html"],
        ["runs", "list"],
    ):
        done = shell(*command)
        assert done.code == 0, (command, done.out, done.err)
    assert "verdicts imported from people.qrels" in json.dumps(data_of((tmp_path / "people.html").read_text()))
    again = shell("runs", "import", "people.csv", "--data", DATA, "--label", "again", "-k", "AP@5")
    assert "(unjudged 37)" in again.out


@pytest.mark.slow
def test_resuming_an_import_is_refused_in_words(tmp_path: Path, people: Path) -> None:
    """There is nothing to go on with, and the message says what to do."""
    shell = Shell(tmp_path)
    for flags in (["--resume"], ["--resume", "latest"]):
        result = shell("runs", "import", people, "--data", DATA, *flags)
        assert result.code == 2
        assert "nothing to resume; import the file again" in result.err
    assert not (tmp_path / "runs").exists()


def test_verdicts_of_a_device_or_a_pipe_are_refused_at_once(tmp_path: Path) -> None:
    """The file is read twice: a device would never end, and a pipe would be empty the second time."""
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe"):
        with pytest.raises(DataError, match="a pipe or a device, not a file of verdicts"):
            import_verdicts(path, [{"query": "q", "reference": "r", "chunks": ["c"]}])


@pytest.mark.slow
def test_bad_input_is_named_and_leaves_no_run(tmp_path: Path) -> None:
    """File and line are named, the exit code is 2."""
    shell = Shell(tmp_path)
    (tmp_path / "v.csv").write_text("trace_id,chunk_id,grade\ndocs-001,docs-001-1,4\n")
    result = shell("runs", "import", "v.csv", "--data", DATA)
    assert result.code == 2
    assert result.err.startswith("error: v.csv:2: chunk 'docs-001-1' of trace 'docs-001' has the grade 4")
    assert shell("runs", "import", "none.csv", "--data", DATA).code == 2
    assert shell("runs", "import", "v.csv", "--data", DATA, "--scale", "0-4").code == 2
    assert not (tmp_path / "runs").exists()
