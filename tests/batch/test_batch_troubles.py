"""Batches that are doubled, cancelled, refused or lost, and folders that hold something else."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judge_eval.batch.pending import storable_cache
from judge_eval.batch.state import Folder
from tests.support.application import app
from tests.support.batch_server import BatchServer
from tests.support.batching import RUNNER, call, export, moody, newest
from tests.support.chat_answers import judge


def test_another_batch_in_the_folder_is_refused(tmp_path: Path, data: Path) -> None:
    """A folder holds one batch: other data or another prompt are refused by name, and no key is written."""
    with BatchServer() as server:
        folder = tmp_path / "batch"
        export(server, data, folder)
        result = export(server, data, folder, "--prompt", "relevance/binary", code=2)
        assert "the judge differs" in result.output
        data.write_text(data.read_text().replace("Thing 4", "Thing 44"))
        assert "the data differ" in export(server, data, folder, code=2).output
        secret = server.url.replace("http://", "http://user:passw0rd@")
        call("batch", "export", data, "--out", tmp_path / "other", "--model", "openai/m", "--base-url", secret)
        for path in (tmp_path / "other").rglob("*"):
            assert path.is_dir() or b"passw0rd" not in path.read_bytes()


@pytest.mark.foreign
def test_passwords_of_caches_are_not_written_down() -> None:
    """A cache's URL is kept in the batch's folder only where it holds no password."""
    assert storable_cache("postgresql://me@host/db") == "postgresql://me@host/db"
    assert storable_cache("postgresql://me:passw0rd@host/db") is None
    assert storable_cache("postgresql://host/db?password=passw0rd") is None
    assert storable_cache("some/folder") == str(Path("some/folder").absolute())
    assert storable_cache("project") == "project"
    assert storable_cache(None) is None


def test_steps_without_a_batch_say_what_to_do(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a batch, a model without batches and an unknown way to finish are usage errors."""
    assert "batch export" in call("batch", "submit", tmp_path, code=2).output
    result = call("batch", "export", data, "--out", tmp_path / "b", "--model", "fake/overlap", code=2)
    assert "takes no batches" in result.output
    assert call("batch", "import", tmp_path, "--finish", "never", code=2)


@pytest.mark.slow
def test_metrics_that_the_data_cannot_serve_end_the_export(tmp_path: Path, data: Path) -> None:
    """Nothing is written to submit; what the export was told to compute is what the import computes."""
    with BatchServer() as server:
        result = export(server, data, tmp_path / "batch", "--metrics", "AP@5,bpref", code=2)
        assert "bpref" in result.output
        assert not list((tmp_path / "batch").glob("round-*"))
        export(server, data, tmp_path / "batch", "--metrics", "P@2,MRR")
        call("batch", "submit", tmp_path / "batch", "--base-url", server.url)
        call("batch", "fetch", tmp_path / "batch", "--base-url", server.url, "--wait", "--interval", "0.01")
        out = ["--out", tmp_path / "runs"]
        refused = call("batch", "import", tmp_path / "batch", "--metrics", "Recall@5", *out, code=2)
        assert "relevant_total" in refused.output
        call("batch", "import", tmp_path / "batch", *out)
    assert newest(tmp_path / "runs").manifest.metrics == ("P@2", "MRR")


@pytest.mark.slow
def test_a_batch_that_goes_on_keeps_its_prompts(tmp_path: Path, data: Path) -> None:
    """A batch whose settings name a prompt without a version goes on with the version of its judge."""
    with BatchServer() as server:
        folder, out = tmp_path / "batch", tmp_path / "runs"
        export(server, data, folder, "--prompt", "support/binary@1")
        state = json.loads((folder / "batch.json").read_bytes())
        state["settings"]["prompt"] = "support/binary"
        (folder / "batch.json").write_text(json.dumps(state))
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        call("batch", "import", folder, "--out", out)
        prompt = newest(out).manifest.judge["prompt"]
        assert isinstance(prompt, dict)
        assert prompt["version"] == 1
        assert server.online == 0
        assert set(server.paid.values()) == {1}


@pytest.mark.slow
def test_a_batch_keeps_its_policy(tmp_path: Path, data: Path) -> None:
    """What was exported with --evidence required is imported so."""

    def sloppy(body: Mapping[str, Any]) -> Any:
        return {**judge(body), "verdict": True, "evidence": "words that nobody wrote"}

    with BatchServer(verdict=sloppy) as server:
        folder, out = tmp_path / "batch", tmp_path / "runs"
        export(server, data, folder, "--evidence", "required")
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        call("batch", "import", folder, "--out", out, "--max-failures", 100)
        assert newest(out).manifest.tally.failures == {"unsupported": 36}


@pytest.mark.slow
def test_a_second_batch_is_named_and_cancelled(tmp_path: Path, data: Path) -> None:
    """A batch ordered twice is named with both ids by `submit` and `status`, and `cancel` ends it."""
    with BatchServer(listing=3600, polls=1000) as server:
        folder = tmp_path / "batch"
        export(server, data, folder, "--max-requests", 20)
        server.lose = {"create"}
        output = call("batch", "submit", folder, "--patience", 0, code=2).output
        assert "not known whether the batch was submitted" in output
        call("batch", "submit", folder, "--patience", 0)
        assert len(server.batches) == 3  # for two files: nobody would wait, and the list is late
        server.listing = 0
        output = call("batch", "status", folder).output
        assert "part-0001.jsonl was ordered twice: batch-1 (validating) does the work of batch-2" in output
        assert f"batch cancel {folder} batch-1" in output
        unknown = call("batch", "cancel", folder, "batch-9", code=2).output
        assert "batch-9 is not a batch of this round" in unknown
        assert "batch-1 is cancelling" in call("batch", "cancel", folder, "batch-1").output
        assert "twice" not in call("batch", "status", folder).output
        server.polls = 0
        call("batch", "fetch", folder)
        call("batch", "import", folder, "--out", tmp_path / "runs")
        assert newest(tmp_path / "runs").manifest.tally.failed_verdicts == 0
        assert server.batches["batch-1"]["status"] == "cancelling"


@pytest.mark.slow
def test_a_batch_that_is_cancelled_brings_what_it_has(tmp_path: Path, data: Path) -> None:
    """A batch is cancelled by its id; what it had answered is fetched, and the rest is open."""
    with BatchServer(polls=1000, status=lambda number: "ok" if number < 5 else "missing") as server:
        folder = tmp_path / "batch"
        export(server, data, folder)
        call("batch", "submit", folder)
        assert "batch-1 is cancelling" in call("batch", "cancel", folder, "batch-1").output
        call("batch", "fetch", folder)
        output = call("batch", "import", folder, "--finish", "later", code=3).output
        assert "5 replies went into the cache" in output
        assert "29 requests are open" in output


def test_an_order_that_was_not_taken_is_not_waited_for(tmp_path: Path, data: Path) -> None:
    """Where the server says that it took no order, the next submit orders at once, without looking."""
    with BatchServer() as server:
        folder = tmp_path / "batch"
        export(server, data, folder)
        server.busy = {"create"}
        assert "too many batches" in call("batch", "submit", folder, code=2).output
        with Folder(folder) as held:
            assert [part.phase for part in held.current.parts] == ["exported"]
        server.counts.clear()
        call("batch", "submit", folder)
        assert len(server.batches) == server.counts["create"] == 1
        assert server.counts["upload"] == 0


@pytest.mark.slow
def test_later_rounds_keep_the_size_of_files(tmp_path: Path, data: Path) -> None:
    """`import --finish batch` exports the next round in files as small as those of the first."""
    with BatchServer(status=lambda _: "expired", final="expired") as server:
        folder = tmp_path / "batch"
        export(server, data, folder, "--max-requests", 10)
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        call("batch", "import", folder, "--finish", "batch", code=3)
        with Folder(folder) as held:
            first, second = held.known.rounds
            assert [part.requests for part in second.parts] == [10, 10, 10, 4]
            assert [part.requests for part in first.parts] == [10, 10, 10, 4]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["pointwise", "listwise"])
def test_repairs_go_out_while_other_answers_are_to_come(tmp_path: Path, data: Path, mode: str) -> None:
    """What has an unreadable answer is repaired in the next round, beside what has no answer yet."""

    def worst(body: Mapping[str, Any]) -> Any:
        return "I would say so." if len(body["messages"]) == 2 else judge(body)

    with BatchServer(verdict=worst, status=lambda number: "expired" if number % 3 else "ok") as server:
        folder = tmp_path / "batch"
        export(server, data, folder, "--mode", mode)
        requests = len((folder / "round-1" / "part-0001.jsonl").read_bytes().splitlines())
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        call("batch", "import", folder, "--finish", "batch", code=3)
        lines = (folder / "round-2" / "part-0001.jsonl").read_text().splitlines()
        lengths = [len(json.loads(line)["body"]["messages"]) for line in lines]
        answered = (requests + 2) // 3
        assert lengths.count(2) == requests - answered
        assert sum(length > 2 for length in lengths) == answered
        server.status = lambda _: "ok"
        server.verdict = judge
        rounds = 1
        while True:
            call("batch", "submit", folder)
            call("batch", "fetch", folder)
            rounds += 1
            out = ["--finish", "batch", "--out", str(tmp_path / "runs"), "--metrics", "AP@5,NDCG@5"]
            if RUNNER.invoke(app, ["batch", "import", str(folder), *out]).exit_code == 0:
                break
            assert rounds < 5
        run = newest(tmp_path / "runs")
        assert run.manifest.tally.failed_verdicts == 0
        assert set(server.paid.values()) == {1}
        assert server.online == 0


@pytest.mark.slow
def test_replies_of_a_batch_are_calls_once(tmp_path: Path, data: Path) -> None:
    """A run counts each reply of its batch once, unreadable ones too, and the calls made online."""
    with BatchServer(verdict=moody) as server:
        folder = tmp_path / "batch"
        export(server, data, folder)
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        call("batch", "import", folder, "--out", tmp_path / "runs")
        assert server.online > 0
        assert newest(tmp_path / "runs").manifest.tally.calls == sum(server.paid.values())


@pytest.mark.slow
def test_a_lost_state_costs_no_reply(tmp_path: Path, data: Path) -> None:
    """A folder of replies without its `batch.json` is not exported into; a new batch imports its files."""
    with BatchServer() as server:
        folder, other = tmp_path / "batch", tmp_path / "other"
        export(server, data, folder, "--max-requests", 20)
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        kept = {path: path.read_bytes() for path in sorted(folder.glob("round-1/*.output"))}
        assert len(kept) == 2
        (folder / "batch.json").unlink()
        assert "export into another folder" in call("batch", "status", folder, code=2).output
        assert "export into another folder" in export(server, data, folder, code=2).output
        assert all(path.read_bytes() == data for path, data in kept.items())
        export(server, data, other)
        call("batch", "import", other, *kept, "--out", tmp_path / "runs")
        assert set(server.paid.values()) == {1}


def test_an_export_over_foreign_replies_keeps_them(tmp_path: Path, data: Path) -> None:
    """Replies that stand where a round is written stay: only requests are written anew."""
    with BatchServer() as server:
        folder = tmp_path / "batch"
        place = folder / "round-1"
        place.mkdir(parents=True)
        (place / "part-0001.jsonl").write_text("torn")
        (place / "notes.output").write_text("mine")
        assert "34 requests" in export(server, data, folder).output
        assert (place / "notes.output").read_text() == "mine"
        assert len((place / "part-0001.jsonl").read_bytes().splitlines()) == 34
