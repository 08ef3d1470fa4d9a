"""`Evaluator.judge` and `ajudge`: the result of one trace, as a service asks for it."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator, FakeBackend, Identity
from judge_eval.errors import DataError, FatalCallError, RefusedError
from judge_eval.llm.options import Options
from judge_eval.wire import Completion, Request
from tests.support.command import ROOT
from tests.support.judges import Stops, only
from tests.support.replies import one
from tests.support.runs import evaluator, things, traces

SETTINGS: list[dict[str, Any]] = [
    {"model": "fake/overlap"},
    {"model": "fake/overlap", "mode": "listwise", "prompt": "support/binary"},
    {"model": "fake/overlap", "mode": "claims", "metrics": ["ClaimRecall@3", "AP@3"]},
    {"model": "fake/overlap", "mode": "decision"},
    {"model": "fake/overlap", "repeat": 3},
    {"model": "fake/overlap", "options": Options(warm_prefix=True)},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda each: "-".join(map(str, each)))
def test_the_result_is_the_one_of_a_run(settings: dict[str, Any]) -> None:
    """For each kind of judge, outcomes, scores, votes and claims are those that a run of the trace has."""
    (trace,) = things(1, chunks=4)
    with Evaluator(cache=False, **settings) as judge:
        assert judge.judge(trace) == judge.evaluate(trace).results[0]


def test_a_row_of_a_known_shape_is_one_trace() -> None:
    """What `evaluate` reads as one trace is taken; several traces, a stream or an incomplete row are refused."""
    with Evaluator("fake/overlap", cache=False) as judge:
        row = {"question": "What is blue?", "reference": "The sky.", "contexts": ["The sky is blue.", "Grass."]}
        assert len(judge.judge(row).outcomes) == 2
        with pytest.raises(DataError, match="takes one trace, and this is 2 traces"):
            judge.judge([row, row])
        with pytest.raises(DataError, match="needs the reference"):
            judge.judge({"question": "What is blue?", "contexts": ["The sky is blue."]})


def test_a_failed_call_is_no_verdict() -> None:
    """A refused chunk has no verdict; the score that it leaves open is None, with bounds."""
    with evaluator(only("q0-a", failed=("q0-b",))) as judge:
        result = judge.judge(traces(1)[0])
    assert [outcome.kind for outcome in result.outcomes] == ["verdict", "no_verdict", "verdict"]
    assert result.failed == 1
    assert result.scores["AP@3"] == 1.0
    assert evaluator(FakeBackend(lambda _: RefusedError("no"))).judge(traces(1)[0]).scores["AP@3"] is None


def test_an_error_with_which_no_call_can_succeed_is_raised() -> None:
    """A key that expires raises its error."""
    with evaluator(FakeBackend(Stops(1))) as judge, pytest.raises(FatalCallError, match="the key expired"):
        judge.judge(traces(1)[0])


class Slow:
    """A backend that counts the calls under way, and those that ended."""

    identity = Identity("slow", "one")

    def __init__(self) -> None:
        self.now = self.most = self.ended = 0

    async def complete(self, request: Request) -> Completion:
        """Answer after a moment."""
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.02)
        self.now -= 1
        self.ended += 1
        return one(True, request.passages[0].text)

    async def aclose(self) -> None:
        """Close nothing."""


def test_concurrency_bounds_the_calls_of_all_traces_together() -> None:
    """Of ten traces that are judged at once no more than `concurrency` calls are under way."""
    backend = Slow()

    async def judged() -> list[int]:
        async with Evaluator(backend, cache=False, options=Options(concurrency=4)) as judge:
            return [each.failed for each in await asyncio.gather(*map(judge.ajudge, traces(10)))]

    assert asyncio.run(judged()) == [0] * 10
    assert (backend.most, backend.ended) == (4, 30)


def test_calls_under_way_are_kept_when_the_caller_goes_away(tmp_path: Path) -> None:
    """A cancelled judgment waits for what is being paid for: the cache has it when the trace comes again."""
    backend = Slow()

    async def judged() -> int:
        async with Evaluator(backend, cache=tmp_path) as judge:
            task = asyncio.create_task(judge.ajudge(traces(1)[0]))
            while backend.now < 3:
                await asyncio.sleep(0)
            task.cancel()  # all three calls are under way
            with pytest.raises(asyncio.CancelledError):
                await task
            before = backend.ended
            assert (await judge.ajudge(traces(1)[0])).failed == 0
            return before

    assert asyncio.run(judged()) == 3
    assert backend.ended == 3


def test_one_evaluator_serves_several_event_loops() -> None:
    """The bound on calls belongs to a loop: another loop can judge with the same evaluator."""
    judge = Evaluator(Slow(), cache=False, options=Options(concurrency=1))
    for _ in range(2):
        assert asyncio.run(judge.ajudge(traces(1)[0])).failed == 0
    assert judge.judge(traces(1)[0]).failed == 0


SERVICE = """
import asyncio, json, sys
from pathlib import Path
from judge_eval import Evaluator

async def main():
    judge = Evaluator("fake/overlap", cache=False)
    row = {"query": "What is blue?", "reference": "The sky.", "chunks": ["The sky is blue."]}
    asked = asyncio.create_task(judge.aevaluate(row))
    while not Path("asked").exists():  # git runs now, and waits for what this loop writes
        await asyncio.sleep(0.01)
    Path("seen").touch()
    run = await asked
    await judge.aevaluate(row)
    print(json.dumps([run.manifest.environment.get("git"), Path("asked").read_text()]))

asyncio.run(main())
"""
GIT = """#!/bin/sh
echo once >> asked
while [ ! -e seen ]; do sleep 0.02; done
echo 0123456789abcdef
"""


def test_git_is_asked_once_and_beside_the_event_loop(tmp_path: Path) -> None:
    """While a slow git is asked for the revision, the loop goes on; a second evaluation does not ask."""
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text(GIT)
    git.chmod(0o755)
    variables = {"PATH": f"{git.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SERVICE], cwd=tmp_path, env=os.environ | variables, capture_output=True, check=True
    )
    assert json.loads(done.stdout) == ["0123456789abcdef", "once\n"]
