"""Panels that learn: weights, effective votes, and members that add nothing."""

from __future__ import annotations

import numpy as np
import pytest

from judge_eval.stats.probabilities import losses
from judge_eval.stats.stacking import best_panel, effective_votes, stack_judges

Floats = np.ndarray


def panel(traces: int, seed: int) -> tuple[Floats, Floats, list[int]]:
    """A good judge, a copy of it, a fair one and one that guesses; labels; the trace of each chunk."""
    rng = np.random.default_rng(seed)
    y = (rng.random(traces * 6) < 0.4).astype(float)

    def judge(right: float) -> Floats:
        return np.where(rng.random(len(y)) < right, y, 1 - y)

    good, fair, guess = judge(0.9), judge(0.75), judge(0.5)
    return np.column_stack([good, good, fair, guess]), y, np.repeat(np.arange(traces), 6).tolist()


def test_the_stacked_panel_beats_the_vote_and_knows_who_adds_nothing() -> None:
    """Its held-out log loss is smaller than the vote's; the copy and the guesser add nothing, the fair judge does."""
    p, y, traces = panel(150, 1)
    result = stack_judges(p, y, traces)
    assert result.gain.interval is not None
    assert result.gain.interval.low > 0
    lows = [each.interval.low for each in result.adds if each.interval is not None]
    assert lows[2] > 0
    assert max(lows[0], lows[1], lows[3]) <= 0
    assert abs(result.weights[3]) < abs(result.weights[2]) < result.weights[0] + result.weights[1]


def test_figures_are_of_traces_that_were_not_fitted_on() -> None:
    """With labels drawn at random no weight helps: the held-out loss is no better than that of a constant."""
    rng = np.random.default_rng(2)
    y = (rng.random(240) < 0.5).astype(float)
    result = stack_judges((rng.random((240, 5)) < 0.5).astype(float), y, np.repeat(np.arange(40), 6).tolist())
    assert (result.stacked.log_loss.value or 0) > float(losses(np.full(240, 0.5), y).mean()) - 0.01


def test_effective_votes_are_those_of_the_error_correlation() -> None:
    """Copies are one vote; independent judges are as many as they are."""
    rng = np.random.default_rng(3)
    y = np.zeros(4000)
    wrong = (rng.random((4000, 4)) < 0.2).astype(float)
    assert effective_votes(wrong, y) == pytest.approx(4, rel=0.1)
    assert effective_votes(np.repeat(wrong[:, :1], 4, axis=1), y) == pytest.approx(1)


def test_a_missing_vote_is_no_opinion() -> None:
    """A member that gave no verdict moves nothing; too few traces are refused."""
    p, y, traces = panel(40, 4)
    p[::3, 3] = np.nan
    assert (stack_judges(p, y, traces).stacked.log_loss.value or 1) < 0.6
    with pytest.raises(ValueError, match="at least 10"):
        stack_judges(p[:30], y[:30], traces[:30])


def test_the_best_panel_is_the_cheapest_that_is_worth_most() -> None:
    """Of a judge, its dearer copy, a fair one and a guesser it takes the judge and the fair one; or within a cost."""
    p, y, traces = panel(150, 1)
    best = best_panel(p, y, traces, size=3, costs=[1.0, 2.0, 1.0, 0.1])
    assert (best.members, best.cost, best.agreed) == ((0, 2), 2.0, 5)
    whole = stack_judges(p, y, traces).stacked.log_loss
    assert best.behind.interval is not None
    assert best.behind.interval.low <= 0
    assert best.log_loss.value == pytest.approx(whole.value, abs=0.01)
    assert best_panel(p, y, traces, size=3, costs=[1.0, 2.0, 1.0, 0.1], within=1.5).members == (0,)
    with pytest.raises(ValueError, match=r"cheapest member costs 0\.1"):
        best_panel(p, y, traces, costs=[1.0, 2.0, 1.0, 0.1], within=0.05)


def test_the_worth_of_a_chosen_panel_is_held_out() -> None:
    """Of 12 judges that guess, the best three are worth no more on other traces than a constant."""
    rng = np.random.default_rng(5)
    y = (rng.random(240) < 0.5).astype(float)
    best = best_panel((rng.random((240, 12)) < 0.5).astype(float), y, np.repeat(np.arange(40), 6).tolist())
    assert (best.log_loss.value or 0) > float(losses(np.full(240, 0.5), y).mean()) - 0.01
