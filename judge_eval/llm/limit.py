"""Keeps calls within what a server takes: its advertised limits, the user's, and what rejections teach."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, runtime_checkable
from weakref import WeakValueDictionary

from judge_eval.errors import ConfigError, TransientError
from judge_eval.llm.backend import Backend, Wrapper
from judge_eval.wire import Completion, Request, filled

_SCARCE = 0.25  # the share of a quota below which calls are paced
_LONGEST_GAP, _LONGEST_HOLD = 15.0, 60.0
"""The most seconds for which one reply's headers pace a call, and for which one rejection holds all: a server
that means more goes on rejecting."""


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


@dataclass(frozen=True, slots=True)
class QuotaMeter:
    """A guess at what is left of a quota, carried forward from the last reply."""

    limit: float
    refill: float
    level: float
    at: float

    def left(self, now: float) -> float:
        """What is left now; below 0 where more was started than there was."""
        return min(self.limit, self.level + self.refill * (now - self.at))

    def gap(self, cost: float, now: float) -> float:
        """Seconds to leave after a call of this cost: 0 while plenty is left."""
        share = self.left(now) / (self.limit * _SCARCE)
        if share >= 1:
            return 0.0
        # Just under the refill at an empty bucket, so that it settles a little above empty.
        return cost / (self.refill * (0.98 + 2 * max(share, 0.0)))

    def spent(self, cost: float, now: float) -> QuotaMeter:
        """The meter after a call has started."""
        return QuotaMeter(self.limit, self.refill, self.left(now) - cost, now)


_RANDOM, _RULE = 0.1, 0.35
"""The shares of rejected calls between which is decided: faults at random, and a limit."""
_FOR = math.log(_RULE / _RANDOM)
_AGAINST = math.log((1 - _RANDOM) / (1 - _RULE))
"""What a rejected call speaks for a limit, and what another one speaks against it."""
_SUSPECTED, _HELD, _CONVINCED = 2 * _FOR, 4.0 * _FOR - 1e-9, 6.0 * _FOR - 1e-9
"""The evidence of so many rejections in a row, for a narrower window, for holding everybody, for a pace."""
_FIRST, _DEEP, _SLIGHT = 0.2, 0.5, 0.1
"""By how much the pace falls: as a limit is first met, as rejections are the rule again, at a lone one."""
_RETURN = 5.0  # the seconds after which it is back


@dataclass(frozen=True)
class Pace:
    """What is known of the pace; times in seconds on one clock, paces in calls a second."""

    doubt: float = 0.0
    """The evidence that rejections are the rule, >= 0."""
    last: int = 0
    """The number of the last call that was rejected."""
    flow: float = 0.0
    """Completions a second lately."""
    flow_at: float = -math.inf
    """The time of the last completion."""
    top: float = 0.0
    """The pace at which rejections came; 0 where none was learned."""
    depth: float = 0.0
    """The share of it that was taken off then."""
    least: float = 0.0
    """A pace under which rejections are no longer the limit's."""
    fell_at: float = -math.inf
    """When the pace fell."""
    old: int = 0
    """The calls started until then, which say nothing about the pace since."""

    @property
    def rule(self) -> bool:
        """Whether rejections are the rule."""
        return self.doubt >= _HELD

    def at(self, now: float) -> float | None:
        """Return the pace, > 0; None where nothing limits it."""
        if not self.top:
            return None
        return self.top * (1 + self.depth * (max(0.0, now - self.fell_at) / _RETURN - 1) ** 3)

    def completed(self, now: float, span: float, *, since: float) -> Pace:
        """Note a completion; `span` seconds count as lately, without the time before `since`."""
        gone = max(0.0, now - max(self.flow_at, since))
        flow = self.flow * math.exp(-gone / span) + 1 / span
        return filled(Pace, {**self.__dict__, "flow": flow, "flow_at": now})

    def rejected(self, number: int, started: int, now: float, *, learn: bool, cautious: bool) -> Pace:
        """Note a rejection of a call by its number; `started` calls have started so far."""
        # `learn`: a pace is needed, since the server does not tell its limit. `cautious`: no limit was met
        # before, so that completions lag behind calls.
        # Calls that started in between and are not rejected yet count as taken: rejections come sooner than
        # completions. One that comes behind a later one had been counted as taken: that is taken back.
        between = number - self.last - 1 if number > self.last else -1
        last = max(number, self.last)
        if number <= self.old:
            return replace(self, last=last)
        doubt = max(0.0, self.doubt - _AGAINST * between) + _FOR
        seen = replace(self, doubt=min(doubt, _CONVINCED), last=last)
        pace = self.at(now)
        if doubt >= _CONVINCED and learn:
            top = self.flow if pace is None else min(pace, self.flow)
            depth = _FIRST if cautious else _DEEP
            least = top * (1 - depth) / 2
            return replace(seen, doubt=_HELD, top=top, depth=depth, least=least, fell_at=now, old=started)
        if pace is None:
            return seen
        # Where the pace has fallen by half and rejections go on singly, they are not about the pace.
        top = pace if pace >= self.least else 0.0
        return replace(seen, top=top, depth=_SLIGHT, fell_at=now, old=started)


UNKNOWN = Pace()
"""Nothing is known yet."""


CallOutcome = Literal["ok", "rejected", "late", "neutral"]
"""How a call ended: with a completion, declined for want of capacity, too late, or telling nothing."""

_SLACK = 0.02  # seconds by which a paced call may make up for a clock that woke late
_GROWTH = 0.07
"""What a completed call adds to the window after slow start: it rises while fewer than 12% are rejected."""
_SILENT = 8  # completions in a row without a word of the quota after which nothing that was said of it counts


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


@dataclass(frozen=True)
class RateState:
    """All that the controller knows; times in seconds on one clock."""

    limits: RateLimits
    window: float
    slow_start: bool = True
    in_flight: int = 0
    not_before: float = -math.inf
    next_at: float = -math.inf
    spread: float = 0.0
    """Seconds between calls for about a window after a rejection, so that they do not all start at once."""
    latency: float = 0.0
    """The smoothed seconds of a completed call; 0 until there is one."""
    cost: float = 0.0
    """The smoothed tokens of a completed call; 0 until there is one."""
    requests: QuotaMeter | None = None
    tokens: QuotaMeter | None = None
    pace: Pace = UNKNOWN
    """What rejections and completions show of a limit that the server does not advertise."""
    silent: int = 0
    """Completions in a row that brought no word of a quota."""
    heard: bool = False
    """Whether there was word of a quota since a call last ended."""
    admitted: int = 0
    """Calls started so far; the last one's number."""
    rejected: int = 0
    """Calls rejected so far."""
    streak: int = 0
    """Calls completed since the last rejection."""
    peak: float = 0.0
    """The most calls in flight lately."""
    wary_until: float = -math.inf
    """Until then, replies to calls from before the last rejection come in: higher limits are old news."""


def first_state(limits: RateLimits) -> RateState:
    """Begin, with nothing known of the server."""
    return RateState(limits, float(min(limits.start, limits.most)))


def admit(state: RateState, guess: float, now: float) -> tuple[RateState, float]:
    """Ask whether a call may start; `guess` is its tokens, used until calls have completed."""
    # Returns the state after it, and 0 if the call starts now; else the state as it was, and the seconds
    # after which to ask again (infinite: after another call has ended).
    if state.in_flight >= int(state.window):
        return state, math.inf
    due = max(state.not_before, state.next_at)
    if due > now:
        return state, due - now
    limits, requests, tokens, spread = state.limits, state.requests, state.tokens, state.spread
    gap = spread
    cost = state.cost or guess
    if limits.rpm is not None:
        gap = max(gap, 60 / limits.rpm)
    if limits.tpm is not None:
        gap = max(gap, cost * 60 / limits.tpm)
    if (pace := state.pace.at(now)) is not None:
        gap = max(gap, 1 / pace)
    if requests is not None:
        gap = max(gap, min(requests.gap(1, now), _LONGEST_GAP))
        requests = requests.spent(1, now)
    if tokens is not None:
        gap = max(gap, min(tokens.gap(cost, now), _LONGEST_GAP))
        tokens = tokens.spent(cost, now)
    if spread:
        spread = spread * (1 - 1 / state.window) if spread > 1e-4 else 0.0
    next_at = max(state.next_at, now - _SLACK) + gap if gap else state.next_at
    in_flight = state.in_flight + 1
    return filled(RateState, {  # not `replace`, which takes five times as long, in what each call does
        **state.__dict__, "in_flight": in_flight, "admitted": state.admitted + 1, "peak": max(state.peak, in_flight),
        "next_at": next_at, "spread": spread, "requests": requests, "tokens": tokens,
    }), 0.0  # fmt: skip


def release(
    state: RateState,
    outcome: CallOutcome,
    now: float,
    *,
    took: float = 0.0,
    tokens: float = 0.0,
    retry_after: float | None = None,
    number: int | None = None,
) -> RateState:
    """Return the state after a call has ended that took so many seconds and tokens (0 if not known)."""
    # `retry_after` are the seconds the server asked to wait. `number` is `admitted` when the call had
    # started; None takes the last call.
    if outcome == "ok":
        return _completed(state, now, took, tokens)
    peak = max(state.in_flight, state.peak - 0.1)
    ended = filled(RateState, {**state.__dict__, "in_flight": state.in_flight - 1, "peak": peak, "heard": False})
    if outcome == "rejected":
        return _rejected(ended, now, retry_after, state.admitted if number is None else number)
    if outcome == "late":
        return replace(ended, streak=0, window=max(1.0, state.window - 0.5))
    return ended


def _completed(state: RateState, now: float, took: float, tokens: float) -> RateState:
    """Note a completion: the window may grow, and what it took is what calls take."""
    window, latency, cost, streak = state.window, state.latency, state.cost, state.streak + 1
    most, quota, tokens_quota = float(state.limits.most), state.requests, state.tokens
    peak = max(state.in_flight, state.peak - 0.1)
    # An unused window says nothing about a wider one.
    if peak * 2.5 >= window:
        # Where the server tells what is left, pacing keeps the rate and the window may be wide.
        quick = state.slow_start or quota is not None
        step = 1.0 if quick else min(1.0, _GROWTH * (1 + (streak / window) ** 2 / 4))
        window = min(most, window + step)
    latency += (took - latency) * (0.1 if latency else 1.0)
    if state.slow_start and quota is not None:
        # Little's law: what the advertised rate keeps in flight, with a little room.
        window = max(window, min(most, 1.2 * quota.refill * latency))
    if tokens:
        cost += (tokens - cost) * (0.1 if cost else 1.0)
    silent = 0 if state.heard else state.silent + 1
    if silent >= _SILENT:
        quota = tokens_quota = None
    pace = state.pace.completed(now, max(latency, 1.0), since=state.not_before)
    return filled(RateState, {
        **state.__dict__, "window": window, "in_flight": state.in_flight - 1, "latency": latency, "cost": cost,
        "requests": quota, "tokens": tokens_quota, "pace": pace, "silent": silent, "heard": False, "streak": streak,
        "peak": peak,
    })  # fmt: skip


def _rejected(state: RateState, now: float, retry_after: float | None, number: int) -> RateState:
    """Note a rejection: the window shrinks, and all wait where rejections are the rule."""
    requests, advertised = state.requests, state.requests is not None
    pace = state.pace.rejected(number, state.admitted, now, learn=not advertised, cautious=state.slow_start)
    window = max(1.0, state.window - 0.5)
    denied = replace(
        state, window=window, pace=pace, rejected=state.rejected + 1, streak=0,
        slow_start=state.slow_start and pace.doubt <= _SUSPECTED, wary_until=now + 2 * state.latency,
    )  # fmt: skip
    empty = requests is not None and requests.left(now) < 1
    if retry_after is None or not (pace.rule or empty):
        return denied
    until = max(state.not_before, now + (retry_after if pace.rule else min(retry_after, _LONGEST_HOLD)))
    return replace(denied, spread=state.latency / window, not_before=until, next_at=max(state.next_at, until))


def advertise(state: RateState, signal: RateSignal, now: float) -> RateState:
    """Note what a server advertised."""
    # Calls in flight may not be in its count yet: they are taken off. What a rejection says of a quota of
    # which completions say nothing does not count.
    if state.silent >= _SILENT:
        return replace(state, heard=True)
    others = max(0, state.in_flight - 1)
    requests, tokens = state.requests, state.tokens
    wary = now < state.wary_until
    quota = signal.requests
    if quota is not None and not (wary and requests is not None and quota.limit > requests.limit):
        requests = QuotaMeter(quota.limit, quota.refill, quota.remaining - others, now)
    quota = signal.tokens
    if quota is not None and not (wary and tokens is not None and quota.limit > tokens.limit):
        tokens = QuotaMeter(quota.limit, quota.refill, quota.remaining - others * state.cost, now)
    return replace(state, requests=requests, tokens=tokens, heard=True)


def tighten(state: RateState, limits: RateLimits) -> RateState:
    """Let the stricter of two users' limits hold, where both share one quota."""
    ours = state.limits
    joined = RateLimits(
        min(ours.most, limits.most),
        min(ours.start, limits.start),
        min((rate for rate in (ours.rpm, limits.rpm) if rate is not None), default=None),
        min((rate for rate in (ours.tpm, limits.tpm) if rate is not None), default=None),
    )
    return replace(state, limits=joined, window=min(state.window, float(joined.most)))


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

    def wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class QuotaGate:
    """One controller and the calls that wait for it; event loops in other threads may share it."""

    def __init__(self, limits: RateLimits) -> None:
        self.state = first_state(limits)
        """What the controller knows now."""
        self._waiters: deque[_Waiter] = deque()
        self._lock = threading.Lock()
        self._alarm: float | None = None

    async def acquire(self, guess: float) -> int:
        """Wait for a slot in line, and return the call's number; `guess` is its tokens."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if not self._waiters:
                self.state, wait = admit(self.state, guess, loop.time())
                if not wait:
                    return self.state.admitted
            waiter = _Waiter(loop, loop.create_future(), guess)
            self._waiters.append(waiter)
            self._pump(loop)
        try:
            await waiter.future
        except BaseException:
            with self._lock:
                if waiter.number:
                    self.state = release(self.state, "neutral", loop.time())
                else:
                    self._waiters.remove(waiter)
                # The alarm may stand on a loop that ends with the one who left.
                self._alarm = None
                self._pump(loop)
            raise
        return waiter.number

    def release(self, outcome: CallOutcome, **ended: Any) -> None:
        """Give a slot back; the keywords are those of the function `release`."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self.state = release(self.state, outcome, loop.time(), **ended)
            if self._waiters:
                self._pump(loop)

    def advertise(self, signal: RateSignal) -> None:
        """Note what a server advertised."""
        with self._lock:
            self.state = advertise(self.state, signal, asyncio.get_running_loop().time())

    def tighten(self, limits: RateLimits) -> None:
        """Let the stricter limits hold."""
        with self._lock:
            self.state = tighten(self.state, limits)

    def _pump(self, here: asyncio.AbstractEventLoop) -> None:
        """Admit the callers that may start, and set the alarm for the next; the lock is held."""
        waiters, now = self._waiters, here.time()
        while waiters:
            head = waiters[0]
            if head.loop.is_closed():
                waiters.popleft()
                continue
            self.state, wait = admit(self.state, head.guess, now)
            if wait:
                if wait != float("inf") and (self._alarm is None or now + wait < self._alarm):
                    self._alarm = now + wait
                    # On the loop of one who is here: another's may end before the alarm.
                    here.call_later(wait, self._ring, here)
                return
            waiters.popleft()
            head.number = self.state.admitted
            if head.loop is here:
                head.wake()
                continue
            try:
                head.loop.call_soon_threadsafe(head.wake)
            except RuntimeError:
                # Its loop has just been closed: nobody will use the slot.
                self.state = release(self.state, "neutral", now)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            self._alarm = None
            self._pump(loop)


_WRAPPED = 50  # tokens that a server puts around the texts of a call, about

_gates: WeakValueDictionary[str, QuotaGate] = WeakValueDictionary()
_gates_lock = threading.Lock()


def run_gate(concurrency: int) -> QuotaGate:
    """Return a gate that bounds the calls in flight of several backends together, and nothing else."""
    return QuotaGate(RateLimits(concurrency, concurrency))


class Limited(Wrapper):
    """A backend that adapts to what the server behind it can take.

    At most `concurrency` calls (>= 1) are in flight, `start` until the server has answered. `rpm` and `tpm`
    (requests, and tokens in and out, a minute) hold where the server does not advertise its limits. If it
    asks everyone to wait longer than `patience` seconds, calls are declined at once and not sent.

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
        patience: float = 600.0,
        total: QuotaGate | None = None,
    ) -> None:
        for name, value in (("concurrency", concurrency), ("start", start), ("rpm", rpm), ("tpm", tpm)):
            if value is not None and not value > 0:
                raise ConfigError(f"{name} must be above 0, not {value}")
        super().__init__(inner)
        self._patience, self._total = patience, total
        limits = RateLimits(concurrency, min(start, concurrency), rpm, tpm)
        self._gate = QuotaGate(limits)
        if isinstance(inner, Advertising):
            with _gates_lock:
                self._gate = _gates.setdefault(inner.scope, self._gate)
            self._gate.tighten(limits)
            inner.listener = self._gate.advertise

    @property
    def state(self) -> RateState:
        """What the controller knows now."""
        return self._gate.state

    async def complete(self, request: Request) -> Completion:
        """Answer one request when its turn has come, if the server asks for no more than `patience`."""
        gate, clock = self._gate, asyncio.get_running_loop().time
        wait = gate.state.not_before - clock()
        if wait > self._patience:
            raise TransientError(
                f"the server asks to wait {wait:.0f} s", kind="rate_limit", retry_after=wait, sent=False
            )
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
                outcome, retry_after = "rejected", error.retry_after
            elif error.kind == "timeout" and error.sent:
                outcome = "late"
            raise
        finally:
            if started is not None and self._total is not None:
                self._total.release("neutral")
            took = 0.0 if started is None else clock() - started
            gate.release(outcome, took=took, tokens=used, retry_after=retry_after, number=number)


def _guess(request: Request) -> float:
    shown = sum(len(message.content) for message in request.messages)
    return shown / 4 + request.max_tokens + _WRAPPED
