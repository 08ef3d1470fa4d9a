"""The gate under asyncio: fair, safe to cancel, shared by quota."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from judge_eval import Evaluator, Trace
from judge_eval.errors import FatalCallError, RefusedError, TransientError
from judge_eval.llm.backend import Backend, Identity
from judge_eval.llm.limit import Limited, QuotaGate, RateLimits, RateSignal
from judge_eval.llm.options import Options
from judge_eval.wire import Completion, Request
from tests.support import virtual_time
from tests.support.chat_faults import Bucket
from tests.support.chat_server import ChatServer
from tests.support.requests import ask


@dataclass
class Slow:
    """A backend that takes a second, notes who came when, and can be told to fail."""

    scope: str | None = None
    failing: Callable[[int], Exception | None] = lambda number: None
    took: float = 1.0
    came: list[str] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    now: int = 0
    most: int = 0
    closed: int = 0
    listener: Callable[[RateSignal], None] | None = None

    @property
    def identity(self) -> Identity:
        """Some identity."""
        return Identity("slow", "m")

    async def complete(self, request: Request) -> Completion:
        """Answer after a while."""
        self.came.append(request.trace_id)
        self.at.append(asyncio.get_running_loop().time())
        failure = self.failing(len(self.came) - 1)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.took)
            if failure:
                raise failure
        finally:
            self.now -= 1
        return Completion("{}")

    async def aclose(self) -> None:
        """Count closings."""
        self.closed += 1


@dataclass
class Plain:
    """A backend whose server advertises nothing."""

    inner: Slow

    @property
    def identity(self) -> Identity:
        """The inner one's."""
        return self.inner.identity

    async def complete(self, request: Request) -> Completion:
        """The inner one's."""
        return await self.inner.complete(request)

    async def aclose(self) -> None:
        """Close it."""
        await self.inner.aclose()


async def all_of(backend: Backend, count: int) -> list[object]:
    """Make calls at once, named by their number."""
    calls = (backend.complete(ask(trace_id=str(n))) for n in range(count))
    return list(await asyncio.gather(*calls, return_exceptions=True))


def test_first_come_first_served() -> None:
    """Calls start in the order they came, never more at once than allowed, all of them."""
    slow = Slow()
    outcomes = virtual_time.run(all_of(Limited(Plain(slow), concurrency=7), 50))
    assert all(isinstance(outcome, Completion) for outcome in outcomes)
    assert slow.came == [str(n) for n in range(50)]
    assert slow.most == 7


def test_slots_come_back_whatever_happens() -> None:
    """Errors of every kind and cancellation give the slot back."""
    errors = [TransientError("x"), RefusedError("x"), FatalCallError("x"), ValueError("x")]
    slow = Slow(failing=lambda n: errors[n % 5] if n % 5 < 4 else None)
    backend = Limited(Plain(slow), concurrency=2)

    async def go() -> None:
        await all_of(backend, 20)
        running = [asyncio.create_task(backend.complete(ask())) for _ in range(5)]
        await asyncio.sleep(0.5)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        assert backend.state.in_flight == 0
        slow.failing = lambda n: None
        assert isinstance((await all_of(backend, 1))[0], Completion)

    virtual_time.run(go())


def test_cancelled_in_the_queue() -> None:
    """One who leaves the queue, even as its turn comes, holds up nobody."""
    slow = Slow()
    backend = Limited(Plain(slow), concurrency=1)

    async def go() -> None:
        tasks = [asyncio.create_task(backend.complete(ask(trace_id=str(n)))) for n in range(6)]
        await asyncio.sleep(0.5)
        tasks[1].cancel()
        # Cancelled in the very step in which the slot is handed over.
        asyncio.get_running_loop().call_at(1.0, tasks[2].cancel)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(outcome, Completion) for outcome in outcomes) >= 4
        assert backend.state.in_flight == 0

    virtual_time.run(go())
    assert [name for name in slow.came if name in "0345"] == ["0", "3", "4", "5"]


def test_a_lone_rejection_holds_back_only_itself() -> None:
    """After one 429 with Retry-After the others go on as if nothing had happened."""
    declined = TransientError("x", kind="rate_limit", retry_after=30.0, sent=False)
    slow = Slow(failing=lambda n: declined if n == 0 else None)
    virtual_time.run(all_of(Limited(Plain(slow), concurrency=2), 10))
    assert slow.at == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_retry_after_holds_everyone_where_it_is_the_rule() -> None:
    """After four 429s in a row with Retry-After nobody starts before it is over."""
    declined = TransientError("x", kind="rate_limit", retry_after=30.0, sent=False)
    slow = Slow(failing=lambda n: declined if n < 4 else None)
    virtual_time.run(all_of(Limited(Plain(slow), start=2), 10))
    assert len([time for time in slow.at if time < 1.0]) == 2
    assert [time for time in slow.at if 4.0 < time < 31.0] == []
    assert len(slow.at) == 10


def test_server_errors_hold_nobody() -> None:
    """A 500 says nothing of capacity: the window stays, and nobody waits."""
    slow = Slow(failing=lambda n: TransientError("x", kind="server"))
    backend = Limited(Plain(slow))
    virtual_time.run(all_of(backend, 40))
    assert backend.state.window == 20
    assert max(slow.at) == 1.0


def test_wait_beyond_patience() -> None:
    """Where the server asks for an hour, calls are declined at once and said not to be sent."""
    declined = TransientError("x", kind="rate_limit", retry_after=3600.0, sent=False)
    slow = Slow(failing=lambda n: declined)
    backend = Limited(Plain(slow), patience=60)

    async def go() -> None:
        await all_of(backend, 4)
        with pytest.raises(TransientError, match=r"3\d{3} s") as caught:
            await backend.complete(ask())
        assert caught.value.retry_after is not None
        assert caught.value.retry_after > 3590
        assert not caught.value.sent

    virtual_time.run(go())
    assert len(slow.came) == 4


def test_wait_beyond_patience_of_those_in_line() -> None:
    """Calls that are in line when the server asks for an hour are declined too, and the line is empty after them."""
    declined = TransientError("x", kind="rate_limit", retry_after=3600.0, sent=False)
    slow = Slow(failing=lambda n: declined)
    backend = Limited(Plain(slow), start=4, patience=60)

    async def go() -> None:
        outcomes = await all_of(backend, 40)
        assert all(isinstance(outcome, TransientError) for outcome in outcomes)
        assert asyncio.get_running_loop().time() < 10
        assert backend.state.in_flight == 0

    virtual_time.run(go())
    assert len(slow.came) < 10


def test_one_controller_per_quota() -> None:
    """Backends of one scope share the limit; of another scope, or without one, they do not."""
    first, second, other = Slow("test-q1"), Slow("test-q1"), Slow("test-q2")
    backends = [Limited(slow, concurrency=6, start=6) for slow in (first, second, other)]
    assert backends[0].state is backends[1].state

    async def go() -> None:
        await asyncio.gather(*(all_of(backend, 12) for backend in backends))

    virtual_time.run(go())
    together = Counter(first.at + second.at)
    assert together[0.0] == 6
    assert max(together.values()) <= 6
    assert other.at.count(0.0) == 6
    Limited(Slow("test-q1"), concurrency=3)
    assert backends[0].state.limits.most == 3


def test_controller_is_forgotten_with_its_users() -> None:
    """A later run starts afresh."""
    backend = Limited(Slow("test-q3"), concurrency=2)
    assert backend.state.window == 2
    del backend
    assert Limited(Slow("test-q3"), concurrency=9).state.window == 9


def test_two_event_loops_share_one_gate() -> None:
    """Threads with loops of their own draw on one quota, and all finish."""
    gate = QuotaGate(RateLimits(most=3, start=3))
    seen: list[int] = []

    async def work() -> None:
        async def one() -> None:
            for _ in range(40):
                await gate.acquire(1)
                seen.append(gate.state.in_flight)
                await asyncio.sleep(0.0005)
                gate.release("ok", took=0.001)

        await asyncio.gather(*(one() for _ in range(4)))

    threads = [threading.Thread(target=lambda: asyncio.run(work())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert len(seen) == 2 * 4 * 40
    assert max(seen) <= 3
    assert gate.state.in_flight == 0


def test_closing_and_identity() -> None:
    """The wrapper passes both through."""
    slow = Slow()
    backend = Limited(slow)
    assert backend.identity == slow.identity
    asyncio.run(backend.aclose())
    assert slow.closed == 1


@pytest.mark.slow
def test_the_limits_that_a_server_advertises_pace_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Through all wrappers: a run whose server says what is left is hardly ever told to wait."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    chunks = [f"text {n}" for n in range(90)]
    with ChatServer(bucket=Bucket(rpm=1800, burst=30, level=30), latency=0.02) as server:
        options = Options(base_url=server.url, concurrency=16)
        with Evaluator("openai/m", cache=tmp_path, options=options) as evaluator:
            run = evaluator.evaluate(Trace(query="When?", reference="nine", chunks=chunks))
        assert run.manifest.tally.failed_verdicts == 0
        assert server.counts["429"] <= 4
