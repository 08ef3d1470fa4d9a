"""What is exported for a batch: bodies as online, without what was declined or is in the cache."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.batch_server import BatchServer
from tests.support.batching import call, export, new_cache, newest, run_online, same_results


@pytest.mark.slow
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


def test_the_judge_of_a_file_is_exported(tmp_path: Path, data: Path) -> None:
    """`--judge FILE` writes the requests that its settings write as flags."""
    (tmp_path / "judge.toml").write_text("""model = "openai/m"
prompt = "support/graded"
mode = "listwise"
params = { seed = 7 }
""")
    flags = ("--model", "openai/m", "--prompt", "support/graded", "--mode", "listwise", "--param", "seed=7")
    parts = []
    with BatchServer() as server:
        for name, judge in (("flags", flags), ("file", ("--judge", tmp_path / "judge.toml"))):
            cache = new_cache(tmp_path / f"{name}-cache")
            where = ("--out", tmp_path / name, "--base-url", server.url, "--cache", cache)
            call("batch", "export", data, *where, *judge)
            parts.append((tmp_path / name / "round-1" / "part-0001.jsonl").read_bytes())
    assert parts[0] == parts[1]
    assert b'"seed":7' in parts[0]


def test_a_flag_adds_to_the_parameters_of_a_file(tmp_path: Path, data: Path) -> None:
    """`--param` beside `--judge FILE` is sent with what the file sets."""
    (tmp_path / "judge.toml").write_text('model = "openai/m"\nparams = { seed = 7 }\n')
    with BatchServer() as server:
        where = ("--out", tmp_path / "batch", "--base-url", server.url, "--cache", new_cache(tmp_path / "cache"))
        call("batch", "export", data, *where, "--judge", tmp_path / "judge.toml", "--param", "top_p=0.5")
    lines = (tmp_path / "batch" / "round-1" / "part-0001.jsonl").read_bytes().splitlines()
    assert {(body.get("seed"), body.get("top_p")) for body in (json.loads(line)["body"] for line in lines)} == {
        (7, 0.5)
    }


@pytest.mark.slow
def test_declined_fields_are_named_and_left_out(tmp_path: Path, data: Path) -> None:
    """A server that takes no strict schema says so once; with --unsupported everything is judged."""

    def decline(body: Mapping[str, Any]) -> str | None:
        strict = (body.get("response_format") or {}).get("json_schema", {}).get("strict")
        return "response_format: json_schema.strict: unknown field 'strict'" if strict else None

    with BatchServer(decline=decline) as server:
        folder = tmp_path / "batch"
        export(server, data, folder)
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        result = call("batch", "import", folder, "--finish", "batch", code=2)
        assert "unsupported: strict" in result.output
        other = tmp_path / "other"
        export(server, data, other, "--unsupported", "strict")
        call("batch", "submit", other)
        call("batch", "fetch", other)
        call("batch", "import", other, "--out", tmp_path / "runs", "--metrics", "AP@5,NDCG@5")
        run = newest(tmp_path / "runs")
        assert run.results[0].calls[0].dropped == ("strict",)
        same_results(run, run_online(server, data, tmp_path / "online", "--unsupported", "strict"))


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
        assert "nothing to export" in export(server, data, folder).output
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
