"""What is fetched of a batch, whole, in parts, lost, refused or late."""

import json
from pathlib import Path

import pytest

from judge_eval.batch.openai_batches import OpenAIBatches
from judge_eval.batch.replies import read_line
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


@pytest.mark.slow
@pytest.mark.parametrize("torn", [False, True], ids=["half", "torn"])
def test_a_file_without_all_its_lines_is_not_taken(tmp_path: Path, data: Path, torn: bool) -> None:
    """Half a file of replies, or one whose last line is torn, buys nothing again; when it is whole it is fetched."""
    folder, out = tmp_path / "batch", tmp_path / "runs"
    with BatchServer() as server:
        export(server, data, folder)
        call("batch", "submit", folder)
        (name,) = {batch["output_file_id"] for batch in server.batches.values()}
        whole = server.files[name]
        lines = whole.splitlines(keepends=True)
        server.files[name] = whole[:-9] if torn else b"".join(lines[: len(lines) // 2])
        told = " ".join(call("batch", "fetch", folder, code=2).output.split())
        words = "is torn" if torn else f"the server says {len(lines)} answers, and its files hold {len(lines) // 2}"
        assert words in told
        assert "`batch fetch` tries it again" in told
        server.files[name] = whole
        call("batch", "fetch", folder)
        call("batch", "import", folder, "--finish", "batch", "--out", out)
        assert set(server.paid.values()) == {1}
        assert len(server.batches) == 1
    assert newest(out).manifest.tally.failed_verdicts == 0


@pytest.mark.slow
def test_two_replies_to_one_request_are_an_error_of_it(tmp_path: Path, data: Path) -> None:
    """A `custom_id` that occurs twice in a file with two replies fails; a repeated line does not."""
    folder, out = tmp_path / "batch", tmp_path / "runs"
    with BatchServer() as server:
        export(server, data, folder)
        call("batch", "submit", folder)
        (name,) = {batch["output_file_id"] for batch in server.batches.values()}
        lines = server.files[name].splitlines(keepends=True)
        other = lines[0].replace(b"It states", b"It really states")
        assert other != lines[0]
        server.files[name] = b"".join([*lines, other, lines[1]])
        call("batch", "fetch", folder)
        call("batch", "import", folder, "--finish", "batch", "--out", out, "--max-failures", "1000")
        assert set(server.paid.values()) == {1}
    tally = newest(out).manifest.tally
    assert tally.failures == {"unparsable": tally.failed_verdicts}
    assert tally.failed_verdicts >= 1


def test_a_key_twice_in_a_line_is_no_reply() -> None:
    """Readers would take different values of it."""
    line = b'{"custom_id": "%s", "response": {"status_code": 200, "body": {}}}' % (b"ab" * 32)
    assert read_line(line, OpenAIBatches.reply) is not None
    assert read_line(line.replace(b'"body": {}', b'"body": {}, "body": {"a": 1}'), OpenAIBatches.reply) is None
