import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judge_eval.batch.state import Folder
from tests.support.application import app
from tests.support.batch_server import BatchServer
from tests.support.batching import RUNNER, call, export, moody, new_cache, newest, run_online, same_results
from tests.support.chat_answers import judge


@pytest.mark.slow
def test_batch_gives_the_online_run(tmp_path: Path, data: Path) -> None:
    """Exported, submitted, fetched and imported in rounds, the run equals the online one, paid once each."""
    with BatchServer(verdict=moody) as server:
        online = run_online(server, data, tmp_path / "online")
        once = dict(server.paid)
        server.paid.clear()
        server.online = 0
        folder = tmp_path / "batch"
        export(server, data, folder, "--max-requests", 10)
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        rounds = 1
        out = ["--out", tmp_path / "runs", "--metrics", "AP@5,NDCG@5"]
        while RUNNER.invoke(
            app, ["batch", "import", str(folder), "--finish", "batch", *map(str, out)]
        ).exit_code:
            rounds += 1
            assert rounds < 6
            call("batch", "submit", folder)
            call("batch", "fetch", folder)
        assert server.online == 0
        assert rounds >= 2
        assert dict(server.paid) == once
        assert set(server.paid.values()) == {1}
        same_results(newest(tmp_path / "runs"), online)
        with Folder(folder) as held:
            assert len(held.known.rounds[0].parts) == 4


@pytest.mark.slow
def test_second_wave_may_be_asked_online(tmp_path: Path, data: Path) -> None:
    """With --finish online only repairs are asked for; what the batch paid for is not paid again."""
    with BatchServer(verdict=moody) as server:
        online = run_online(server, data, tmp_path / "online")
        server.paid.clear()
        server.online = 0
        folder = tmp_path / "batch"
        export(server, data, folder)
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        call("batch", "import", folder, "--out", tmp_path / "runs", "--metrics", "AP@5,NDCG@5")
        assert 0 < server.online < 12
        assert set(server.paid.values()) == {1}
        same_results(newest(tmp_path / "runs"), online)


@pytest.mark.slow
def test_listwise_batches_equal_the_online_run(tmp_path: Path, data: Path) -> None:
    """Listwise replies with missing ids are asked for again chunk by chunk, in the next round."""

    def forgetful(body: Mapping[str, Any]) -> Any:
        reply = judge(body)
        if "verdicts" in reply and "thing 5" in body["messages"][-1]["content"]:
            reply["verdicts"] = reply["verdicts"][:1]
        return reply

    with BatchServer(verdict=forgetful) as server:
        online = run_online(server, data, tmp_path / "online", "--mode", "listwise")
        server.paid.clear()
        folder = tmp_path / "batch"
        export(server, data, folder, "--mode", "listwise")
        for _ in range(4):
            call("batch", "submit", folder)
            call("batch", "fetch", folder)
            done = RUNNER.invoke(
                app,
                ["batch", "import", str(folder), "--finish", "batch", "--out", str(tmp_path / "runs"),
                 "--metrics", "AP@5,NDCG@5"],
            )  # fmt: skip
            if done.exit_code == 0:
                break
        assert done.exit_code == 0, done.output
        assert set(server.paid.values()) == {1}
        same_results(newest(tmp_path / "runs"), online)


def test_bodies_are_those_of_the_online_backend(tmp_path: Path, data: Path) -> None:
    """Every exported body is, byte for byte, what the online backend sends, each asked for once."""
    with BatchServer() as server:
        folder = tmp_path / "batch"
        done = export(server, data, folder)
        lines = (folder / "round-1" / "part-0001.jsonl").read_bytes().splitlines()
        bodies = {line.split(b'"body":', 1)[1][:-1].decode() for line in lines}
        assert "34 requests" in done.output
        run_online(server, data, tmp_path / "online")
        assert bodies <= set(server.paid)
        # What OpenAI's Batch API and vLLM's run-batch read: these four keys, and a chat completion's body.
        for line in map(json.loads, lines):
            assert set(line) == {"custom_id", "method", "url", "body"}
            assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
            assert len(bytes.fromhex(line["custom_id"])) == 32
            assert line["body"]["model"] == "m"
            assert [message["role"] for message in line["body"]["messages"]] == ["system", "user"]
        assert len({json.loads(line)["custom_id"] for line in lines}) == len(lines)


@pytest.mark.slow
def test_partial_expired_doubled_and_missing_lines(tmp_path: Path, data: Path) -> None:
    """An expired batch brings what it did; the rest is open again, and nothing is paid twice."""
    fates = ["ok", "expired", "500", "missing"]
    with BatchServer(status=lambda n: fates[n % 4], final="expired", double=True) as server:
        folder, out = tmp_path / "batch", tmp_path / "runs"
        export(server, data, folder)
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        told = call("batch", "import", folder, "--finish", "batch", code=3)
        assert "9 replies went into the cache" in told.output
        assert "25 requests are open" in told.output
        server.status = lambda _: "ok"
        server.final = "completed"
        for _ in range(3):
            call("batch", "submit", folder)
            call("batch", "fetch", folder)
            if (
                RUNNER.invoke(
                    app, ["batch", "import", str(folder), "--finish", "batch", "--out", str(out)]
                ).exit_code
                == 0
            ):
                break
        assert newest(out).manifest.tally.failed_verdicts == 0
        assert set(server.paid.values()) == {1}


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
        told = call("batch", "submit", folder)
        assert told.output.count("found again") == 5
        assert len(server.batches) == 5


@pytest.mark.slow
def test_failed_validation_is_told_and_submitted_again(tmp_path: Path, data: Path) -> None:
    """A batch that the server did not start is shown with its reason, and the next submit orders it anew."""
    with BatchServer() as server:
        server.failing = ["Enqueued token limit reached for m"]
        folder = tmp_path / "batch"
        export(server, data, folder)
        assert "Enqueued token limit" in call("batch", "submit", folder).output
        told = call("batch", "import", folder, "--out", tmp_path / "runs", code=2)
        assert "was not submitted" in told.output
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
            json.loads(call("batch", "status", folder, "--json").output)["rounds"][0]["parts"][0]["phase"]
            == "fetched"
        )


def test_replies_of_a_server_of_ones_own(tmp_path: Path, data: Path) -> None:
    """Files judged elsewhere are imported, in any order and in part, torn lines and strangers passed over."""
    with BatchServer() as server:
        folder = tmp_path / "batch"
        export(server, data, folder)
        requests = (folder / "round-1" / "part-0001.jsonl").read_text().splitlines()
        lines = []
        for line in map(json.loads, requests):
            body = server._complete(json.dumps(line["body"]), line["body"])
            told = {
                "custom_id": line["custom_id"],
                "response": {"status_code": 200, "body": body},
                "error": None,
            }
            lines.append(json.dumps(told))
        half = tmp_path / "half.jsonl"
        half.write_text("\n".join([*reversed(lines[:20]), '{"custom_id": "zz"}', lines[30][:50]]))
        told = call("batch", "import", folder, half, "--finish", "later", code=3)
        assert "20 replies went into the cache" in told.output
        assert "2 are no replies" in told.output
        rest = tmp_path / "rest.jsonl"
        rest.write_text("\n".join(lines[15:]))
        server.paid.clear()
        call("batch", "import", folder, rest, "--out", tmp_path / "runs")
        assert newest(tmp_path / "runs").manifest.tally.failed_verdicts == 0
        assert len(server.paid) == server.online  # evidence that replies left out, and nothing else
        assert not set(server.paid) & {json.dumps(json.loads(line)["body"]) for line in requests}


@pytest.mark.slow
def test_declined_fields_are_named_and_left_out(tmp_path: Path, data: Path) -> None:
    """A server that takes no strict schema says so once; with --lacking everything is judged."""

    def decline(body: Mapping[str, Any]) -> str | None:
        strict = (body.get("response_format") or {}).get("json_schema", {}).get("strict")
        return "response_format: json_schema.strict: unknown field 'strict'" if strict else None

    with BatchServer(decline=decline) as server:
        folder = tmp_path / "batch"
        export(server, data, folder)
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        told = call("batch", "import", folder, "--finish", "batch", code=2)
        assert "--lacking strict" in told.output
        other = tmp_path / "other"
        export(server, data, other, "--lacking", "strict")
        call("batch", "submit", other)
        call("batch", "fetch", other)
        call("batch", "import", other, "--out", tmp_path / "runs", "--metrics", "AP@5,NDCG@5")
        run = newest(tmp_path / "runs")
        assert run.results[0].calls[0].dropped == ("strict",)
        same_results(run, run_online(server, data, tmp_path / "online"))


@pytest.mark.slow
def test_cache_spares_the_batch(tmp_path: Path, data: Path) -> None:
    """What the cache holds is not exported; where it holds everything there is nothing to submit."""
    with BatchServer() as server:
        folder = tmp_path / "batch"
        call(
            "run", data, "--model", "openai/m", "--base-url", server.url, "--cache", tmp_path / "batch-cache",
            "--out", tmp_path / "runs", "--limit", 6, "-q",
        )  # fmt: skip
        assert "16 requests" in export(server, data, folder).output
        call(
            "run", data, "--model", "openai/m", "--base-url", server.url, "--cache", tmp_path / "batch-cache",
            "--out", tmp_path / "runs", "-q",
        )  # fmt: skip
        assert "nothing is open" in export(server, data, folder).output
        call("batch", "import", folder, "--out", tmp_path / "runs")


@pytest.mark.slow
def test_foreign_formats_are_batched_as_they_are_run(tmp_path: Path, data: Path) -> None:
    """With --format, --map, --corpus, --list-sep and --depth a batch judges the traces that `run` does."""
    corpus = tmp_path / "corpus.jsonl"
    texts = {f"d{n}": f"Document {n} says that thing {n} is blue." for n in range(6)}
    corpus.write_text("".join(json.dumps({"_id": i, "text": t}) + "\n" for i, t in texts.items()))
    table = tmp_path / "table.csv"
    rows = [f"q{n},What is thing {n}?,Thing {n} is blue.,d{n}|d{n + 1}|d{n + 2}\n" for n in range(4)]
    table.write_text("key,ask,gold,found\n" + "".join(rows))
    how = [
        "--map", "id=key", "--map", "query=ask", "--map", "reference=gold", "--map", "chunks=found",
        "--corpus", corpus, "--list-sep", "|", "--depth", "2",
    ]  # fmt: skip
    ragas = Path(__file__).parents[2] / "fixtures" / "formats" / "ragas.jsonl"
    with BatchServer() as server:
        for number, (file, flags) in enumerate([(table, how), (ragas, ["--format", "ragas"])]):
            online = run_online(server, file, tmp_path / f"online{number}", *flags)
            assert len(online.results) > 1
            server.paid.clear()
            server.online = 0
            folder, out = tmp_path / f"batch{number}", tmp_path / f"runs{number}"
            export(server, file, folder, *flags)
            call("batch", "submit", folder)
            call("batch", "fetch", folder)
            call("batch", "import", folder, "--out", out, "--metrics", "AP@5,NDCG@5")
            same_results(newest(out), online)
            assert newest(out).manifest.dataset == online.manifest.dataset
            assert set(server.paid.values()) == {1}
        assert [len(r.outcomes) for r in newest(tmp_path / "runs0").results] == [2] * 4
        text = export(server, table, tmp_path / "other", "--map", "query", code=2).output
        assert "write OURS=THEIRS" in text
        assert "not -" in export(server, Path("-"), tmp_path / "other", code=2).output


def test_the_cache_is_found_from_any_folder(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that was named as seen from one folder is the same cache at later steps in another."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    new_cache(tmp_path / "kept")
    with BatchServer() as server:
        call(
            "batch", "export", data, "--out", "batch", "--model", "openai/m", "--base-url", server.url,
            "--cache", "kept",
        )  # fmt: skip
        call("batch", "submit", "batch")
        call("batch", "fetch", "batch")
        monkeypatch.chdir(tmp_path / "elsewhere")
        call("batch", "import", tmp_path / "batch", "--out", tmp_path / "runs")
        monkeypatch.chdir(tmp_path)
        call(
            "run", data, "--model", "openai/m", "--base-url", server.url, "--cache", "kept", "--offline",
            "--out", "again", "-q",
        )  # fmt: skip
    assert not any((tmp_path / "elsewhere").iterdir())
