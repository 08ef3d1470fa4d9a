"""What is repeated, how often, and after which wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from judge_eval.errors import CallError, FatalCallError, RefusedError, TransientError
from judge_eval.llm.backend import Identity
from judge_eval.llm.http.openai import create
from judge_eval.llm.limit import Limited
from judge_eval.llm.retry import Retried
from judge_eval.wire import Completion, Request
from tests.support import virtual_time
from tests.support.chat_faults import Faults
from tests.support.chat_server import ChatServer
from tests.support.requests import ask


@dataclass
class Scripted:
    """A backend that goes through a list of outcomes, the last one for ever."""

    outcomes: Sequence[Exception | str]
    at: list[float] = field(default_factory=list)
    identity: Identity | None = None

    async def complete(self, request: Request) -> Completion:
        """Give the next outcome."""
        self.at.append(asyncio.get_running_loop().time())
        outcome = self.outcomes[min(len(self.at), len(self.outcomes)) - 1]
        if isinstance(outcome, Exception):
            raise outcome
        return Completion(outcome)

    async def aclose(self) -> None:
        """Nothing to close."""


SERVER = TransientError("HTTP 500", kind="server")


def test_until_it_succeeds() -> None:
    """Transient failures are repeated and counted by kind."""
    inner = Scripted([SERVER, TransientError("x", kind="timeout"), SERVER, "done"])
    backend = Retried(inner, seed=1)
    assert virtual_time.run(backend.complete(ask())).text == "done"
    assert backend.counts == {"server": 2, "timeout": 1}


def test_the_end_of_attempts() -> None:
    """After the last attempt the failure says what happened and how often; it is no longer transient."""
    inner = Scripted([SERVER])
    with pytest.raises(CallError, match=r"HTTP 500 \(8 attempts\)") as caught:
        virtual_time.run(Retried(inner).complete(ask()))
    assert caught.value.why == "unreachable"
    assert not isinstance(caught.value, TransientError)
    assert len(inner.at) == 8


@pytest.mark.parametrize("error", [RefusedError("no"), FatalCallError("no"), CallError("no"), ValueError("no")])
def test_what_is_not_repeated(error: Exception) -> None:
    """Everything but a transient failure passes at once."""
    inner = Scripted([error])
    with pytest.raises(type(error)):
        virtual_time.run(Retried(inner).complete(ask()))
    assert len(inner.at) == 1


def test_the_servers_word() -> None:
    """The wait is what the server asked for, to the second."""
    inner = Scripted([TransientError("x", kind="rate_limit", retry_after=42.0), "done"])
    virtual_time.run(Retried(inner).complete(ask()))
    assert inner.at == [0.0, pytest.approx(42.0)]


def test_full_jitter() -> None:
    """Without a word the waits are random within spans that double, and differ between calls."""
    waits = []
    for seed in range(50):
        inner = Scripted([SERVER])
        with pytest.raises(CallError):
            virtual_time.run(Retried(inner, attempts=5, base=1.0, longest=4.0, seed=seed).complete(ask()))
        waits.append([later - earlier for earlier, later in zip(inner.at, inner.at[1:], strict=False)])
    for number, span in enumerate([1.0, 2.0, 4.0, 4.0]):
        column = [row[number] for row in waits]
        assert max(column) <= span + 1e-9
        assert max(column) > 0.8 * span
        assert min(column) < 0.2 * span


def test_no_wait_beyond_the_allowed() -> None:
    """A wait longer than the allowed is not begun: the call fails at once and says so; the fourth ends the run."""
    inner = Scripted([TransientError("x", kind="rate_limit", retry_after=3600.0)])
    backend = Retried(inner)
    for _ in range(3):
        with pytest.raises(CallError, match="3600 s was asked for, 600 s are allowed"):
            virtual_time.run(backend.complete(ask()))
    assert inner.at == [0.0] * 3
    with pytest.raises(FatalCallError, match="3600 s was asked for, 600 s are allowed"):
        virtual_time.run(backend.complete(ask()))


def test_total_delay() -> None:
    """The sum of waits is bounded too."""
    inner = Scripted([TransientError("x", retry_after=25.0)])
    with pytest.raises(CallError):
        virtual_time.run(Retried(inner, max_delay=60).complete(ask()))
    assert [round(time) for time in inner.at] == [0, 25, 50]


def test_a_server_never_reached() -> None:
    """A wrong address ends the run after a few attempts."""
    refused = TransientError("cannot connect", kind="connection", sent=False)
    inner = Scripted([refused])
    with pytest.raises(FatalCallError, match=r"4 attempts; is the server running"):
        virtual_time.run(Retried(inner).complete(ask()))


@dataclass
class Away(Scripted):
    """A server that cannot be reached between two times, or loads its model then."""

    since: float = 0.0
    until: float = 0.0
    how: TransientError = field(default_factory=lambda: TransientError("no", kind="connection", sent=False))
    is_local: bool = False

    async def complete(self, request: Request) -> Completion:
        """Fail while it is away."""
        if self.since <= asyncio.get_running_loop().time() < self.until:
            self.at.append(asyncio.get_running_loop().time())
            raise self.how
        return await super().complete(request)


LOADING = TransientError("HTTP 503: Loading model", kind="loading", sent=False)


@pytest.mark.parametrize("seed", range(20))
def test_a_server_that_comes_back_costs_no_verdict(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Of a server that has answered and is away for 60 seconds, and loads for 60 more, each call gets its answer."""

    async def go() -> float:
        inner = Away(["done"], since=1.0, until=61.0)
        backend = Retried(inner, seed=seed)
        await backend.complete(ask("first"))
        await asyncio.sleep(2.0)
        await asyncio.gather(*(backend.complete(ask(f"text {number}")) for number in range(10)))
        inner.since, inner.until, inner.how = 0.0, 130.0, LOADING
        await backend.complete(ask("last"))
        return asyncio.get_running_loop().time()

    assert 130 <= virtual_time.run(go()) <= 136
    told = [record.message for record in caplog.records]
    assert told == ["no; waits up to 600 s for it", "the server answers again",
                    "HTTP 503: Loading model; waits up to 600 s for it", "the server answers again"]  # fmt: skip


def test_a_server_of_this_machine_may_start_later() -> None:
    """A local server that is not there yet is waited for 20 seconds; then the run ends, as with one attempt.

    One that was reached, and loads its model, is waited for up to the patience.
    """
    inner = Away(["done"], until=15.0, is_local=True)
    assert virtual_time.run(Retried(inner).complete(ask())).text == "done"
    gone = Away(["done"], until=1e6, is_local=True)
    with pytest.raises(FatalCallError, match="is the server running"):
        virtual_time.run(Retried(gone).complete(ask()))
    assert 15 < gone.at[-1] <= 20
    loading = Away(["done"], until=300.0, how=LOADING, is_local=True)
    assert virtual_time.run(Retried(loading).complete(ask())).text == "done"
    once = Away(["done"], until=1e6, is_local=True)
    with pytest.raises(FatalCallError):
        virtual_time.run(Retried(once, attempts=1).complete(ask()))
    assert once.at == [0.0]


def test_a_server_that_stays_away_ends_the_run() -> None:
    """A server that answered before and is away for longer than the patience ends the run; it can be resumed."""

    async def go() -> None:
        backend = Retried(Away(["done"], since=1.0, until=1e6))
        await backend.complete(ask())
        await asyncio.sleep(2.0)
        await backend.complete(ask("second"))

    with pytest.raises(FatalCallError, match=r"no \(\d+ attempts in \d+ s\)"):
        virtual_time.run(go())


def test_a_time_out_is_repeated_once() -> None:
    """A server that is too slow is not asked eight times; other failures between do not change it."""
    late = TransientError("no answer within 120 s", kind="timeout")
    inner = Scripted([late])
    with pytest.raises(CallError, match=r"120 s \(2 attempts\)"):
        virtual_time.run(Retried(inner).complete(ask()))
    assert len(inner.at) == 2
    inner = Scripted([late, SERVER, SERVER, late])
    with pytest.raises(CallError, match=r"\(4 attempts\)"):
        virtual_time.run(Retried(inner).complete(ask()))


def test_cancellation_ends_it() -> None:
    """A cancelled call is not repeated."""

    async def go() -> int:
        inner = Scripted([SERVER])
        task = asyncio.create_task(Retried(inner, base=100, longest=100, seed=3).complete(ask()))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return len(inner.at)

    assert virtual_time.run(go()) == 1


@pytest.fixture
def faulty() -> Iterator[ChatServer]:
    """A server on which much goes wrong."""
    faults = Faults(rate_429=0.08, rate_500=0.05, rate_503=0.02, rate_reset=0.03, rate_hang=0.01)
    with ChatServer(latency=0.005, faults=faults) as server:
        yield server


@pytest.mark.slow
def test_every_answer_through_a_storm(faulty: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call in five fails; every answer is obtained, equal to what a quiet server gives, paid once."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    texts = [f"Passage number {number} about tomatoes." for number in range(300)]

    async def all_answers(url: str) -> tuple[list[str], dict[str, int]]:
        backend = Retried(Limited(create("m", base_url=url, timeout=8.0, concurrency=32)), base=0.01)
        left = iter(enumerate(texts))
        answers = [""] * len(texts)

        async def work() -> None:
            for number, text in left:
                answers[number] = (await backend.complete(ask(text))).text

        try:
            await asyncio.gather(*(work() for _ in range(32)))
        finally:
            await backend.aclose()
        return answers, dict(backend.counts)

    answers, counts = asyncio.run(all_answers(faulty.url))
    with ChatServer() as quiet:
        assert answers == asyncio.run(all_answers(quiet.url))[0]
    assert set(counts) == {"rate_limit", "server", "connection", "timeout"}
    assert sum(counts.values()) == faulty.counts["calls"] - len(texts)
    assert faulty.counts["paid"] == len(texts)


def test_one_text_always_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one call fails for ever, exactly that one fails."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    async def go(url: str) -> list[object]:
        backend = Retried(Limited(create("m", base_url=url)), base=0.001, attempts=3)
        calls = (backend.complete(ask(f"passage {number} of 20")) for number in range(20))
        try:
            return list(await asyncio.gather(*calls, return_exceptions=True))
        finally:
            await backend.aclose()

    with ChatServer(faults=Faults(fail_texts=("passage 7 of",))) as server:
        outcomes = asyncio.run(go(server.url))
    assert [number for number, outcome in enumerate(outcomes) if isinstance(outcome, CallError)] == [7]
    assert "HTTP 500" in str(outcomes[7])
