"""The whole of retry and limit against a simulated rate limited server, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from judge_eval.errors import TransientError
from judge_eval.llm.backend import Backend, Identity, Wrapper
from judge_eval.llm.limit import Limited, Quota, RateSignal
from judge_eval.llm.retry import Retried
from judge_eval.wire import Completion, Request, Usage
from tests.support.requests import ask
from tests.support.virtual_time import run

CALLS = 4000


@dataclass
class SimulatedServer:
    """A server that keeps a bucket of requests, answers after a latency and declines at once."""

    rpm: Callable[[float], float]
    burst_seconds: float = 1.0
    latency: float = 1.0
    declining: float = 0.1
    advertises: bool = True
    says_when: bool = True
    fixed_window: bool = False
    level: float | None = None
    at: float = 0.0
    told: str = "always"
    """Whether it advertises `always`, when it `rejected` a call, or `once`, with the first rejection."""
    rejections: int = 0
    done: int = 0
    random: random.Random = field(default_factory=lambda: random.Random(1))
    identity: Identity | None = None
    scope: str | None = None
    listener: Callable[[RateSignal], None] | None = None

    async def complete(self, request: Request) -> Completion:
        """Answer or decline, as the bucket stands."""
        clock = asyncio.get_running_loop().time
        now = clock()
        rpm = self.rpm(now)
        rate = rpm / 60
        size = rpm if self.fixed_window else max(1.0, rate * self.burst_seconds)
        if self.level is None:
            self.level = size
        if self.fixed_window:
            if int(now // 60) != int(self.at // 60) or now == 0:
                self.level = size
            reset = 60 - now % 60
            wait = reset
        else:
            self.level = min(size, self.level + (now - self.at) * rate)
            reset = (size - self.level) / rate
            wait = (1 - self.level) / rate
        self.at = now
        granted = self.level >= 1
        self.level -= granted
        signal = RateSignal(Quota(rpm, int(self.level), reset)) if self.advertises else None
        if not granted:
            self.rejections += 1
            await asyncio.sleep(self.declining)
            if signal and self.listener and (self.told != "once" or self.rejections == 1):
                self.listener(signal)
            asked = max(wait - self.declining, 0.01) if self.says_when else None
            raise TransientError("too many requests", kind="rate_limit", retry_after=asked, sent=False)
        await asyncio.sleep(self.latency * self.random.uniform(0.7, 1.3))
        if signal and self.listener and self.told == "always":
            self.listener(signal)
        self.done += 1
        return Completion("{}", usage=Usage(500, 50))

    async def aclose(self) -> None:
        """Nothing to close."""


def judge_all(server: SimulatedServer, calls: int = CALLS, **limits: float) -> tuple[float, int]:
    """Make the calls with 256 workers; return seconds taken and calls lost."""

    async def go() -> tuple[float, int]:
        server.scope = f"simulated-{id(server)}"
        backend = Retried(Limited(server, **limits), seed=1)  # type: ignore[arg-type]
        left = iter(range(calls))
        lost = 0

        async def work() -> None:
            nonlocal lost
            for _ in left:
                try:
                    await backend.complete(ask())
                except Exception:
                    lost += 1

        await asyncio.gather(*(work() for _ in range(256)))
        return asyncio.get_running_loop().time(), lost

    return run(go())


def constant(rpm: float) -> Callable[[float], float]:
    """Make a limit that stays."""
    return lambda now: rpm


def falling(now: float) -> float:
    """10,000 a minute, and 1,500 from the twelfth second on."""
    return 10_000 if now < 12 else 1_500


def rising(now: float) -> float:
    """1,500 a minute, and 10,000 from the thirtieth second on."""
    return 1_500 if now < 30 else 10_000


SCENARIOS: list[tuple[str, SimulatedServer, float, float, float]] = [
    # name, server, ideal seconds, most over it, most rejections
    ("500", SimulatedServer(constant(500)), 480, 0.05, 20),
    ("500, full bucket", SimulatedServer(constant(500), burst_seconds=60), 420, 0.05, 20),
    ("500, empty bucket", SimulatedServer(constant(500), burst_seconds=60, level=0), 480, 0.05, 25),
    ("500, by the minute", SimulatedServer(constant(500), fixed_window=True), 420, 0.05, 40),
    ("500, not advertised", SimulatedServer(constant(500), advertises=False), 480, 0.05, 700),
    ("500, not a word", SimulatedServer(constant(500), advertises=False, says_when=False), 480, 0.05, 700),
    ("10k", SimulatedServer(constant(10_000)), 24, 0.12, 20),
    ("10k, empty bucket", SimulatedServer(constant(10_000), burst_seconds=60, level=0), 24, 0.12, 20),
    ("10k, small bucket", SimulatedServer(constant(10_000), burst_seconds=0.5), 24, 0.12, 20),
    ("10k, not advertised", SimulatedServer(constant(10_000), advertises=False), 24, 0.12, 700),
    ("10k to 1.5k", SimulatedServer(falling), 92, 0.10, 40),
    ("10k to 1.5k, empty bucket", SimulatedServer(falling, burst_seconds=60, level=0), 92, 0.10, 40),
    ("10k to 1.5k, not advertised", SimulatedServer(falling, advertises=False), 92, 0.10, 1000),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server", "ideal", "over", "rejections"), [row[1:] for row in SCENARIOS], ids=[row[0] for row in SCENARIOS]
)
def test_scenario(server: SimulatedServer, ideal: float, over: float, rejections: float) -> None:
    """4,000 calls against a limit: none lost, in about the ideal time; rejections are few where it is advertised."""
    took, lost = judge_all(server)
    assert lost == 0
    assert server.done == CALLS
    assert took <= ideal * (1 + over)
    assert server.rejections <= rejections


@pytest.mark.slow
def test_a_fall_that_nobody_announces() -> None:
    """Whatever the order of replies, a fall to less than a sixth costs little time."""
    for seed in (2, 3):
        server = SimulatedServer(falling, advertises=False, random=random.Random(seed))
        took, lost = judge_all(server)
        assert (lost, server.done) == (0, CALLS)
        assert took <= 92 * 1.10
        assert server.rejections <= 1000


@pytest.mark.parametrize("repeated", [True, False])
def test_a_quota_told_with_rejections_alone(repeated: bool) -> None:
    """A server that tells its limit only as it declines is taken for one that does not tell it."""
    server = SimulatedServer(constant(500), told="rejected" if repeated else "once")
    took, lost = judge_all(server)
    assert (lost, server.done) == (0, CALLS)
    assert took <= 480 * 1.05
    assert server.rejections <= 700


def test_a_stale_quota_does_not_slow_the_run() -> None:
    """A 429 that named 500 a minute with none left, once, costs a second of a run whose server takes more."""
    server = FaultyServer(random.Random(1), first=TOLD_ONCE)
    assert faulty(server, 16) <= 1.25 * faulty(FaultyServer(random.Random(1)), 16, hold=False)


@dataclass
class FaultyServer:
    """A server without a limit, of whose calls some go wrong at random: declined ones at once."""

    random: random.Random
    rejected: float = 0.05
    latency: float = 0.05
    hanging: float = 0.005
    first: RateSignal | None = None
    """What comes with a rejection of the very first call."""
    calls: int = 0
    identity: Identity | None = None
    scope: str | None = None
    listener: Callable[[RateSignal], None] | None = None

    async def complete(self, request: Request) -> Completion:
        """Answer, decline, fail or hang, by lot."""
        self.calls += 1
        point = self.random.random()
        if self.first is not None and self.listener is not None and self.calls == 1:
            self.listener(self.first)
            raise TransientError("too many requests", kind="rate_limit", retry_after=1.0, sent=False)
        if point < self.rejected:
            raise TransientError("too many requests", kind="rate_limit", retry_after=1.0, sent=False)
        if point < self.rejected + 0.05:
            raise TransientError("broken", kind="server")
        if point < self.rejected + 0.06:
            raise TransientError("reset", kind="connection")
        if point < self.rejected + 0.06 + self.hanging:
            await asyncio.sleep(10)
            raise TransientError("no answer", kind="timeout")
        await asyncio.sleep(self.latency)
        return Completion("{}", usage=Usage(500, 50))

    async def aclose(self) -> None:
        """Nothing to close."""


TOLD_ONCE = RateSignal(Quota(500, 0, 60))


class Room(Wrapper):
    """A backend with room for so many calls, and no other rule."""

    def __init__(self, inner: Backend, most: int) -> None:
        super().__init__(inner)
        self.room = asyncio.Semaphore(most)

    async def complete(self, request: Request) -> Completion:
        """Ask when there is room."""
        async with self.room:
            return await self.inner.complete(request)


def faulty(server: FaultyServer, width: int, *, hold: bool = True, calls: int = 1000) -> float:
    """Make the calls, so many in flight and some that wait to be repeated; return the seconds taken."""

    async def go() -> float:
        server.scope = f"faulty-{id(server)}"
        inner: Backend = Limited(server, concurrency=width) if hold else Room(server, width)
        backend = Retried(inner, seed=1)
        left = iter(range(calls))

        async def work() -> None:
            for _ in left:
                await backend.complete(ask())

        await asyncio.gather(*(work() for _ in range(width + width // 4)))
        return asyncio.get_running_loop().time()

    return run(go())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "rejected", "over"), [(16, 0.05, 1.15), (64, 0.05, 1.15), (16, 0.1, 1.3), (64, 0.1, 1.5)]
)
def test_random_faults(width: int, rejected: float, over: float) -> None:
    """Rejections at random, each with a Retry-After, cost little more than they do without any hold."""
    seeds = range(6)
    held = [faulty(FaultyServer(random.Random(seed), rejected), width) for seed in seeds]
    free = [faulty(FaultyServer(random.Random(seed), rejected), width, hold=False) for seed in seeds]
    assert sum(held) <= over * sum(free)


def test_a_rise_is_found() -> None:
    """A limit that rises without a word is found within seconds."""
    server = SimulatedServer(rising, advertises=False)
    took, lost = judge_all(server)
    assert lost == 0
    assert took <= (30 + (CALLS - 750) / (10_000 / 60)) * 1.35


@pytest.mark.parametrize(("limits", "least"), [({"rpm": 300}, 118.0), ({"tpm": 300 * 550}, 118.0)])
def test_own_limit(limits: dict[str, float], least: float) -> None:
    """`rpm` and `tpm` keep calls under a limit that the server does not advertise: it rejects nothing."""
    server = SimulatedServer(constant(310), advertises=False, burst_seconds=6)
    took, lost = judge_all(server, calls=600, **limits)
    assert (lost, server.rejections) == (0, 0)
    assert least <= took <= 135
