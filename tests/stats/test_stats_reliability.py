import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.stats.probabilities import CLIP, ReliabilityFigures, bins_of, reliability_figures

CHUNKS = 5


def drawn(rng: np.random.Generator, traces: int, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    """Draw probabilities, labels that depend on each other within a trace, and the true chances."""
    logit = 1.2 * rng.normal(size=(traces, 1)) + 2 * rng.normal(size=(traces, CHUNKS))
    p = np.round(1 / (1 + np.exp(-logit)), 2)
    truth = p if kind == "honest" else 1 / (1 + np.exp(0.3 - 0.5 * logit))
    if kind == "rare":
        p = np.where(rng.random(p.shape) < 0.8, 0.99, 0.02)
        truth = np.where(p > 0.5, 0.95, 0.04)
    shared = math.sqrt(0.4) * rng.normal(size=(traces, 1)) + math.sqrt(0.6) * rng.normal(size=p.shape)
    uniform = np.vectorize(lambda z: (1 + math.erf(z / math.sqrt(2))) / 2)(shared)
    labels = (uniform < truth).astype(float)
    return p.ravel(), labels.ravel(), truth.ravel(), np.repeat(np.arange(traces), CHUNKS).tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.foreign
def test_brier_score_and_log_loss_are_scikit_learns(seed: int) -> None:
    """Both equal scikit-learn's to the last digits but a few."""
    from sklearn.metrics import brier_score_loss, log_loss

    p, y, _, traces = drawn(np.random.default_rng(seed), 40, "sure")
    result = reliability_figures(p, y, traces)
    assert result.brier.value == pytest.approx(brier_score_loss(y, p), abs=1e-12)
    assert result.log_loss.value == pytest.approx(log_loss(y, np.clip(p, CLIP, 1 - CLIP)), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_figures_equal_a_plain_loop(seed: int) -> None:
    """Every figure is that of a loop over the bins."""
    p, y, _, traces = drawn(np.random.default_rng(seed), 40, "sure")
    result = reliability_figures(p, y, traces)
    assert result.brier.value == pytest.approx(((p - y) ** 2).mean(), abs=1e-12)
    right = np.where(y > 0, p, 1 - p)
    assert result.log_loss.value == pytest.approx(-np.log(np.clip(right, CLIP, 1 - CLIP)).mean(), abs=1e-12)
    assert result.bias.value == pytest.approx(p.mean() - y.mean(), abs=1e-12)
    error, seen = 0.0, 0
    for each in result.bins:
        inside = (p >= each.low) & (p <= each.high)
        assert each.probability == pytest.approx(p[inside].mean())
        assert (each.rate.value, each.rate.n) == (pytest.approx(y[inside].mean()), inside.sum())
        error += inside.sum() / p.size * abs(p[inside].mean() - y[inside].mean())
        seen += int(inside.sum())
    assert result.ece.value == pytest.approx(error, abs=1e-12)
    assert seen == p.size
    assert all(a.high < b.low for a, b in zip(result.bins, result.bins[1:], strict=False))
    for each in (result.ece, result.brier, result.log_loss, result.bias):
        assert (each.n, each.traces) == (200, 40)
        assert each.interval is not None
        assert each.value is not None
        assert each.value in each.interval


@given(st.lists(st.integers(0, 20).map(lambda n: n / 20), min_size=1, max_size=80), st.integers(1, 12))
def test_bins_hold_equal_probabilities_together(values: list[float], most: int) -> None:
    """Bins rise with the probabilities, are numbered without a gap, and are no more than asked for."""
    p = np.array(values)
    bins = bins_of(p, most)
    assert set(bins.tolist()) == set(range(int(bins.max()) + 1))
    assert bins.max() < most
    order = np.argsort(p, kind="stable")
    assert (np.diff(bins[order]) >= 0).all()
    for value in set(values):
        assert len(set(bins[p == value].tolist())) == 1


def test_bins_are_about_equally_full() -> None:
    """Distinct probabilities fall into bins of sizes that differ by one at most."""
    sizes = np.bincount(bins_of(np.random.default_rng(0).random(205), 10))
    assert len(sizes) == 10
    assert sizes.max() - sizes.min() <= 1


@given(st.permutations(range(12)))
def test_the_order_of_chunks_says_nothing(order: list[int]) -> None:
    """Chunks in another order have the same figures."""
    p, y, _, traces = (np.asarray(each)[:12] for each in drawn(np.random.default_rng(3), 4, "sure"))
    first = reliability_figures(p, y, traces.tolist())
    second = reliability_figures(p[order], y[order], traces[order].tolist())
    for name in ("ece", "brier", "log_loss", "bias"):
        single, two = getattr(first, name), getattr(second, name)
        assert single.value == pytest.approx(two.value, abs=1e-12)


def test_one_trace_allows_no_interval() -> None:
    """Chunks of a single trace are one unit: figures, and no interval anywhere."""
    result = reliability_figures([0.1, 0.9, 0.5], [0, 1, 1], ["t"] * 3)
    assert result.ece.value is not None
    for each in (result.ece, result.brier, result.log_loss, result.bias, result.bins[0].rate):
        assert each.interval is None


def test_a_wrong_certainty_is_finite_in_the_log_loss() -> None:
    """A 0 given to what is relevant counts as .005: the loss is large, never infinite."""
    result = reliability_figures([0.0, 1.0], [1, 0], ["a", "b"])
    assert result.log_loss.value == pytest.approx(-math.log(CLIP))
    assert (result.brier.value, result.ece.value) == (1.0, pytest.approx(0.0))


def test_reliability_checks_its_input() -> None:
    """No chunk, a probability beyond 1, a grade for a label, no bin, a missing value are refused."""
    for p, y, more, answers in (
        ([], [], {}, "at least one is needed"),
        ([1.2], [1], {}, "from 0 to 1"),
        ([0.2], [2], {}, "only 0 and 1"),
        ([0.2], [1], {"bins": 0}, "at least one"),
        ([float("nan")], [1], {}, "missing"),
        ([0.2], [1], {"level": 1.0}, "level"),
    ):
        with pytest.raises(ValueError, match=answers):
            reliability_figures(p, y, ["t"] * len(p), **more)


def covered(kind: str, traces: int, times: int) -> dict[str, float]:
    """Count how often the intervals hold the truth of the bins that were made."""
    p, _, truth, _ = drawn(np.random.default_rng(99), 40_000, kind)
    held = {"ece": 0, "brier": 0, "bias": 0, "bins": 0, "of": 0}
    rng = np.random.default_rng(1)
    for _ in range(times):
        answers, labels, _, ids = drawn(rng, traces, kind)
        result: ReliabilityFigures = reliability_figures(answers, labels, ids)
        edges = [(a.high + b.low) / 2 for a, b in zip(result.bins, result.bins[1:], strict=False)]
        places = np.digitize(p, edges)
        n = np.bincount(places, minlength=len(result.bins))
        gaps = np.bincount(places, p - truth, len(result.bins)) / p.size
        rates = np.bincount(places, truth, len(result.bins)) / n
        exact = {
            "ece": np.abs(gaps).sum(),
            "brier": ((p - truth) ** 2 + truth * (1 - truth)).mean(),
            "bias": (p - truth).mean(),
        }
        for name, value in exact.items():
            interval = getattr(result, name).interval
            held[name] += interval is not None and value in interval
        for each, rate in zip(result.bins, rates.tolist(), strict=True):
            if each.rate.interval is not None:
                held["bins"] += rate in each.rate.interval
                held["of"] += 1
    bins = held.pop("bins") / held.pop("of")
    return {"bins": bins, **{name: count / times for name, count in held.items()}}


@pytest.mark.slow
def test_intervals_hold_the_truth_in_a_few_draws() -> None:
    """In 40 draws of 30 traces no interval misses more often than chance allows of one that covers 95%."""
    for kind in ("honest", "sure"):
        for name, share in covered(kind, 30, 40).items():
            assert share >= 0.87, (kind, name, share)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "traces"), [*itertools.product(["honest", "sure", "rare"], [8, 20, 50]), ("honest", 200)]
)
def test_coverage_of_the_intervals(kind: str, traces: int) -> None:
    """Each interval holds the truth in at least 95% of draws, less two standard errors of 200 draws.

    That of the calibration error does so where the true error is 0, at which a bootstrap never does.
    """
    for name, share in covered(kind, traces, 200).items():
        assert share >= 0.95 - 2 * math.sqrt(0.05 * 0.95 / 200), (name, share)
