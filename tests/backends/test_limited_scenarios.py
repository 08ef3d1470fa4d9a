"""The whole of retry and limit against a simulated rate limited server, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from judge_eval.backends.base import Identity
from judge_eval.backends.limited import Limited
from judge_eval.backends.rate import Quota, RateSignal
from judge_eval.backends.retried import Retried
from judge_eval.errors import TransientError
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
            if signal and self.listener:
                self.listener(signal)
            asked = max(wait - self.declining, 0.01) if self.says_when else None
            raise TransientError("too many requests", kind="rate_limit", retry_after=asked, sent=False)
        await asyncio.sleep(self.latency * self.random.uniform(0.7, 1.3))
        if signal and self.listener:
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
