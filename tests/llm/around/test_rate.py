"""The controller as arithmetic: states, events and times given by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.llm import limit as rate
from judge_eval.llm.limit import Quota, RateLimits, RateSignal, RateState


def admitted(state: RateState, now: float = 0.0, most: int = 10_000) -> tuple[RateState, int, float]:
    """Admit as many calls as may start now; return the state, their number and the wait for the next."""
    count = 0
    while count < most:
        state, wait = rate.admit(state, 100, now)
        if wait:
            return state, count, wait
        count += 1
    return state, count, 0.0


def test_start_and_doubling() -> None:
    """The window starts at 20, doubles with each completed round, and ends at the most allowed."""
    state = rate.first_state(RateLimits(most=64))
    seen = []
    for turn in range(4):
        state, count, wait = admitted(state, float(turn))
        assert wait == math.inf
        seen.append(count)
        for _ in range(count):
            state = rate.release(state, "ok", turn + 0.5, took=0.5)
    assert seen == [20, 40, 64, 64]


def test_idle_window_does_not_grow() -> None:
    """Calls one at a time say nothing about more at once."""
    state = rate.first_state(RateLimits())
    for turn in range(100):
        state, _ = rate.admit(state, 1, turn)
        state = rate.release(state, "ok", turn + 0.5, took=0.5)
    assert state.window == 20


def test_all_rejected_halves() -> None:
    """A round in which everything is rejected halves the window, and it never goes under one."""
    state, count, _ = admitted(rate.first_state(RateLimits()))
    for _ in range(count):
        state = rate.release(state, "rejected", 0.1)
    assert state.window == 10
    for turn in range(200):
        state, _ = rate.admit(state, 1, turn)
        state = rate.release(state, "rejected", turn + 0.1)
    assert state.window == 1


def test_random_rejections_do_not_starve() -> None:
    """Every twentieth call rejected at random leaves the window wide."""
    state, number = rate.first_state(RateLimits(most=256)), 0
    for turn in range(300):
        state, count, _ = admitted(state, float(turn))
        for _ in range(count):
            number += 1
            state = rate.release(state, "rejected" if number % 20 == 0 else "ok", turn + 0.5, took=0.5)
    assert state.window > 20


@pytest.mark.slow
def test_it_comes_back() -> None:
    """After a time of rejections the window opens again when they stop."""
    state = rate.first_state(RateLimits(most=256))
    for turn in range(300):
        state, count, _ = admitted(state, float(turn))
        for _ in range(count):
            state = rate.release(state, "rejected" if turn < 50 else "ok", turn + 0.5, took=0.01)
        if turn == 49:
            assert state.window == 1
    assert state.window == 256


def test_a_lone_rejection_holds_back_only_itself() -> None:
    """One Retry-After keeps no other call back, nor do more of them far apart from each other."""
    state = rate.first_state(RateLimits())
    for turn in range(200):
        state, wait = rate.admit(state, 1, turn)
        assert wait == 0
        outcome: rate.CallOutcome = "ok" if turn % 12 else "rejected"
        state = rate.release(state, outcome, turn + 0.5, took=0.5, retry_after=None if turn % 12 else 30)


def test_not_before_is_shared_where_rejections_are_the_rule() -> None:
    """Then a Retry-After keeps every call back until it is over, and a shorter one does not shorten it."""
    state, count, _ = admitted(rate.first_state(RateLimits()))
    for number in range(count):
        state = rate.release(state, "rejected", 1.0, retry_after=30, number=number + 1)
    state, wait = rate.admit(state, 1, 2.0)
    assert wait == 29
    state = rate.admit(state, 1, 31.0)[0]
    assert rate.release(state, "rejected", 31.5, retry_after=30).not_before == 61.5
    assert rate.release(state, "rejected", 30.5, retry_after=0.1).not_before == 31


def test_an_empty_quota_holds_everybody_at_once() -> None:
    """Where nothing is left of what the server tells with its replies, one Retry-After is everybody's."""
    state, _ = rate.admit(rate.first_state(RateLimits()), 1, 0)
    state = rate.advertise(state, RateSignal(Quota(500, 0, 60)), 1.0)
    state = rate.release(state, "rejected", 1.0, retry_after=30)
    assert rate.admit(state, 1, 2.0)[1] == 29


def test_a_quota_that_is_not_repeated_goes_stale() -> None:
    """What one rejection said of a quota counts no more after eight completions that do not repeat it."""
    state, _ = rate.admit(rate.first_state(RateLimits()), 1, 0)
    state = rate.advertise(state, RateSignal(Quota(500, 0, 60), Quota(1000, 0, 60)), 0.1)
    state = rate.release(state, "rejected", 0.1)
    now = 0.2
    for _ in range(8):
        assert state.requests is not None
        while (answer := rate.admit(state, 1, now))[1]:
            now += answer[1]
        state = rate.release(answer[0], "ok", now, took=0.1)
    assert (state.requests, state.tokens) == (None, None)
    assert rate.advertise(state, RateSignal(Quota(500, 0, 60)), now).requests is None


def test_a_quota_that_every_completion_repeats_stays() -> None:
    """A server that tells its limit with each reply is believed, and so is one that begins to."""
    state, now = rate.first_state(RateLimits()), 0.0
    for turn in range(40):
        state, _ = rate.admit(state, 1, now)
        if turn >= 20:
            state = rate.advertise(state, RateSignal(Quota(500, 400, 12)), now)
        state = rate.release(state, "ok", now, took=0.1)
        now += 0.2
        assert (state.requests is not None) == (turn > 20)


def test_pacing_under_a_quarter() -> None:
    """With plenty left calls start at once; under a quarter they are spread at the refill rate."""
    state = rate.first_state(RateLimits(most=256, start=200))
    plenty = rate.advertise(state, RateSignal(Quota(600, 500, 10)), 0)
    assert admitted(plenty)[1] == 200
    scarce = rate.advertise(state, RateSignal(Quota(600, 6, 59.4)), 0)
    _, count, wait = admitted(scarce)
    assert count == 1
    assert 0.05 < wait < 0.1


def test_calls_in_flight_are_taken_off() -> None:
    """What is under way may not be in the server's count yet."""
    state, _, _ = admitted(rate.first_state(RateLimits(start=100)))
    state = rate.advertise(state, RateSignal(Quota(600, 150, 10)), 0)
    assert state.requests is not None
    assert state.requests.level == 51


def test_tokens_are_paced() -> None:
    """The scarcer of requests and tokens decides."""
    state = rate.advertise(rate.first_state(RateLimits()), RateSignal(Quota(600, 600), Quota(6000, 60, 59.4)), 0)
    _, count, wait = admitted(state)
    assert count == 1
    assert 0.9 < wait < 1.0 + 0.05


@pytest.mark.parametrize(
    ("quota", "refill"),
    [
        (Quota(600, 0, 60), 10),  # a bucket that fills in a minute
        (Quota(86400, 86390, 10), 1),  # a bucket that fills in a day
        (Quota(600, 100, 1), 10),  # a window about to start anew
        (Quota(600, 600, 0), 10),
        (Quota(600, 10), 10),
    ],
)
def test_refill(quota: Quota, refill: float) -> None:
    """The rate is read from the reset where a bucket fills slowly, and is never above a minute's limit."""
    assert quota.refill == pytest.approx(refill)


def test_old_news_is_not_believed() -> None:
    """After a rejection, replies to earlier calls may still tell the old, higher limit."""
    state, _ = rate.admit(rate.first_state(RateLimits()), 1, 0)
    state = rate.release(state, "ok", 1.0, took=1.0)
    state = rate.advertise(state, RateSignal(Quota(1500, 0, 60)), 2.0)
    state, _ = rate.admit(state, 1, 2.0)
    state = rate.release(state, "rejected", 2.0)
    assert rate.advertise(state, RateSignal(Quota(10_000, 9000, 6)), 3.0).requests == state.requests
    assert rate.advertise(state, RateSignal(Quota(10_000, 9000, 6)), 5.0).requests != state.requests


def test_own_limits_are_spread_evenly() -> None:
    """`rpm` and `tpm` allow no more than that in a minute, from the first call on."""
    for limits, most in (
        (RateLimits(most=999, start=999, rpm=60), 62),
        (RateLimits(most=999, start=999, tpm=6000), 62),
    ):
        state, now, count = rate.first_state(limits), 0.0, 0
        while True:
            state, wait = rate.admit(state, 100, now)
            count += not wait
            now += wait
            if now > 60:
                break
        assert 59 <= count <= most


def test_stricter_limits_hold() -> None:
    """Two users of one quota get the stricter of both."""
    joined = rate.tighten(rate.first_state(RateLimits(256, 20, None, 5.0)), RateLimits(8, 20, 60.0, 9.0))
    assert joined.limits == RateLimits(8, 20, 60.0, 5.0)
    assert joined.window == 8


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["admit", "ok", "rejected", "late", "neutral", "signal"]), st.floats(0, 5), st.floats(0, 100)
    ),
    max_size=80,
)


@given(EVENTS, st.integers(1, 50))
def test_whatever_happens(events: list[tuple[str, float, float]], most: int) -> None:
    """The window stays within its bounds, what is in flight within the window's, and no wait is below 0."""
    state, now = rate.first_state(RateLimits(most=most)), 0.0
    for event, pause, number in events:
        now += pause
        if event == "admit":
            before = state
            state, wait = rate.admit(state, number, now)
            assert wait >= 0
            assert (state is before) == bool(wait)
        elif event == "signal":
            state = rate.advertise(state, RateSignal(Quota(100, min(number, 100), pause)), now)
        elif state.in_flight:
            state = rate.release(state, event, now, took=pause, retry_after=number)  # type: ignore[arg-type]
        pace = state.pace.at(now)
        assert pace is None or pace > 0
        assert 1 <= state.window <= most
        assert 0 <= state.in_flight <= most
