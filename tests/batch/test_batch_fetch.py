"""What is fetched of a batch, whole, in parts, lost, refused or late."""

import json
from pathlib import Path

import pytest

from judge_eval.batch.state import Folder
from tests.support.application import app
from tests.support.batch_server import BatchServer
from tests.support.batching import RUNNER, call, export, newest


@pytest.mark.slow
def test_partial_expired_doubled_and_missing_lines(tmp_path: Path, data: Path) -> None:
    """An expired batch brings what it did; the rest is open again, and nothing is paid twice."""
    fates = ["ok", "expired", "500", "missing"]
    with BatchServer(status=lambda n: fates[n % 4], final="expired", double=True) as server:
        folder, out = tmp_path / "batch", tmp_path / "runs"
        export(server, data, folder)
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        result = call("batch", "import", folder, "--finish", "batch", code=3)
        assert "9 replies went into the cache" in result.output
        assert "25 requests are open" in result.output
        server.status = lambda _: "ok"
        server.final = "completed"
        for _ in range(3):
            call("batch", "submit", folder)
            call("batch", "fetch", folder)
            if (
                RUNNER.invoke(app, ["batch", "import", str(folder), "--finish", "batch", "--out", str(out)]).exit_code
                == 0
            ):
                break
        assert newest(out).manifest.tally.failed_verdicts == 0
        assert set(server.paid.values()) == {1}


@pytest.mark.slow
def test_all_expired_is_submitted_again_as_another_round(tmp_path: Path, data: Path) -> None:
    """A round of which nothing was done is exported again byte for byte, and not taken for the old."""
    with BatchServer(status=lambda _: "expired", final="expired") as server:
        folder = tmp_path / "batch"
        export(server, data, folder)
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        call("batch", "import", folder, "--finish", "batch", code=3)
        server.status = lambda _: "ok"
        call("batch", "submit", folder)
        assert len(server.batches) == 2
        with Folder(folder) as held:
            first, second = held.known.rounds
            assert first.parts[0].digest == second.parts[0].digest


@pytest.mark.slow
def test_lost_answer_is_found_again(tmp_path: Path, data: Path) -> None:
    """A batch whose answer was lost on the way is found by its metadata, in this call and in the next."""
    with BatchServer() as server:
        folder = tmp_path / "batch"
        export(server, data, folder, "--max-requests", 8)
        server.lose = {"create"}
        call("batch", "submit", folder)
        assert len(server.batches) == 5
        call("batch", "submit", folder)
        assert len(server.batches) == 5
        # A folder that lost all its memory of submitting finds them too.
        state = json.loads((folder / "batch.json").read_text())
        for part in state["rounds"][0]["parts"]:
            part.update(phase="exported", file_id=None, batch_id=None)
        (folder / "batch.json").write_text(json.dumps(state))
        result = call("batch", "submit", folder)
        assert result.output.count("found again") == 5
        assert len(server.batches) == 5


@pytest.mark.slow
def test_failed_validation_is_told_and_submitted_again(tmp_path: Path, data: Path) -> None:
    """A batch that the server did not start is shown with its reason, and the next submit orders it anew."""
    with BatchServer() as server:
        server.failing = ["Enqueued token limit reached for m"]
        folder = tmp_path / "batch"
        export(server, data, folder)
        assert "Enqueued token limit" in call("batch", "submit", folder).output
        result = call("batch", "import", folder, "--out", tmp_path / "runs", code=2)
        assert "was not submitted" in result.output
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        call("batch", "import", folder, "--out", tmp_path / "runs")
        assert server.online == 0 or set(server.paid.values()) == {1}


@pytest.mark.slow
def test_wait_fetches_when_the_batch_has_ended(tmp_path: Path, data: Path) -> None:
    """Fetch says 3 while a batch is worked on, import does too, and --wait stays until it has ended."""
    with BatchServer(polls=3) as server:
        folder = tmp_path / "batch"
        export(server, data, folder)
        call("batch", "submit", folder)
        assert "in_progress" in call("batch", "fetch", folder, code=3).output
        call("batch", "import", folder, code=3)
        export(server, data, folder, code=2)
        call("batch", "fetch", folder, "--wait", "--interval", "0.01")
        assert (
            json.loads(call("batch", "status", folder, "--json").output)["rounds"][0]["parts"][0]["phase"] == "fetched"
        )
