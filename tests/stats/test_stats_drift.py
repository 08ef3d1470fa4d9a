from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from benchmarks.stats_drift import drift_alarms
from judge_eval.stats.drift import anchors_needed, same_judge


def by_enumeration(before: np.ndarray, now: np.ndarray) -> tuple[float, float]:
    """Both p values, by going through every order of every anchor's answers."""
    m, k = before.shape[1], now.shape[1]
    seen, apart = now.sum() / k, np.abs(now.mean(axis=1) - before.mean(axis=1)).sum()
    rows = []
    for row in np.concatenate([before, now], axis=1):
        ways = []
        for last in combinations(range(m + k), k):
            share = row[list(last)].mean()
            ways.append((share, abs(share - (row.sum() - share * k) / m)))
        rows.append(ways)
    fall = change = total = 0
    for chosen in product(*rows):
        total += 1
        fall += sum(share for share, _ in chosen) <= seen + 1e-9
        change += sum(distance for _, distance in chosen) >= apart - 1e-9
    return fall / total, change / total


@pytest.mark.parametrize(("m", "k"), [(1, 1), (3, 1), (2, 2), (5, 1)])
def test_p_values_are_those_of_all_orders(m: int, k: int) -> None:
    """The p values equal those of enumerating which of each anchor's answers came last."""
    rng = np.random.default_rng(m * 10 + k)
    for _ in range(6):
        before, now = (rng.integers(0, 2, (4, columns)).astype(float) for columns in (m, k))
        test = same_judge(before, now)
        assert (test.p_fall, test.p_change) == pytest.approx(by_enumeration(before, now), abs=1e-12)


def test_missing_answers_are_left_out() -> None:
    """An anchor without an answer on one side counts for nothing; gaps within a side leave the others."""
    before = np.array([[1, 1, 1], [1, np.nan, 0], [np.nan, np.nan, np.nan]], dtype=float)
    now = np.array([[0.0], [1.0], [0.0]])
    test = same_judge(before, now)
    assert test.anchors == 2
    assert (test.before, test.now) == (pytest.approx(0.75), 0.5)
    assert test.p_fall == pytest.approx(1 / 4 + 3 / 4 * 1 / 3)
    with pytest.raises(ValueError, match="3 anchors"):
        same_judge(before, now[:2])


def test_a_judge_that_did_not_change_raises_no_alarm() -> None:
    """In 20 simulated years of weekly looks, at 2% of noise, at most three have an alarm."""
    (line,) = drift_alarms(20, noise=0.02, fall=0.0)
    assert line.rate <= 3 / 20


def test_a_fall_is_seen_within_four_weeks() -> None:
    """A one-way fall of 5 points on 200 anchors is seen in at least 80% of 30 draws, at 2% of noise."""
    (line,) = drift_alarms(30, noise=0.02, fall=0.05)
    assert line.rate >= 0.8


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.05])
def test_as_many_anchors_as_are_named_show_the_fall(noise: float) -> None:
    """With the number of anchors that is advised, the fall is seen in at least 65% of 40 draws, and 80% is planned."""
    (line,) = drift_alarms(40, noise=noise, fall=0.05, anchors=anchors_needed(noise, 5))
    assert line.rate >= 0.65
