"""Intervals of means of values that have a least and a greatest possible value."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.stats import Interval, mean_interval
from judge_eval.stats.intervals import bounded_interval
from tests.support.examples import examples

UNIT = st.floats(0, 1).map(lambda x: round(x, 4))


def ends(values: list[float] | np.ndarray, level: float = 0.95, **more: float) -> tuple[float, float]:
    """The interval of a mean of values between 0 and 1, each trace a unit."""
    x = np.asarray(values, dtype=float)
    return bounded_interval(x, np.ones_like(x), (0.0, 1.0), level, **more)


@pytest.mark.parametrize(("ones", "n"), [(1, 2), (3, 5), (9, 10), (20, 40), (1, 200), (199, 200), (980, 1000)])
@pytest.mark.parametrize("weight", [0.5, 1.0])
def test_zeros_and_ones_give_points_of_a_beta_distribution(ones: int, n: int, weight: float) -> None:
    """For zeros and ones the weighted mean is Beta distributed (weight 1: Clopper and Pearson)."""
    low, high = ends([1.0] * ones + [0.0] * (n - ones), end_weight=weight)
    assert low == pytest.approx(scipy.stats.beta.ppf(0.025, ones, n - ones + weight), abs=2e-6)
    assert high == pytest.approx(scipy.stats.beta.ppf(0.975, ones + weight, n - ones), abs=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3, 8, 30, 400])
def test_the_ends_are_points_of_the_mean_under_random_weights(n: int) -> None:
    """Drawn from the definition (Dirichlet weights, half a weight at the end), the shares below agree."""
    rng = np.random.default_rng(n)
    x = np.round(rng.beta(5, 2, n), 3)
    low, high = ends(x)
    for end, point, share in ((0.0, low, 0.025), (1.0, high, 0.975)):
        weights = rng.gamma(np.append(np.ones(n), 0.5), size=(100_000, n + 1))
        means = weights @ np.append(x, end) / weights.sum(axis=1)
        assert (means <= point).mean() == pytest.approx(share, abs=0.0025)


def test_whole_clusters_are_weighed() -> None:
    """With clusters of unequal size the ends are points of the ratio of weighted sums to weighted sizes."""
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 9, 15).astype(float)
    totals = np.array([rng.beta(5, 2, int(k)).sum() for k in sizes])
    low, high = bounded_interval(totals, sizes, (0.0, 1.0), 0.9)
    for end, point, share in ((0.0, low, 0.05), (1.0, high, 0.95)):
        weights = rng.gamma(np.append(np.ones(15), 0.5), size=(200_000, 16))
        top = weights @ np.append(totals, end * sizes.mean())
        means = top / (weights @ np.append(sizes, sizes.mean()))
        assert (means <= point).mean() == pytest.approx(share, abs=0.0025)


def test_many_different_values_are_put_on_a_grid_that_changes_nothing_visible() -> None:
    """20,000 different values give Student's interval, up to a thousandth of its width."""
    x = np.random.default_rng(6).beta(5, 2, 20_000)
    t = scipy.stats.t.interval(0.95, x.size - 1, x.mean(), scipy.stats.sem(x))
    assert ends(x) == pytest.approx(t, abs=0.02 * (t[1] - t[0]))


@examples(150)
@given(st.lists(UNIT, min_size=2, max_size=40), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_laws(values: list[float], level: float) -> None:
    """The ends lie within [0, 1] around the mean, apart; mirrored values mirror them; 99.5% holds 95%."""
    mean = float(np.mean(values))
    low, high = ends(values, level)
    assert 0 <= low <= mean <= high <= 1
    assert high - low > 1e-6
    mirrored = ends([1 - x for x in values], level)
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-7)
    wide = ends(values, 0.995)
    assert wide[0] <= low + 1e-9
    assert wide[1] >= high - 1e-9


@examples(60)
@given(st.lists(UNIT, min_size=2, max_size=30), st.integers(0, 29), UNIT)
def test_a_greater_value_never_lowers_an_end(values: list[float], place: int, value: float) -> None:
    """Where one value rises, neither end of the interval falls."""
    raised = list(values)
    raised[place % len(values)] = max(value, raised[place % len(values)])
    before, after = ends(values), ends(raised)
    assert after[0] >= before[0] - 1e-9
    assert after[1] >= before[1] - 1e-9


def test_the_interval_that_suits_the_values_is_taken_and_named() -> None:
    """Hits and misses get Wilson's or Blaker's, values between limits Gaffke's, all others Student's."""

    def made(values: list[float], limits: tuple[float, float | None] | None, **more: object) -> Interval:
        result = mean_interval(values, limits=limits, **more).interval  # type: ignore[arg-type]
        assert result is not None
        return result

    assert made([0, 1] * 15, (0, 1)).method == "wilson"
    assert made([0, 1, 1], (0, 1)).method == "blaker"
    assert made([1, 1], (0, 1)).method == "blaker"
    assert made([1, 1], (0, 1)).low == pytest.approx(0.05**0.5)
    assert made([0.5, 1, 1], (0, 1)).method == "gaffke"
    assert made([0.5, 0.5], (0, 1)).method == "gaffke"
    assert made([0.5, 0.5, 1], (0, 1), clusters=["a", "a", "b"]).method == "clustered gaffke"
    assert made([0, 1, 1], (0, 1), clusters=["a", "a", "b"]).method == "clustered gaffke"
    assert made([0.5, 3, 1], (0, None)).method == "t"
    assert made([-1, 1, -1], (-1, 1)).low == pytest.approx(2 * made([0, 1, 0], (0, 1)).low - 1)


def test_a_value_beyond_the_limits_is_refused_and_rounding_is_not() -> None:
    """A value that the metric cannot have is an error that names it; the last bit is no such thing."""
    with pytest.raises(ValueError, match=r"values\[1\] is 1.5, outside of the limits"):
        mean_interval([0.5, 1.5], limits=(0, 1))
    assert mean_interval([1.0 + 2e-16, 1.0], limits=(0, 1)).interval is not None
