"""How many calls may be in flight and when the next may start, as pure functions of state, event, time.

Three rules, the strictest of which decides:

- a *window* of calls in flight: it doubles per round until several rejections come close together; then
  it falls by half a call per rejection (so it halves where everything is rejected, and some rejections at
  random do it no harm) and rises slowly, faster the longer there was no rejection;
- *not before*: a rejection by itself holds back nobody else; where rejections are the rule, or nothing is
  left of the quota that every reply tells, no call starts until the longest wait asked for is over;
- *pacing*: once less than a quarter of an advertised quota is left, calls are spread at the rate at which
  it refills, a little faster while some is left; where rejections are the rule and nothing is advertised,
  at the pace found by trying; a rate given by the user is always spread evenly.

After Chiu and Jain, "Analysis of the increase and decrease algorithms for congestion avoidance" (1989),
with the proportional decrease of Alizadeh et al., "Data Center TCP" (2010).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from judge_eval.backends.around.pace import UNKNOWN, Pace
from judge_eval.backends.around.quota import QuotaMeter, RateSignal

CallOutcome = Literal["ok", "rejected", "late", "neutral"]
"""How a call ended: with a completion, declined for want of capacity, too late, or telling nothing."""

_SLACK = 0.02
"""Seconds by which a paced call may make up for a clock that woke late."""
_GROWTH = 0.07
"""What a completed call adds to the window after slow start: it rises while fewer than 12% are rejected."""
_SILENT = 8
"""Completions in a row without a word of the quota after which nothing that was said of it counts."""


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
    """What rejections and completions tell of a limit that nobody advertises."""
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
    if (pace := state.pace.at(now)) is not None:
        gap = max(gap, 1 / pace)
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
    return RateState(
        limits, state.window, state.slow_start, in_flight, state.not_before, next_at, spread,
        state.latency, state.cost, requests, tokens, state.pace, state.silent, state.heard,
        state.admitted + 1, state.rejected, state.streak, peak, state.wary_until,
    ), 0.0  # fmt: skip


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
    """Note that a call has ended.

    Args:
        state: What is known.
        outcome: How it ended.
        now: The time.
        took: How long it took, in seconds.
        tokens: Its tokens, input and output; 0 where the server does not tell.
        retry_after: The seconds the server asked to wait.
        number: Which call it was: `admitted` as it stood when it had started; else the last one.

    Returns:
        The state after it.
    """
    if outcome == "ok":
        return _completed(state, now, took, tokens)
    ended = replace(
        state, in_flight=state.in_flight - 1, peak=max(state.in_flight, state.peak - 0.1), heard=False
    )
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
    # A window that is not used tells nothing about a wider one.
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
    return RateState(
        state.limits, window, state.slow_start, state.in_flight - 1, state.not_before, state.next_at,
        state.spread, latency, cost, quota, tokens_quota, pace, silent, False, state.admitted,
        state.rejected, streak, peak, state.wary_until,
    )  # fmt: skip


def _rejected(state: RateState, now: float, retry_after: float | None, number: int) -> RateState:
    """Note a rejection: the window shrinks, and all wait where rejections are the rule."""
    requests, advertised = state.requests, state.requests is not None
    pace = state.pace.rejected(number, state.admitted, now, learn=not advertised, cautious=state.slow_start)
    window = max(1.0, state.window - 0.5)
    denied = replace(
        state, window=window, pace=pace, rejected=state.rejected + 1, streak=0,
        slow_start=state.slow_start and not pace.suspected, wary_until=now + 2 * state.latency,
    )  # fmt: skip
    empty = requests is not None and requests.left(now) < 1
    if retry_after is None or not (pace.rule or empty):
        return denied
    until = max(state.not_before, now + retry_after)
    return replace(denied, spread=state.latency / window, not_before=until, next_at=max(state.next_at, until))


def advertise(state: RateState, signal: RateSignal, now: float) -> RateState:
    """Note what a server advertised.

    Calls in flight may not be in its count yet: they are taken off. What a rejection says of a quota of
    which completions say nothing does not count.
    """
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
