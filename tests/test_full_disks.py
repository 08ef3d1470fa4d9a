"""A disk that is full under a run, the cache or a server: what was paid for stays, and messages say how to go on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judge_eval import EvalRun, Evaluator
from judge_eval.server.server_settings import ServerSettings
from tests.support.chat_server import ChatServer
from tests.support.command import Shell
from tests.support.serving import ask, judge, rows, serving
from tests.support.small_disk import fill, grow, small_disk

TRACES, CHUNKS = 100, 4
KEY = {"OPENAI_API_KEY": "sk-nobody-123456"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Write traces that need more room than a small disk has."""
    long = "word " * 100
    lines = [
        {
            "id": f"q{n}",
            "query": f"When {n}?",
            "reference": "June",
            "chunks": [f"{n} {m} {long}" for m in range(CHUNKS)],
        }
        for n in range(TRACES)
    ]
    path = tmp_path / "traces.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("where", ["run", "cache"])
def test_a_full_disk_ends_a_run_that_can_be_resumed(tmp_path: Path, data: Path, where: str) -> None:
    """The message names the place, and what to do; once there is room, no verdict of the run is paid for again."""
    with small_disk(tmp_path / "disk", 200) as disk, ChatServer() as chat:
        out, cache = (disk / "runs", tmp_path / "cache") if where == "run" else (tmp_path / "runs", disk / "cache")
        run = ["run", data, "--model", "openai/m", "--base-url", chat.url, "--out", out, "--cache", cache, "-q"]
        first = Shell(tmp_path)(*run, "--concurrency", "4", **KEY)
        assert first.code == 3, first.err
        assert ("cannot be written: No space left" if where == "run" else "no space left for the cache") in first.err
        assert "--resume" in first.err
        assert "Traceback" not in first.err
        [folder] = out.iterdir()
        kept = sum(len(result.outcomes) - result.failed for result in EvalRun.load(folder).results)
        paid = chat.counts["paid"]
        assert 0 < kept <= paid < TRACES * CHUNKS
        grow(disk)
        again = Shell(tmp_path)(*run, "--resume", folder, **KEY)
        assert again.code == 0, again.err
        assert EvalRun.load(folder).status == "done"
        # A full cache keeps no answer, so those of unfinished traces are asked for again; the run's file keeps all.
        assert chat.counts["paid"] <= TRACES * CHUNKS + (0 if where == "run" else paid - kept)


@pytest.mark.slow
def test_a_server_whose_disk_is_full_answers_507(tmp_path: Path) -> None:
    """A submission, an upload, and a label are declined with what is wrong; nothing half written stays."""
    with small_disk(tmp_path / "disk", 600) as disk:
        root = disk / "runs"
        run = judge(rows(), root, label="main", cache=tmp_path / "cache")
        trace = run.results[0].trace
        manifest = json.loads((run.folder / "manifest.json").read_text())
        results = [json.loads(line) for line in (run.folder / "results.jsonl").read_text().splitlines()]
        with Evaluator("fake/overlap", cache=False) as evaluator, serving(ServerSettings(root), evaluator) as url:
            api = f"{url}/api/v1"
            before = sorted(path.name for path in root.iterdir())
            filler = fill(disk)
            traces = [{"query": "q", "reference": "r", "chunks": ["some text " * 2_000]}]
            other = {**manifest, "id": "0f6c1f58-1111-4222-8333-444455556666", "digest": None}
            upload = {"manifest": other, "results": results}
            label = {"trace_id": trace.id, "chunk_id": trace.chunks[0].id, "label": 1, "by": "anna"}
            for path, body in (
                ("runs", {"traces": traces}),
                ("runs/upload", upload),
                (f"runs/{run.id}/labels", {**label, "comment": "x" * 1_900}),
            ):
                status, answer, _ = ask(f"{api}/{path}", method="POST", body=body)
                assert (status, answer["error"]["type"]) == (507, "fulldisk"), (path, answer)
                assert "No space left on device" in answer["error"]["message"]
                assert str(disk) not in answer["error"]["message"]
            assert sorted(path.name for path in root.iterdir()) == before
            assert ask(f"{api}/runs")[1]["total"] == 1
            filler.unlink()
            assert ask(f"{api}/runs/{run.id}/labels", method="POST", body=label)[0] == 201
            assert ask(f"{api}/runs", method="POST", body={"traces": traces})[0] == 202
