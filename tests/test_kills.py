"""Killed with SIGKILL at any moment, a command goes on to the same verdicts and pays nothing twice.

Fifteen kills of each way of judging; two of those that differ in the wire alone, 30 with `JUDGE_EVAL_FUZZ=100000`.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from judge_eval.eval_run import EvalRun
from judge_eval.runs.keeping.lookup import run_folders
from tests.support.batch_server import BatchServer
from tests.support.batching import new_cache
from tests.support.chat_server import ChatServer
from tests.support.claiming import by_words
from tests.support.command import Shell
from tests.support.forking import Forked
from tests.support.odd import full_count
from tests.support.own_wires import ContentServer, MessagesServer
from tests.support.unsure_server import MODELS, UnsureServer, dataset

pytestmark = pytest.mark.slow
MANY, FEW = 15, full_count(2, 3e-4)
CONCURRENCY, IN_FLIGHT = 4, 8  # calls, and with them those whose answers are being written
Step = tuple[str, ...]


def online(*more: str) -> Callable[[str], Iterator[Step]]:
    """Judge in one step; a killed one goes on."""

    def steps(url: str) -> Iterator[Step]:
        yield (
            *("run", "data.jsonl", "--base-url", url, "--cache", "cache", "--out", "runs", "-q"),
            *("--concurrency", str(CONCURRENCY), "--resume", *more),
        )

    return steps


def by_batch(*more: str) -> Callable[[str], Iterator[Step]]:
    """Export, and submit, fetch and import as often as there are rounds."""

    def steps(url: str) -> Iterator[Step]:
        asked = ("--model", "openai/m", "--base-url", url, "--cache", "cache", "--max-requests", "8")
        yield ("batch", "export", "data.jsonl", "--out", "batch", *asked, *more)
        while True:
            yield ("batch", "submit", "batch", "--patience", "0.1")
            yield ("batch", "fetch", "batch", "--wait", "--interval", "0.01")
            yield ("batch", "import", "batch", "--finish", "batch", "--out", "runs", "-q")

    return steps


@dataclass(frozen=True)
class Way:
    """A way of judging: its server, its steps, and the traces it judges."""

    server: Callable[[], ChatServer | BatchServer]
    steps: Callable[[str], Iterator[Step]]
    traces: int
    kills: int = MANY


WAYS = {
    "run": Way(lambda: ChatServer(latency=0.002), online("--model", "openai/m"), 12),
    "messages": Way(lambda: MessagesServer(latency=0.002), online("--model", "anthropic/m"), 12, FEW),
    "content": Way(lambda: ContentServer(latency=0.002), online("--model", "gemini/m"), 12, FEW),
    "cascade": Way(lambda: UnsureServer(latency=0.002), online(*MODELS, "--cascade-threshold", "0.75"), 12),
    "batch": Way(BatchServer, by_batch(), 6),
    "claims by batch": Way(lambda: BatchServer(verdict=by_words), by_batch("--mode", "claims"), 4),
}


class Life:
    """The steps of one way in a folder, and what they cost.

    Args:
        folder: Empty.
        way: How is judged.
    """

    def __init__(self, folder: Path, way: Way) -> None:
        self.folder, self.way, self.kills = folder, way, 0
        self.took: list[float] = []
        dataset(folder / "data.jsonl", way.traces)
        new_cache(folder / "cache")
        self._environment = Shell(folder).environment(
            OPENAI_API_KEY="sk-x", ANTHROPIC_API_KEY="sk-x", GEMINI_API_KEY="sk-x"
        )

    def _run(self, step: Step, kill_after: float | None = None) -> int:
        answers = self.folder / "said"
        begun = time.monotonic()
        process = Forked([*step], self.folder, self._environment, answers)
        if kill_after is not None:
            time.sleep(kill_after)
            process.kill()
        code = process.wait()
        if kill_after is None:
            self.took.append(time.monotonic() - begun)
            assert code in (0, 3), answers.read_text()
        else:
            self.kills += code == -9
        return code

    def lead(self, moments: Sequence[float] = ()) -> EvalRun:
        """Take every step, and kill it before at these shares of its time, if the time is known."""
        code = 3
        with self.way.server() as server:
            for number, step in enumerate(self.way.steps(server.url)):
                for moment in moments[number :: max(1, len(self.usual))] if self.usual else ():
                    self._run(step, moment * self.usual[min(number, len(self.usual) - 1)])
                code = self._run(step)
                if code == 0 and step[:2] in (("batch", "import"), ("run", "data.jsonl")):
                    break
            if isinstance(server, BatchServer):
                assert set(server.paid.values()) == {1}
                assert server.online == 0
            else:
                asked = [json.dumps(body, sort_keys=True) for body in server.calls]
                assert len(asked) - len(set(asked)) <= self.kills * IN_FLIGHT
        return EvalRun.load(next(run_folders(self.folder / "runs"))[0])

    usual: Sequence[float] = ()
    """How long each step takes when nobody disturbs it, in seconds."""


def verdicts(run: EvalRun) -> list[Any]:
    """Return what was judged, without what it cost."""
    return [[result.trace_id, result.scores, result.outcomes] for result in run.results]


@pytest.mark.parametrize("way", WAYS)
def test_a_kill_at_any_moment_loses_and_repeats_nothing(way: str, tmp_path: Path) -> None:
    """It finishes with the verdicts of a run that nobody disturbed; only what was in flight is paid twice."""
    assert Shell(tmp_path)("--version").code == 0  # so that the time of the first step is its own
    (tmp_path / "whole").mkdir()
    whole = Life(tmp_path / "whole", WAYS[way])
    expected = verdicts(whole.lead())
    rng, kills, done, lives = random.Random(way), WAYS[way].kills, 0, 0
    while done < kills:
        lives += 1
        folder = tmp_path / f"life{lives}"
        folder.mkdir()
        life = Life(folder, WAYS[way])
        life.usual = whole.took
        count = min(kills - done, max(2, len(whole.took)))
        run = life.lead([rng.uniform(0.05, 0.95) for _ in range(count)])
        assert run.status == "done"
        assert verdicts(run) == expected
        done += life.kills
        assert lives < 3 * kills, "no step was killed before its end"
