"""Which rejections are the rule, as arithmetic."""

from __future__ import annotations

import math
import random

from judge_eval.llm.limit import RateController, RateLimits


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
