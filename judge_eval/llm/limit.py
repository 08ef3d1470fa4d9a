"""Keeps calls within what a server takes: its advertised limits, the user's, and what rejections teach."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable
from weakref import WeakValueDictionary

from judge_eval.errors import TransientError
from judge_eval.llm.backend import Backend, Wrapper, states
from judge_eval.wire import Completion, Request

_SCARCE = 0.25  # the share of a quota below which calls are paced
_LONGEST_GAP, _LONGEST_HOLD = 15.0, 60.0
"""The most seconds for which one reply's headers pace a call, and for which one rejection holds all: a server
that means more goes on rejecting."""
_SILENT = 8  # completions in a row without a word of the quota after which nothing that was said of it counts
_RULE, _CONVINCED, _TRUST = 4.0, 6.0, 0.26
"""The rejections in a row that make them the rule, the most that are remembered, and what a completion takes off."""
_GROWTH = 0.07
"""What a completed call adds to the window after slow start: it rises while fewer than 12% are rejected."""
_SLOTS = 4
"""The window at the start where the server may have few slots."""
_SLOWER, _ROUND, _TRIED_AGAIN = 1.5, 8, 8
"""By how much longer calls may take in a window twice as wide, the least calls that show it, and the rounds of as many
calls as the window after which it is tried again."""
_SLACK = 0.02  # seconds by which a paced call may make up for a clock that woke late


@dataclass(frozen=True, slots=True)
class Quota:
    """One advertised limit: how much a period allows, what is left, seconds until it is whole again."""

    limit: float
    remaining: float
    reset: float | None = None

    @property
    def refill(self) -> float:
        """Units a second, > 0."""
        # A bucket that fills steadily says so by `reset`, whatever its period; where a period starts anew at
        # once, that quotient is too high, and a minute is meant.
        per_minute = self.limit / 60
        if self.reset and self.limit - self.remaining >= 1:
            return min((self.limit - self.remaining) / self.reset, per_minute)
        return per_minute


@dataclass(frozen=True, slots=True)
class RateSignal:
    """What a server advertised with one reply."""

    requests: Quota | None = None
    tokens: Quota | None = None


@dataclass(slots=True)
class QuotaMeter:
    """A guess at what is left of a quota, carried forward from the last reply."""

    limit: float
    refill: float
    level: float
    at: float

    def left(self, now: float) -> float:
        """What is left now; below 0 where more was started than there was."""
        return min(self.limit, self.level + self.refill * (now - self.at))

    def spend(self, cost: float, now: float) -> float:
        """Start a call of this cost; return the seconds to leave after it, 0 while plenty is left."""
        left = self.left(now)
        self.level, self.at = left - cost, now
        share = left / (self.limit * _SCARCE)
        if share >= 1:
            return 0.0
        # Just under the refill at an empty bucket, so that it settles a little above empty.
        return min(cost / (self.refill * (0.98 + 2 * max(share, 0.0))), _LONGEST_GAP)


CallOutcome = Literal["ok", "rejected", "late", "neutral"]
"""How a call ended: with a completion, declined for want of capacity, too late, or telling nothing."""


@dataclass(frozen=True, slots=True)
class RateLimits:
    """What the user allows."""

    most: int = 256
    """The most calls in flight, >= 1."""
    start: int = 20
    """The window at the start."""
    rpm: float | None = None
    """Requests a minute; None if only the server limits them."""
    tpm: float | None = None
    """Tokens a minute, input and output together; None likewise."""
    few_slots: bool = False
    """Whether calls may wait for each other at the server: the window doubles only while they take no longer."""


class RateController:
    """Decides when calls may start; it does no I/O, and all times are seconds on one clock of its caller.

    A window bounds the calls in flight: it doubles until rejections are the rule, then each completion adds a
    little and each rejection takes half a call. Calls are spread at the rate that the server advertises, once
    little is left of it. Where rejections are the rule, the wait that the server asks for holds all calls.
    """

    def __init__(self, limits: RateLimits) -> None:
        self.limits = limits
        self.window = float(min(limits.start, limits.most, _SLOTS if limits.few_slots else limits.start))
        """The most calls in flight now, >= 1."""
        self.in_flight = 0
        self.not_before = -math.inf
        """When the next call may start: the longest wait that the server asked of all."""
        self.requests: QuotaMeter | None = None
        """What is left of the advertised requests; None if none are advertised."""
        self.tokens: QuotaMeter | None = None
        self.started = 0
        """Calls started so far; the last one's number."""
        self.cost = 0.0
        """The smoothed tokens of a completed call; 0 until there is one."""
        self._peak = 0.0  # the most calls in flight lately
        self._next_at = -math.inf
        self._slow_start = True
        self._heard = False  # whether there was word of a quota since a call last ended
        self._silent = 0  # completions in a row that brought no word of a quota
        self._latency = 0.0  # the smoothed seconds of a completed call
        self._rejected_at = -math.inf
        self._last = 0  # the number of the last call that was rejected
        self._doubt = 0.0  # the evidence that rejections are the rule, in rejections
        self._times: list[float] = []  # the seconds of the calls of this round that started in this window
        self._narrow = (0.0, 0.0)  # the window before the last doubling and the seconds of a call in it; 0 for none
        self._widened, self._rounds = 0, 1  # the last call that says nothing of this window; rounds until it may double
        self._crowded = 0  # the last call of a window that was taken back

    def admit(self, guess: float, now: float) -> float:
        """Ask whether a call may start; `guess` is its tokens, used until calls have completed.

        Returns 0 if it starts now; else the seconds after which to ask again, infinite: after another call has ended.
        """
        if self.in_flight >= int(self.window):
            return math.inf
        due = max(self.not_before, self._next_at)
        if due > now:
            return due - now
        cost, gap = self.cost or guess, 0.0
        if self.limits.rpm is not None:
            gap = 60 / self.limits.rpm
        if self.limits.tpm is not None:
            gap = max(gap, cost * 60 / self.limits.tpm)
        if self.requests is not None:
            gap = max(gap, self.requests.spend(1, now))
        if self.tokens is not None:
            gap = max(gap, self.tokens.spend(cost, now))
        if gap:
            self._next_at = max(self._next_at, now - _SLACK) + gap
        self.in_flight += 1
        self.started += 1
        return 0.0

    def release(
        self,
        outcome: CallOutcome,
        now: float,
        *,
        took: float = 0.0,
        tokens: float = 0.0,
        retry_after: float | None = None,
        number: int | None = None,
    ) -> None:
        """Note how a call ended that took so many seconds and tokens (0 if not known).

        `retry_after` are the seconds that the server asked to wait. `number` is `started` when the call had started;
        None takes the last call.
        """
        number = self.started if number is None else number
        if outcome == "ok":
            self._completed(took, tokens, number)
        elif outcome == "late" and self._narrow[0]:  # the calls that show that the window is too wide never complete
            self._take_doubling_back()
        elif outcome != "neutral" and number > self._crowded:
            self.window = max(1.0, self.window - 0.5)
        if outcome == "rejected":
            self._rejects(now, retry_after, number)
        self._heard = False
        self.in_flight -= 1

    def _completed(self, took: float, tokens: float, number: int) -> None:
        self._peak = max(self.in_flight, self._peak - 0.1)
        if self._peak * 2.5 < self.window:  # an unused window says nothing about a wider one
            pass
        elif self.limits.few_slots and self._slow_start and self.requests is None:
            self._double_if_as_fast(took, number)
        else:
            # Where the server tells what is left, pacing keeps the rate and the window may be wide.
            step = 1.0 if self._slow_start or self.requests is not None else _GROWTH
            self.window = min(float(self.limits.most), self.window + step)
        self._latency += (took - self._latency) * (0.1 if self._latency else 1.0)
        if self._slow_start and self.requests is not None:
            # Little's law: what the advertised rate keeps in flight, with a little room.
            kept = 1.2 * self.requests.refill * self._latency
            self.window = max(self.window, min(float(self.limits.most), kept))
        if tokens:
            self.cost += (tokens - self.cost) * (0.1 if self.cost else 1.0)
        self._silent = 0 if self._heard else self._silent + 1
        if self._silent >= _SILENT:
            self.requests = self.tokens = None

    def _double_if_as_fast(self, took: float, number: int) -> None:
        """Take in a call; after a round of them double the window, or take the last doubling back."""
        if number <= self._widened:
            return
        self._times.append(took)
        if len(self._times) < max(self.window, _ROUND) * self._rounds:
            return
        mean, (narrow, before) = sum(self._times) / len(self._times), self._narrow
        if narrow and mean > _SLOWER * before:
            self._take_doubling_back()
            return
        self._times, self._narrow, self._rounds = [], (0.0, 0.0), 1
        if self.window < self.limits.most:
            self._narrow = (self.window, mean)
            self.window = min(self.window * 2, float(self.limits.most))
        self._widened = self.started + int(self.window)  # the first ones find a shorter or a longer line

    def _take_doubling_back(self) -> None:
        self.window = min(self.window, self._narrow[0])
        self._times, self._narrow, self._rounds = [], (0.0, 0.0), _TRIED_AGAIN
        self._widened, self._crowded = self.started + int(self.window), self.started

    def _rejects(self, now: float, retry_after: float | None, number: int) -> None:
        self._rejected_at = now
        # Calls that started in between and are not rejected yet count as taken: rejections come sooner than
        # completions. One that comes behind a later one had been counted as taken: that is taken back.
        between = number - self._last - 1 if number > self._last else -1
        self._last = max(number, self._last)
        self._doubt = min(max(0.0, self._doubt - _TRUST * between) + 1, _CONVINCED)
        rule = self._doubt >= _RULE
        self._slow_start = self._slow_start and self._doubt < _RULE / 2
        empty = self.requests is not None and self.requests.left(now) < 1
        if retry_after is not None and (rule or empty):
            held = now + (retry_after if rule else min(retry_after, _LONGEST_HOLD))
            self.not_before = max(self.not_before, held)

    def advertise(self, signal: RateSignal, now: float) -> None:
        """Note what a server advertised."""
        # Calls in flight may not be in its count yet: they are taken off.
        # What a rejection says of a quota of which completions say nothing does not count.
        self._heard = True
        if self._silent >= _SILENT:
            return
        others = max(0, self.in_flight - 1)
        if (quota := signal.requests) is not None and not self._is_old(quota, self.requests, now):
            self.requests = QuotaMeter(quota.limit, quota.refill, quota.remaining - others, now)
        if (quota := signal.tokens) is not None and not self._is_old(quota, self.tokens, now):
            self.tokens = QuotaMeter(quota.limit, quota.refill, quota.remaining - others * self.cost, now)

    def _is_old(self, quota: Quota, known: QuotaMeter | None, now: float) -> bool:
        """Whether a higher limit may be told by a reply to a call from before the last rejection."""
        return known is not None and quota.limit > known.limit and now < self._rejected_at + 2 * self._latency

    def tighten(self, limits: RateLimits) -> None:
        """Let the stricter of two users' limits hold, where both share one quota."""
        ours = self.limits
        self.limits = RateLimits(
            min(ours.most, limits.most),
            min(ours.start, limits.start),
            min((rate for rate in (ours.rpm, limits.rpm) if rate is not None), default=None),
            min((rate for rate in (ours.tpm, limits.tpm) if rate is not None), default=None),
            ours.few_slots or limits.few_slots,
        )
        self.window = min(self.window, float(self.limits.most))


@runtime_checkable
class Advertising(Protocol):
    """A backend whose server advertises its limits."""

    listener: Callable[[RateSignal], None] | None
    """Called with what the server advertised, before the call it came with returns or raises."""

    @property
    def scope(self) -> str:
        """The name of the quota: equal where base URL, key and model are; nothing secret."""


@dataclass(slots=True, eq=False)
class _Waiter:
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]
    guess: float
    number: int = 0
    """The number of its call, once that may start."""

    def wake(self, error: Exception | None = None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)


class QuotaGate:
    """One controller and the calls that wait for it; event loops in other threads may share it."""

    def __init__(self, limits: RateLimits) -> None:
        self.state = RateController(limits)
        """What the controller knows now."""
        self._waiters: deque[_Waiter] = deque()
        self._lock = threading.Lock()
        self._alarm: float | None = None

    async def acquire(self, guess: float) -> int:
        """Wait for a slot in line, and return the call's number; `guess` is its tokens."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if not self._waiters and not self.state.admit(guess, loop.time()):
                return self.state.started
            waiter = _Waiter(loop, loop.create_future(), guess)
            self._waiters.append(waiter)
            self._pump(loop)
        try:
            await waiter.future
        except BaseException:
            with self._lock:
                if waiter.number:
                    self.state.release("neutral", loop.time())
                else:
                    self._waiters.remove(waiter)
                # The alarm may stand on a loop that ends with the one who left.
                self._alarm = None
                self._pump(loop)
            raise
        return waiter.number

    def release(self, outcome: CallOutcome, **ended: Any) -> None:
        """Give a slot back; the keywords are those of `RateController.release`."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self.state.release(outcome, loop.time(), **ended)
            if self._waiters:
                self._pump(loop)

    def decline(self, error: Callable[[], Exception]) -> None:
        """Let the calls that wait in line fail, each with an error of its own."""
        with self._lock:
            for waiter in self._waiters:  # each takes itself out of the line
                with suppress(RuntimeError):  # its loop has been closed
                    waiter.loop.call_soon_threadsafe(waiter.wake, error())

    def advertise(self, signal: RateSignal) -> None:
        """Note what a server advertised."""
        with self._lock:
            self.state.advertise(signal, asyncio.get_running_loop().time())

    def tighten(self, limits: RateLimits) -> None:
        """Let the stricter limits hold."""
        with self._lock:
            self.state.tighten(limits)

    def _pump(self, here: asyncio.AbstractEventLoop) -> None:
        """Admit the callers that may start, and set the alarm for the next; the lock is held."""
        waiters, now = self._waiters, here.time()
        while waiters:
            head = waiters[0]
            if head.loop.is_closed():
                waiters.popleft()
                continue
            wait = self.state.admit(head.guess, now)
            if wait:
                if wait != float("inf") and (self._alarm is None or now + wait < self._alarm):
                    self._alarm = now + wait
                    # On the loop of one who is here: another's may end before the alarm.
                    here.call_later(wait, self._ring, here)
                return
            waiters.popleft()
            head.number = self.state.started
            if head.loop is here:
                head.wake()
                continue
            try:
                head.loop.call_soon_threadsafe(head.wake)
            except RuntimeError:
                # Its loop has just been closed: nobody will use the slot.
                self.state.release("neutral", now)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            self._alarm = None
            self._pump(loop)


PATIENCE = 600.0
"""The most seconds that a server may ask a call to wait; one that asks for more answers nothing in this run."""
_WRAPPED = 50  # tokens that a server puts around the texts of a call, about

_gates: WeakValueDictionary[str, QuotaGate] = WeakValueDictionary()
_gates_lock = threading.Lock()


def run_gate(concurrency: int) -> QuotaGate:
    """Return a gate that bounds the calls in flight of several backends together, and nothing else."""
    return QuotaGate(RateLimits(concurrency, concurrency))


class Limited(Wrapper):
    """A backend that adapts to what the server behind it can take.

    At most `concurrency` calls (>= 1) are in flight, `start` until the server has answered. `rpm` and `tpm`
    (requests, and tokens in and out, a minute) hold where the server does not advertise its limits. A server that may
    answer few calls at a time begins with 4, and gets more only while they take no longer. If it
    asks everyone to wait longer than `patience` seconds, calls are declined at once and not sent, also those in line.

    `total` bounds the calls in flight of this backend and others together (`run_gate`). A call takes its
    place there last, so a backend that is held back does not keep places from the others.
    """

    def __init__(
        self,
        inner: Backend,
        *,
        concurrency: int = 256,
        start: int = 20,
        rpm: float | None = None,
        tpm: float | None = None,
        patience: float = PATIENCE,
        total: QuotaGate | None = None,
    ) -> None:
        super().__init__(inner)
        self._patience, self._total = patience, total
        self._words = ""  # what the server said when it last declined a call for want of capacity
        limits = RateLimits(concurrency, min(start, concurrency), rpm, tpm, states(inner, "has_few_slots"))
        self._gate = QuotaGate(limits)
        if isinstance(inner, Advertising):
            with _gates_lock:
                self._gate = _gates.setdefault(inner.scope, self._gate)
            self._gate.tighten(limits)
            inner.listener = self._gate.advertise

    @property
    def state(self) -> RateController:
        """What the controller knows now."""
        return self._gate.state

    async def complete(self, request: Request) -> Completion:
        """Answer one request when its turn has come, if the server asks for no more than `patience`."""
        gate, clock = self._gate, asyncio.get_running_loop().time
        if gate.state.not_before - clock() > self._patience:
            raise self._too_long(clock())
        number = await gate.acquire(0.0 if gate.state.cost else _guess(request))
        outcome: CallOutcome = "neutral"
        started = retry_after = None
        used = 0
        try:
            if self._total is not None:
                await self._total.acquire(0.0)
            started = clock()
            completion = await self.inner.complete(request)
            outcome = "ok"
            used = completion.usage.input_tokens + completion.usage.output_tokens
            return completion
        except TransientError as error:
            if error.kind == "rate_limit" or (error.kind == "server" and error.retry_after is not None):
                outcome, retry_after, self._words = "rejected", error.retry_after, error.detail
            elif error.kind == "timeout" and error.sent:
                outcome = "late"
            raise
        finally:
            if started is not None and self._total is not None:
                self._total.release("neutral")
            took = 0.0 if started is None else clock() - started
            gate.release(outcome, took=took, tokens=used, retry_after=retry_after, number=number)
            if outcome == "rejected" and gate.state.not_before - clock() > self._patience:
                gate.decline(partial(self._too_long, clock()))

    def _too_long(self, now: float) -> TransientError:
        wait = self._gate.state.not_before - now
        words = f"the server asks to wait {wait:.0f} s" + (f": {self._words}" if self._words else "")
        return TransientError(words, kind="rate_limit", retry_after=wait, sent=False)


def _guess(request: Request) -> float:
    shown = sum(len(message.content) for message in request.messages)
    return shown / 4 + request.max_tokens + _WRAPPED
