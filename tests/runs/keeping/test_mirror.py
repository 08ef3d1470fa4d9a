import asyncio
import json
import shutil
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from typer.testing import Result

from judge_eval import EvalRun, Evaluator
from judge_eval.errors import DeniedError, RunError
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.keeping import mirror
from judge_eval.wire import Completion, Request
from tests.support.batching import call
from tests.support.canned import Canned
from tests.support.chat_server import ChatServer
from tests.support.object_storage import Machine, there
from tests.support.runs import traces
from tests.support.waiting import until

pytestmark = pytest.mark.foreign

LINES = "".join(
    json.dumps({"id": f"q{n}", "query": f"What of {n}?", "reference": f"Thing {n}.", "chunks": [f"Thing {n}.", "No."]})
    + "\n"
    for n in range(12)
)


@pytest.fixture(params=["memory", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder of runs behind a URL, in memory and in the local file system."""
    monkeypatch.setenv("JUDGE_EVAL_STAGING", str(tmp_path / "staging"))
    if request.param == "memory":
        yield "memory://bucket/runs"
        fsspec.filesystem("memory").store.clear()
    else:
        yield f"file://{tmp_path}/bucket/runs"


def judge(out: object, data: Path, *more: object, code: int = 0) -> Result:
    """Judge offline into a folder of runs."""
    return call("run", data, "--model", "fake/overlap", "--cache", "none", "--out", out, "-q", *more, code=code)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A small dataset."""
    path = tmp_path / "data.jsonl"
    path.write_text(LINES)
    return path


def test_verbs_read_and_write_a_folder_behind_a_url(place: str, data: Path, tmp_path: Path) -> None:
    """A run goes straight to a URL; every verb finds it there by id, label, latest and whole URL."""
    first = json.loads(judge(place, data, "--label", "main", "--json").stdout)
    second = json.loads(judge(place, data, "--label", "PR", "--json").stdout)
    names = there(place)
    assert sum(name.endswith("/manifest.json") for name in names) == 2
    shutil.rmtree(tmp_path / "staging")  # as on another machine
    listed = json.loads(call("runs", "list", "--out", place, "--json").stdout)
    assert [run["id"] for run in listed] == [second["id"], first["id"]]
    folders = {name.partition("/")[0] for name in names}
    whole = next(f"{place}/{name}" for name in folders if name.endswith(first["id"][:8]))
    shown = call("show", whole, "--json").stdout
    assert json.loads(shown) == first
    for name in (first["id"][:8], "label:main"):
        assert json.loads(call("show", name, "--out", place, "--json").stdout) == first
    assert "no difference" in call("compare", "label:main", "latest", "--out", place).stdout
    call("compare", whole, "latest", "--out", place, "--max-drop", "AP@5=0.1")
    assert "12 traces" in call("show", whole).stdout
    call("report", whole, "-o", tmp_path / "report.html", "--cache", "none")
    call("score", "label:PR", "--out", place, "--metrics", "AP@3")
    call("export", whole, "-o", tmp_path / "run.csv")
    call("run", data, "--model", "fake/overlap", "--cache", "none", "--out", tmp_path / "here", "-q",
         "--baseline", whole, "--max-drop", "AP@5=0.1")  # fmt: skip
    assert "no run 'nothing' in" in call("show", "nothing", "--out", place, code=2).output
    assert "no run in" in call("show", f"{place}/nothing", code=2).output
    assert "runs pull" in call("serve", "--out", place, code=2).output


def test_a_run_behind_a_url_is_resumed_as_the_message_says(place: str, data: Path, tmp_path: Path) -> None:
    """The advice names the URL and the run in it, not the folder on this machine, and the command goes on."""
    judge_it = ("run", data, "--model", "fake/overlap", "--cache", "none", "--out", place)
    stopped = call(*judge_it, "--max-calls", "5", code=3).stderr
    words = " ".join(stopped.split())
    name = words.partition("the same command with --resume ")[2].split()[0]
    assert f"the run is kept in {place}; the same command with --resume {name} continues" in words
    assert "/" not in name
    assert str(tmp_path / "staging") not in words.partition("the run is kept in")[2]
    resumed = call(*judge_it, "--resume", name)
    assert "19 calls by this command, 5 before it" in resumed.stdout


def test_shards_are_merged_behind_a_url(place: str, data: Path) -> None:
    """Shards of several machines are merged where they lie, and the merged run goes there too."""
    ids = [json.loads(judge(place, data, "--shard", f"{k}/2", "--json").stdout)["id"] for k in (1, 2)]
    document = json.loads(call("runs", "merge", *ids, "--out", place, "--json").stdout)
    assert document["tally"]["traces"] == 12
    assert sum(name.endswith("/results.jsonl") for name in there(place)) == 3


def test_python_judges_into_a_url_and_opens_a_run_behind_one(
    place: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`evaluate(out=URL)` leaves the run there, `EvalRun.load(URL)` opens it; settings may name it too."""
    with Evaluator("fake/overlap", cache=False) as evaluator:
        run = evaluator.evaluate(data, out=place, label="from Python")
    assert run.folder is not None
    shutil.rmtree(tmp_path / "staging")
    again = EvalRun.load(f"{place}/{run.folder.name}")
    assert (again.label, len(again.results)) == ("from Python", 12)
    monkeypatch.setenv("JUDGE_EVAL_OUT", place)
    assert json.loads(call("runs", "list", "--json").stdout)[0]["id"] == run.id


def test_a_copy_that_was_cut_short_never_goes_back(place: str, data: Path, tmp_path: Path) -> None:
    """A run that was half brought when a kill came is brought anew; its half is not pushed over the whole."""
    document = json.loads(judge(place, data, "--json").stdout)
    root = mirror.place_of_runs(place)
    (folder,) = (path for path in root.iterdir() if path.is_dir())
    (folder / ".synced").write_text('{"bringing": true}')
    (folder / "manifest.json").write_text((folder / "manifest.json").read_text().replace("done", "failed"))
    judge(place, data, "--label", "next")
    shown = json.loads(call("show", document["id"], "--out", place, "--json").stdout)
    assert shown["status"] == "done"


def test_what_changed_there_is_brought_again(place: str, data: Path, tmp_path: Path) -> None:
    """A run that another machine resumed or replaced is read anew; an unchanged one is not copied again."""
    document = json.loads(judge(place, data, "--json").stdout)
    root = mirror.place_of_runs(place)
    (folder,) = (path for path in root.iterdir() if path.is_dir())
    stamp = (folder / "results.jsonl").stat().st_mtime_ns
    call("show", "latest", "--out", place)
    assert (folder / "results.jsonl").stat().st_mtime_ns == stamp
    system, base = fsspec.core.url_to_fs(f"{place}/{folder.name}")
    with system.open(f"{base}/manifest.json", "rb") as file:
        changed = json.loads(file.read()) | {"label": "changed elsewhere"}
    time.sleep(0.01)
    with system.open(f"{base}/manifest.json", "wb") as file:
        file.write(json.dumps(changed, indent=2).encode())
    shown = json.loads(call("show", "latest", "--out", place, "--json").stdout)
    assert (shown["id"], shown["label"]) == (document["id"], "changed elsewhere")


def test_a_run_that_cannot_be_pushed_is_kept_and_pushed_later(
    place: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the storage fails at the end, the run is kept: the message says where, the next run pushes it."""

    def fails(folder: Path, url: str) -> str:
        raise RunError("the bucket is gone")

    with monkeypatch.context() as patched:
        patched.setattr(mirror.transfer, "push", fails)
        output = judge(place, data, code=2).output
    assert "the bucket is gone" in output
    (folder,) = mirror.place_of_runs(place).iterdir()
    assert str(folder) in output.replace("\n", "")
    assert load_manifest(folder).status == "done"
    judge(place, data)
    assert sum(name.endswith("/results.jsonl") for name in there(place)) == 2


def test_no_secret_of_a_url_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that stands for a URL follows from it, and tells nothing of what is in it."""
    monkeypatch.setenv("JUDGE_EVAL_STAGING", str(tmp_path))
    root = mirror.place_of_runs("s3://key:passw0rd@bucket/runs")
    assert root == mirror.place_of_runs("s3://key:passw0rd@bucket/runs/")
    assert root != mirror.place_of_runs("s3://bucket/runs")
    assert "passw0rd" not in str(root)
    assert mirror.shown(root) == "s3://bucket/runs"
    assert mirror.place_of_runs("runs") == Path("runs")
    monkeypatch.delenv("JUDGE_EVAL_STAGING")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert mirror.place_of_runs("s3://bucket/runs").parent == tmp_path / "state" / "judge_eval" / "runs"


def test_datasets_and_runs_live_in_s3(s3: str, tmp_path: Path) -> None:
    """With a server that speaks S3: a dataset is read from it, runs are written, listed, compared there."""
    single, two = Machine(tmp_path / "one", s3), Machine(tmp_path / "two", s3)
    plain = {"Content-Type": "application/octet-stream"}
    put = urllib.request.Request(f"{s3}/bucket/data.jsonl", LINES.encode(), plain, method="PUT")
    urllib.request.urlopen(put, timeout=60).close()
    runs = "s3://bucket/runs"
    judge = ("run", "s3://bucket/data.jsonl", "--model", "fake/overlap", "--out", runs, "-q")
    first = single(*judge, "--label", "main")
    assert "pushed to s3://bucket/runs/" in first.err
    two(*judge, "--label", "PR")
    listed = json.loads(two("runs", "list", "--out", runs, "--json").out)
    assert [run["label"] for run in listed] == ["PR", "main"]
    assert "no difference" in single("compare", "label:main", "label:PR", "--out", runs).out
    there = first.err.rpartition("pushed to ")[2].split()[0]
    assert "12 traces" in two("show", there).out
    missing = two("run", "s3://bucket/none.jsonl", "--model", "fake/overlap", "--out", runs, code=2)
    assert "s3://bucket/none.jsonl" in missing.err
    assert "Traceback" not in missing.err


def lines_in(folder: Path) -> int:
    """Count the results that a machine has written down."""
    return sum(len(path.read_bytes().splitlines()) for path in folder.rglob("results.jsonl"))


def test_a_killed_run_into_s3_is_resumed_by_the_same_command(s3: str, tmp_path: Path) -> None:
    """Killed with SIGKILL it loses nothing that was paid: --resume goes on; another machine goes on too."""
    data = tmp_path / "data.jsonl"
    data.write_text(LINES)
    first, two = Machine(tmp_path / "one", s3), Machine(tmp_path / "two", s3)
    with ChatServer() as server:
        server.script(*[Canned()] * 10, *[Canned(fate="hang")] * 500)
        judge = (
            "run", data, "--model", "openai/m", "--base-url", server.url, "--cache", "none", "--concurrency", "2",
            "--out", "s3://bucket/killed", "--resume=newest", "-q",
        )  # fmt: skip
        process = first.start(*judge)
        until(lambda: server.counts["hang"] >= 2 and lines_in(tmp_path / "one") >= 2, process)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        server._scripted.clear()
        assert not json.loads(two("runs", "list", "--out", "s3://bucket/killed", "--json").out)
        kept = lines_in(tmp_path / "one")
        before = server.counts["paid"]
        first(*judge)
        assert server.counts["paid"] - before <= 24 - 2 * kept
        (run,) = json.loads(two("runs", "list", "--out", "s3://bucket/killed", "--json").out)
        assert (run["status"], run["tally"]["traces"]) == ("done", 12)
        # A run that was interrupted is pushed as it is, and any machine goes on with it.
        more = tmp_path / "more.jsonl"
        more.write_text(LINES.replace('"id": "q', '"id": "r'))
        again = ("run", more, *judge[2:])
        server.latency = 0.4
        process = first.start(*again)
        enough = before + 24 - 2 * kept + 8
        until(lambda: server.counts["paid"] >= enough, process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
        server.latency = 0.0
        newest = json.loads(two("runs", "list", "--out", "s3://bucket/killed", "--json").out)[0]
        assert newest["status"] == "interrupted"
        done = newest["tally"]["verdicts"]  # a trace that was cut off may have one verdict of two
        assert done > 0
        before = server.counts["paid"]
        two(*again)
        assert server.counts["paid"] - before <= 24 - done
        newest = json.loads(first("runs", "list", "--out", "s3://bucket/killed", "--json").out)[0]
        assert (newest["status"], newest["tally"]["traces"]) == ("done", 12)


def test_the_storage_of_an_http_server_that_is_down_is_told(tmp_path: Path) -> None:
    """A storage that cannot be reached is one message without a traceback, before anything is paid."""
    machine = Machine(tmp_path / "one", "http://127.0.0.1:9")
    result = machine("runs", "list", "--out", "s3://bucket/runs", code=2)
    assert result.err.startswith("error: s3://bucket/runs")
    assert "Traceback" not in result.err


class Refusing:
    """A backend that refuses after a while."""

    identity = None

    async def complete(self, request: Request) -> Completion:
        """Refuse."""
        await asyncio.sleep(1.0)
        raise DeniedError("the key is not valid")

    async def aclose(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(("push_every", "left"), [(0.2, ["failed"]), (20.0, [])])
def test_a_run_that_was_pushed_before_it_failed_is_pushed_as_failed(
    place: str, push_every: float, left: list[str]
) -> None:
    """Whoever reads the place sees no run under way that has ended; one of which nothing was pushed leaves nothing."""
    with Evaluator(Refusing(), cache=False) as evaluator, pytest.raises(DeniedError):
        evaluator.evaluate(traces(2), out=place, push_every=push_every)
    system, base = fsspec.core.url_to_fs(place)
    manifests = [json.loads(system.cat_file(name)) for name in system.find(base) if name.endswith("manifest.json")]
    assert [each["status"] for each in manifests] == left
    assert not any(name.endswith("pushing.json") for name in there(place))
    assert len(list(mirror.place_of_runs(place).glob("*"))) == len(left)
