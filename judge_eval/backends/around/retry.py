"""Makes a call again where that may help; nobody else repeats one."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

from judge_eval.backends.base import Backend, Wrapper
from judge_eval.errors import CallError, ConfigError, FatalCallError, TransientError
from judge_eval.wire import Completion, Request

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState

_FIRST_TRIES = 4
"""How often a server that has never answered is tried: nobody should wait a minute for a wrong address."""


class Retried(Wrapper):
    """A backend that repeats calls which failed in passing.

    Between attempts it waits as long as the server asked, else a random part of a span that doubles each
    time ("full jitter"). It stands outside a limiter, so that a call which waits holds no slot.

    Args:
        inner: The backend that calls.
        attempts: The most attempts per call, >= 1.
        max_delay: The most seconds one call may wait in all, beside the attempts themselves.
        base: The first span in seconds, where the server does not say.
        longest: The longest span in seconds, where the server does not say.
        seed: Makes the waits repeatable.

    Raises:
        ConfigError: A number is out of its range.
    """

    def __init__(
        self,
        inner: Backend,
        *,
        attempts: int = 8,
        max_delay: float = 600.0,
        base: float = 0.5,
        longest: float = 30.0,
        seed: int | None = None,
    ) -> None:
        if attempts < 1 or max_delay < 0 or base < 0 or longest < 0:
            raise ConfigError("attempts must be at least 1; max_delay, base and longest at least 0")
        super().__init__(inner)
        self._attempts, self._max_delay = attempts, max_delay
        self._base, self._longest = base, longest
        self._random = random.Random(seed)  # noqa: S311 - jitter, no secret
        self.counts: Counter[str] = Counter()
        """How many attempts were repeated, by the kind of `TransientError`."""
        self._answered = False
        self._retrying: AsyncRetrying | None = None

    async def complete(self, request: Request) -> Completion:
        """Answer one request, in as many attempts as it takes.

        Raises:
            CallError: The last attempt failed too, or the error is none that passes.
            FatalCallError: No call can succeed; also where no attempt of any call ever reached the server.
        """
        try:
            completion = await self.inner.complete(request)
        except TransientError as error:
            completion = await self._again(request, error)
        self._answered = True
        return completion

    async def _again(self, request: Request, error: TransientError) -> Completion:
        """Go on after a first attempt that failed; most calls never come here, which spares them its cost."""
        pending: list[TransientError] = [error]

        async def attempt() -> Completion:
            if pending:
                raise pending.pop()
            return await self.inner.complete(request)

        if self._retrying is None:
            self._retrying = self._make()
        # A copy, since tenacity keeps the state of an iteration in the object.
        return await self._retrying.copy()(attempt)

    def _make(self) -> AsyncRetrying:
        from tenacity import AsyncRetrying, retry_if_exception_type

        return AsyncRetrying(
            sleep=asyncio.sleep,
            retry=retry_if_exception_type(TransientError),
            wait=self._wait,
            stop=self._stop,
            before_sleep=self._note,
            retry_error_callback=self._give_up,
        )

    def _wait(self, state: RetryCallState) -> float:
        asked = _error(state).retry_after
        if asked is not None:
            return asked
        # The exponent is bounded: 2 ** 5000 is no float.
        span = min(self._longest, self._base * 2.0 ** min(state.attempt_number - 1, 60))
        return self._random.uniform(0, span)

    def _stop(self, state: RetryCallState) -> bool:
        limit = min(self._attempts, _FIRST_TRIES) if self._stranger(_error(state)) else self._attempts
        return state.attempt_number >= limit or state.idle_for + state.upcoming_sleep > self._max_delay

    def _stranger(self, error: TransientError) -> bool:
        """Whether this server has never been reached."""
        return error.kind == "connection" and not error.sent and not self._answered

    def _note(self, state: RetryCallState) -> None:
        self.counts[_error(state).kind] += 1

    def _give_up(self, state: RetryCallState) -> Any:
        error, number = _error(state), state.attempt_number
        tried = f"{number} attempt{'s' if number > 1 else ''}"
        if self._stranger(error):
            raise FatalCallError(f"{error.detail} ({tried}; is the server running, and the base URL right?)")
        if number < self._attempts and error.retry_after is not None:
            tried += (
                f"; a wait of {error.retry_after:.0f} s was asked for, {self._max_delay:.0f} s are allowed"
            )
        raise CallError(f"{error.detail} ({tried})", why="unreachable")


def _error(state: RetryCallState) -> TransientError:
    assert state.outcome is not None
    error = state.outcome.exception()
    assert isinstance(error, TransientError)
    return error
