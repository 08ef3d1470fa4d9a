import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judge_eval.batch.state import Folder
from judge_eval.wire import Usage
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
        while RUNNER.invoke(app, ["batch", "import", str(folder), "--finish", "batch", *map(str, out)]).exit_code:
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
def test_a_verdict_names_the_request_that_brought_it(tmp_path: Path, data: Path) -> None:
    """As online, the server's name of the request stands in the run; a repair's verdict names the repair."""
    with BatchServer(verdict=moody) as server:
        folder = tmp_path / "batch"
        export(server, data, folder)
        for finish in ("batch", "batch", "missing"):
            call("batch", "submit", folder)
            call("batch", "fetch", folder)
            RUNNER.invoke(app, ["batch", "import", str(folder), "--finish", finish, "--out", str(tmp_path / "runs")])
        lines = [json.loads(line) for file in server.files.values() for line in file.splitlines()]
        texts = {line["response"]["request_id"]: json.dumps(line) for line in lines if "response" in line}
        calls = [
            (call.request_id, outcome.reason)
            for result in newest(tmp_path / "runs").results
            for call in result.calls
            for outcome in result.outcomes
            if outcome.kind == "verdict" and outcome.chunk_id in call.chunk_ids
        ]
        named = [(request_id, reason) for request_id, reason in calls if request_id]
        assert len(named) >= len(calls) - 4  # a later import does not know the request of a repair
        assert all(str(reason) in texts[name] for name, reason in named)


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
        output = call("batch", "import", folder, "--out", tmp_path / "runs", "--metrics", "AP@5,NDCG@5").output
        assert 0 < server.online < 12
        assert f"{server.online} requests without a reply are asked online now: about" in " ".join(output.split())
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


def test_replies_of_a_server_of_ones_own(tmp_path: Path, data: Path) -> None:
    """Files judged elsewhere are imported, in any order and in part, torn lines and strangers passed over."""
    with BatchServer() as server:
        folder = tmp_path / "batch"
        export(server, data, folder)
        requests = (folder / "round-1" / "part-0001.jsonl").read_text().splitlines()
        lines = []
        for line in map(json.loads, requests):
            body = server._complete(json.dumps(line["body"]), line["body"])
            values = {"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}, "error": None}
            lines.append(json.dumps(values))
        half = tmp_path / "half.jsonl"
        half.write_text("\n".join([*reversed(lines[:20]), '{"custom_id": "zz"}', lines[30][:50]]))
        values = call("batch", "import", folder, half, "--finish", "later", code=3)
        assert "20 replies went into the cache" in values.output
        assert "2 lines are no replies" in values.output
        rest = tmp_path / "rest.jsonl"
        strangers = [json.dumps({**json.loads(line), "custom_id": f"{n:064x}"}) for n, line in enumerate(lines[:3])]
        rest.write_text("\n".join([*lines[15:], *strangers]))
        server.paid.clear()
        call("batch", "import", folder, rest, "--out", tmp_path / "runs")
        tally = newest(tmp_path / "runs").manifest.tally
        assert tally.failed_verdicts == 0
        assert tally.calls == len(lines) + server.online  # the lines of another batch were paid for there
        assert len(server.paid) == server.online  # evidence that replies left out, and nothing else
        assert not set(server.paid) & {json.dumps(json.loads(line)["body"]) for line in requests}


@pytest.mark.slow
def test_the_cache_is_found_from_any_folder(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize("price", [None, 0.001])
def test_an_imported_run_says_what_the_batch_took(
    price: float | None, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls and tokens are those of the replies; the cost is half that of calls, never 0 if unknown."""

    def priced(_: object, usage: Usage) -> float | None:
        return price and price * (usage.input_tokens + usage.output_tokens)

    monkeypatch.setattr("judge_eval.batch.pending.price_of", priced)
    with BatchServer() as server:
        online = run_online(server, data, tmp_path / "online").manifest.tally
        folder = tmp_path / "batch"
        export(server, data, folder)
        for verb in ("submit", "fetch"):
            call("batch", verb, folder)
        call("batch", "import", folder, "--out", tmp_path / "runs")
    tally = newest(tmp_path / "runs").manifest.tally
    assert (tally.calls, tally.input_tokens, tally.output_tokens) == (
        online.calls,
        online.input_tokens,
        online.output_tokens,
    )
    assert tally.calls > 0
    tokens = online.input_tokens + online.output_tokens
    assert tally.cost == (None if price is None else pytest.approx(tokens * price / 2))


@pytest.mark.slow
def test_the_key_may_be_printed_by_a_command(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each verb that asks the server has the key printed; a key that does not say its end is renewed."""
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setattr("judge_eval.batch.batch_server._FRESH", 0.0)
    (tmp_path / "print.py").write_text("import time; print(f'token-{time.time_ns()}')")
    monkeypatch.setenv("JUDGE_EVAL_KEY_COMMAND", shlex.join([sys.executable, str(tmp_path / "print.py")]))
    folder = tmp_path / "batch"
    with BatchServer() as server:
        judge = ("--model", "openai/m", "--base-url", server.url)
        call("batch", "export", data, "--out", folder, *judge)
        call("batch", "submit", folder)
        submitted = set(server.keys)
        call("batch", "fetch", folder)
        call("batch", "import", folder, "--out", tmp_path / "runs")
    assert len(server.keys) > len(submitted) > 1
    assert all(key.startswith("token-") for key in server.keys)
    assert not any(key.encode() in path.read_bytes() for key in server.keys for path in folder.glob("*.*"))
