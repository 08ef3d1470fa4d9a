"""Repeats a slow call, and takes whichever answer comes first."""

import asyncio
import math
from bisect import bisect_left, insort
from collections import Counter, deque
from typing import Any

from judge_eval.errors import TransientError
from judge_eval.llm.backend import Backend, Wrapper, on_start
from judge_eval.llm.options import Hedge
from judge_eval.wire import Completion, Request, Usage

_MULTIPLE, _SHARE = 3.0, 0.05
"""What `auto` stands for: this multiple of the 99th percentile, and the most of all calls made again."""
_ENOUGH, _KEPT = 50, 512
"""How many answers it waits for, and how many of the last ones it goes by."""
_LEAST, _AGAIN = 0.001, 0.25
"""The least seconds to wait, and those until a call looks again whether it may be made a second time."""


class _Latencies:
    """The times of the last answers, and how many calls were repeated because of them."""

    def __init__(self) -> None:
        self._last: deque[float] = deque()
        self._sorted: list[float] = []
        self._calls = self._again = 0

    def begin(self) -> None:
        """Count a call."""
        self._calls += 1

    def add(self, took: float) -> None:
        """Add the seconds of an answer; of a repeated call, since the first began."""
        self._last.append(took)
        insort(self._sorted, took)
        if len(self._last) > _KEPT:
            del self._sorted[bisect_left(self._sorted, self._last.popleft())]

    def wait(self, waited: float) -> float:
        """Return the seconds that a call is still to wait; 0 where it is made again now."""
        if len(self._sorted) < _ENOUGH:
            return _AGAIN
        left = _MULTIPLE * self._sorted[len(self._sorted) * 99 // 100] - waited
        if left > 0:
            return left
        if self._again + 1 > _SHARE * self._calls:
            return _AGAIN
        self._again += 1
        return 0.0


class Hedged(Wrapper):
    """A backend that repeats a call whose answer is slow, and cancels the slower of both.

    Waiting for a rate limit does not count as slow: a wrapper inside that holds calls back reports each start
    by `report_start`. The second call keeps to limits and budgets. A server may bill a cancelled call:
    `extra_calls` and `extra_usage` count it like the answer.

    It is made after `after` seconds, > 0. `auto` waits for three times the 99th percentile of the last 512
    answers' times, once there are 50, and makes at most a twentieth of all calls a second time.
    """

    def __init__(self, inner: Backend, *, after: Hedge) -> None:
        super().__init__(inner)
        self._after, self._latencies = after, _Latencies()
        self.counts: Counter[str] = Counter()
        """How many calls were made a second time, under `hedge`."""
        self.extra_calls = 0
        """Calls whose answers were not taken: answered too, or cancelled under way."""
        self.extra_usage = Usage()
        """Their tokens: from the server, else those of the answer to the same request."""

    async def complete(self, request: Request) -> Completion:
        """Answer with the first call that succeeds, of at most two at the same time."""
        clock = asyncio.get_running_loop().time
        first, begun = self._begin(request)
        calls = {first: begun}
        answered: asyncio.Task[Completion] | None = None
        try:
            either: set[asyncio.Future[Any]] = {first, begun}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            self._latencies.begin()
            started = since = clock()
            while running := {call for call in calls if not call.done()}:
                if running == {first} and (wait := self._wait(clock() - since)) <= 0:
                    self.counts["hedge"] += 1
                    calls |= dict([self._begin(request)])
                    continue
                timeout = max(wait, _LEAST) if running == {first} and wait < math.inf else None
                done, _ = await asyncio.wait(running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                answered = next((call for call in calls if call in done and call.exception() is None), None)
                if answered is not None:
                    self._latencies.add(clock() - started)
                    return answered.result()
                for error in (call.exception() for call in done if call is not first):
                    # A second call that failed in passing gives way to another; else the first must do.
                    since = math.inf
                    if isinstance(error, TransientError):
                        since = clock() + (error.retry_after or 0.0)
            return first.result()
        finally:
            await self._end(calls, answered)

    def _begin(self, request: Request) -> tuple[asyncio.Task[Completion], asyncio.Future[None]]:
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[None] = loop.create_future()

        def started() -> None:
            if not begun.done():
                begun.set_result(None)

        with on_start(started):
            return loop.create_task(self.inner.complete(request)), begun

    def _wait(self, waited: float) -> float:
        return self._latencies.wait(waited) if self._after == "auto" else self._after - waited

    async def _end(
        self, calls: dict[asyncio.Task[Completion], asyncio.Future[None]], answered: asyncio.Task[Completion] | None
    ) -> None:
        for call in calls:
            call.cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        for (call, begun), end in zip(calls.items(), ended, strict=True):
            if answered is None or call is answered:
                continue
            if isinstance(end, Completion):
                usage = end.usage
            elif isinstance(end, asyncio.CancelledError) and begun.done():
                usage = answered.result().usage
            else:
                continue
            self.extra_calls += 1
            self.extra_usage += usage
