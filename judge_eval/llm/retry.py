"""What is done after failed calls: those that may pass are repeated, and those that cannot pass end the run."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from judge_eval.errors import CallError, DeniedError, FatalCallError, RefusedError, TransientError
from judge_eval.llm.backend import Backend, Wrapper, peek, states
from judge_eval.llm.limit import PATIENCE
from judge_eval.wire import Completion, Request

if TYPE_CHECKING:
    from tenacity import RetryCallState

_FIRST_TRIES = 4  # attempts at a far server that has never answered: a wrong address should be reported soon
_STARTING = 20.0  # the most seconds for which a server of this machine that has never answered may refuse calls
_AWAY = 5.0  # the most seconds between two attempts at a server that is away
_SAID = 2.0  # seconds for which a server is away before people are told
_RULE = 4  # calls in a row, without an answer between, that show a wait to be meant for all
_LATE = 2  # time-outs of one call after which it has failed: a server that is too slow is not helped by a third
_LONG = 10.0  # seconds from which a wait that a server asks for is shown to people

_log = logging.getLogger("judge_eval")


class Retried(Wrapper):
    """A backend that repeats calls which failed in passing, in at most `attempts` (>= 1).

    Between attempts it waits as long as the server asks, else a random part of a span of `base` seconds that
    doubles each time up to `longest` ("full jitter", repeatable by `seed`); in all at most `max_delay`
    seconds a call. A call that times out is repeated once. If a server asks several calls in a row for a longer wait,
    the run ends. It stands outside a limiter, so that a waiting call does not keep a slot.

    A server that loads its model, or is away after it has answered, is waited for: attempts that did not reach it do
    not count, but for `max_delay`; one of this machine that is not there yet is, for 20 seconds. With one attempt
    nothing is.
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
        super().__init__(inner)
        self._attempts, self._max_delay = attempts, max_delay
        self._base, self._longest = base, longest
        self._random = random.Random(seed)  # noqa: S311 - jitter, no secret
        self.counts: Counter[str] = Counter()
        """How many attempts were repeated, by the kind of `TransientError`."""
        self._answered, self._is_local = False, states(inner, "is_local")
        self._said_away = False  # whether people were told that the server is away
        self._too_long = 0  # waits that were asked for, in a row, and are longer than the allowed
        self._asked, self._until = 0.0, 0.0  # the long wait that ends last, and the time when it ends

    @property
    def asked_wait(self) -> float:
        """The seconds that the server asked to wait while a call waits so; 0 if none does, or not for long."""
        return self._asked if monotonic() < self._until else 0.0

    async def complete(self, request: Request) -> Completion:
        """Answer one request, in as many attempts as it takes.

        Raises:
            FatalCallError: No call ever reached the server, or it is away, or asks all to wait, for too long.
            CallError: The attempts failed.
        """
        try:
            completion = await self.inner.complete(request)
        except TransientError as error:
            completion = await self._again(request, error)
        self._answered, self._too_long = True, 0
        if self._said_away:
            self._said_away = False
            _log.warning("the server answers again")
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
            stop=partial(self._stop, Counter()),
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
        return self._random.uniform(0, min(span, _AWAY) if self._is_away(_error(state)) else span)

    def _stop(self, failed: Counter[str], state: RetryCallState) -> bool:
        """Take in how an attempt failed, of which `failed` counts those of one call; return whether it was the last."""
        error = _error(state)
        is_away = self._attempts > 1 and self._is_away(error)
        failed["away" if is_away else error.kind] += 1
        if state.idle_for + state.upcoming_sleep > self._longest_wait(error) or failed["timeout"] >= _LATE:
            return True
        if is_away:
            return False
        limit = min(self._attempts, _FIRST_TRIES) if self._never_reached(error) else self._attempts
        return failed.total() - failed["away"] >= limit

    def _is_away(self, error: TransientError) -> bool:
        """Whether an attempt failed because the server is not there now, and may be soon."""
        if error.kind == "loading":
            return True
        return error.kind == "connection" and not error.sent and (self._answered or self._is_local)

    def _longest_wait(self, error: TransientError) -> float:
        return min(self._max_delay, _STARTING) if self._never_reached(error) else self._max_delay

    def _never_reached(self, error: TransientError) -> bool:
        return error.kind == "connection" and not error.sent and not self._answered

    def _note(self, state: RetryCallState) -> None:
        error = _error(state)
        self.counts[error.kind] += 1
        if self._is_away(error) and not self._said_away and state.idle_for + state.upcoming_sleep > _SAID:
            self._said_away = True
            _log.warning("%s; waits up to %.0f s for it", error.detail, self._longest_wait(error))
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
        if self._is_away(error) and self._attempts > 1:
            raise FatalCallError(f"{error.detail} ({tried} in {state.idle_for:.0f} s)")
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


TRACES = 5
"""From how many different traces equal fatal answers in a row end a run."""
REFUSALS = 20
"""How many equal refusals in a row, from as many traces, end a run."""
_DOUBTED = 10.0  # seconds to wait for calls in flight before a run without answers ends
_LOOK = 0.01


class CircuitBreaker(Wrapper):
    """A backend in which one odd answer costs one request.

    Before the first answer a `DeniedError` ends the run, unless a call that is in flight brings an answer.
    Afterwards it fails its call alone: a firewall may dislike one chunk, or an objection may quote it. Equal
    ones in a row, from `TRACES` traces and without an answer between them, end the run; so do
    `REFUSALS` equal refusals. Answers from a cache show that the server has answered before.
    """

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.answered = False
        """Whether the model has answered, in this run or before."""
        self._cause = ""
        self._failures: list[DeniedError | RefusedError] = []
        self._traces: set[str] = set()
        self._in_flight: set[object] = set()
        self._doubts = 0

    def peek(self, requests: Sequence[Request]) -> list[Completion | None]:
        """Answer what is at hand with the backend inside."""
        completions = peek(self.inner, requests)
        self.answered = self.answered or any(completion is not None for completion in completions)
        return completions

    async def complete(self, request: Request) -> Completion:
        """Answer one request."""
        while self._doubts and not self.answered:  # noqa: ASYNC110  two event loops may share this
            await asyncio.sleep(_LOOK)
        call = object()
        self._in_flight.add(call)
        try:
            completion = await self.inner.complete(request)
        except (DeniedError, RefusedError) as error:
            denied = isinstance(error, DeniedError)
            if denied and not self.answered and not await self._answered_without(call):
                raise
            if self._confirms(error, request.trace_id, 1 if denied else REFUSALS):
                raise FatalCallError(
                    f"{error} (the last {len(self._failures)} calls, of {len(self._traces)} traces, "
                    "failed in the same way)",
                    error.cause,
                ) from None
            if denied:
                raise RefusedError(str(error)) from None
            raise
        else:
            self.answered, self._cause = True, ""
            return completion
        finally:
            self._in_flight.discard(call)

    async def _answered_without(self, call: object) -> bool:
        """Wait for the calls in flight; return whether one of them brought an answer."""
        self._in_flight.discard(call)
        others, until = set(self._in_flight), monotonic() + _DOUBTED
        self._doubts += 1
        try:
            while not self.answered and others & self._in_flight and monotonic() < until:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK)
        finally:
            self._doubts -= 1
        return self.answered

    def _confirms(self, error: DeniedError | RefusedError, trace: str, least: int) -> bool:
        """Take in a failure; return whether it and equal ones in a row end the run."""
        if not error.cause:
            return False
        if error.cause != self._cause:
            self._cause, self._failures, self._traces = error.cause, [], set()
        if error not in self._failures:  # requests that share a call share its error
            self._failures.append(error)
            self._traces.add(trace)
        return len(self._failures) >= least and len(self._traces) >= TRACES
