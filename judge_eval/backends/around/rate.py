"""How many calls may be in flight and when the next may start, as pure functions of state, event, time.

Three rules, the strictest of which decides:

- a *window* of calls in flight: it doubles per round until the first rejection; then it falls by half a
  call per rejection (so it halves where everything is rejected, and some rejections at random do it no
  harm) and rises slowly, faster the longer there was no rejection;
- *not before*: no call starts until the longest wait that any rejection asked for is over;
- *pacing*: once less than a quarter of an advertised quota is left, calls are spread at the rate at which
  it refills, a little faster while some is left; a rate given by the user is always spread evenly.

After Chiu and Jain, "Analysis of the increase and decrease algorithms for congestion avoidance" (1989),
with the proportional decrease of Alizadeh et al., "Data Center TCP" (2010).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

CallOutcome = Literal["ok", "rejected", "neutral"]
"""How a call ended: with a completion, declined for want of capacity, or in a way that tells nothing."""

_SLACK = 0.02
"""Seconds by which a paced call may make up for a clock that woke late."""
_GROWTH = 0.035
"""What a completed call adds to the window after a rejection: it rises while fewer than 6.5% are rejected."""
_SCARCE = 0.25
"""The share of a quota below which calls are paced."""


@dataclass(frozen=True, slots=True)
class RateLimits:
    """What the user allows.

    Args:
        most: The most calls in flight, >= 1.
        start: The window at the start.
        rpm: Requests a minute; None where only the server's word counts.
        tpm: Tokens a minute, input and output together; None likewise.
    """

    most: int = 256
    start: int = 20
    rpm: float | None = None
    tpm: float | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """One advertised limit: how much a period allows, what is left, seconds until it is whole again."""

    limit: float
    remaining: float
    reset: float | None = None

    @property
    def refill(self) -> float:
        """Units a second, > 0.

        A bucket that fills steadily says so by `reset`, whatever its period; where a period starts anew
        at once, that quotient is too high, and a minute is meant.
        """
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

    def gap(self, cost: float, now: float) -> float:
        """Seconds to leave after a call of this cost: 0 while plenty is left."""
        share = min(self.limit, self.level + self.refill * (now - self.at)) / (self.limit * _SCARCE)
        if share >= 1:
            return 0.0
        # Just under the refill at an empty bucket, so that it settles a little above empty.
        return cost / (self.refill * (0.98 + 2 * max(share, 0.0)))

    def spent(self, cost: float, now: float) -> QuotaMeter:
        """The meter after a call has started."""
        level = min(self.limit, self.level + self.refill * (now - self.at)) - cost
        return QuotaMeter(self.limit, self.refill, level, now)


@dataclass(frozen=True, slots=True)
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
    """Ask whether a call may start.

    Args:
        state: What is known.
        guess: The call's tokens, used until completed calls have told.
        now: The time.

    Returns:
        The state after it, and 0 where the call starts now; else the state as it was, and the seconds
        after which to ask again (infinite: after another call has ended).
    """
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
    if requests is not None:
        gap = max(gap, requests.gap(1, now))
        requests = requests.spent(1, now)
    if tokens is not None:
        gap = max(gap, tokens.gap(cost, now))
        tokens = tokens.spent(cost, now)
    if spread:
        spread = spread * (1 - 1 / state.window) if spread > 1e-4 else 0.0
    next_at = max(state.next_at, now - _SLACK) + gap if gap else state.next_at
    in_flight = state.in_flight + 1
    peak = max(state.peak, in_flight)
    admitted = replace(state, in_flight=in_flight, peak=peak, next_at=next_at, spread=spread)
    return replace(admitted, requests=requests, tokens=tokens), 0.0


def release(
    state: RateState,
    outcome: CallOutcome,
    now: float,
    *,
    took: float = 0.0,
    tokens: float = 0.0,
    retry_after: float | None = None,
) -> RateState:
    """Note that a call has ended.

    Args:
        state: What is known.
        outcome: How it ended.
        now: The time.
        took: How long it took, in seconds.
        tokens: Its tokens, input and output; 0 where the server does not tell.
        retry_after: The seconds the server asked everyone to wait.

    Returns:
        The state after it.
    """
    window, slow, spread, not_before = state.window, state.slow_start, state.spread, state.not_before
    latency, cost, next_at = state.latency, state.cost, state.next_at
    rejected, streak, wary_until = state.rejected, state.streak, state.wary_until
    peak = max(state.in_flight, state.peak - 0.1)
    if outcome == "ok":
        streak += 1
        # A window that is not used tells nothing about a wider one.
        if peak * 2.5 >= window:
            # Where the server tells what is left, pacing keeps the rate and the window may be wide.
            quick = slow or state.requests is not None
            step = 1.0 if quick else min(1.0, _GROWTH * (1 + (streak / window) ** 2 / 4))
            window = min(float(state.limits.most), window + step)
        latency += (took - latency) * (0.1 if latency else 1.0)
        if slow and state.requests is not None:
            # Little's law: what the advertised rate keeps in flight, with a little room.
            window = max(window, min(float(state.limits.most), 1.2 * state.requests.refill * latency))
        if tokens:
            cost += (tokens - cost) * (0.1 if cost else 1.0)
    elif outcome == "rejected":
        rejected, streak, slow = rejected + 1, 0, False
        window = max(1.0, window - 0.5)
        spread = latency / window
        wary_until = now + 2 * latency
        if retry_after is not None:
            not_before = max(not_before, now + retry_after)
            next_at = max(next_at, not_before)
    return RateState(
        state.limits, window, slow, state.in_flight - 1, not_before, next_at, spread,
        latency, cost, state.requests, state.tokens, rejected, streak, peak, wary_until,
    )  # fmt: skip


def advertise(state: RateState, signal: RateSignal, now: float) -> RateState:
    """Note what a server advertised.

    Calls in flight may not be in its count yet: they are taken off.
    """
    others = max(0, state.in_flight - 1)
    requests, tokens = state.requests, state.tokens
    wary = now < state.wary_until
    quota = signal.requests
    if quota is not None and not (wary and requests is not None and quota.limit > requests.limit):
        requests = QuotaMeter(quota.limit, quota.refill, quota.remaining - others, now)
    quota = signal.tokens
    if quota is not None and not (wary and tokens is not None and quota.limit > tokens.limit):
        tokens = QuotaMeter(quota.limit, quota.refill, quota.remaining - others * state.cost, now)
    return replace(state, requests=requests, tokens=tokens)


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
