"""Keeps calls within what a server can take: one gate per quota, first come, first served."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable
from weakref import WeakValueDictionary

from judge_eval.backends.around import rate
from judge_eval.backends.around.quota import RateSignal
from judge_eval.backends.around.rate import CallOutcome, RateLimits, RateState
from judge_eval.backends.base import Backend, Wrapper, has_started
from judge_eval.errors import ConfigError, TransientError
from judge_eval.wire import Completion, Request


@runtime_checkable
class Advertising(Protocol):
    """A backend whose server advertises its limits."""

    listener: Callable[[RateSignal], None] | None
    """Called with what the server advertised, before the call it came with returns or raises."""

    @property
    def scope(self) -> str:
        """The name of the quota: equal where base URL, key and model are; nothing secret."""
        ...


@dataclass(slots=True, eq=False)
class _Waiter:
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]
    guess: float
    number: int = 0
    """The number of its call, once that may start."""

    def wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class QuotaGate:
    """One controller and those who wait for it; event loops in other threads may share it.

    Args:
        limits: What the user allows.
    """

    def __init__(self, limits: RateLimits) -> None:
        self._state = rate.first_state(limits)
        self._waiters: deque[_Waiter] = deque()
        self._lock = threading.Lock()
        self._alarm: float | None = None

    @property
    def state(self) -> RateState:
        """What the controller knows now."""
        return self._state

    async def acquire(self, guess: float) -> int:
        """Wait for a slot, behind all who came before.

        Args:
            guess: The call's tokens, used until completed calls have told.

        Returns:
            The call's number.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            if not self._waiters:
                self._state, wait = rate.admit(self._state, guess, loop.time())
                if not wait:
                    return self._state.admitted
            waiter = _Waiter(loop, loop.create_future(), guess)
            self._waiters.append(waiter)
            self._pump(loop)
        try:
            await waiter.future
        except BaseException:
            with self._lock:
                if waiter.number:
                    self._state = rate.release(self._state, "neutral", loop.time())
                else:
                    self._waiters.remove(waiter)
                # The alarm may stand on a loop that ends with the one who left.
                self._alarm = None
                self._pump(loop)
            raise
        return waiter.number

    def release(
        self,
        outcome: CallOutcome,
        *,
        took: float = 0.0,
        tokens: float = 0.0,
        retry_after: float | None = None,
        number: int | None = None,
    ) -> None:
        """Give a slot back; the arguments are those of `rate.release`."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._state = rate.release(
                self._state, outcome, loop.time(),
                took=took, tokens=tokens, retry_after=retry_after, number=number,
            )  # fmt: skip
            if self._waiters:
                self._pump(loop)

    def advertise(self, signal: RateSignal) -> None:
        """Note what the server advertised."""
        with self._lock:
            self._state = rate.advertise(self._state, signal, asyncio.get_running_loop().time())

    def tighten(self, limits: RateLimits) -> None:
        """Let the stricter limits hold."""
        with self._lock:
            self._state = rate.tighten(self._state, limits)

    def _pump(self, here: asyncio.AbstractEventLoop) -> None:
        """Let in whoever may start, and set the alarm for the next; the lock is held."""
        waiters, now = self._waiters, here.time()
        while waiters:
            head = waiters[0]
            if head.loop.is_closed():
                waiters.popleft()
                continue
            self._state, wait = rate.admit(self._state, head.guess, now)
            if wait:
                if wait != float("inf") and (self._alarm is None or now + wait < self._alarm):
                    self._alarm = now + wait
                    # On the loop of one who is here: another's may end before the alarm.
                    here.call_later(wait, self._ring, here)
                return
            waiters.popleft()
            head.number = self._state.admitted
            if head.loop is here:
                head.wake()
                continue
            try:
                head.loop.call_soon_threadsafe(head.wake)
            except RuntimeError:
                # Its loop has just been closed: nobody will use the slot.
                self._state = rate.release(self._state, "neutral", now)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            self._alarm = None
            self._pump(loop)


_WRAPPED = 50
"""Tokens that a server puts around the texts of a call, about."""

_gates: WeakValueDictionary[str, QuotaGate] = WeakValueDictionary()
_gates_lock = threading.Lock()


def _gate(scope: str | None, limits: RateLimits) -> QuotaGate:
    """Find the gate of a quota, shared by all in this process who draw on it."""
    if scope is None:
        return QuotaGate(limits)
    with _gates_lock:
        gate = _gates.get(scope)
        if gate is None:
            gate = _gates[scope] = QuotaGate(limits)
        else:
            gate.tighten(limits)
        return gate


class Limited(Wrapper):
    """A backend that adapts to what the server behind it can take.

    Args:
        inner: The backend that calls.
        concurrency: The most calls in flight, >= 1.
        start: Calls in flight at the start, until the server has answered.
        rpm: Requests a minute, where the server does not advertise its limit.
        tpm: Tokens a minute, input and output together, likewise.
        patience: The longest wait in seconds the server may ask everyone for; above it, calls are
            declined at once and not sent.

    Raises:
        ConfigError: A number is out of its range.
    """

    def __init__(
        self,
        inner: Backend,
        *,
        concurrency: int = 256,
        start: int = 20,
        rpm: float | None = None,
        tpm: float | None = None,
        patience: float = 600.0,
    ) -> None:
        for name, value in (("concurrency", concurrency), ("start", start), ("rpm", rpm), ("tpm", tpm)):
            if value is not None and not value > 0:
                raise ConfigError(f"{name} must be above 0, not {value}")
        super().__init__(inner)
        self._patience = patience
        limits = RateLimits(concurrency, min(start, concurrency), rpm, tpm)
        self._gate = _gate(inner.scope if isinstance(inner, Advertising) else None, limits)
        if isinstance(inner, Advertising):
            inner.listener = self._gate.advertise

    @property
    def state(self) -> RateState:
        """What the controller knows now."""
        return self._gate.state

    async def complete(self, request: Request) -> Completion:
        """Answer one request when its turn has come.

        Raises:
            CallError: As the inner backend; or the server asked for a longer wait than `patience`.
            FatalCallError: As the inner backend.
        """
        gate, clock = self._gate, asyncio.get_running_loop().time
        wait = gate.state.not_before - clock()
        if wait > self._patience:
            raise TransientError(
                f"the server asks to wait {wait:.0f} s", kind="rate_limit", retry_after=wait, sent=False
            )
        number = await gate.acquire(0.0 if gate.state.cost else _guess(request))
        has_started()
        started = clock()
        outcome: CallOutcome = "neutral"
        retry_after = None
        used = 0
        try:
            completion = await self.inner.complete(request)
            outcome = "ok"
            used = completion.usage.input_tokens + completion.usage.output_tokens
            return completion
        except TransientError as error:
            if error.kind == "rate_limit" or (error.kind == "server" and error.retry_after is not None):
                outcome, retry_after = "rejected", error.retry_after
            elif error.kind == "timeout" and error.sent:
                outcome = "late"
            raise
        finally:
            gate.release(outcome, took=clock() - started, tokens=used, retry_after=retry_after, number=number)


def _guess(request: Request) -> float:
    """Estimate a call's tokens before any is known: a quarter of the characters, and the cap."""
    shown = sum(len(message.content) for message in request.messages)
    return shown / 4 + request.max_tokens + _WRAPPED
