import numpy as np
import pytest
import scipy.stats
import statsmodels.api as sm
from statsmodels.stats.proportion import proportion_confint

from judge_eval.stats import Figure, Interval, Resampler, breakdown, mean_interval, proportion_interval
from judge_eval.stats.intervals import standard_error

pytestmark = pytest.mark.foreign


def bounds(estimate: Figure) -> tuple[float, float]:
    """The bounds of an estimate that must have some."""
    assert estimate.interval is not None
    return estimate.interval.low, estimate.interval.high


def test_t_interval_equals_scipy() -> None:
    """Where nothing is known of the values' limits, the interval of a mean is Student's."""
    x = np.random.default_rng(0).beta(2, 3, 37)
    result = mean_interval(x, level=0.9)
    expected = scipy.stats.t.interval(0.9, x.size - 1, x.mean(), scipy.stats.sem(x))
    assert bounds(result) == pytest.approx(expected, abs=1e-12)
    error = standard_error(x, np.arange(37), 37)
    assert error == pytest.approx(scipy.stats.sem(x), abs=1e-14)
    assert (result.n, result.traces) == (37, None)


def test_clustered_interval_equals_statsmodels() -> None:
    """With clusters of unequal size the interval is CR1 with t on G - 1, as in an OLS of the mean alone."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 12, 90)
    x = rng.normal(size=90) + rng.normal(size=12)[codes]
    result = mean_interval(x, clusters=[f"doc-{code}" for code in codes])
    fitted = sm.OLS(x, np.ones((90, 1))).fit(
        cov_type="cluster", cov_kwds={"groups": codes, "use_correction": True, "df_correction": True}, use_t=True
    )
    assert standard_error(x, codes, 12) == pytest.approx(fitted.bse[0], abs=1e-12)
    assert bounds(result) == pytest.approx(tuple(fitted.conf_int()[0]), abs=1e-10)
    assert result.traces == 12


def test_clusters_of_one_change_nothing() -> None:
    """Where each trace is its own cluster, the clustered interval is the plain one."""
    x = np.random.default_rng(2).normal(size=20)
    assert bounds(mean_interval(x, clusters=range(20))) == pytest.approx(bounds(mean_interval(x)), abs=1e-13)


@pytest.mark.parametrize("method", ["bca", "percentile"])
def test_bootstrap_equals_scipy_within_monte_carlo_error(method: str) -> None:
    """BCa and percentile intervals of a skewed mean are scipy's up to the noise of drawing."""
    x = np.random.default_rng(3).exponential(size=30)
    name = {"bca": "BCa", "percentile": "percentile"}[method]
    theirs = scipy.stats.bootstrap(
        (x,), np.mean, n_resamples=20_000, method=name, random_state=np.random.default_rng(4)
    ).confidence_interval
    ours = mean_interval(x, method=method, replicates=20_000, seed=5)
    noise = 0.05 * (theirs.high - theirs.low)
    assert bounds(ours) == pytest.approx((theirs.low, theirs.high), abs=noise)


def test_bca_of_a_ratio_equals_scipy() -> None:
    """BCa of a figure that is not a mean, a ratio of sums, is scipy's up to the noise of drawing."""
    rng = np.random.default_rng(6)
    a = rng.exponential(size=40)
    b = a + rng.exponential(size=40)
    theirs = scipy.stats.bootstrap(
        (a, b),
        lambda a, b, axis: a.sum(axis=axis) / b.sum(axis=axis),
        paired=True,
        n_resamples=20_000,
        random_state=np.random.default_rng(7),
    ).confidence_interval
    ours = Resampler(np.column_stack([a, b]), replicates=20_000, seed=8).estimate(lambda s: s[:, 0] / s[:, 1])
    assert bounds(ours) == pytest.approx((theirs.low, theirs.high), abs=0.05 * (theirs.high - theirs.low))


def test_bootstrap_resamples_whole_clusters() -> None:
    """Copies of each trace within its cluster add nothing: the clustered interval stays as wide."""
    x = np.random.default_rng(9).normal(size=25)
    alone = mean_interval(x, method="bca", seed=1)
    copied = mean_interval(np.repeat(x, 4), clusters=np.repeat(np.arange(25), 4).tolist(), method="bca", seed=1)
    assert bounds(copied) == pytest.approx(bounds(alone), abs=1e-12)
    assert copied.n == 100


def test_bootstrap_is_seeded() -> None:
    """Equal seeds give equal intervals, other seeds others, and blocks of draws leave no seam."""
    x = np.random.default_rng(10).normal(size=30)
    first, again, other = (mean_interval(x, method="bca", seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_blocks_of_draws_are_complete() -> None:
    """Many units are drawn in several blocks, which together hold the asked number of replicates."""
    draws = Resampler(np.ones((50_000, 1)), replicates=150, method="percentile")
    seen: list[int] = []

    def count(sums: np.ndarray) -> np.ndarray:
        seen.append(sums.shape[0])
        assert (sums == 50_000).all()
        return sums[:, 0]

    draws.estimate(count)
    assert seen == [1, 150]


def test_many_undefined_replicates_leave_no_interval() -> None:
    """Replicates where a figure is 0/0 are left out; if they are more than one in twenty there is no interval."""
    parts = np.column_stack([np.arange(30.0), [1.0] * 4 + [0.0] * 26])

    def figure(sums: np.ndarray) -> np.ndarray:
        return np.where(sums[:, 1] > 0, sums[:, 0], np.nan)

    some = Resampler(parts, replicates=1000).estimate(figure)
    assert some.interval is not None
    parts[1:, 1] = 0
    many = Resampler(parts, replicates=1000).estimate(figure)
    assert many.value is not None
    assert many.interval is None


@pytest.mark.parametrize("method", ["t", "bca", "percentile"])
def test_degenerate_means(method: str) -> None:
    """No trace has no mean; one trace, one cluster, or values without any variation have no interval."""
    assert mean_interval([], method=method) == Figure(None, None, 0)
    assert mean_interval([0.5], method=method) == Figure(0.5, None, 1)
    assert mean_interval([0.5, 1.0], clusters=["a", "a"], method=method).interval is None
    assert mean_interval([0.25] * 8, method=method).interval is None


def test_a_missing_value_is_never_averaged() -> None:
    """NaN and None are refused with their position, never left out in silence."""
    with pytest.raises(ValueError, match=r"values\[1\] is missing"):
        mean_interval([0.5, float("nan")])
    with pytest.raises(ValueError, match=r"values\[0\] is missing"):
        mean_interval([None, 0.5])
    with pytest.raises(ValueError, match="group id is missing"):
        mean_interval([0.5, 0.6], clusters=["a", None])


def test_options_are_checked() -> None:
    """A level outside (0, 1), an unknown method, too few replicates or ids are refused."""
    with pytest.raises(ValueError, match="level"):
        mean_interval([0.1, 0.2], level=95)
    with pytest.raises(ValueError, match="method"):
        mean_interval([0.1, 0.2], method="normal")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="replicates"):
        mean_interval([0.1, 0.2], method="bca", replicates=10)
    with pytest.raises(ValueError, match="clusters: 1 ids for 2 values"):
        mean_interval([0.1, 0.2], clusters=["a"])


def test_breakdown_by_tag() -> None:
    """A trace counts under each of its tags once, and each tag's estimate is that of its traces alone."""
    result = breakdown([0.0, 0.5, 1.0, 0.25], [["a"], ["b", "a", "a"], ["b"], []])
    assert list(result) == ["a", "b"]
    assert result["a"] == mean_interval([0.0, 0.5])
    assert result["b"] == mean_interval([0.5, 1.0])
    clustered = breakdown([0.0, 0.5, 1.0], [["a"]] * 3, clusters=["x", "y", "y"])
    assert clustered["a"] == mean_interval([0.0, 0.5, 1.0], clusters=["x", "y", "y"])
    with pytest.raises(ValueError, match="tags"):
        breakdown([0.0, 0.5], [["a"]])


def test_blaker_holds_for_few_trials() -> None:
    """Over all outcomes, summed exactly: for 1 to 29 trials and every rate the interval holds it in .95 or more."""
    rates = np.linspace(0.001, 0.999, 999)
    for n in range(1, 30):
        ends = np.array([bounds(proportion_interval(k, n, method="blaker")) for k in range(n + 1)])
        inside = (ends[:, :1] - 1e-9 <= rates) & (rates <= ends[:, 1:] + 1e-9)
        chances = scipy.stats.binom.pmf(np.arange(n + 1)[:, None], n, rates)
        assert (chances * inside).sum(axis=0).min() >= 0.95 - 1e-9


@pytest.mark.parametrize(("successes", "n"), [(0, 7), (7, 7), (1, 5), (13, 29), (28, 29), (40, 100)])
def test_blaker_is_the_span_of_accepted_rates_within_the_exact_interval(successes: int, n: int) -> None:
    """Brute force: the least and the greatest rate under which so improbable a count has a chance above .05."""
    rates = np.linspace(0, 1, 20_001)
    chances = scipy.stats.binom.pmf(np.arange(n + 1), n, rates[:, None])
    tails = np.minimum(chances.cumsum(axis=1), chances[:, ::-1].cumsum(axis=1)[:, ::-1])
    accepted = rates[(chances * (tails <= tails[:, [successes]] * (1 + 1e-9))).sum(axis=1) > 0.05]
    result = bounds(proportion_interval(successes, n, method="blaker"))
    assert result == pytest.approx((accepted[0], accepted[-1]), abs=1e-4)
    exact = bounds(proportion_interval(successes, n, method="exact"))
    assert exact[0] <= result[0]
    assert result[1] <= exact[1]


@pytest.mark.parametrize(("method", "name"), [("wilson", "wilson"), ("exact", "beta")])
@pytest.mark.parametrize(("successes", "n"), [(0, 7), (7, 7), (1, 30), (13, 29), (250, 1000)])
def test_proportions_equal_statsmodels(method: str, name: str, successes: int, n: int) -> None:
    """Wilson's and Clopper and Pearson's intervals are statsmodels'."""
    result = proportion_interval(successes, n, method=method)  # type: ignore[arg-type]
    assert bounds(result) == pytest.approx(proportion_confint(successes, n, method=name), abs=1e-10)


def test_degenerate_proportions() -> None:
    """A rate of no trials is undefined; impossible counts are refused."""
    assert proportion_interval(0, 0) == Figure(None, None, 0)
    with pytest.raises(ValueError, match="5 of 4"):
        proportion_interval(5, 4)


def test_estimates_read_well() -> None:
    """An estimate prints its value, interval, and what it rests on."""
    interval = Interval(0.25, 0.75, 0.95, "t")
    assert str(Figure(0.5, interval, 12)) == "0.5 [0.25, 0.75] (n=12)"
    assert str(Figure(0.5, interval, 12, 3)) == "0.5 [0.25, 0.75] (n=12 in 3 traces)"
    assert str(Figure(None, None, 0)) == "undefined (n=0)"
    assert 0.25 in interval
    assert 0.8 not in interval


def test_bca_of_a_biased_figure_equals_scipy() -> None:
    """BCa corrects the bias of a figure whose replicates lie too low, the variance, as scipy's does."""
    x = np.random.default_rng(12).normal(size=15)
    theirs = scipy.stats.bootstrap(
        (x,), np.var, n_resamples=20_000, random_state=np.random.default_rng(13)
    ).confidence_interval
    parts = np.column_stack([x**2, x, np.ones(15)])
    draws = Resampler(parts, replicates=20_000, seed=14)
    ours = draws.estimate(lambda s: s[:, 0] / s[:, 2] - (s[:, 1] / s[:, 2]) ** 2)
    assert bounds(ours) == pytest.approx((theirs.low, theirs.high), abs=0.05 * (theirs.high - theirs.low))
