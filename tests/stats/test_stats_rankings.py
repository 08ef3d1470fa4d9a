import numpy as np
import pytest

from judge_eval.stats import kendall_tau_b, ranking_figures, rbo, spearman, tau_ap


def metric(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A metric of 8 systems on 40 traces, under a judge and under people."""
    rng = np.random.default_rng(seed)
    human = rng.beta(2, 2, (40, 8)) + np.linspace(0, 0.4, 8)
    return human + rng.normal(0.1, 0.2, human.shape), human


def test_figures_are_those_of_the_mean_scores() -> None:
    """Each figure is the correlation of the systems' means, with an interval that holds it."""
    judge, human = metric()
    result = ranking_figures(judge, human)
    a, b = judge.mean(axis=0), human.mean(axis=0)
    expected = {
        "tau_b": kendall_tau_b(a, b),
        "tau_ap": tau_ap(b, a),
        "spearman": spearman(a, b),
        "rbo": rbo(dict(enumerate(a)), dict(enumerate(b))),
    }
    assert result.keys() == expected.keys()
    for name, estimate in result.items():
        assert estimate.value == pytest.approx(expected[name], abs=1e-12)
        assert estimate.interval is None
        assert estimate.n == 40


def test_equal_rankings_and_none() -> None:
    """A judge that scores as people do ranks as they do; systems that are all alike have no ranking."""
    _, human = metric(2)
    for name, estimate in ranking_figures(human, human).items():
        assert estimate.value == pytest.approx(1, abs=1e-12), name
    alike = ranking_figures(np.ones((5, 3)), np.ones((5, 3)))
    assert (alike["tau_b"].value, alike["spearman"].value) == (None, None)
    assert ranking_figures(human[:, :1], human[:, :1])["tau_ap"].value is None
    assert ranking_figures(human[:1], human[:1])["tau_b"].interval is None


def test_tables_are_checked() -> None:
    """Tables of different shapes, with a missing value, or without a trace are refused."""
    with pytest.raises(ValueError, match="shape"):
        ranking_figures(np.ones((5, 3)), np.ones((5, 2)))
    with pytest.raises(ValueError, match="shape"):
        ranking_figures(np.ones((0, 3)), np.ones((0, 3)))
    with pytest.raises(ValueError, match="finite"):
        ranking_figures([[0.1, None]], [[0.1, 0.2]])
    with pytest.raises(ValueError, match="p: 1"):
        ranking_figures([[0.1, 0.3]], [[0.1, 0.2]], p=1.0)
