import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge_eval import Evaluator
from judge_eval.data.reading import is_url
from judge_eval.errors import ConfigError, DataError, RunError
from judge_eval.eval_run import EvalRun
from judge_eval.runs.keeping.transfer import pull, push
from judge_eval.safe_text import public_url
from tests.support.application import CliRunner, app
from tests.support.chat_server import ChatServer
from tests.support.object_storage import Machine

pytestmark = pytest.mark.foreign

fsspec = pytest.importorskip("fsspec")

LINES = "".join(
    json.dumps({"id": f"q{n}", "query": f"q{n}?", "reference": "r", "chunks": [f"a{n}", "b"]}) + "\n" for n in range(5)
)


@pytest.fixture(params=["memory", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A folder behind a URL, in memory and in the local file system."""
    if request.param == "memory":
        yield "memory://bucket"
        fsspec.filesystem("memory").store.clear()
    else:
        yield f"file://{tmp_path}/bucket"


def put(url: str, text: str) -> None:
    """Write a file behind a URL."""
    with fsspec.open(url, "w", auto_mkdir=True) as file:
        file.write(text)


def test_datasets_are_read_from_urls(place: str, tmp_path: Path) -> None:
    """A dataset behind a URL is judged as one on disk is, in Python and on the command line."""
    url = f"{place}/traces.jsonl"
    put(url, LINES)
    local = tmp_path / "traces.jsonl"
    local.write_text(LINES)
    with Evaluator("fake/overlap", cache=False) as evaluator:
        there, here = evaluator.evaluate(url), evaluator.evaluate(local)
    assert there.manifest.dataset.digest == here.manifest.dataset.digest
    assert there.manifest.dataset.name == url
    assert there.aggregates == here.aggregates
    done = CliRunner().invoke(
        app, ["run", url, "--model", "fake/overlap", "--cache", "none", "--out", str(tmp_path / "runs"), "--json", "-q"]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["dataset"]["name"] == url


def test_missing_files_and_drivers_are_told_without_secrets(place: str) -> None:
    """A file that is not there, and a scheme that nobody knows, are errors that name the place only."""
    with Evaluator("fake/overlap", cache=False) as evaluator:
        with pytest.raises(DataError, match="cannot be read"):
            evaluator.evaluate(f"{place}/nothing.jsonl")
        with pytest.raises(ConfigError) as caught:
            evaluator.evaluate("nosuch://user:passw0rd@host/traces.jsonl?token=hunter22")
    assert "passw0rd" not in str(caught.value)
    assert "hunter22" not in str(caught.value)
    assert public_url("s3://key:secret@bucket/a/b?x=1") == "s3://bucket/a/b"
    assert [is_url(name) for name in ("s3://b/x", "C:/x", "x.jsonl", "-", "./a://b")] == [True, *[False] * 4]


def test_runs_go_there_and_back(place: str, tmp_path: Path) -> None:
    """A run that was pushed and pulled is the same, byte for byte; pushing again replaces it."""
    data = [json.loads(line) for line in LINES.splitlines()]
    with Evaluator("fake/overlap", cache=False) as evaluator:
        run = evaluator.evaluate(data, out=tmp_path / "runs")
    assert run.folder is not None
    there = push(run.folder, f"{place}/runs")
    assert push(run.folder, f"{place}/runs/") == there
    back = pull(there, tmp_path / "pulled")
    for name in ("manifest.json", "results.jsonl"):
        assert (back / name).read_bytes() == (run.folder / name).read_bytes()
    assert EvalRun.load(back).aggregates == run.aggregates
    with pytest.raises(RunError, match="here already"):
        pull(there, tmp_path / "pulled")
    with pytest.raises(RunError, match="no run in"):
        pull(f"{place}/runs/other", tmp_path / "pulled")
    assert [path.name for path in (tmp_path / "pulled").iterdir()] == [back.name]
    runner = CliRunner()
    pushed = runner.invoke(app, ["runs", "push", "latest", f"{place}/again", "--out", str(tmp_path / "runs")])
    assert pushed.exit_code == 0, pushed.output
    pulled = runner.invoke(app, ["runs", "pull", pushed.stdout.strip(), "--out", str(tmp_path / "third")])
    assert pulled.exit_code == 0, pulled.output


def test_a_bucket_is_never_created(s3: str, tmp_path: Path) -> None:
    """A bucket that does not exist ends the run before the first call, and none is there afterwards."""
    (tmp_path / "data.jsonl").write_text('{"query": "q?", "reference": "r", "chunks": ["a b c"]}\n')
    machine = Machine(tmp_path / "one", s3)
    with ChatServer() as server:
        judge = ("run", tmp_path / "data.jsonl", "--model", "openai/m", "--base-url", server.url, "-q")
        refused = machine(*judge, "--out", "s3://typo/runs", code=2)
        assert "s3://typo/runs: no such bucket: 'typo'" in refused.err
        assert server.calls == []
    with urllib.request.urlopen(f"{s3}/", timeout=60) as reply:
        assert b"typo" not in reply.read()
