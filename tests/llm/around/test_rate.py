"""The controller as arithmetic: states, events and times given by hand."""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.llm.limit import CallOutcome, Quota, RateController, RateLimits, RateSignal


def admitted(state: RateController, now: float = 0.0, most: int = 10_000) -> tuple[int, float]:
    """Admit as many calls as may start now; return their number and the wait for the next."""
    count = 0
    while count < most:
        if wait := state.admit(100, now):
            return count, wait
        count += 1
    return count, 0.0


def test_start_and_doubling() -> None:
    """The window starts at 20, doubles with each completed round, and ends at the most allowed."""
    state = RateController(RateLimits(most=64))
    seen = []
    for turn in range(4):
        count, wait = admitted(state, float(turn))
        assert wait == math.inf
        seen.append(count)
        for _ in range(count):
            state.release("ok", turn + 0.5, took=0.5)
    assert seen == [20, 40, 64, 64]


def test_idle_window_does_not_grow() -> None:
    """Calls one at a time say nothing about more at once."""
    state = RateController(RateLimits())
    for turn in range(100):
        state.admit(1, turn)
        state.release("ok", turn + 0.5, took=0.5)
    assert state.window == 20


def test_all_rejected_halves() -> None:
    """A round in which everything is rejected halves the window, and it never goes under one."""
    state = RateController(RateLimits())
    count, _ = admitted(state)
    for _ in range(count):
        state.release("rejected", 0.1)
    assert state.window == 10
    for turn in range(200):
        state.admit(1, turn)
        state.release("rejected", turn + 0.1)
    assert state.window == 1


def test_random_rejections_do_not_starve() -> None:
    """Every twentieth call rejected at random leaves the window wide."""
    state, number = RateController(RateLimits(most=256)), 0
    for turn in range(300):
        count, _ = admitted(state, float(turn))
        for _ in range(count):
            number += 1
            state.release("rejected" if number % 20 == 0 else "ok", turn + 0.5, took=0.5)
    assert state.window > 20


@pytest.mark.slow
def test_it_comes_back() -> None:
    """After a time of rejections the window opens again when they stop."""
    state = RateController(RateLimits(most=256))
    for turn in range(300):
        count, _ = admitted(state, float(turn))
        for _ in range(count):
            state.release("rejected" if turn < 50 else "ok", turn + 0.5, took=0.01)
        if turn == 49:
            assert state.window == 1
    assert state.window == 256


def test_a_lone_rejection_holds_back_only_itself() -> None:
    """One Retry-After keeps no other call back, nor do more of them far apart from each other."""
    state = RateController(RateLimits())
    for turn in range(200):
        wait = state.admit(1, turn)
        assert wait == 0
        outcome: CallOutcome = "ok" if turn % 12 else "rejected"
        state.release(outcome, turn + 0.5, took=0.5, retry_after=None if turn % 12 else 30)


def test_not_before_is_shared_where_rejections_are_the_rule() -> None:
    """Then a Retry-After keeps every call back until it is over, and a shorter one does not shorten it."""
    state = RateController(RateLimits())
    count, _ = admitted(state)
    for number in range(count):
        state.release("rejected", 1.0, retry_after=30, number=number + 1)
    wait = state.admit(1, 2.0)
    assert wait == 29
    for _ in range(2):
        assert state.admit(1, 31.0) == 0
    state.release("rejected", 30.5, retry_after=0.1)
    assert state.not_before == 31
    state.release("rejected", 31.5, retry_after=30)
    assert state.not_before == 61.5


def test_an_empty_quota_holds_everybody_at_once() -> None:
    """Where nothing is left of what the server tells with its replies, one Retry-After is everybody's."""
    state = RateController(RateLimits())
    state.admit(1, 0)
    state.advertise(RateSignal(Quota(500, 0, 60)), 1.0)
    state.release("rejected", 1.0, retry_after=30)
    assert state.admit(1, 2.0) == 29


def test_a_quota_that_is_not_repeated_goes_stale() -> None:
    """What one rejection said of a quota counts no more after eight completions that do not repeat it."""
    state = RateController(RateLimits())
    state.admit(1, 0)
    state.advertise(RateSignal(Quota(500, 0, 60), Quota(1000, 0, 60)), 0.1)
    state.release("rejected", 0.1)
    now = 0.2
    for _ in range(8):
        assert state.requests is not None
        while wait := state.admit(1, now):
            now += wait
        state.release("ok", now, took=0.1)
    assert (state.requests, state.tokens) == (None, None)
    state.advertise(RateSignal(Quota(500, 0, 60)), now)
    assert state.requests is None


def test_a_quota_that_every_completion_repeats_stays() -> None:
    """A server that tells its limit with each reply is believed, and so is one that begins to."""
    state, now = RateController(RateLimits()), 0.0
    for turn in range(40):
        state.admit(1, now)
        if turn >= 20:
            state.advertise(RateSignal(Quota(500, 400, 12)), now)
        state.release("ok", now, took=0.1)
        now += 0.2
        assert (state.requests is not None) == (turn > 20)


def test_pacing_under_a_quarter() -> None:
    """With plenty left calls start at once; under a quarter they are spread at the refill rate."""
    state = RateController(RateLimits(most=256, start=200))
    state.advertise(RateSignal(Quota(600, 500, 10)), 0)
    assert admitted(state)[0] == 200
    state = RateController(RateLimits(most=256, start=200))
    state.advertise(RateSignal(Quota(600, 6, 59.4)), 0)
    count, wait = admitted(state)
    assert count == 1
    assert 0.05 < wait < 0.1


def test_calls_in_flight_are_taken_off() -> None:
    """What is under way may not be in the server's count yet."""
    state = RateController(RateLimits(start=100))
    admitted(state)
    state.advertise(RateSignal(Quota(600, 150, 10)), 0)
    assert state.requests is not None
    assert state.requests.level == 51


def test_tokens_are_paced() -> None:
    """The scarcer of requests and tokens decides."""
    state = RateController(RateLimits())
    state.advertise(RateSignal(Quota(600, 600), Quota(6000, 60, 59.4)), 0)
    count, wait = admitted(state)
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
    state = RateController(RateLimits())
    state.admit(1, 0)
    state.release("ok", 1.0, took=1.0)
    state.advertise(RateSignal(Quota(1500, 0, 60)), 2.0)
    state.admit(1, 2.0)
    state.release("rejected", 2.0)
    state.advertise(RateSignal(Quota(10_000, 9000, 6)), 3.0)
    assert state.requests is not None
    assert state.requests.limit == 1500
    state.advertise(RateSignal(Quota(10_000, 9000, 6)), 5.0)
    assert state.requests.limit == 10_000


def test_own_limits_are_spread_evenly() -> None:
    """`rpm` and `tpm` allow no more than that in a minute, from the first call on."""
    for limits, most in (
        (RateLimits(most=999, start=999, rpm=60), 62),
        (RateLimits(most=999, start=999, tpm=6000), 62),
    ):
        state, now, count = RateController(limits), 0.0, 0
        while True:
            wait = state.admit(100, now)
            count += not wait
            now += wait
            if now > 60:
                break
        assert 59 <= count <= most


def test_stricter_limits_hold() -> None:
    """Two users of one quota get the stricter of both."""
    joined = RateController(RateLimits(256, 20, None, 5.0))
    joined.tighten(RateLimits(8, 20, 60.0, 9.0))
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
    state, now = RateController(RateLimits(most=most)), 0.0
    for event, pause, number in events:
        now += pause
        if event == "admit":
            before = state.in_flight
            wait = state.admit(number, now)
            assert wait >= 0
            assert (state.in_flight == before) == bool(wait)
        elif event == "signal":
            state.advertise(RateSignal(Quota(100, min(number, 100), pause)), now)
        elif state.in_flight:
            state.release(event, now, took=pause, retry_after=number)  # type: ignore[arg-type]
        assert 1 <= state.window <= most
        assert 0 <= state.in_flight <= most


def steady(slots: int, most: int = 256, calls: int = 4000, jitter: float = 0.0) -> tuple[RateController, list[float]]:
    """Keep a server busy that answers so many calls at a time, each in about a second; return also all windows."""
    rng = random.Random(slots)
    state, windows = RateController(RateLimits(most=most, few_slots=True)), []
    free = [0.0] * slots
    ends: list[tuple[float, float, int]] = []
    now, started = 0.0, 0
    while len(windows) < calls:
        while not state.admit(100, now):
            started += 1
            begin = max(now, heapq.heappop(free))
            end = begin + 1 + rng.uniform(-jitter, jitter)
            heapq.heappush(free, end)
            heapq.heappush(ends, (end, now, state.started))
        now, since, number = heapq.heappop(ends)
        state.release("ok", now, took=now - since, number=number)
        windows.append(state.window)
    return state, windows


@pytest.mark.parametrize("jitter", [0.0, 0.5])
@pytest.mark.parametrize("slots", [1, 2, 4, 8, 16, 64])
def test_a_server_with_few_slots_is_not_crowded(slots: int, jitter: float) -> None:
    """Its slots are used, and most of the time no more than twice as many calls (4 at least) are in flight."""
    _, windows = steady(slots, jitter=jitter)
    later = sorted(windows[len(windows) // 2 :])
    assert slots <= later[len(later) // 2] < max(2 * slots, 5)
    assert max(windows) <= max(4 * slots, 8)


def test_a_server_of_this_machine_with_many_slots_gets_all_calls() -> None:
    """While calls take no longer the window doubles with each round, to the most that is allowed."""
    state, windows = steady(10_000)
    assert windows[0] == 4
    assert state.window == 256
    assert windows.index(256) < 1200


def impatient(most: int, patience: float, seed: int, seconds: float = 30) -> tuple[int, int]:
    """Ask a server of 4 slots that answers in about a second; return how many calls were answered and late."""
    rng, state, now = random.Random(seed), RateController(RateLimits(most=most, few_slots=True)), 0.0
    since: dict[int, float] = {}
    line, busy = list[int](), list[tuple[float, int]]()
    counts = Counter[str]()
    while now < seconds:
        while not state.admit(100, now):
            since[state.started] = now
            line.append(state.started)
        while line and len(busy) < 4:
            heapq.heappush(busy, (now + 1 + rng.uniform(-0.3, 0.3), line.pop(0)))
        late = min(since, key=since.__getitem__)
        end, number = min(busy[0], (since[late] + patience, late))
        busy = [each for each in busy if each[1] != number]
        line = [each for each in line if each != number]
        heapq.heapify(busy)
        outcome: CallOutcome = "late" if end == since[number] + patience else "ok"
        now, took = end, end - since.pop(number)
        counts[outcome] += 1
        state.release(outcome, now, took=took, number=number)
    return counts["ok"], counts["late"]


@pytest.mark.parametrize("patience", [1.4, 1.6, 1.9, 2.5])
@pytest.mark.parametrize("seed", [0, 1])
def test_calls_that_end_too_late_take_the_doubling_back(patience: float, seed: int) -> None:
    """If a line at the server makes calls late, nearly as much is answered as with 4 in flight."""
    (best, none), (found, late) = impatient(4, patience, seed), impatient(256, patience, seed)
    assert none == 0
    assert found >= 0.88 * best
    assert late <= 16
