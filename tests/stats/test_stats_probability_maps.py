import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.stats.probabilities import CLIP, ProbabilityMap, calibrate_probabilities, fit_map, losses


def sure(traces: int = 60, seed: int = 0, chunks: int = 5) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Probabilities of a judge that is too sure of itself, labels, and the trace of each chunk."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(size=(traces, 1)) + 2.5 * rng.normal(size=(traces, chunks))
    labels = rng.random(logit.shape) < 1 / (1 + np.exp(0.4 - 0.5 * logit))
    return (
        np.round(1 / (1 + np.exp(-logit)), 3).ravel(),
        labels.astype(float).ravel(),
        np.repeat(np.arange(traces), chunks).tolist(),
    )


def held(p: np.ndarray) -> np.ndarray:
    """The probabilities within their limits."""
    return np.clip(p, CLIP, 1 - CLIP)


@pytest.mark.foreign
@pytest.mark.parametrize("seed", range(4))
def test_the_logistic_map_is_scikit_learns(seed: int) -> None:
    """Platt's fit is a logistic regression on the logit, each chunk split by its smoothed label."""
    from sklearn.linear_model import LogisticRegression

    p, y, _ = sure(seed=seed)
    result = fit_map(p, y, "logistic")
    x = np.log(held(p) / (1 - held(p)))
    target = np.where(y > 0, (y.sum() + 1) / (y.sum() + 2), 1 / ((1 - y).sum() + 2))
    oracle = LogisticRegression(C=1e12, tol=1e-12, max_iter=10_000).fit(
        np.concatenate([x, x])[:, None],
        np.repeat([1.0, 0.0], p.size),
        sample_weight=np.concatenate([target, 1 - target]),
    )
    assert result.slope == pytest.approx(oracle.coef_[0, 0], rel=1e-5)
    assert result.intercept == pytest.approx(oracle.intercept_[0], rel=1e-5)
    grid = np.linspace(0, 1, 41)
    wanted = oracle.predict_proba(np.log(held(grid) / (1 - held(grid)))[:, None])[:, 1]
    assert result.apply(grid) == pytest.approx(held(wanted), abs=1e-6)


@pytest.mark.foreign
@pytest.mark.parametrize("seed", range(4))
def test_the_isotonic_map_is_scikit_learns(seed: int) -> None:
    """Between, at and beyond the knots the map is scikit-learn's, held within .005 and .995."""
    from sklearn.isotonic import IsotonicRegression

    p, y, _ = sure(seed=seed)
    oracle = IsotonicRegression(out_of_bounds="clip").fit(p, y)
    grid = np.linspace(0, 1, 501)
    assert fit_map(p, y, "isotonic").apply(grid) == pytest.approx(held(oracle.predict(grid)), abs=1e-12)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40),
    st.sampled_from(["isotonic", "logistic"]),
)
def test_a_map_never_falls_and_gives_probabilities(rows: list[tuple[float, bool]], method: str) -> None:
    """Whatever it was fitted on, a map rises and stays within .005 and .995."""
    p, y = (np.array(each, dtype=float) for each in zip(*rows, strict=True))
    mapped = fit_map(p, y, method).apply(np.linspace(0, 1, 101))  # type: ignore[arg-type]
    assert (np.diff(mapped) >= -1e-12).all()
    assert mapped.min() >= CLIP
    assert mapped.max() <= 1 - CLIP


def test_a_judge_the_wrong_way_round_is_not_turned() -> None:
    """Where relevance falls with the probability, both maps say the share that is relevant throughout."""
    p, y, _ = sure()
    for method in ("isotonic", "logistic"):
        mapped = fit_map(1 - p, y, method).apply([0.1, 0.5, 0.9])  # type: ignore[arg-type]
        assert np.ptp(mapped) <= 0.1
        assert mapped.mean() == pytest.approx(y.mean(), abs=0.1)


@pytest.mark.parametrize("method", ["isotonic", "logistic"])
def test_figures_are_of_maps_fitted_without_the_trace(method: str) -> None:
    """The figures after are those of a plain loop over folds of whole traces; the map is fitted on all."""
    p, y, traces = sure()
    result = calibrate_probabilities(p, y, traces, method=method, seed=3)  # type: ignore[arg-type]
    fold = np.empty(60, dtype=int)
    fold[np.random.default_rng(3).permutation(60)] = np.arange(60) % 5
    mapped = np.empty_like(p)
    for k in range(5):
        aside = fold[traces] == k
        mapped[aside] = fit_map(p[~aside], y[~aside], method).apply(p[aside])  # type: ignore[arg-type]
    assert result.after.brier.value == pytest.approx(((mapped - y) ** 2).mean(), abs=1e-12)
    assert result.after.log_loss.value == pytest.approx(losses(mapped, y).mean(), abs=1e-12)
    gain = losses(p, y).mean() - losses(mapped, y).mean()
    assert result.gain.value == pytest.approx(gain, abs=1e-12)
    assert result.before.brier.value == pytest.approx(((p - y) ** 2).mean(), abs=1e-12)
    assert result.map == fit_map(p, y, method)  # type: ignore[arg-type]
    assert list(result.log_losses) == [method]


def test_calibrating_helps_a_judge_that_is_too_sure() -> None:
    """Held-out error falls, the gain's interval lies above 0; the method with the lesser loss is taken."""
    result = calibrate_probabilities(*sure(150))
    assert result.gain.interval is not None
    assert result.gain.interval.low > 0
    assert result.after.ece.value is not None
    assert result.before.ece.value is not None
    assert result.after.ece.value < result.before.ece.value / 2
    assert set(result.log_losses) == {"isotonic", "logistic"}
    assert result.map.method == min(result.log_losses, key=lambda name: result.log_losses[name])


def test_probabilities_without_meaning_gain_nothing_on_held_out_traces() -> None:
    """Labels drawn apart from the probabilities: the map is nearly flat, and no better than the share."""
    rng = np.random.default_rng(0)
    p, y, traces = rng.random(400), (rng.random(400) < 0.3).astype(float), np.repeat(np.arange(80), 5)
    result = calibrate_probabilities(p, y, traces.tolist())
    assert np.ptp(result.map.apply([0.1, 0.9])) < 0.2
    assert result.after.brier.value is not None
    assert result.after.brier.value > y.mean() * (1 - y.mean()) * 0.97


def test_probabilities_that_part_labels_perfectly_stay_finite() -> None:
    """Perfect separation has a finite slope, by Platt's smoothed labels."""
    p = np.array([0.1, 0.2, 0.8, 0.9] * 5)
    result = fit_map(p, (p > 0.5).astype(float), "logistic")
    assert 0 < result.slope < 10
    assert math.isfinite(result.intercept)


def test_calibrating_checks_its_input() -> None:
    """Too few traces, one kind of label, an unknown method, one fold are refused."""
    p, y, traces = sure()
    with pytest.raises(ValueError, match="at least 10 are needed"):
        calibrate_probabilities(p[:45], y[:45], traces[:45])
    with pytest.raises(ValueError, match="one kind of label"):
        calibrate_probabilities(p, np.ones_like(y), traces)
    with pytest.raises(ValueError, match="not one of 'isotonic', 'logistic'"):
        calibrate_probabilities(p, y, traces, method="beta")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 2"):
        calibrate_probabilities(p, y, traces, folds=1)


def test_a_map_takes_any_shape() -> None:
    """The mapped probabilities have the shape of what was given, none included."""
    plain = ProbabilityMap("logistic")
    assert plain.apply(0.5).shape == ()
    assert plain.apply([]).shape == (0,)
    assert plain.apply([[0.2, 0.4]]) == pytest.approx(np.array([[0.2, 0.4]]))


def gained(traces: int, times: int) -> tuple[float, float]:
    """Count how often the intervals after calibration hold what is true of the map on new traces."""
    p, _, _ = sure(30_000, 99)
    rng = np.random.default_rng(99)  # the logits behind these probabilities, to know their true chances
    logit = rng.normal(size=(30_000, 1)) + 2.5 * rng.normal(size=(30_000, 5))
    truth = (1 / (1 + np.exp(0.4 - 0.5 * logit))).ravel()

    def loss(q: np.ndarray) -> float:
        return float((truth * losses(q, np.ones_like(q)) + (1 - truth) * losses(q, np.zeros_like(q))).mean())

    brier = gain = 0
    for seed in range(times):
        result = calibrate_probabilities(*sure(traces, seed))
        mapped = result.map.apply(p)
        after, grown = result.after.brier.interval, result.gain.interval
        assert after is not None
        assert grown is not None
        brier += float(((mapped - truth) ** 2 + truth * (1 - truth)).mean()) in after
        gain += loss(p) - loss(mapped) in grown
    return brier / times, gain / times


@pytest.mark.slow
def test_held_out_intervals_hold_for_new_traces() -> None:
    """In 20 draws of 40 traces the intervals hold the truth of the fitted map nearly always."""
    assert min(gained(40, 20)) >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize("traces", [20, 60])
def test_coverage_of_the_held_out_intervals(traces: int) -> None:
    """They hold the truth of the fitted map in 95% of draws or more, less two standard errors of 80."""
    assert min(gained(traces, 80)) >= 0.95 - 2 * math.sqrt(0.05 * 0.95 / 80)
