"""One absurd header about quotas and waits costs at most its own call: the run does not stand still."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import count, product

import pytest

from judge_eval.errors import CallError, TransientError
from judge_eval.llm.backend import Backend, Identity
from judge_eval.llm.http.failures import rate_signal, retry_after
from judge_eval.llm.limit import Limited, RateSignal
from judge_eval.llm.retry import Retried
from judge_eval.wire import Completion, Request, Usage
from tests.support.requests import ask
from tests.support.virtual_time import run

CALLS, ODD = 60, 7
NUMBERS = count()  # servers do not share a quota
TIMES = ("87600h", "999999999", "3600000", "-1", "soon", "", "1e300", "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT")
LIMITS = ("1", "200", "999999999")
QUOTAS = [
    {f"x-ratelimit-limit-{of}": limit, f"x-ratelimit-remaining-{of}": "0", f"x-ratelimit-reset-{of}": time}
    for of, limit, time in product(("requests", "tokens"), LIMITS, TIMES)
]
WAITS = [{name: time} for name, time in product(("retry-after", "retry-after-ms"), TIMES)]
EMPTY = {
    "x-ratelimit-limit-requests": "200",
    "x-ratelimit-remaining-requests": "0",
    "x-ratelimit-reset-requests": "60",
    "retry-after": "3600",
}
"""A quota that may be, with a wait that would end the run if everybody kept it."""


@dataclass
class OneOdd:
    """A server that answers after a second; one reply, of a status, brings odd headers."""

    headers: dict[str, str]
    status: int
    calls: int = 0
    identity: Identity | None = None
    scope: str = ""
    listener: object = None

    async def complete(self, request: Request) -> Completion:
        """Answer, or fail once."""
        self.calls += 1
        odd = self.calls == ODD
        await asyncio.sleep(1)
        if odd:
            # A limiter reads token quotas beside those of requests.
            signal = rate_signal({"x-ratelimit-limit-requests": "", **self.headers})
            if signal is not None and callable(self.listener):
                self.listener(RateSignal(signal.requests, signal.tokens))
            if self.status != 200:
                kind, limited = ("rate_limit", True) if self.status == 429 else ("server", False)
                asked = retry_after(self.headers, quotas=limited)
                raise TransientError("odd", kind=kind, retry_after=asked, sent=not limited)
        return Completion("{}", usage=Usage(500, 50))

    async def aclose(self) -> None:
        """Close nothing."""


def judged(headers: dict[str, str], status: int, width: int) -> tuple[float, int]:
    """Make the calls; return the seconds they took on a virtual clock, and how many failed."""

    async def all_of() -> tuple[float, int]:
        backend: Backend = Retried(Limited(OneOdd(headers, status, scope=f"server {next(NUMBERS)}"), concurrency=width))
        gate = asyncio.Semaphore(width)

        async def one(number: int) -> object:
            async with gate:
                return await backend.complete(ask(f"Is {number} odd?"))

        done = await asyncio.gather(*map(one, range(CALLS)), return_exceptions=True)
        assert all(isinstance(each, CallError | Completion) for each in done)
        return asyncio.get_running_loop().time(), sum(isinstance(each, CallError) for each in done)

    return run(all_of())


@pytest.mark.parametrize("width", [1, 20])
@pytest.mark.parametrize("status", [200, 429, 503])
def test_an_absurd_header_does_not_stall_a_run(status: int, width: int) -> None:
    """At most the odd call fails, and the others wait for less than three minutes in all."""
    for headers in [*QUOTAS, *WAITS, EMPTY]:
        seconds, failed = judged(headers, status, width)
        assert failed <= 1, headers
        assert seconds < CALLS / width + 180, (headers, seconds)
