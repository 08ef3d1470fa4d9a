from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from benchmarks import cascade, cascade_populations
from judge_eval.stats import errors_allowed


def slack(simulations: int, errors: float) -> float:
    """So many standard errors of a share of 5% that was simulated so often."""
    return float(errors * (0.05 * 0.95 / simulations) ** 0.5)


def chance_above(population: cascade_populations.Population, n: int, alpha: float = 0.05) -> float:
    """The exact chance that the fit's risk is above alpha, with the strong judge as target.

    The risk falls as the threshold rises; so it is the chance that the strictest threshold which is too
    loose has no more errors than allowed.
    """
    risks = population.risks()
    loose = np.flatnonzero(risks > alpha)
    return float(scipy.stats.binom.cdf(errors_allowed(n, alpha=alpha), n, risks[loose[-1]]))


def test_the_simulated_cheap_judge() -> None:
    """It errs in 12%, less where it is sure: (1 - s)^1.5 with s = 2c - 1 from Beta(5, 1), in two decimals."""
    population = cascade_populations.cheap_judge()
    assert population.weights.sum() == pytest.approx(1)
    assert population.risks()[0] == pytest.approx(0.12, abs=0.0005)
    assert (np.diff(population.cheap_wrong) <= 0).all()
    places, cheap, strong = population.draw(np.random.default_rng(0), 200_000)
    assert strong.sum() == 0
    for at in (0, 20, 40, 48):
        drawn = ((places >= at) * cheap).mean()
        assert drawn == pytest.approx(population.risks()[at], abs=5 * (0.12 / 200_000) ** 0.5)
        assert (places >= at).mean() == pytest.approx(population.kept()[at], abs=0.006)


def test_hard_traces_leave_the_risk_of_a_random_chunk_as_it_is() -> None:
    """Errors of one trace go together strongly, while one random chunk of each errs as before."""
    population = replace(cascade_populations.cheap_judge(), hard=0.2)
    places, cheap, _ = population.draw(np.random.default_rng(0), 100_000, 5)
    assert cheap[:, 0].mean() == pytest.approx(0.12, abs=0.006)
    assert ((places[:, 2] >= 30) * cheap[:, 2]).mean() == pytest.approx(population.risks()[30], abs=0.006)
    assert np.corrcoef(cheap[:, 0], cheap[:, 1])[0, 1] > 0.15


@pytest.mark.parametrize("n", cascade.SIZES)
def test_the_chance_of_a_risk_above_alpha_is_at_most_a_twentieth(n: int) -> None:
    """Exactly, without simulation: for judges of every rate of errors."""
    for errors in (0.02, 0.06, 0.12, 0.3, 0.5):
        population = cascade_populations.cheap_judge(errors)
        if population.risks().max() > 0.05:
            assert chance_above(population, n) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("simulate", [cascade.strong_target, cascade.hard_traces])
def test_few_draws_with_the_strong_judge_as_target(simulate: Callable[[int, int], cascade.Row]) -> None:
    """In 200 draws the risk is above alpha no more often than chance allows, and the kept share is right."""
    for n in cascade.SIZES:
        row = simulate(200, n)
        assert row.above <= 0.05 + slack(200, 3), str(row)
        assert abs(row.kept - cascade.EXPECTED_KEPT[n]) <= 0.05, str(row)


@pytest.mark.slow
@pytest.mark.parametrize("simulate", [cascade.people_target, cascade.hopeless])
def test_few_draws_with_people_as_target(simulate: Callable[[int, int], cascade.Row]) -> None:
    """In 200 draws the risk against labels is above alpha no more often than chance allows."""
    for n in cascade.SIZES:
        row = simulate(200, n)
        assert row.above <= 0.05 + slack(200, 3), str(row)


@pytest.mark.slow
@pytest.mark.parametrize("n", cascade.SIZES)
@pytest.mark.parametrize("simulate", [cascade.strong_target, cascade.hard_traces])
def test_the_risk_of_a_thousand_cascades(simulate: Callable[[int, int], cascade.Row], n: int) -> None:
    """In 1,000 draws the risk is above alpha as often as is computed exactly, at most in 5%; kept as stated.

    The cheap judge errs in 12%; with hard traces (a fifth, in which it errs four times as often as over all)
    as without, since one random chunk of each trace is drawn. A rate simulated 1,000 times may be off by
    three standard errors.
    """
    row = simulate(1000, n)
    exact = chance_above(cascade_populations.cheap_judge(), n)
    assert exact <= 0.05
    assert row.above == pytest.approx(exact, abs=3 * (exact * (1 - exact) / 1000) ** 0.5), str(row)
    assert row.above <= 0.05, str(row)
    assert abs(row.kept - cascade.EXPECTED_KEPT[n]) <= 0.05, str(row)
    assert row.inside is not None
    assert row.inside >= 0.95, str(row)


def test_clusters_are_hard_as_a_whole() -> None:
    """Errors of one cluster go together strongly; a random trace of a random cluster errs in 12%."""
    owners, (_, cheap, _) = cascade_populations.clusters_of(np.random.default_rng(0), 20_000)
    sizes = np.bincount(owners)
    by_cluster = np.bincount(owners, cheap[:, 0]) / sizes
    assert by_cluster.mean() == pytest.approx(0.12, abs=0.01)
    assert cheap.mean() > 0.16  # hard clusters are larger, so a random trace errs more often
    assert by_cluster[sizes > 8].std() > 0.15  # independent errors: below 0.12


@pytest.mark.slow
def test_one_trace_of_a_cluster_keeps_the_target() -> None:
    """In 200 draws the risk is above alpha no more often than chance allows, and the kept share is right."""
    for n in cascade.SIZES:
        row = cascade.one_a_cluster(200, n)
        assert row.above <= 0.05 + slack(200, 3), str(row)
        assert abs(row.kept - cascade.EXPECTED_KEPT[n]) <= 0.05, str(row)


@pytest.mark.slow
@pytest.mark.parametrize("n", cascade.SIZES)
def test_the_risk_with_clusters_is_that_of_independent_traces(n: int) -> None:
    """In 1,000 draws of one trace a cluster the risk is above alpha as often as is computed exactly."""
    row = cascade.one_a_cluster(1000, n)
    exact = chance_above(cascade_populations.cheap_judge(), n)
    assert exact <= 0.05
    assert row.above == pytest.approx(exact, abs=3 * (exact * (1 - exact) / 1000) ** 0.5), str(row)
    assert row.above <= 0.05, str(row)


@pytest.mark.slow
def test_several_traces_of_a_cluster_break_the_risk() -> None:
    """Ten traces of each cluster, taken for independent: the risk is above alpha far more often than 5%."""
    assert cascade.ten_a_cluster(1000, 100).above > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("n", cascade.SIZES)
@pytest.mark.parametrize("simulate", [cascade.people_target, cascade.hopeless])
def test_the_risk_of_a_thousand_cascades_against_people(simulate: Callable[[int, int], cascade.Row], n: int) -> None:
    """In 1,000 draws the risk against labels is above alpha in at most 5%, and both intervals cover.

    Also where both judges err in 10.1% whatever the confidence, with alpha .10: there every threshold is too
    loose, each has its own luck, and whoever took any that passes would be wrong far more often.
    """
    row = simulate(1000, n)
    assert row.above <= 0.05, str(row)
    assert row.inside is None or row.inside >= 0.95, str(row)
    assert row.compared is None or row.compared >= 0.95, str(row)


@pytest.mark.slow
def test_taking_any_threshold_that_passes_breaks_the_risk() -> None:
    """The same draws by the rule that a fixed sequence replaces: wrong in far more than 5%."""
    result = list(cascade.draws(cascade_populations.no_better(), 300, 1000, people=True, alpha=0.1, seed=4))
    any_passes = sum(any(point.errors <= (each.fit.allowed or 0) for point in each.fit.curve) for each in result)
    assert any_passes / 1000 > 0.1
    assert sum(each.violates for each in result) / 1000 <= 0.05
