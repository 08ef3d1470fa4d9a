"""A server that is away in the middle of a run: waited for, and if it stays away, a run that goes on later."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from pathlib import Path

import pytest

from judge_eval import Chunk, Completion, EvalRun, Evaluator, FakeBackend, Identity, Options, Request, Trace
from judge_eval.errors import FatalCallError, TransientError
from judge_eval.llm.retry import Retried
from judge_eval.runs.keeping.lookup import run_folders
from tests.support import virtual_time
from tests.support.chat_server import ChatServer
from tests.support.ports import quiet_port

TRACES = [
    Trace(id=f"t{n}", query="q", reference="r", chunks=[Chunk(id=c, text=f"{c} {n}") for c in "ab"]) for n in range(6)
]


REPLY = {"evidence": "", "reason": "So.", "instruction_in_chunk": False, "verdict": False}


class AwayBackend(FakeBackend):
    """A backend that takes a second a call, and is away for a minute from the second after its first answers."""

    SINCE, UNTIL = 1.5, 61.5

    def __init__(self) -> None:
        super().__init__(lambda _: json.dumps(REPLY), identity=Identity("x", "y"))
        self.asked: Counter[bytes] = Counter()

    async def complete(self, request: Request) -> Completion:
        """Answer, or fail as a refused connection does."""
        now = asyncio.get_running_loop().time()
        if self.SINCE <= now < self.UNTIL:
            raise TransientError("no server", kind="connection", sent=False)
        await asyncio.sleep(1.0)
        self.asked[request.digest] += 1
        return await super().complete(request)


def test_a_minute_away_costs_no_verdict(caplog: pytest.LogCaptureFixture) -> None:
    """The whole stack waits a minute for a server that answered before: a chunk is paid once, and people are told."""
    backend = AwayBackend()

    async def go() -> EvalRun:
        options = Options(concurrency=4)
        async with Evaluator(backend, metrics=["P@2"], cache=False, options=options) as evaluator:
            return await evaluator.aevaluate(TRACES)

    run = virtual_time.run(go())
    tally = run.manifest.tally
    assert (run.manifest.status, tally.verdicts, tally.failed_verdicts) == ("done", 12, 0)
    assert set(backend.asked.values()) == {1}
    assert tally.retries.keys() == {"connection"}
    told = [record.message for record in caplog.records]
    assert told == ["no server; waits up to 600 s for it", "the server answers again"]


@pytest.fixture
def port() -> int:
    """A port on which a server can come and go."""
    return quiet_port()


def judged(folder: Path, url: str, **how: object) -> EvalRun:
    """Judge the traces over HTTP, one call at a time."""
    options = Options(base_url=url, concurrency=1)
    with Evaluator("llamacpp/m", metrics=["P@2"], cache=folder / "cache", options=options) as evaluator:
        return evaluator.evaluate(TRACES, out=folder / "runs", **how)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_server_that_is_killed_and_started_again(tmp_path: Path, port: int) -> None:
    """Over HTTP: the connection is refused for half a second in the middle, and no verdict is lost."""
    with ChatServer(latency=0.02, port=port) as first:
        thread = threading.Thread(target=lambda: runs.append(judged(tmp_path, first.url)), daemon=True)
        runs: list[EvalRun] = []
        thread.start()
        wait_for(first, 4)
    threading.Event().wait(0.5)
    assert thread.is_alive()
    with ChatServer(port=port) as second:
        thread.join(60)
    (run,) = runs
    tally = run.manifest.tally
    assert (tally.verdicts, tally.failed_verdicts, tally.retries.keys()) == (12, 0, {"connection"})
    assert first.counts["paid"] + second.counts["paid"] in (12, 13)  # one may have been in flight


def test_a_server_that_stays_away_leaves_a_run_that_goes_on(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the patience ends the run stops with what it has; resumed, it asks for the rest alone."""
    monkeypatch.setitem(Retried.__init__.__kwdefaults__, "max_delay", 0.3)
    first = ChatServer(latency=0.02, port=port).__enter__()
    closing = threading.Thread(target=lambda: (wait_for(first, 4), first.__exit__()), daemon=True)
    closing.start()
    with pytest.raises(FatalCallError, match=r"is it running\?|attempts in"):
        judged(tmp_path, first.url)
    closing.join(60)
    ((folder, manifest),) = run_folders(tmp_path / "runs")
    assert manifest.status == "failed"
    with ChatServer(port=port) as second:
        run = judged(tmp_path, second.url, resume=folder)
    assert (run.manifest.status, run.manifest.tally.verdicts, run.manifest.tally.failed_verdicts) == ("done", 12, 0)
    assert first.counts["paid"] + second.counts["paid"] in (12, 13)


def wait_for(server: ChatServer, calls: int) -> None:
    """Wait until a server has given some answers."""
    while server.counts["paid"] < calls:
        threading.Event().wait(0.002)
