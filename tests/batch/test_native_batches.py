"""Batches of Anthropic and Gemini: the same steps, the same verdicts as online, nothing paid twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval.eval_run import EvalRun
from judge_eval.runs.keeping.lookup import run_folders
from tests.support.batch_server import BatchServer
from tests.support.batching import call, moody, new_cache, newest, same_results
from tests.support.killing import Killer
from tests.support.native_batches import GeminiBatchServer, MessageBatchServer, Native

WIRES = [(MessageBatchServer, "anthropic/m"), (GeminiBatchServer, "gemini/m")]
wires = pytest.mark.parametrize(("kind", "model"), WIRES, ids=["anthropic", "gemini"])
most = pytest.mark.parametrize(
    ("kind", "model"), [WIRES[0], pytest.param(*WIRES[1], marks=pytest.mark.slow)], ids=["anthropic", "gemini"]
)


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "sk-test-1234567890")


def export(server: BatchServer, model: str, data: Path, folder: Path, *more: object) -> None:
    """Export the data for the server."""
    cache = new_cache(folder.parent / f"{folder.name}-cache")
    call("batch", "export", data, "--out", folder, "--model", model, "--base-url", server.url, "--cache", cache, *more)


@wires
def test_a_batch_equals_the_online_run(tmp_path: Path, data: Path, kind: type[BatchServer], model: str) -> None:
    """Export, submit, fetch and import make the run that calls make; repairs go into a second round."""
    folder, out = tmp_path / "batch", tmp_path / "runs"
    with kind(verdict=moody, polls=1) as server:
        export(server, model, data, folder, "--max-requests", 20)
        for code in (3, 0):
            call("batch", "submit", folder)
            call("batch", "fetch", folder, code=3)
            call("batch", "fetch", folder, "--wait", "--interval", 0.01)
            call("batch", "import", folder, "--finish", "batch", "--out", out, "--metrics", "AP@5,NDCG@5", code=code)
        assert server.online == 0
        assert set(server.paid.values()) == {1}
        assert server.keys == {""}
        by_batch = newest(out)
        assert by_batch.manifest.tally.calls == sum(server.paid.values())
    with kind(verdict=moody) as server:
        call(
            "run", data, "--model", model, "--base-url", server.url, "--out", tmp_path / "online", "-q",
            "--cache", new_cache(tmp_path / "cache"), "--metrics", "AP@5,NDCG@5",
        )  # fmt: skip
        same_results(by_batch, newest(tmp_path / "online"))


@most
def test_lines_without_a_reply_are_open(tmp_path: Path, data: Path, kind: type[BatchServer], model: str) -> None:
    """Expired, failed and missing lines are asked online; what was answered is not asked again."""
    fates = ["ok", "expired", "500", "missing", "429"]
    folder, out = tmp_path / "batch", tmp_path / "runs"
    with kind(status=lambda number: fates[number % 5]) as server:
        export(server, model, data, folder)
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        answered = sum(server.paid.values())
        output = call("batch", "import", folder, "--out", out).output
        assert "requests without a reply are asked online now" in output
        assert server.online == sum(server.paid.values()) - answered > 0
        assert set(server.paid.values()) == {1}
        assert newest(out).manifest.tally.failed_verdicts == 0


@wires
@pytest.mark.parametrize("torn", [False, True], ids=["half", "torn"])
def test_a_file_without_all_its_lines_is_not_taken(
    tmp_path: Path, data: Path, kind: type[Native], model: str, torn: bool
) -> None:
    """Half a file of results, or one whose last line is torn, buys nothing again; when it is whole it is fetched."""
    folder, out = tmp_path / "batch", tmp_path / "runs"
    with kind() as server:
        export(server, model, data, folder)
        call("batch", "submit", folder)
        server.sent = _half if not torn else lambda whole: whole[:-9]
        told = " ".join(call("batch", "fetch", folder, code=2).output.split())
        assert ("is torn" if torn else "the server says ") in told
        assert "`batch fetch` tries it again" in told
        server.sent = bytes
        call("batch", "fetch", folder)
        call("batch", "import", folder, "--finish", "batch", "--out", out)
        assert set(server.paid.values()) == {1}
        assert len(server.batches) == 1
    assert newest(out).manifest.tally.failed_verdicts == 0


def _half(whole: bytes) -> bytes:
    lines = whole.splitlines(keepends=True)
    return b"".join(lines[: len(lines) // 2])


@most
def test_a_declined_form_is_named(tmp_path: Path, data: Path, kind: type[BatchServer], model: str) -> None:
    """A 400 about the form of every line is told with the server's words at the import."""
    words = "This model does not support output_format json_schema. response_format is not supported"
    folder = tmp_path / "batch"
    with kind(decline=lambda _: words) as server:
        export(server, model, data, folder)
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        output = call("batch", "import", folder, "--finish", "later", "--out", tmp_path / "runs", code=3).output
        assert "declined by the server" in output
        assert "does not support" in output


@most
def test_cancelling(tmp_path: Path, data: Path, kind: type[BatchServer], model: str) -> None:
    """A cancelled batch brings what it has."""
    folder = tmp_path / "batch"
    with kind(polls=10) as server:
        export(server, model, data, folder)
        call("batch", "submit", folder)
        (part,) = json.loads((folder / "batch.json").read_text())["rounds"][0]["parts"]
        call("batch", "cancel", folder, part["batch_id"])
        assert server.counts["cancel"] == 1
        call("batch", "status", folder)
        call("batch", "fetch", folder, "--wait", "--interval", 0.01)
        call("batch", "import", folder, "--out", tmp_path / "runs")
        assert set(server.paid.values()) == {1}


@pytest.mark.slow
def test_a_lost_order_without_a_name_is_settled_by_the_user(tmp_path: Path, data: Path) -> None:
    """Message Batches carry no name: `submit` lists what may be it, and orders nothing until it is told."""
    folder, other = tmp_path / "batch", tmp_path / "other"
    strangers = [{**json.loads(line), "reference": "Something else."} for line in data.read_text().splitlines()]
    (tmp_path / "other.jsonl").write_text("".join(json.dumps(trace) + "\n" for trace in strangers))
    with MessageBatchServer() as server:
        export(server, "anthropic/m", data, folder)
        server.lose = {"create"}
        assert "not known whether the batch was submitted" in call("batch", "submit", folder, code=2).output
        for _ in range(2):
            assert "created since then: batch-1 (34 requests)" in call("batch", "submit", folder, code=2).output
        call("batch", "submit", folder, "--created", "batch-1")
        assert len(server.batches) == 1
        # An order that did not arrive, and the user names the first batch, which has the same size.
        export(server, "anthropic/m", tmp_path / "other.jsonl", other)
        server.before = {"create": [lambda: None]}
        call("batch", "submit", other, code=2)
        call("batch", "submit", other, "--created", "batch-1")
        assert "batch-1 is another batch" in call("batch", "fetch", other, code=2).output
        call("batch", "submit", other, "--created", "none")
        for each in (folder, other):
            call("batch", "fetch", each)
            call("batch", "import", each, "--out", tmp_path / "runs")
        assert server.online == 0
        assert set(server.paid.values()) == {1}
        assert len(server.batches) == 2


def settled(server: BatchServer, folder: Path) -> tuple[str, ...]:
    """Return the flag that says which batch a lost order of Message Batches made; none for other servers."""
    parts = [part for each in json.loads((folder / "batch.json").read_text())["rounds"] for part in each["parts"]]
    if not isinstance(server, MessageBatchServer) or all(part["phase"] != "submitting" for part in parts):
        return ()
    new = server.batches.keys() - {part["batch_id"] for part in parts}
    return ("--created", next(iter(new), "none"))


@pytest.mark.slow
@pytest.mark.timeout(600)
@wires
def test_kill_at_every_step_pays_nothing_twice(tmp_path: Path, data: Path, kind: type[BatchServer], model: str) -> None:
    """However often the steps are killed, each request is paid once and none is lost."""
    folder, out = tmp_path / "batch", tmp_path / "runs"
    with kind(verdict=moody) as server:
        killer = Killer(server)
        export = (
            "batch", "export", data, "--out", folder, "--model", model, "--base-url", server.url,
            "--cache", tmp_path / "cache", "--max-requests", 20,
        )  # fmt: skip
        killer.when(folder.exists, *export)
        killer.when((folder / "round-1").exists, *export)
        killer.to_the_end(*export)
        calls: Any = ("list", "upload", "create") if kind is GeminiBatchServer else ("create",)
        for round_ in range(1, 6):
            for name in calls if round_ < 3 else ():
                for when in ("before", "after"):
                    killer.at(when, name, "batch", "submit", folder, "--patience", 0.1, *settled(server, folder))
            killer.to_the_end("batch", "submit", folder, "--patience", 0.1, *settled(server, folder))
            if round_ == 1:
                for when, name in (("before", "retrieve"), ("before", "content"), ("after", "content")):
                    killer.at(when, name, "batch", "fetch", folder)
            killer.to_the_end("batch", "fetch", folder)
            bring = ("batch", "import", folder, "--finish", "batch", "--out", out, "-q")
            killer.when((folder / f"round-{round_ + 1}").exists, *bring)
            if killer.to_the_end(*bring, codes=(0, 3)) == 0:
                break
        assert killer.kills > 8
        assert set(server.paid.values()) == {1}
        assert server.online == 0
        run = EvalRun.load(next(run_folders(out))[0])
        assert run.manifest.tally.failed_verdicts == 0
        assert run.manifest.tally.traces == 12
