import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.stats import kendall_tau_b, rbo, spearman, tau_ap
from tests.support.examples import examples

PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=30)


@pytest.mark.slow
@examples(300)
@given(PAIRS)
def test_correlations_equal_scipy(pairs: list[tuple[int, int]]) -> None:
    """Kendall's tau-b and Spearman's rho with ties are scipy's; without variation they are None."""
    a, b = zip(*pairs, strict=True)
    varied = len(set(a)) > 1 and len(set(b)) > 1
    tau = pytest.approx(scipy.stats.kendalltau(a, b).statistic, abs=1e-12) if varied else None
    rho = pytest.approx(scipy.stats.spearmanr(a, b).statistic, abs=1e-12) if varied else None
    assert kendall_tau_b(a, b) == tau
    assert spearman(a, b) == rho


@pytest.mark.slow
def test_long_rankings_are_counted_in_blocks() -> None:
    """Tau-b of thousands of systems, counted in several blocks, is scipy's."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 500, 3000), rng.integers(0, 500, 3000)
    assert kendall_tau_b(a, b) == pytest.approx(scipy.stats.kendalltau(a, b).statistic, abs=1e-12)


def test_too_few_systems() -> None:
    """One system, or none, cannot be ranked; a missing score is refused."""
    for correlation in (kendall_tau_b, spearman, tau_ap):
        assert correlation([], []) is None
        assert correlation([0.5], [0.7]) is None
        with pytest.raises(ValueError, match="missing"):
            correlation([0.5, float("nan")], [0.1, 0.2])


def tau_ap_by_definition(reference: list[float], order: list[int]) -> float:
    """The AP correlation of a strict order, literally as it is defined."""
    shares = [sum(reference[above] > reference[order[i]] for above in order[:i]) / i for i in range(1, len(order))]
    return 2 * sum(shares) / len(shares) - 1


def orders(scores: list[float]) -> list[list[int]]:
    """All strict orders that break the ties of the scores, best first."""
    n = len(scores)
    return [
        list(order)
        for order in itertools.permutations(range(n))
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order))
    ]


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=5))
def test_tau_ap_is_the_mean_over_broken_ties(pairs: list[tuple[int, int]]) -> None:
    """With ties on either side tau-ap is the mean over every way to break them, by its plain definition."""
    truth, scores = (list(map(float, side)) for side in zip(*pairs, strict=True))
    values = []
    for strict in orders(truth):
        ranked = [0.0] * len(truth)
        for place, item in enumerate(strict):
            ranked[item] = -float(place)
        values += [tau_ap_by_definition(ranked, order) for order in orders(scores)]
    assert tau_ap(truth, scores) == pytest.approx(np.mean(values), abs=1e-12)


def test_tau_ap_of_published_examples() -> None:
    """The examples of the ircor package (Urbano and Marrero 2017), without and with tied scores."""
    x = [0.06, 0.2, 0.27, 0.37, 0.57, 0.63, 0.66, 0.9, 0.91, 0.94]
    y = [0.37, 0.06, 0.2, 0.27, 0.57, 0.66, 0.63, 0.91, 0.9, 0.94]
    assert tau_ap(x, y) == pytest.approx(0.7491182, abs=5e-8)
    assert tau_ap(x, [round(each * 5) / 5 for each in y]) == pytest.approx(0.6074515, abs=5e-8)


def test_tau_ap_punishes_swaps_at_the_top_most() -> None:
    """Equal rankings are 1, reversed ones -1, and a swap at the top costs more than one at the bottom."""
    truth = [5.0, 4.0, 3.0, 2.0, 1.0]
    assert tau_ap(truth, truth) == 1
    assert tau_ap(truth, truth[::-1]) == -1
    top, bottom = tau_ap(truth, [4, 5, 3, 2, 1]), tau_ap(truth, [5, 4, 3, 1, 2])
    assert top is not None
    assert bottom is not None
    assert top < bottom < 1


def rbo_by_definition(a: list[str], b: list[str], p: float) -> float:
    """RBO_ext of two strict rankings, literally equation 32 of Webber, Moffat and Zobel."""
    short, long = sorted((a, b), key=len)
    s, ell = len(short), len(long)
    x = [0] + [len(set(short[:d]) & set(long[:d])) for d in range(1, ell + 1)]
    first = sum(x[d] / d * p**d for d in range(1, ell + 1))
    second = sum(x[s] * (d - s) / (s * d) * p**d for d in range(s + 1, ell + 1))
    return (1 - p) / p * (first + second) + ((x[ell] - x[s]) / ell + x[s] / s) * p**ell


@examples(200)
@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True),
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True),
    st.floats(0.05, 0.98),
)
def test_rbo_equals_its_definition(a: list[str], b: list[str], p: float) -> None:
    """RBO of rankings of any lengths and items follows its equation, is symmetric, and stays in [0, 1]."""
    result = rbo(a, b, p)
    assert result == pytest.approx(rbo_by_definition(a, b, p), abs=1e-12)
    assert result == pytest.approx(rbo(b, a, p), abs=1e-12)
    assert result is not None
    assert 0 <= result <= 1


@examples(40)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=5), st.lists(st.integers(0, 2), min_size=1, max_size=5))
def test_rbo_is_the_mean_over_broken_ties(a: list[int], b: list[int]) -> None:
    """With ties on either side RBO is the mean over every way to break them."""
    first, second = list(map(float, a)), list(map(float, b))
    values = [
        rbo_by_definition([f"i{k}" for k in item], [f"i{k + 1}" for k in other], 0.8)
        for item in orders(first)
        for other in orders(second)
    ]
    scored = ({f"i{k}": v for k, v in enumerate(first)}, {f"i{k + 1}": v for k, v in enumerate(second)})
    assert rbo(*scored, p=0.8) == pytest.approx(np.mean(values), abs=1e-12)


def test_rbo_of_a_published_example() -> None:
    """The tied, uneven example of Corsi and Urbano (2024), variant a."""
    x = {"red": 4, "blue": 3, "green": 3, "yellow": 2, "pink": 1}
    y = {"blue": 4, "red": 4, "white": 3, "yellow": 2, "black": 2, "purple": 2, "green": 1}
    assert rbo(x, y, p=0.95) == pytest.approx(0.6922853, abs=5e-8)


def test_rbo_at_its_ends() -> None:
    """Equal rankings are 1, disjoint ones 0, an empty one has none; doubled items, a wrong p are refused."""
    assert rbo("abcde", "abcde") == pytest.approx(1, abs=1e-12)
    assert rbo(["a", "b"], ["c", "d"]) == 0
    assert rbo([], ["a"]) is None
    with pytest.raises(ValueError, match="twice"):
        rbo(["a", "a"], ["a"])
    with pytest.raises(ValueError, match="p: 1"):
        rbo(["a"], ["a"], 1)
    with pytest.raises(ValueError, match="finite"):
        rbo({"a": float("nan")}, ["a"])
