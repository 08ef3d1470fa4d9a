import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "stats_calibration.py"


@pytest.fixture(scope="module")
def simulations() -> ModuleType:
    """The benchmark, loaded from its file so that it is found whatever the working folder."""
    spec = importlib.util.spec_from_file_location("stats_calibration", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_simulated_truth_is_the_mean_of_the_draws(simulations: ModuleType) -> None:
    """The exact mean AP that coverage is measured against is the mean of a large draw."""
    rng = simulations.np.random.default_rng(0)
    drawn = simulations.average_precision(simulations.draw_relevance(rng, 200_000)[0])
    assert drawn.mean() == pytest.approx(simulations.true_mean(), abs=5 * drawn.std() / 200_000**0.5)


def test_simulated_ap_of_worked_examples(simulations: ModuleType) -> None:
    """The simulation's AP is the metric's: exactly 1 for a perfect list, 0 without a relevant chunk."""
    grades = simulations.np.array(
        [[1, 0, 0, 1, 0], [0, 1, 0, 0, 0], [1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0] * 5]
    )
    found = simulations.average_precision(grades.astype(bool))
    assert found == pytest.approx([0.75, 0.5, 0.8055555555555556, 1.0, 0.0], abs=1e-15)


@pytest.mark.slow
def test_type_one_error_of_the_comparison(simulations: ModuleType) -> None:
    """With 15 traces of 5 binary chunks a true null is rejected at .05 in 3% to 6% of runs."""
    for line in simulations.paired_null(3000):
        assert 0.03 <= line.rate <= 0.06, str(line)


@pytest.mark.slow
def test_type_one_error_under_clusters(simulations: ModuleType) -> None:
    """With clustered traces a true null is rejected in 3% to 7%; ignoring them does far worse."""
    robust, flips, naive = simulations.clustered_null(3000)
    assert 0.03 <= robust.rate <= 0.07, str(robust)
    assert 0.03 <= flips.rate <= 0.07, str(flips)
    assert naive.rate > 0.15, str(naive)


@pytest.mark.slow
@pytest.mark.parametrize("traces", [20, 50])
def test_coverage_of_the_mean(simulations: ModuleType, traces: int) -> None:
    """The 95% interval of mean AP covers the truth in 93% to 97% of runs."""
    (line,) = simulations.mean_coverage(3000, traces=traces)
    assert 0.93 <= line.rate <= 0.97, str(line)


@pytest.mark.slow
def test_coverage_of_the_corrected_mean(simulations: ModuleType) -> None:
    """With 50 labels the corrected interval covers in 93% to 97% of runs, the judge's own hardly ever."""
    plain, stratified, labels, judge_only = simulations.corrected_coverage(3000)
    for line in (plain, stratified, labels):
        assert 0.93 <= line.rate <= 0.97, str(line)
    assert judge_only.rate < 0.05, str(judge_only)


@pytest.mark.slow
def test_intervals_of_few_bounded_values(simulations: ModuleType) -> None:
    """Few and lopsided values: the intervals cover what is asked, and are hardly wider than t."""
    lines = simulations.small_samples(400)
    assert len(lines) == 26
    for line in lines:
        slack = 2 * (0.05 * 0.95 / 400) ** 0.5 if "coverage" in line.name else 0.0
        assert line.low is None or line.low - slack <= line.rate <= line.high, str(line)


@pytest.mark.slow
def test_gates_are_hardly_ever_wrong(simulations: ModuleType) -> None:
    """Where the drop is just the limit, no gate says more often than in 6 of 100 that it is less, or more."""
    lines = simulations.gate_errors(400)
    assert len(lines) == 40
    assert max(line.rate for line in lines) > 0.01
    for line in lines:
        assert line.rate <= 0.06 + 2 * (0.06 * 0.94 / 400) ** 0.5, str(line)
