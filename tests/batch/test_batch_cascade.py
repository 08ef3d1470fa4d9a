"""Cascades by batch: the cheap judge is asked at once, the strong one by files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from judge_eval.eval_run import EvalRun
from judge_eval.runs.keeping.lookup import run_folders
from tests.support.application import app
from tests.support.batch_server import BatchServer
from tests.support.batching import RUNNER, call, moody, new_cache, newest, same_results
from tests.support.canned import error
from tests.support.chat_answers import judge
from tests.support.chat_server import ChatServer
from tests.support.unsure_server import GOLD, UnsureServer, dataset

METRICS = ("--metrics", "AP@5,NDCG@5")


def sure_of_red(text: str) -> float:
    """Be sure of what is red or unknown to nobody, and not of what is blue."""
    return 0.6 if "blue" in text else 0.02


@pytest.fixture
def cheap() -> Iterator[ChatServer]:
    """A decision model that is sure of two chunks in three."""
    pytest.importorskip("openai.types.decision_create_params", reason="the SDK is older than decision models")
    from tests.support.decision_server import DecisionServer

    with DecisionServer("openai", rule=sure_of_red) as server:
        yield server


@pytest.fixture
def strong() -> Iterator[BatchServer]:
    """A server of batches, some of whose first replies cannot be read."""
    with BatchServer(verdict=moody) as server:
        yield server


def judges(cheap: ChatServer, strong: BatchServer) -> tuple[object, ...]:
    """Return the flags on both judges."""
    return (
        "--cascade", "decisions/d", "--cascade-url", cheap.url, "--cascade-param", "dialect=openai",
        "--cascade-threshold", 0.9, "--strong-model", "openai/m", "--base-url", strong.url,
    )  # fmt: skip


def exporting(root: Path, data: Path, *more: object) -> tuple[object, ...]:
    """Return the arguments that export into a folder of a test, with a cache beside it."""
    cache = new_cache(root / "cache")
    return "batch", "export", data, "--out", root / "batch", "--cache", cache, *more


def by_batch(folder: Path, runs: Path) -> EvalRun:
    """Lead a batch that was exported to its run, round after round."""
    for _ in range(4):
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        arguments = ["batch", "import", folder, "--finish", "batch", "--out", runs, *METRICS]
        done = RUNNER.invoke(app, [str(each) for each in arguments])
        if done.exit_code == 0:
            break
    assert done.exit_code == 0, done.output
    return newest(runs)


@pytest.mark.slow
def test_a_cascade_by_batch_is_the_online_run(
    tmp_path: Path, data: Path, cheap: ChatServer, strong: BatchServer
) -> None:
    """Verdict for verdict; the cheap judge is asked before there are files, the strong one by them alone."""
    cache = new_cache(tmp_path / "online-cache")
    call("run", data, *judges(cheap, strong), "--cache", cache, "--out", tmp_path / "online", "-q", *METRICS)
    online = EvalRun.load(next(run_folders(tmp_path / "online"))[0])
    once, asked = dict(strong.paid), cheap.counts["calls"]
    assert online.manifest.tally.stages == {"cheap": 24, "strong": 12}
    strong.paid.clear()
    strong.online = 0
    folder = tmp_path / "batch"
    cache = new_cache(tmp_path / "batch-cache")
    result = call("batch", "export", data, *judges(cheap, strong), "--cache", cache, "--out", folder)
    assert cheap.counts["calls"] == 2 * asked
    lines = (folder / "round-1" / "part-0001.jsonl").read_bytes().splitlines()
    assert f"{len(lines)} requests" in result.output
    assert "the cheap judge's verdict is final for 24 of 36 chunks" in result.output
    assert all(b"is blue" in line for line in lines)
    call("batch", "import", folder, "--finish", "missing", "--out", tmp_path / "runs", *METRICS, code=3)
    run = by_batch(folder, tmp_path / "runs")
    call("batch", "import", folder, "--out", tmp_path / "runs", *METRICS)
    assert len(list(run_folders(tmp_path / "runs"))) == 1  # the one that was begun without the replies
    assert cheap.counts["calls"] == 2 * asked
    assert strong.online == 0
    assert dict(strong.paid) == once
    assert set(strong.paid.values()) == {1}
    assert run.manifest.tally.stages == online.manifest.tally.stages
    same_results(run, online)
    once_each = ("calls", "input_tokens", "output_tokens")  # of both judges
    assert all(getattr(run.manifest.tally, name) == getattr(online.manifest.tally, name) for name in once_each)


def test_without_the_cheap_judge_nothing_is_written(
    tmp_path: Path, data: Path, cheap: ChatServer, strong: BatchServer
) -> None:
    """Files without its verdicts would ask the strong judge about everything. What it answered is kept."""
    export = exporting(tmp_path, data, *judges(cheap, strong), "--attempts", 1)
    cheap.script(error(500))
    result = call(*export, code=2)
    assert "the cheap judge gave no answer 3 times" in result.output
    assert "run the same command again" in result.output
    assert not list(tmp_path.glob("batch/round-*"))
    asked = cheap.counts["calls"]
    call(*export)
    assert cheap.counts["calls"] == asked + 1
    assert len(list(tmp_path.glob("batch/round-1/part-*"))) == 1


def test_what_the_cheap_judge_declines_goes_to_the_strong_one(tmp_path: Path, data: Path, strong: BatchServer) -> None:
    """An answer without a verdict is an answer: the chunk stands in the files, as a run would ask for it."""
    pytest.importorskip("openai.types.decision_create_params", reason="the SDK is older than decision models")
    from tests.support.decision_server import DecisionServer

    with DecisionServer("openai", rule=lambda text: None if "Nobody knows 4" in text else 0.01) as cheap:
        export = exporting(tmp_path, data, *judges(cheap, strong))
        call(*export)
    lines = (tmp_path / "batch/round-1/part-0001.jsonl").read_bytes().splitlines()
    assert len(lines) == 1
    assert b"Nobody knows 4" in lines[0]


@pytest.mark.slow
def test_a_chat_model_may_be_the_cheap_one_and_a_file_name_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fitted cascade is exported from its file alone; another file is another batch."""
    monkeypatch.chdir(tmp_path)
    data = dataset(tmp_path / "traces.jsonl", 120)

    def right(body: Mapping[str, Any]) -> Any:
        return {**judge(body), "verdict": GOLD in body["messages"][-1]["content"]}

    with UnsureServer() as cheap, BatchServer(verdict=right) as strong:
        two = (
            "--cascade", "openai/cheap", "--cascade-url", cheap.url, "--strong-model", "openai/m",
            "--base-url", strong.url, "--cache", new_cache(tmp_path / "cache"),
        )  # fmt: skip
        call("cascade", "fit", data, *two, "--alpha", 0.2, "-q")
        calls, paid = cheap.counts["calls"], strong.online
        folder = tmp_path / "batch"
        by_file = ("--cascade-file", "cascade.json", "--cache", tmp_path / "cache")
        call("batch", "export", data, *by_file, "--out", folder)
        run = by_batch(folder, tmp_path / "runs")
        assert (cheap.counts["calls"], strong.online) == (calls, paid)
        assert run.manifest.judge["guarantee"]["alpha"] == 0.2  # type: ignore[call-overload, index]
        stages = run.manifest.tally.stages
        assert stages["cheap"] > stages["strong"] > 0
        call("cascade", "fit", data, *two, "--alpha", 0.3, "-q")
        result = call("batch", "export", data, *by_file, "--out", folder, code=2)
        assert "the judge differs" in result.output
        call("batch", "import", folder, "--finish", "later", "--out", tmp_path / "again", *METRICS)
        assert newest(tmp_path / "again").manifest.judge == run.manifest.judge


@pytest.mark.slow
def test_killed_while_the_cheap_judge_answers(
    tmp_path: Path, data: Path, cheap: ChatServer, strong: BatchServer
) -> None:
    """Killed again and again, the export pays no answer of the cheap judge twice that it has taken in."""
    arguments = exporting(tmp_path, data, *judges(cheap, strong), "--concurrency", 1)
    cheap.latency = 0.5  # a process's first write opens the cache, which takes 0.3 s on a busy machine
    for seen in (2, 5, 8):
        process = subprocess.Popen(
            [sys.executable, "-m", "judge_eval", *map(str, arguments)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "OPENAI_API_KEY": "sk-test-1234567890"},
        )  # fmt: skip
        while cheap.counts["calls"] < seen and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    cheap.latency = 0
    call(*arguments)
    # Two at most are asked for again each time: what was on its way, and what was just being taken in.
    assert cheap.counts["calls"] <= 12 + 3 * 2
    assert json.loads((tmp_path / "batch/batch.json").read_bytes())["rounds"][0]["number"] == 1


def test_secrets_are_not_written_down(tmp_path: Path, data: Path) -> None:
    """A password in the cheap judge's URL or a key among its parameters is refused, not kept."""
    two = ("--cascade", "decisions/d", "--strong-model", "openai/m", "--cascade-threshold", 0.9)
    export = ("batch", "export", data, "--out", tmp_path / "batch", *two)
    result = call(*export, "--cascade-url", "http://me:hunter2hunter2@127.0.0.1:9/v1", code=2)
    assert "leave credentials out of it" in result.output
    result = call(*export, "--cascade-param", "api_key=sk-1234567890abcdef", code=2)
    assert "hunter2" not in result.output + "".join(
        path.read_text() for path in tmp_path.rglob("*") if path.is_file() and path != data
    )
