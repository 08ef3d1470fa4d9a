import math

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.stats import distributions as d
from tests.support.examples import examples


@examples(300, derandomize=True)
@given(st.floats(1e-3, 50) | st.floats(-50, -1e-3), st.integers(1, 5000))
def test_t_tail_equals_scipy(t: float, df: int) -> None:
    """P(T > t) is scipy's to 1e-10 relative, in both tails."""
    # Closer to 0 scipy itself has fewer digits; the closed forms below cover it.
    assert d.t_sf(t, df) == pytest.approx(scipy.stats.t.sf(t, df), rel=1e-10)


def test_t_with_closed_forms() -> None:
    """For 1 and 2 degrees of freedom P(T > t) has a closed form, which is met to 1e-13."""
    for t in (1e-9, 1e-3, 0.2, 1.0, 3.7, 40.0, 1e6):
        assert d.t_sf(t, 1) == pytest.approx(math.atan2(1, t) / math.pi, rel=1e-13)
        root = math.sqrt(2 + t * t)
        assert d.t_sf(t, 2) == pytest.approx(1 / (root * (root + t)), rel=1e-13)


@pytest.mark.parametrize("df", [1, 2, 3, 4.5, 9, 14, 24, 49, 200, 1e4, 1e6, 1e8])
def test_t_quantile_equals_scipy(df: float) -> None:
    """The quantiles that intervals use are scipy's to 1e-12 relative, for whole and broken df."""
    for p in (1e-10, 0.001, 0.005, 0.025, 0.05, 0.1, 0.3, 0.45, 0.8, 0.975, 0.9995):
        assert d.t_ppf(p, df) == pytest.approx(scipy.stats.t.ppf(p, df), rel=2e-12)


@examples(200, derandomize=True)
@given(st.floats(1e-9, 1 - 1e-9), st.floats(0.3, 1e5))
def test_t_quantile_inverts_the_distribution(p: float, df: float) -> None:
    """The distribution at a quantile gives the probability back, on the side of the smaller tail."""
    t = d.t_ppf(p, df)
    assert d.t_sf(abs(t), df) == pytest.approx(min(p, 1 - p), rel=1e-11)


@examples(200, derandomize=True)
@given(st.floats(1e-200, 1), st.floats(0.1, 3000), st.floats(0.1, 3000))
def test_beta_cdf_equals_scipy(x: float, a: float, b: float) -> None:
    """The regularised incomplete beta function is scipy's to 1e-10."""
    assert d.beta_cdf(x, a, b) == pytest.approx(scipy.stats.beta.cdf(x, a, b), rel=1e-10, abs=1e-290)


@pytest.mark.parametrize(("a", "b"), [(1, 50), (0.5, 0.5), (3, 8), (47, 4), (51, 1), (300, 9700), (2e4, 2e4)])
def test_beta_quantile_equals_scipy(a: float, b: float) -> None:
    """Beta quantiles are scipy's to 1e-11 relative."""
    for p in (1e-6, 0.005, 0.025, 0.5, 0.9, 0.975, 0.999):
        assert d.beta_ppf(p, a, b) == pytest.approx(scipy.stats.beta.ppf(p, a, b), rel=1e-11)


def test_normal_equals_scipy() -> None:
    """The normal distribution and its quantiles are scipy's, far out in the tails too."""
    for z in (-30.0, -8.0, -1.96, 0.0, 0.3, 5.0):
        assert d.normal_cdf(z) == pytest.approx(scipy.stats.norm.cdf(z), rel=1e-12)
    for p in (1e-15, 0.025, 0.5, 0.975, 1 - 1e-9):
        assert d.normal_ppf(p) == pytest.approx(scipy.stats.norm.ppf(p), rel=1e-12, abs=1e-15)


def test_power_equals_the_noncentral_t() -> None:
    """Power of the two-sided t test is that of scipy's noncentral t."""
    for df in (1, 2, 14, 49, 1000):
        critical = scipy.stats.t.ppf(0.975, df)
        for shift in (0.0, 0.5, 2.0, 3.5):
            tails = scipy.stats.nct.sf(critical, df, shift) + scipy.stats.nct.cdf(-critical, df, shift)
            assert d.t_power(shift, df) == pytest.approx(tails, rel=1e-8)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, math.nan])
def test_quantiles_need_a_probability(p: float) -> None:
    """A quantile of something that is no probability strictly between 0 and 1 is refused."""
    for call in (lambda: d.t_ppf(p, 3), lambda: d.normal_ppf(p), lambda: d.beta_ppf(p, 1, 1)):
        with pytest.raises(ValueError, match="probability"):
            call()


def test_parameters_must_be_positive() -> None:
    """Degrees of freedom and shapes that are not positive are refused."""
    with pytest.raises(ValueError, match="degrees of freedom"):
        d.t_sf(1.0, 0)
    with pytest.raises(ValueError, match="degrees of freedom"):
        d.t_ppf(0.4, -1)
    with pytest.raises(ValueError, match="shapes"):
        d.beta_cdf(0.5, 0, 1)


@examples(300, derandomize=True)
@given(st.integers(-1, 400), st.integers(0, 400), st.floats(0, 1))
def test_binomial_cdf_equals_scipy(k: int, n: int, p: float) -> None:
    """P(X <= k) is scipy's to 1e-10 in the lower tail too, for every k, n and chance."""
    assert d.binomial_cdf(k, n, p) == pytest.approx(scipy.stats.binom.cdf(k, n, p), rel=1e-10, abs=1e-250)


def test_binomial_cdf_refuses_what_is_no_trial() -> None:
    """Fewer than no trials, or a chance beyond 0 and 1, are errors."""
    for n, p in ((-1, 0.5), (3, -0.1), (3, 1.1), (3, math.nan)):
        with pytest.raises(ValueError, match="binomial"):
            d.binomial_cdf(0, n, p)
