"""Means over traces with failed verdicts: the interval of Imbens and Manski, and Fisher's test."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.stats import imbens_manski, mean_interval
from judge_eval.stats.distributions import fisher_greater, normal_cdf
from judge_eval.stats.intervals import manski_quantile
from tests.support.examples import examples

LIMITS = (0.0, 1.0)


@pytest.mark.parametrize("method", ["auto", "t", "bca"])
def test_without_a_failure_it_is_the_plain_interval(method: str) -> None:
    """Equal bounds: the same ends, the same name."""
    x = np.random.default_rng(1).random(30)
    assert imbens_manski(x, x, x, limits=LIMITS, method=method) == mean_interval(x, limits=LIMITS, method=method)


def test_the_quantile_is_between_one_and_two_sided() -> None:
    """Without a gap 1.96, with a wide one 1.645; it solves Imbens and Manski's equation between them."""
    assert manski_quantile(0.0, 1.0, 0.95) == pytest.approx(1.959964, abs=1e-6)
    assert manski_quantile(100.0, 1.0, 0.95) == pytest.approx(1.644854, abs=1e-6)
    c = manski_quantile(0.5, 1.0, 0.95)
    assert normal_cdf(c + 0.5) - normal_cdf(-c) == pytest.approx(0.95, abs=1e-9)


@examples(50)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 40), groups=st.integers(0, 8))
def test_a_mean_is_within_its_bounds_and_these_within_its_interval(seed: int, n: int, groups: int) -> None:
    """For traces alone and in clusters, however many are open."""
    rng = np.random.default_rng(seed)
    x = rng.random(n).round(1)
    low = np.where(rng.random(n) < 0.3, 0.0, x)
    high = np.where(rng.random(n) < 0.3, 1.0, x)
    clusters = rng.integers(0, groups, n).tolist() if groups > 1 else None
    result = imbens_manski(low, high, x, clusters=clusters, limits=LIMITS)
    assert result.value is not None
    assert low.mean() - 1e-12 <= result.value <= high.mean() + 1e-12
    if result.interval is not None:
        assert 0 <= result.interval.low <= low.mean() + 1e-12
        assert high.mean() - 1e-12 <= result.interval.high <= 1


def test_clusters_widen_it() -> None:
    """Forty traces of eight documents that are all alike: as wide as eight traces."""
    documents = np.random.default_rng(3).random(8)
    low, high = np.repeat(documents * 0.9, 5), np.repeat(documents, 5)
    ids = np.repeat(np.arange(8), 5).tolist()
    wide = imbens_manski(low, high, high, clusters=ids, limits=LIMITS).interval
    alone = imbens_manski(low, high, high, limits=LIMITS).interval
    assert wide is not None
    assert alone is not None
    assert wide.high - wide.low > 1.5 * (alone.high - alone.low)
    assert wide.method == "Imbens-Manski clustered gaffke"


@pytest.mark.foreign
@examples(80)
@given(data=st.data())
def test_fisher_equals_scipy(data: st.DataObject) -> None:
    """The one-sided p of Fisher's exact test, to 1e-9."""
    from scipy.stats import fisher_exact

    a, b, c, d = (data.draw(st.integers(0, 60)) for _ in range(4))
    expected = fisher_exact([[a, b], [c, d]], alternative="greater")[1]
    assert fisher_greater(a, a + b, a + c, a + b + c + d) == pytest.approx(expected, abs=1e-9)


def test_fisher_refuses_counts_that_do_not_fit() -> None:
    """More failures in a group than traces, or than there are in all."""
    for counts in ((3, 2, 3, 9), (2, 3, 1, 9), (0, 9, 9, 9)):
        with pytest.raises(ValueError, match="not counts of a part and all"):
            fisher_greater(*counts)
