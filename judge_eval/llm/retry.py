"""Repeats calls that failed in passing; no other module does."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING, Any

from judge_eval.errors import CallError, ConfigError, FatalCallError, TransientError
from judge_eval.llm.backend import Backend, Wrapper
from judge_eval.llm.limit import PATIENCE
from judge_eval.wire import Completion, Request

if TYPE_CHECKING:
    from tenacity import RetryCallState

_FIRST_TRIES = 4  # attempts at a server that has never answered: a wrong address should be reported soon
_RULE = 4  # calls in a row, without an answer between, that show a wait to be meant for all
_LONG = 10.0  # seconds from which a wait that a server asks for is shown to people


class Retried(Wrapper):
    """A backend that repeats calls which failed in passing, in at most `attempts` (>= 1).

    Between attempts it waits as long as the server asks, else a random part of a span of `base` seconds that
    doubles each time up to `longest` ("full jitter", repeatable by `seed`); in all at most `max_delay`
    seconds a call. If a server asks several calls in a row for a longer wait, the run ends. It stands outside
    a limiter, so that a waiting call does not keep a slot.
    """

    def __init__(
        self,
        inner: Backend,
        *,
        attempts: int = 8,
        max_delay: float = PATIENCE,
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
        self._too_long = 0  # waits that were asked for, in a row, and are longer than the allowed
        self._asked, self._until = 0.0, 0.0  # the long wait that ends last, and the time when it ends

    @property
    def asked_wait(self) -> float:
        """The seconds that the server asked to wait while a call waits so; 0 if none does, or not for long."""
        return self._asked if monotonic() < self._until else 0.0

    async def complete(self, request: Request) -> Completion:
        """Answer one request, in as many attempts as it takes.

        Raises:
            FatalCallError: No call ever reached the server, or it asks all for a longer wait than is allowed.
            CallError: The attempts failed.
        """
        try:
            completion = await self.inner.complete(request)
        except TransientError as error:
            completion = await self._again(request, error)
        self._answered, self._too_long = True, 0
        return completion

    async def _again(self, request: Request, error: TransientError) -> Completion:
        """Repeat a call that failed; a call that succeeds at once is spared the cost of tenacity."""
        pending: list[TransientError] = [error]

        async def attempt() -> Completion:
            if pending:
                raise pending.pop()
            return await self.inner.complete(request)

        from tenacity import AsyncRetrying, retry_if_exception_type

        retrying = AsyncRetrying(
            sleep=asyncio.sleep,
            retry=retry_if_exception_type(TransientError),
            wait=self._wait,
            stop=self._stop,
            before_sleep=self._note,
            retry_error_callback=self._give_up,
        )
        return await retrying(attempt)

    def _wait(self, state: RetryCallState) -> float:
        asked = _error(state).retry_after
        if asked is not None:
            return asked
        # The exponent is bounded: 2 ** 5000 is not a float.
        span = min(self._longest, self._base * 2.0 ** min(state.attempt_number - 1, 60))
        return self._random.uniform(0, span)

    def _stop(self, state: RetryCallState) -> bool:
        limit = min(self._attempts, _FIRST_TRIES) if self._never_reached(_error(state)) else self._attempts
        return state.attempt_number >= limit or state.idle_for + state.upcoming_sleep > self._max_delay

    def _never_reached(self, error: TransientError) -> bool:
        return error.kind == "connection" and not error.sent and not self._answered

    def _note(self, state: RetryCallState) -> None:
        error = _error(state)
        self.counts[error.kind] += 1
        if error.retry_after is not None and error.retry_after >= _LONG:
            until = monotonic() + error.retry_after
            if until > self._until:
                self._asked, self._until = error.retry_after, until

    def _give_up(self, state: RetryCallState) -> Any:
        error, number = _error(state), state.attempt_number
        tried = f"{number} attempt{'s' if number > 1 else ''}"
        if self._never_reached(error):
            if "is it running?" not in error.detail:
                tried += "; is the server running, and the base URL right?"
            raise FatalCallError(f"{error.detail} ({tried})")
        if error.retry_after is not None and (number < self._attempts or error.retry_after > self._max_delay):
            tried += f"; a wait of {error.retry_after:.0f} s was asked for, {self._max_delay:.0f} s are allowed"
        if error.retry_after is not None and error.retry_after > self._max_delay:
            self._too_long += 1
            if self._too_long >= _RULE:
                raise FatalCallError(f"{error.detail} ({tried})")
        raise CallError(f"{error.detail} ({tried})", why="unreachable")


def _error(state: RetryCallState) -> TransientError:
    assert state.outcome is not None
    error = state.outcome.exception()
    assert isinstance(error, TransientError)
    return error
