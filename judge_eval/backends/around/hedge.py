"""Asking a second time while a call is slow, and taking whichever answer comes first."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from judge_eval.backends.base import Backend, Wrapper, when_started
from judge_eval.errors import ConfigError
from judge_eval.wire import Completion, Request


class Hedged(Wrapper):
    """A backend that asks again where an answer is long in coming, and cancels the slower call.

    Waiting for a rate limit does not count as slow. The second call keeps to limits and budgets like any
    other, and may be billed like the first, so the time should be one that few calls take.

    Args:
        inner: Whom to ask; who holds calls back within it says `has_started` of each that is let through.
        after: Seconds to wait for an answer before asking again, > 0.

    Raises:
        ConfigError: `after` is not above 0.
    """

    def __init__(self, inner: Backend, *, after: float) -> None:
        if not after > 0:
            raise ConfigError(f"hedge: the seconds to wait must be above 0, not {after}")
        super().__init__(inner)
        self._after = after
        self.counts: Counter[str] = Counter()
        """How many calls were made a second time, under `hedge`."""

    async def complete(self, request: Request) -> Completion:
        """Answer with the first of at most two calls that succeeds.

        Raises:
            CallError: Neither brought a completion; the first call's error.
            FatalCallError: No call can succeed.
        """
        first, begun = self._begin(request)
        calls = [first]
        try:
            either: set[asyncio.Future[Any]] = {first, begun}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({first}, timeout=self._after)
            if not first.done():
                self.counts["hedge"] += 1
                calls.append(self._begin(request)[0])
                left = set(calls)
                while left:
                    done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                    for call in done:
                        if call.exception() is None:
                            return call.result()
            return first.result()
        finally:
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    def _begin(self, request: Request) -> tuple[asyncio.Task[Completion], asyncio.Future[None]]:
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[None] = loop.create_future()

        def started() -> None:
            if not begun.done():
                begun.set_result(None)

        with when_started(started):
            return loop.create_task(self.inner.complete(request)), begun
