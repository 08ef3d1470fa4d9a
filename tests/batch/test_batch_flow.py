import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from judge_eval.batch.judging import storable_cache
from judge_eval.batch.state import Folder
from judge_eval.eval_run import EvalRun
from judge_eval.fences import KEPT_IN
from judge_eval.runs.keeping.finding import run_folders
from tests.support.application import app
from tests.support.batch_server import BatchServer
from tests.support.chat_server import judge

RUNNER = CliRunner()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Twelve traces of three chunks; two traces share a question and a chunk."""
    path = tmp_path / "data.jsonl"
    lines = []
    for n in range(12):
        m = n % 11
        trace = {
            "id": f"q{n}",
            "query": f"What is thing {m}?",
            "reference": f"Thing {m} is “blue”.",
            "chunks": [f"Thing {m} is blue.", f"Thing {m + 1} is red.", f"Nobody knows {n}."],
        }
        lines.append(json.dumps(trace, ensure_ascii=False) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-1234567890")


def call(*arguments: object, code: int = 0) -> Result:
    """Run the command line and check its exit code."""
    done = RUNNER.invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output + repr(done.exception)
    return done


def new_cache(folder: Path) -> Path:
    """Make the folder of a cache that marks fences as all others here do, so that bodies are the same."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (kept := folder / KEPT_IN).exists():
        kept.touch(0o600)
        kept.write_bytes(b"s" * 32)
    return folder


def export(server: BatchServer, data: Path, folder: Path, *more: object, code: int = 0) -> Result:
    """Export the data for the server, with a cache beside the folder."""
    cache = new_cache(folder.parent / f"{folder.name}-cache")
    return call(
        "batch", "export", data, "--out", folder, "--model", "openai/m", "--base-url", server.url,
        "--cache", cache, *more, code=code,
    )  # fmt: skip


def run_online(server: BatchServer, data: Path, out: Path, *more: object, code: int = 0) -> EvalRun:
    """Judge the data online, with a cache of its own."""
    call(
        "run", data, "--model", "openai/m", "--base-url", server.url,
        "--cache", new_cache(out / "cache"),
        "--out", out, "--metrics", "AP@5,NDCG@5", "-q", *more, code=code,
    )  # fmt: skip
    return EvalRun.load(next(run_folders(out))[0])


def newest(out: Path) -> EvalRun:
    """Load the newest run."""
    return EvalRun.load(next(run_folders(out))[0])


def same_results(one: EvalRun, other: EvalRun) -> None:
    """Check that two runs hold the same results and aggregates."""
    assert [r.model_dump() for r in one.results] == [r.model_dump() for r in other.results]
    assert one.aggregates == other.aggregates


def moody(body: Mapping[str, Any]) -> Any:
    """Reply unreadably to some first questions, and properly to repairs."""
    if len(body["messages"]) == 2 and "Nobody knows 7" in body["messages"][-1]["content"]:
        return "I would say that it is relevant."
    if len(body["messages"]) == 2 and "Thing 3 is red" in body["messages"][-1]["content"]:
        return '{"evidence": "", "reason": "cut'
    return judge(body)


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


def test_another_batch_in_the_folder_is_refused(tmp_path: Path, data: Path) -> None:
    """A folder holds one batch: other data or another prompt are refused by name, and no key is written."""
    with BatchServer() as server:
        folder = tmp_path / "batch"
        export(server, data, folder)
        told = export(server, data, folder, "--prompt", "relevance/binary", code=2)
        assert "the judge differs" in told.output
        data.write_text(data.read_text().replace("Thing 4", "Thing 44"))
        assert "the data differ" in export(server, data, folder, code=2).output
        secret = server.url.replace("http://", "http://user:passw0rd@")
        export(server, data, tmp_path / "other", "--base-url", secret)
        for path in (tmp_path / "other").rglob("*"):
            assert path.is_dir() or b"passw0rd" not in path.read_bytes()


def test_passwords_of_caches_are_not_written_down() -> None:
    """A cache's URL is kept in the batch's folder only where it holds no password."""
    assert storable_cache("postgresql://me@host/db") == "postgresql://me@host/db"
    assert storable_cache("postgresql://me:passw0rd@host/db") is None
    assert storable_cache("postgresql://host/db?password=passw0rd") is None
    assert storable_cache("some/folder") == "some/folder"
    assert storable_cache(None) is None


def test_steps_without_a_batch_say_what_to_do(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder without a batch, a model without batches and an unknown way to finish are usage errors."""
    assert "batch export" in call("batch", "submit", tmp_path, code=2).output
    told = call("batch", "export", data, "--out", tmp_path / "b", "--model", "fake/overlap", code=2)
    assert "takes no batches" in told.output
    assert call("batch", "import", tmp_path, "--finish", "never", code=2)


def test_metrics_that_the_data_cannot_serve_end_the_export(tmp_path: Path, data: Path) -> None:
    """Nothing is written to submit; what the export was told to compute is what the import computes."""
    with BatchServer() as server:
        told = export(server, data, tmp_path / "batch", "--metrics", "AP@5,bpref", code=2)
        assert "bpref" in told.output
        assert not list((tmp_path / "batch").glob("round-*"))
        export(server, data, tmp_path / "batch", "--metrics", "P@2,MRR")
        call("batch", "submit", tmp_path / "batch", "--base-url", server.url)
        call("batch", "fetch", tmp_path / "batch", "--base-url", server.url, "--wait", "--interval", "0.01")
        out = ["--out", tmp_path / "runs"]
        refused = call("batch", "import", tmp_path / "batch", "--metrics", "Recall@5", *out, code=2)
        assert "relevant_total" in refused.output
        call("batch", "import", tmp_path / "batch", *out)
    assert newest(tmp_path / "runs").manifest.metrics == ("P@2", "MRR")


def test_a_batch_that_goes_on_keeps_its_prompts(tmp_path: Path, data: Path) -> None:
    """A batch that an older version exported, by an id that means another now, is fetched and imported."""
    with BatchServer() as server:
        folder, out = tmp_path / "batch", tmp_path / "runs"
        export(server, data, folder, "--prompt", "support/binary@1")
        state = json.loads((folder / "batch.json").read_bytes())
        state["settings"]["prompt"] = "support/binary"
        del state["judge"]["evidence"], state["settings"]["evidence"]
        (folder / "batch.json").write_text(json.dumps(state))
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        call("batch", "import", folder, "--out", out)
        prompt = newest(out).manifest.judge["prompt"]
        assert isinstance(prompt, dict)
        assert prompt["version"] == 1
        assert server.online == 0
        assert set(server.paid.values()) == {1}


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


def test_doubles_are_named_and_cancelled(tmp_path: Path, data: Path) -> None:
    """A batch ordered twice is named with both ids in every later look, and `cancel --doubles` ends it."""
    with BatchServer(listing=3600, polls=1000) as server:
        folder = tmp_path / "batch"
        export(server, data, folder, "--max-requests", 20)
        server.lose = {"create"}
        told = call("batch", "submit", folder, "--patience", 0, code=2).output
        assert "whether the batch was ordered is not known" in told
        call("batch", "submit", folder, "--patience", 0)
        assert len(server.batches) == 3  # for two files: nobody would wait, and the list is late
        server.listing = 0
        told = call("batch", "status", folder).output
        assert "part-0001.jsonl was ordered twice: batch-1 (validating) does the work of batch-2" in told
        assert "--doubles" in told
        assert "no batch of this round" in call("batch", "cancel", folder, "batch-9", code=2).output
        assert "name the batches" in call("batch", "cancel", folder, code=2).output
        assert "batch-1 is cancelling" in call("batch", "cancel", folder, "--doubles").output
        assert "twice" not in call("batch", "status", folder).output
        server.polls = 0
        call("batch", "fetch", folder)
        call("batch", "import", folder, "--out", tmp_path / "runs")
        assert newest(tmp_path / "runs").manifest.tally.failed_verdicts == 0
        assert server.batches["batch-1"]["status"] == "cancelling"


def test_a_batch_that_is_cancelled_brings_what_it_has(tmp_path: Path, data: Path) -> None:
    """A batch is cancelled by its id; what it had answered is fetched, and the rest is open."""
    with BatchServer(polls=1000, status=lambda number: "ok" if number < 5 else "missing") as server:
        folder = tmp_path / "batch"
        export(server, data, folder)
        call("batch", "submit", folder)
        assert "batch-1 is cancelling" in call("batch", "cancel", folder, "batch-1").output
        call("batch", "fetch", folder)
        told = call("batch", "import", folder, "--finish", "later", code=3).output
        assert "5 replies went into the cache" in told
        assert "29 requests are open" in told


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


def test_unreadable_replies_of_a_batch_are_no_calls(tmp_path: Path, data: Path) -> None:
    """A run counts the calls that were made online, not the batch's replies that could not be read."""
    with BatchServer(verdict=moody) as server:
        folder = tmp_path / "batch"
        export(server, data, folder)
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        call("batch", "import", folder, "--out", tmp_path / "runs")
        assert server.online > 0
        assert newest(tmp_path / "runs").manifest.tally.calls == server.online


def test_a_lost_state_costs_no_reply(tmp_path: Path, data: Path) -> None:
    """Without its `batch.json`, exporting again goes on with the replies and batches of the folder."""
    with BatchServer() as server:
        folder = tmp_path / "batch"
        export(server, data, folder, "--max-requests", 20)
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        kept = {path: path.read_bytes() for path in folder.glob("round-1/*.output")}
        assert len(kept) == 2
        missing = folder / "round-1" / "part-0002.jsonl.output"
        text = kept.pop(missing)
        missing.unlink()
        (folder / "batch.json").unlink()
        assert "the replies in it are kept" in call("batch", "status", folder, code=2).output
        told = export(server, data, folder, "--max-requests", 20, code=2).output
        assert "`batch submit` looks for them" in told
        assert "found again as batch-2" in call("batch", "submit", folder).output
        call("batch", "fetch", folder)
        assert missing.read_bytes() == text
        (folder / "batch.json").unlink()
        told = export(server, data, folder, "--max-requests", 20).output
        assert "34 replies went into the cache" in told
        assert all(path.read_bytes() == data for path, data in kept.items())
        assert len(server.batches) == 2
        call("batch", "import", folder, "--out", tmp_path / "runs")
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
