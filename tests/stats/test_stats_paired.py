import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from judge_eval.stats import compare_paired, holm, mean_interval, minimal_detectable_difference
from judge_eval.stats.paired import exact_sign_flip, score_bounds

pytestmark = pytest.mark.foreign


def scores(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Per-trace values of a baseline and of a slightly better candidate."""
    rng = np.random.default_rng(seed)
    a = rng.beta(2, 3, n)
    return a, np.clip(a + rng.normal(0.04, 0.1, n), 0, 1)


def test_paired_t_equals_scipy() -> None:
    """Difference, p and interval are those of scipy's paired t test; the effect is mean over deviation."""
    a, b = scores(40, 1)
    result, oracle = compare_paired(a, b), scipy.stats.ttest_rel(b, a)
    interval = oracle.confidence_interval(0.95)
    assert result.interval is not None
    assert result.p == pytest.approx(oracle.pvalue, rel=1e-10)
    assert (result.interval.low, result.interval.high) == pytest.approx((interval.low, interval.high), abs=1e-12)
    assert result.difference == pytest.approx((b - a).mean(), abs=1e-15)
    assert result.dz == pytest.approx((b - a).mean() / (b - a).std(ddof=1), abs=1e-12)
    assert (result.wins, result.ties, result.losses) == ((b > a).sum(), (b == a).sum(), (b < a).sum())


@pytest.mark.parametrize(("lost", "won", "tied"), [(0, 5, 0), (15, 0, 0), (3, 9, 2), (0, 0, 8), (1, 25, 3), (7, 7, 4)])
def test_p_of_few_hits_is_that_of_the_exact_mcnemar_test(lost: int, won: int, tied: int) -> None:
    """Gaffke's bound of differences of -1, 0 and 1 is the exact binomial test of those that differ."""
    before = np.array([1.0] * lost + [0.0] * won + [1.0] * tied)
    after = np.array([0.0] * lost + [1.0] * won + [1.0] * tied)
    expected = scipy.stats.binomtest(won, won + lost).pvalue if won + lost else 1.0
    result = compare_paired(before, after, limits=(0.0, 1.0))
    assert result.p == pytest.approx(expected, rel=1e-4)
    assert result.interval is not None
    assert result.interval.method == "gaffke"


def test_p_of_many_hits_is_that_of_mcnemars_test() -> None:
    """From 30 traces on p is that of McNemar's chi-squared statistic, which Tango's interval inverts."""
    before, after = np.array([1.0] * 9 + [0.0] * 2 + [1.0] * 40), np.array([0.0] * 9 + [1.0] * 2 + [1.0] * 40)
    assert compare_paired(before, after, limits=(0.0, 1.0)).p == pytest.approx(scipy.stats.chi2.sf(49 / 11, 1))


@settings(deadline=None)
@given(
    st.lists(st.tuples(*[st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0])] * 2), min_size=2, max_size=70),
    st.booleans(), st.booleans(), st.integers(1, 5),
)  # fmt: skip
def test_p_is_small_where_the_interval_leaves_0_out_and_only_there(
    values: list[tuple[float, float]], limited: bool, open_: bool, size: int
) -> None:
    """At any level: p is below 1 - level if and only if the interval at that level does not hold 0."""
    a, b = np.array(values).T
    ends = ((a, a), (b, np.where(np.arange(b.size) < 2, 1.0, b))) if open_ else None
    clusters = None if size == 1 else (np.arange(a.size) // size).tolist()
    for level in (0.5, 0.9, 0.95, 0.99):
        found = compare_paired(
            a, b, ends=ends, clusters=clusters, limits=(0.0, 1.0) if limited else None, level=level, planning=False
        )
        if found.interval is None:
            assert found.p == 1
        elif abs(found.p - (1 - level)) > 1e-6:
            assert (found.p < 1 - level) == (0 not in found.interval)


def test_without_an_interval_nothing_is_shown() -> None:
    """Open values whose greatest differences do not vary allow no interval, so p is 1."""
    a, b = np.array([0.0, 0.0]), np.array([0.0, 0.25])
    found = compare_paired(a, b, ends=((a, a), (b, np.ones(2))))
    assert found.n_open == 2
    assert found.interval is None
    assert found.p == 1


def test_skewed_differences_have_one_verdict() -> None:
    """Ten gains of .05 where losses of 1 are possible: the interval holds 0, so p does not say that they differ."""
    found = compare_paired([0.5] * 10, [0.55] * 10, limits=(0.0, 1.0))
    assert found.interval is not None
    assert 0 in found.interval
    assert found.p > 0.05
    rng, small = np.random.default_rng(1), 0
    for _ in range(200):
        d = np.where(rng.random(10) < 0.1, -0.45, 0.05)
        small += compare_paired(0.5 - d / 2, 0.5 + d / 2, limits=(0.0, 1.0), planning=False).p <= 0.05
    assert small / 200 <= 0.05


@pytest.mark.parametrize("seed", range(5))
def test_the_exact_test_of_whole_numbers_enumerates_all_signs(seed: int) -> None:
    """The p by characteristic functions is that of going through every assignment; of many it has no overflow."""
    rng = np.random.default_rng(seed)
    d = rng.integers(-4, 5, 12)
    sums = np.abs([np.dot(each, d) for each in itertools.product((1, -1), repeat=12)])
    assert exact_sign_flip(d) == pytest.approx((sums >= abs(d.sum())).mean(), abs=1e-12)
    signs = rng.choice((-1, 1), 5_000)
    mcnemar = scipy.stats.binomtest(int((signs > 0).sum()), 5_000).pvalue
    assert exact_sign_flip(signs) == pytest.approx(mcnemar, abs=1e-12)
    assert 0 < exact_sign_flip(np.ones(5_000)) < 1e-12
    assert exact_sign_flip([]) == exact_sign_flip([0, 0]) == 1
    with pytest.raises(ValueError, match="whole number"):
        exact_sign_flip([0.5])


def test_clusters_are_the_units() -> None:
    """Traces of one cluster count as one, in the interval and its p."""
    rng = np.random.default_rng(4)
    d = np.repeat(rng.normal(0.2, 1, 8), 5)
    ids = np.repeat(np.arange(8), 5).tolist()
    result = compare_paired(np.zeros(40), d, clusters=ids)
    assert result.interval == mean_interval(d, clusters=ids).interval
    alone = compare_paired(np.zeros(8), d[::5])
    assert result.p == pytest.approx(alone.p, rel=1e-9)
    assert result.clusters == 8


def test_identical_runs_show_no_difference() -> None:
    """A run against itself: difference 0, p 1, all ties, no effect, and an interval that has width still."""
    a, _ = scores(30, 5)
    result = compare_paired(a, a, limits=(0.0, 1.0))
    assert (result.difference, result.p) == (0, 1)
    assert (result.wins, result.ties, result.losses) == (0, 30, 0)
    assert result.dz is None
    assert result.detectable is None
    assert result.interval is not None
    assert result.interval.method == "gaffke"
    # No difference in 30: Clopper and Pearson's bound.
    assert result.interval.low == pytest.approx(0.025 ** (1 / 30) - 1, abs=1e-6)
    assert result.interval.high == pytest.approx(-result.interval.low)
    assert compare_paired(a, a).interval is None


def test_rounding_is_no_win() -> None:
    """Equal scores that differ in their last bit are ties."""
    result = compare_paired([0.3, 0.5], [0.1 + 0.2, 0.5])
    assert (result.wins, result.ties) == (0, 2)
    assert result.p == 1


def test_a_constant_shift_without_limits_has_no_test() -> None:
    """The same difference on every trace has no variation to test against: no interval, and p is 1."""
    a = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    for result in (compare_paired(a, a + 0.1), compare_paired(a + 100, a + 100.1)):
        assert (result.interval, result.dz, result.p) == (None, None, 1)


def test_one_trace_and_none() -> None:
    """One trace gives a difference without interval; none is refused, as is a missing value."""
    result = compare_paired([0.2], [0.5])
    assert result.difference == pytest.approx(0.3)
    assert (result.interval, result.p) == (None, 1)
    with pytest.raises(ValueError, match="nothing to compare"):
        compare_paired([], [])
    with pytest.raises(ValueError, match="must be paired"):
        compare_paired([0.1], [0.1, 0.2])
    with pytest.raises(ValueError, match=r"candidate\[0\] is missing"):
        compare_paired([0.1], [float("nan")])


def test_detectable_difference_equals_statsmodels() -> None:
    """Of plain differences the smallest that can be shown is nearly that of the paired t test."""
    rng = np.random.default_rng(6)
    a, b = scores(60, 6)
    spread = (b - a).std(ddof=1)
    solved = TTestPower().solve_power(nobs=60, alpha=0.05, power=0.8) * spread
    assert compare_paired(a, b).detectable == pytest.approx(solved, rel=0.1)
    result = minimal_detectable_difference(0.02, 49, power=0.9, alpha=0.01)
    p = scipy.stats.ttest_1samp(rng.normal(result / 0.02, np.sqrt(50), (20_000, 50)), 0, axis=1).pvalue
    assert (p <= 0.01).mean() == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize(("n", "comparisons"), [(9, 1), (12, 3), (30, 5), (60, 5)])
def test_a_detectable_difference_is_detected(n: int, comparisons: int) -> None:
    """Samples of the same differences, shifted by the figure, show it in nearly 80 of 100 cases or more."""
    rng = np.random.default_rng(n)
    d = rng.normal(0, 0.1, n) * (rng.random(n) < 0.8)
    least = compare_paired(0.5 - d / 2, 0.5 + d / 2, limits=(0.0, 1.0), comparisons=comparisons).detectable
    assert least is not None
    shown = 0
    for _ in range(60):
        again = rng.choice(d - d.mean(), n) + least
        result = compare_paired(0.5 - again / 2, 0.5 + again / 2, limits=(0.0, 1.0))
        assert result.interval is not None
        shown += result.p * comparisons <= 0.05 and 0 not in result.interval
    assert shown / 60 >= 0.65


def test_no_difference_is_promised_that_cannot_be() -> None:
    """Nothing is detectable where no p can be small enough, nor beyond the width of the limits."""
    few = compare_paired([1.0, 1.0], [1.0, 0.0], limits=(0.0, 1.0))
    assert few.standard_error == pytest.approx(0.5)
    assert few.detectable is None
    d = np.array([0.02, 0.01, -0.01, 0.03, 0.02, 0.01, 0.02, 0.03])
    zero = np.zeros(8)
    assert compare_paired(zero[:5], d[:5], limits=(0.0, 1.0)).detectable is None  # the least p of 5 is .0625
    assert compare_paired(zero, d, limits=(0.0, 1.0)).detectable is not None
    assert compare_paired(zero, d, limits=(0.0, 1.0), comparisons=7).detectable is None  # 7 times .0078
    wild = np.array([1.0, -1.0, 0.9, -0.9, 1.0, -1.0])
    assert compare_paired(zero[:6], wild).detectable is not None
    assert compare_paired(0.5 - wild / 2, 0.5 + wild / 2, limits=(0.0, 1.0)).detectable is None


def test_detectable_difference_checks_its_arguments() -> None:
    """A power below the level, or a negative standard error, is refused."""
    with pytest.raises(ValueError, match="power"):
        minimal_detectable_difference(0.1, 10, power=0.01)
    with pytest.raises(ValueError, match="standard_error"):
        minimal_detectable_difference(-0.1, 10)


def test_students_interval_is_used_where_it_holds() -> None:
    """Few, tied or skewed differences of limited values get Gaffke's interval, within their range."""
    rng = np.random.default_rng(11)

    def method(d: np.ndarray) -> str:
        interval = compare_paired(0.5 - d / 2, 0.5 + d / 2, limits=(0.0, 1.0)).interval
        assert interval is not None
        assert -1 <= interval.low <= d.mean() <= interval.high <= 1
        return interval.method

    plain = rng.normal(0.02, 0.1, 50)
    assert method(plain) == "t"
    assert method(plain[:49]) == "gaffke"
    assert method(np.where(np.arange(50) < 19, plain, 0.0)) == "gaffke"
    assert method(np.where(np.arange(50) < 5, -0.8, plain)) == "gaffke"
    assert method(np.array([0.9, -0.5])) == "gaffke"
    ids = np.repeat(np.arange(50), 2).tolist()
    twice = np.repeat(plain, 2)
    result = compare_paired(0.5 - twice / 2, 0.5 + twice / 2, clusters=ids, limits=(0.0, 1.0)).interval
    assert result is not None
    assert result.method == "CR1 t"


def test_lower_bound_equals_a_one_sided_test() -> None:
    """The lower bound, by which non-inferiority is shown, is that of scipy's one-sided paired t test."""
    a, b = scores(30, 7)
    for level in (0.9, 0.95, 0.99):
        oracle = scipy.stats.ttest_rel(b - 0.05, a, alternative="greater").confidence_interval(level)
        assert compare_paired(a, b - 0.05, level=level).lower == pytest.approx(oracle.low, abs=1e-12)


def test_degenerate_lower_bounds() -> None:
    """No bound without width: equal losses bound nothing but by the limits; one trace has no bound."""
    assert compare_paired([0.5, 0.5], [0.25, 0.25]).lower is None
    held = compare_paired([0.5] * 100, [0.5] * 100, limits=(0.0, 1.0))
    # No loss in 100: Clopper and Pearson's "rule of three".
    assert held.lower == pytest.approx(-(1 - 0.05 ** (1 / 100)), abs=1e-6)
    assert held.upper == pytest.approx(1 - 0.05 ** (1 / 100), abs=1e-6)
    assert compare_paired([0.1], [0.1], limits=(0.0, 1.0)).lower is None


@pytest.mark.parametrize(("losses", "wins", "n"), [(1, 4, 12), (0, 3, 10), (2, 14, 44), (30, 5, 100)])
def test_score_interval_of_paired_rates(losses: int, wins: int, n: int) -> None:
    """Tango's interval ends where his statistic, its other rate found on a grid, is the normal's point."""
    for end in score_bounds(losses, wins, n):
        shift = np.linspace(1e-6, 1, 400_001)
        fewer, more = shift + max(0.0, -end), shift + max(0.0, end)
        inside = fewer + more < 1
        fewer, more = fewer[inside], more[inside]
        log = wins * np.log(more) + losses * np.log(fewer) + (n - wins - losses) * np.log1p(-fewer - more)
        best = int(log.argmax())
        variance = n * (fewer[best] + more[best] - end**2)
        z = (wins - losses - n * end) / np.sqrt(variance)
        assert abs(z) == pytest.approx(scipy.stats.norm.ppf(0.975), abs=2e-3)


def test_score_interval_where_no_pair_differs() -> None:
    """Without any discordant pair the interval is that of Wilson for none of n: z^2 / (n + z^2)."""
    z = scipy.stats.norm.ppf(0.975)
    assert score_bounds(0, 0, 10) == pytest.approx((-(z**2) / (10 + z**2), z**2 / (10 + z**2)), abs=1e-9)
    assert score_bounds(5, 0, 5)[0] == -1.0
    with pytest.raises(ValueError, match="losses=3 and wins=4"):
        score_bounds(3, 4, 6)


@pytest.mark.parametrize("n", [10, 20, 50])
def test_a_bound_of_rates_is_hardly_ever_wrong(n: int) -> None:
    """Over all outcomes, summed exactly: a loss that is just allowed is called smaller in at most 6%."""
    counts = [(lost, won) for lost in range(n + 1) for won in range(n + 1 - lost)]
    bounds = np.array([score_bounds(lost, won, n, level=0.9)[0] for lost, won in counts])
    outcomes = np.array([(lost, won, n - lost - won) for lost, won in counts])
    for margin in (0.02, 0.03, 0.05, 0.1):
        for won in (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4):
            rates = [won + margin, won, 1 - 2 * won - margin]
            chance = scipy.stats.multinomial.pmf(outcomes, n, rates)
            assert chance[bounds > -margin + 1e-9].sum() <= 0.06


@pytest.mark.parametrize("seed", range(4))
def test_holm_equals_statsmodels(seed: int) -> None:
    """Holm's adjusted p values are statsmodels', in the order given, ties included."""
    rng = np.random.default_rng(seed)
    p = np.round(rng.random(9) ** 3, 2)
    assert holm(p) == pytest.approx(tuple(multipletests(p, method="holm")[1]), abs=1e-15)
    assert holm([]) == ()
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        holm([0.2, 1.2])


def test_a_difference_of_two_traces_stays_in_the_range() -> None:
    """Student's interval of +1 and +2/3 is [-1.284, 2.951]; the one that is made lies between -1 and 1."""
    result = compare_paired([0.0, 0.1], [1.0, 0.1 + 2 / 3], limits=(0.0, 1.0)).interval
    assert result is not None
    assert (result.low, result.high) == pytest.approx((-0.711, 0.996), abs=1e-3)
