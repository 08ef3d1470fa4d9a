"""A kill at any moment repeats no split and no row that was paid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator, Trace
from judge_eval.errors import CallError
from judge_eval.llm.cache.disk import DiskStore
from judge_eval.llm.fake import claim_rules as claiming
from judge_eval.llm.fake import rules
from judge_eval.llm.fake.fake_backend import FakeBackend
from judge_eval.wire import Request
from tests.support.canned import Canned
from tests.support.chat_server import ChatServer
from tests.support.claiming import asked_of, by_words
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
TRACES, CHUNKS = 4, 3
WHOLE = TRACES * (CHUNKS + 1)
"""Calls of an uninterrupted run, with one split a trace."""


def dataset(folder: Path) -> Path:
    """Write traces whose references and chunks all differ."""
    rows = [
        {
            "id": f"q{n}",
            "query": f"What of number {n}?",
            "reference": f"The number is {n}0. Its colour is blue{n}.",
            "chunks": [f"Chunk {k} of {n} says that the number is {n}0." for k in range(CHUNKS)],
        }
        for n in range(1, TRACES + 1)
    ]
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def command(folder: Path, server: ChatServer, *more: str) -> Sequence[str]:
    """Return the command that judges the dataset."""
    return [
        sys.executable, "-m", "judge_eval", "run", str(folder / "data.jsonl"), "--model", "openai/some-model",
        "--base-url", server.url, "--cache", str(folder / "cache"), "--out", str(folder / "runs"), "-q",
        "--mode", "claims", *more,
    ]  # fmt: skip


ENVIRONMENT = {**os.environ, "OPENAI_API_KEY": "sk-x", "PYTHONPATH": str(ROOT)}


def kill_after(folder: Path, answered: int) -> None:
    """Kill -9 a run after so many answers, go on, and see what was asked."""
    dataset(folder)
    with ChatServer(verdict=by_words) as server:
        # The first calls are answered; the others hang until the process is gone, so none of them is paid.
        server.script(*[Canned()] * answered, *[Canned(fate="hang")] * 500)
        process = subprocess.Popen(
            command(folder, server), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT
        )
        try:
            until(lambda: DiskStore(folder / "cache").info().entries >= answered, process)
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=60)
        paid = {json.dumps(call["messages"], sort_keys=True) for call in server.calls[:answered]}
        assert server.counts["paid"] == answered
        server.reset()
        done = subprocess.run(
            command(folder, server, "--resume"), capture_output=True, env=ENVIRONMENT, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        asked = [json.dumps(call["messages"], sort_keys=True) for call in server.calls]
        assert not paid & set(asked)
        assert len(asked) == len(set(asked)) == WHOLE - answered
        splits = sum(asked_of(call) == "split" for call in server.calls)
        assert splits <= TRACES
    (path,) = (folder / "runs").iterdir()
    run = EvalRun.load(path)
    assert run.status == "done"
    assert [len(result.claims.claims) for result in run.results if result.claims] == [2] * TRACES
    assert all(o.kind == "verdict" and o.supports for result in run.results for o in result.outcomes)


@pytest.mark.slow
def test_killed_between_splits_and_rows(tmp_path: Path) -> None:
    """Killed with all references split and some rows there, only the other rows are asked for."""
    kill_after(tmp_path, TRACES + 2)


@pytest.mark.slow
@pytest.mark.parametrize("answered", [1, 4, WHOLE - 1])
def test_killed_at_any_moment(tmp_path: Path, answered: int) -> None:
    """Wherever the kill falls, what was paid is not asked for again."""
    kill_after(tmp_path, answered)


@pytest.mark.slow
def test_a_killed_split_of_a_dataset_pays_nothing_twice(tmp_path: Path) -> None:
    """`claims` killed half way asks for the other half alone, and writes the whole file."""
    dataset(tmp_path)
    out = tmp_path / "claims.jsonl"
    with ChatServer(verdict=by_words) as server:
        server.script(*[Canned()] * 2, *[Canned(fate="hang")] * 500)
        asking = [
            sys.executable, "-m", "judge_eval", "claims", str(tmp_path / "data.jsonl"), "-o", str(out),
            "--model", "openai/some-model", "--base-url", server.url, "--cache", str(tmp_path / "cache"),
        ]  # fmt: skip
        process = subprocess.Popen(asking, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT)
        try:
            until(lambda: DiskStore(tmp_path / "cache").info().entries >= 2, process)
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=60)
        server.reset()
        done = subprocess.run(asking, capture_output=True, env=ENVIRONMENT, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert len(server.calls) == TRACES - 2
    assert len(out.read_text().splitlines()) == TRACES


class Failing:
    """A judge that counts words and fails at some chunks, as long as it is told to."""

    def __init__(self) -> None:
        self.fails = True
        self.asked: list[tuple[str, str, tuple[str, ...]]] = []

    def __call__(self, request: Request) -> Any:
        """Answer, or fail at every second chunk."""
        self.asked.append((request.form.schema_name, request.trace_id, request.chunk_ids))
        if self.fails and request.chunk_ids == ("c2",) and request.passages:
            return CallError("gone")
        return claiming.answer_by(request, rules.by_overlap)


def test_a_resumed_trace_keeps_claims_and_rows_without_a_cache(tmp_path: Path) -> None:
    """What has no verdict is asked about by the claims of the first sitting; nothing else is asked again."""
    script = Failing()
    evaluator = Evaluator(FakeBackend(script), mode="claims", cache=False)
    path = dataset(tmp_path)
    first = evaluator.evaluate(path, out=tmp_path / "runs")
    assert first.status == "incomplete"
    assert first.folder is not None
    before = {result.trace_id: result for result in first.results}
    script.fails, script.asked = False, []
    done = evaluator.evaluate(path, out=tmp_path / "runs", resume=first.folder)
    assert done.status == "done"
    assert {(name, chunks) for name, _, chunks in script.asked if len(chunks) == 1} == {("support", ("c2",))}
    assert "split" not in {name for name, _, _ in script.asked}
    for result in done.results:
        assert result.trace.claims is None
        assert result.claims is not None
        earlier = before[result.trace_id]
        assert earlier.claims is not None
        assert result.claims.claims == earlier.claims.claims
        assert result.digest == earlier.digest
        for old, new in zip(earlier.outcomes, result.outcomes, strict=True):
            assert old.kind == "no_verdict" or old == new
        assert len({call.key for call in result.calls}) == len(result.calls)


def test_a_trace_of_a_stream_is_judged_by_claims() -> None:
    """Traces that come one by one are split and judged too; a file of claims needs data to be read twice."""
    evaluator = Evaluator("fake/overlap", mode="claims", cache=False)
    trace = Trace(id="q", query="What is hot?", reference="The oven is hot.", chunks=["The oven is hot."])
    (result,) = evaluator.stream([trace])
    assert result.claims is not None
