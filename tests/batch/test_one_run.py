"""One batch, one run: however often and in whatever way its replies are imported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judge_eval.runs.keeping.lookup import run_folders
from tests.support.batch_server import BatchServer
from tests.support.batching import call, export, moody, newest


def brought(server: BatchServer, data: Path, folder: Path, *more: object) -> None:
    """Lead a batch to where its replies are here."""
    export(server, data, folder, *more)
    call("batch", "submit", folder)
    call("batch", "fetch", folder)


@pytest.mark.slow
def test_imports_continue_one_run(tmp_path: Path, data: Path) -> None:
    """Missing verdicts, the next round and what is asked online come into one run; nothing is paid twice."""
    with BatchServer(status=lambda number: "expired" if number % 3 else "ok") as server:
        folder, out = tmp_path / "batch", ("--out", tmp_path / "runs")
        brought(server, data, folder)
        output = call("batch", "import", folder, "--finish", "missing", *out, code=3).output
        assert "22 requests without a reply count as missing verdicts" in output
        first = newest(tmp_path / "runs").manifest
        assert first.status == "incomplete"
        assert first.tally.failures == {"unjudged": 23}  # two are of one request
        assert server.online == 0
        output = call("batch", "import", folder, "--finish", "missing", *out, code=3).output
        assert "the batch's run goes on" in output
        call("batch", "import", folder, "--finish", "batch", *out, code=3)
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        output = call("batch", "import", folder, *out).output
        assert output.index("14 requests without a reply are asked online now") < output.index("AP@5")
        assert "--finish later" in output
        assert "--finish missing" in output
        paid = sum(server.paid.values())
        call("batch", "import", folder, *out)
        ((_, last),) = run_folders(tmp_path / "runs")
        assert (last.id, last.status, last.tally.failed_verdicts) == (first.id, "done", 0)
        assert last.tally.calls == paid == sum(server.paid.values()) == 34
        assert set(server.paid.values()) == {1}


@pytest.mark.slow
def test_imports_that_fail_leave_one_run(tmp_path: Path, data: Path) -> None:
    """A key that the server refuses ends the import each time, with advice that holds; there is one run."""
    with BatchServer(status=lambda _: "expired", final="expired") as server:
        folder, out = tmp_path / "batch", ("--out", tmp_path / "runs")
        brought(server, data, folder)
        server.refuse = 401
        for _ in range(3):
            output = call("batch", "import", folder, *out, code=2).output
            assert "the same command continues where it stopped" in output
        assert len(list(run_folders(tmp_path / "runs"))) == 1
        server.refuse = None
        call("batch", "import", folder, *out)
        ((_, manifest),) = run_folders(tmp_path / "runs")
        assert manifest.status == "done"


@pytest.mark.slow
def test_the_reason_of_an_unreadable_reply_stays(tmp_path: Path, data: Path) -> None:
    """Where no repair is asked for, the verdict is missing because its reply could not be read."""
    with BatchServer(verdict=moody) as server:
        folder = tmp_path / "batch"
        brought(server, data, folder)
        call("batch", "import", folder, "--finish", "missing", "--out", tmp_path / "runs", code=3)
        run = newest(tmp_path / "runs")
        failed = [o for result in run.results for o in result.outcomes if o.kind == "no_verdict"]
        assert {outcome.why for outcome in failed} == {"unparsable"}
        assert all("; no repair: the batch brought no reply" in outcome.detail for outcome in failed)
        assert all("JSON" in outcome.detail for outcome in failed)


@pytest.mark.slow
def test_replies_of_another_batch_are_refused(tmp_path: Path, data: Path) -> None:
    """A file of which no line answers a request is refused before a call; single lines are named."""
    with BatchServer() as server:
        folder, other = tmp_path / "batch", tmp_path / "other"
        changed = tmp_path / "changed.jsonl"
        changed.write_text(data.read_text().replace("Thing", "Stone"))
        for place, traces in ((folder, data), (other, changed)):
            brought(server, traces, place)
        (theirs,) = other.glob("round-1/*.output")
        (ours,) = folder.glob("round-1/*.output")
        bring = ("batch", "import", folder, "--out", tmp_path / "runs")
        output = call(*bring, theirs, code=2).output
        assert f"{theirs}: none of its 34 lines answers a request of this batch" in output
        assert not list(folder.glob("round-1/given-*"))
        mixed = tmp_path / "mixed.jsonl"
        lines = ours.read_bytes().splitlines(keepends=True)
        mixed.write_bytes(b"".join([lines[0], theirs.read_bytes().splitlines(keepends=True)[0], *lines[1:]]))
        ours.write_bytes(theirs.read_bytes())  # as if the server had mixed them up
        output = call(*bring, code=2).output
        assert f"{ours}: none of its 34 lines" in output
        assert (server.online, list(run_folders(tmp_path / "runs"))) == (0, [])
        ours.unlink()
        output = call(*bring, mixed).output
        assert "1 line answers no request of this batch: 2" in output
        assert server.online == 0


def test_a_metric_that_data_changed_for_is_told_with_a_flag_that_exists(tmp_path: Path, data: Path) -> None:
    """`import` has no flags on reading: a record that is invalid now names the option."""
    with BatchServer() as server:
        folder = tmp_path / "batch"
        brought(server, data, folder)
        row = json.loads(data.read_text().splitlines()[0])
        del row["reference"]
        data.write_text(json.dumps(row) + "\n")
        output = call("batch", "import", folder, "--out", tmp_path / "runs", code=2).output
        assert "(`--on-invalid skip`) leaves it out" in output
