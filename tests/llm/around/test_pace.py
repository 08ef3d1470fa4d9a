"""The learned pace as arithmetic: which rejections are the rule, and how fast to go on."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from judge_eval.llm.limit import UNKNOWN, Pace


def rejected(pace: Pace, number: int, now: float = 0.0, *, started: int = 0, learn: bool = True) -> Pace:
    """Note a rejection, of the last call unless told otherwise."""
    return pace.rejected(number, started or number, now, learn=learn, cautious=False)


def flowing(rate: float, seconds: float = 20.0) -> Pace:
    """A server that has completed so many calls a second for a while, up to time 0."""
    pace = UNKNOWN
    for turn in range(int(rate * seconds)):
        pace = pace.completed(turn / rate - seconds, 1.0, since=-seconds)
    return pace


def test_rejections_in_a_row_are_the_rule() -> None:
    """Four in a row hold everybody, whatever the order in which they come in; three do not."""
    for order in ([1, 2, 3, 4], [4, 3, 2, 1], [2, 4, 1, 3]):
        pace = UNKNOWN
        for number in order:
            assert not pace.rule
            pace = rejected(pace, number, started=4)
        assert pace.rule


def test_rejections_at_random_are_not() -> None:
    """Of 20,000 calls every twentieth is rejected by lot: hardly ever does that look like a rule."""
    draw = random.Random(1)
    pace, rules = UNKNOWN, 0
    for number in range(1, 20_001):
        if draw.random() < 0.05:
            pace = rejected(pace, number, learn=False)
            rules += pace.rule
    assert rules <= 5


def test_a_third_rejected_is() -> None:
    """Where each third call is rejected that shows within a few dozen calls."""
    pace = UNKNOWN
    for number in range(3, 90, 3):
        pace = rejected(pace, number)
    assert pace.rule


def test_the_pace_returns_stays_and_goes_beyond() -> None:
    """It falls to half of what was completed, is back after five seconds, waits there and goes on."""
    pace = flowing(100)
    for number in range(1, 7):
        assert pace.at(0) is None
        pace = rejected(pace, number)
    values = [pace.at(now) or 0.0 for now in (0, 2.5, 4, 5, 6, 10, 15)]
    assert values == sorted(values)
    assert 40 < values[0] < 60
    assert abs(values[3] - 2 * values[0]) < 1
    assert values[4] - values[2] < 0.02 * values[3]
    assert values[-1] > 3 * values[3]


def test_calls_from_before_a_fall_tell_nothing() -> None:
    """What was started at the old pace may be rejected without a further fall."""
    pace = flowing(100)
    for number in range(1, 7):
        pace = rejected(pace, number, started=50)
    fallen = pace.at(0)
    for number in range(7, 51):
        pace = rejected(pace, number, started=50)
    assert pace.at(0) == fallen


def test_rejections_that_are_not_about_the_pace_end_it() -> None:
    """Where the pace has fallen by half and single calls are rejected as before, nothing is paced."""
    pace = flowing(1000)
    for number in range(1, 7):
        pace = rejected(pace, number)
    for turn in range(1, 12):
        pace = rejected(pace, 6 + 20 * turn, 0.02 * turn)
    assert pace.at(1.0) is None


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 30), st.integers(1, 40)), max_size=60))
def test_whatever_happens(events: list[tuple[bool, float, int]]) -> None:
    """The evidence stays at 0 or above and bounded, and a pace is above 0."""
    pace, now, started = UNKNOWN, 0.0, 0
    for completed, pause, more in events:
        now, started = now + pause, started + more
        if completed:
            pace = pace.completed(now, 1.0, since=0.0)
        else:
            pace = rejected(pace, max(1, started - more // 2), now, started=started)
        assert 0 <= pace.doubt < 10
        at = pace.at(now)
        assert at is None or at > 0
