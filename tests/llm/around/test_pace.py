"""The learned pace as arithmetic: which rejections are the rule, and how fast to go on."""

from __future__ import annotations

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from judge_eval.llm.limit import RateController, RateLimits


def flowing(rate: float, seconds: float = 20.0) -> RateController:
    """A controller whose server has completed so many calls a second for a while, up to time 0."""
    state = RateController(RateLimits(most=10_000, start=10_000))
    for turn in range(int(rate * seconds)):
        state.admit(1, turn / rate - seconds)
        state.release("ok", turn / rate - seconds, took=0.5)
    return state


def start(state: RateController, count: int) -> list[int]:
    """Start so many calls, whatever the controller says of the time; return their numbers."""
    state._next_at = state.not_before = -math.inf
    numbers = []
    for _ in range(count):
        state.in_flight += 1
        state.started += 1
        numbers.append(state.started)
    return numbers


def reject(state: RateController, number: int, now: float = 0.0) -> None:
    """Reject a call, and ask to wait for 30 seconds."""
    state.release("rejected", now, retry_after=30, number=number)


def test_rejections_in_a_row_are_the_rule() -> None:
    """Four in a row hold everybody, whatever the order in which they come in; three do not."""
    for order in ([1, 2, 3, 4], [4, 3, 2, 1], [2, 4, 1, 3]):
        state = RateController(RateLimits())
        start(state, 4)
        for number in order:
            assert state.not_before == -math.inf
            reject(state, number)
        assert state.not_before == 30


def test_rejections_at_random_are_not() -> None:
    """Of 20,000 calls every twentieth is rejected by lot: hardly ever does that look like a rule."""
    draw = random.Random(1)
    state, rules = RateController(RateLimits()), 0
    for number in range(1, 20_001):
        start(state, 1)
        if draw.random() < 0.05:
            reject(state, number)
            rules += state.not_before == 30
        else:
            state.release("neutral", 0)
    assert rules <= 5


def test_a_third_rejected_is() -> None:
    """Where each third call is rejected that shows within a few dozen calls."""
    state = RateController(RateLimits())
    start(state, 90)
    for number in range(3, 90, 3):
        reject(state, number)
    assert state.not_before == 30


def test_the_pace_returns_stays_and_goes_beyond() -> None:
    """It falls below what was completed, is back after five seconds, waits there and goes on."""
    state = flowing(100)
    for number in start(state, 6):
        assert state.pace(0) is None
        reject(state, number)
    values = [state.pace(now) or 0.0 for now in (0, 2.5, 4, 5, 6, 10, 25)]
    assert values == sorted(values)
    assert 75 < values[0] < 85
    assert abs(values[3] - values[0] / 0.8) < 1
    assert values[4] - values[2] < 0.02 * values[3]
    assert values[-1] > 3 * values[3]


def test_calls_from_before_a_fall_tell_nothing() -> None:
    """What was started at the old pace may be rejected without a further fall."""
    state = flowing(100)
    numbers = start(state, 50)
    for number in numbers[:6]:
        reject(state, number)
    fallen = state.pace(0)
    assert fallen is not None
    for number in numbers[6:]:
        reject(state, number)
    assert state.pace(0) == fallen


def test_rejections_that_are_not_about_the_pace_end_it() -> None:
    """Where the pace has fallen by half and single calls are rejected as before, nothing is paced."""
    state = flowing(1000)
    for number in start(state, 6):
        reject(state, number)
    for turn in range(1, 30):
        reject(state, start(state, 20)[-1], 0.02 * turn)
    assert state.pace(1.0) is None


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 30), st.integers(1, 40)), max_size=60))
def test_whatever_happens(events: list[tuple[bool, float, int]]) -> None:
    """A pace is above 0."""
    state, now = RateController(RateLimits()), 0.0
    for completed, pause, more in events:
        now += pause
        numbers = start(state, more)
        if completed:
            state.release("ok", now, took=1.0)
        else:
            reject(state, numbers[more // 2], now)
        pace = state.pace(now)
        assert pace is None or pace > 0
