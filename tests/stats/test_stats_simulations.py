import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

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
    grades = simulations.np.array([[1, 0, 0, 1, 0], [0, 1, 0, 0, 0], [1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0] * 5])
    result = simulations.average_precision(grades.astype(bool))
    assert result == pytest.approx([0.75, 0.5, 0.8055555555555556, 1.0, 0.0], abs=1e-15)


@pytest.mark.slow
def test_type_one_error_of_the_comparison(simulations: ModuleType) -> None:
    """With 15 traces of 5 binary chunks t rejects a true null at .05 in 3% to 6% of runs, Gaffke in less."""
    for line in simulations.paired_null(1500):
        assert line.kept, str(line)


@pytest.mark.slow
def test_type_one_error_under_clusters(simulations: ModuleType) -> None:
    """With clustered traces a true null is rejected in 3% to 7%; ignoring them does far worse."""
    robust, naive = simulations.clustered_null(3000)
    assert 0.03 <= robust.rate <= 0.07, str(robust)
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
    plain, stratified, labels, judge_only = simulations.corrected_coverage(1500)
    for line in (plain, stratified, labels):
        assert 0.93 <= line.rate <= 0.97, str(line)
    assert judge_only.rate < 0.05, str(judge_only)


@pytest.mark.slow
def test_corrected_means_hold_for_few_labels(simulations: ModuleType) -> None:
    """Seeded and short: 20 labels near 1, a random choice and strata, are covered; Student's are not."""
    rates = {line.name: line.rate for line in simulations.few_labels(150, judges=(2,), labelled=(20,))}
    assert rates["coverage, PPI++, mean .97, 20 labels"] >= 0.95
    assert rates["coverage, PPI++, mean .97, 20 labels in strata"] >= 0.95
    assert rates["  Student's: PPI++, mean .97, 20 labels"] < 0.90


@pytest.mark.slow
def test_intervals_of_few_bounded_values(simulations: ModuleType) -> None:
    """Few and lopsided values: the intervals cover what is asked, and are hardly wider than t."""
    lines = simulations.small_samples(200)
    assert len(lines) == 50
    for line in lines:
        slack = 2 * (0.05 * 0.95 / 200) ** 0.5 if "coverage" in line.name else 0.0
        assert line.low is None or line.low - slack <= line.rate <= line.high, str(line)


@pytest.mark.slow
def test_gates_are_hardly_ever_wrong(simulations: ModuleType) -> None:
    """Where the drop is just the limit, no gate says more often than in 6 of 100 that it is less, or more."""
    lines = simulations.gate_errors(100)
    assert len(lines) == 120
    assert max(line.rate for line in lines) > 0.01
    for line in lines:
        assert line.rate <= 0.06 + 3 * (0.06 * 0.94 / 100) ** 0.5, str(line)


@pytest.mark.slow
def test_gates_pass_unchanged_runs_and_few_losses_at_the_limit(simulations: ModuleType) -> None:
    """Seeded and short: 50 unchanged traces pass more often than by Gaffke's bound, not rare great losses."""
    rates = {line.name: line.rate for line in simulations.gate_power(60, traces=(50,))}
    assert rates["power, now, baseline .75, n=50"] > 0.8 > 0.4 > rates["power, Gaffke's bound, n=50"]
    for line in simulations.gate_errors(60, populations=(5, 6), traces=(50, 100)):
        assert line.rate <= 0.06 + 3 * (0.06 * 0.94 / 60) ** 0.5, str(line)


@pytest.mark.slow
def test_planned_traces_decide(simulations: ModuleType) -> None:
    """Seeded and short: a sample as large as an undecided gate asks for decides as it says."""
    lines = simulations.gate_planning(40, populations=(0, 3, 5), pilots=(20,))
    for name in ("planned traces decide", "planned traces decide as said"):
        rates = [line.rate for line in lines if simulations.figure(line) == name]
        assert len(rates) >= 3
        assert sum(rates) / len(rates) >= 0.75, [str(line) for line in lines]
    text = "\n".join(simulations.summary(lines))
    assert f"least {min(rates):.4f}" in text
    assert f"of {len(rates)} cells" in text


@pytest.mark.slow
def test_intervals_of_agreement_for_few_traces(simulations: ModuleType) -> None:
    """Twenty traces of a judge that is right in 99 of 100: every interval has width and covers."""
    *lines, narrow = simulations.agreement_coverage(40, traces=(20,), judges=((0.99, 0.99),))
    assert len(lines) == 18
    check_agreement(lines, narrow)


@pytest.mark.slow
def test_intervals_of_shares_cover(simulations: ModuleType) -> None:
    """Precision and its like, seeded and short: no cell of a judge with many false alarms is far below the bar."""
    lines = simulations.share_coverage(60, judges=((0.9, 0.6),), sizes=(1,))
    assert len(lines) == 12
    for line in lines:
        assert line.rate >= 0.93 - 3 * (0.05 * 0.95 / line.simulations) ** 0.5, str(line)


@pytest.mark.slow
def test_intervals_of_agreement_of_good_and_middling_judges(simulations: ModuleType) -> None:
    """The same for four judges and 20 and 100 traces."""
    *lines, narrow = simulations.agreement_coverage(50, traces=(20, 100))
    assert len(lines) == 144
    check_agreement(lines, narrow)


def check_agreement(lines: list[Any], narrow: Any) -> None:
    """Check the coverage, but for the chance of this many draws, and that no interval lacks width."""
    assert narrow.rate == 0
    for line in lines:
        slack = 3 * (0.05 * 0.95 / line.simulations) ** 0.5
        assert line.rate >= line.low - slack, str(line)


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 50])
def test_intervals_of_differences_hold_for_skewed_ones(simulations: ModuleType, n: int) -> None:
    """Eight populations, most of them skewed: the interval of a difference covers, within the range."""
    *lines, outside = simulations.difference_coverage(60, traces=(n,))
    assert len(lines) == 16 + (n == 50)
    assert outside.rate == 0
    for line in lines:
        slack = 3 * (0.05 * 0.95 / 60) ** 0.5 if "coverage" in line.name else 0.0
        assert line.low is None or line.low - slack <= line.rate <= line.high, str(line)


@pytest.mark.slow
def test_told_differences_can_be_shown(simulations: ModuleType) -> None:
    """Seeded and short: new traces whose true difference is the told one show it; none is told in vain."""
    lines = simulations.detectable(25, populations=(3,), traces=(50,), metrics=(1, 5))
    assert len(lines) == 2
    assert sum(line.rate for line in lines) / 2 >= 0.65, [str(line) for line in lines]
    assert all(line.kept for line in simulations.unreachable(16))


def test_rates_of_few_trials_are_covered(simulations: ModuleType) -> None:
    """Exactly: Blaker's interval holds a rate of .97 over five trials, and every other rate; Wilson's does not."""
    wilson, blaker, least, _ = simulations.few_hits(5, 6, rates=9)
    assert blaker.kept
    assert least.kept
    assert blaker.rate >= least.rate > 0.87 > wilson.rate


def test_p_belongs_to_the_interval_of_skewed_differences(simulations: ModuleType) -> None:
    """Under the null of ten skewed differences p is seldom at most .05, and it never contradicts the interval."""
    small, unlike = simulations.skewed_null(100, traces=(10,))
    assert small.kept
    assert unlike.kept


def test_parts_are_read_again(simulations: ModuleType, tmp_path: Path) -> None:
    """A part that was run before by the same code is read from its file, with the same lines."""
    cell = simulations.partial(simulations.unreachable, 8)
    first = simulations.cached(cell, tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text().replace("7", "9"))
    again = simulations.cached(cell, tmp_path)
    assert [line.name for line in again] != [line.name for line in first]
    assert [line.name.replace("9", "7") for line in again] == [line.name for line in first]


@pytest.mark.slow
def test_failed_verdicts_do_not_select_means(simulations: ModuleType) -> None:
    """Seeded and short: every mean is within its bounds, no bias of HitRate, and coverage is kept."""
    lines = {line.name: line for line in simulations.failed_means(12, sizes=(60,), shares=(0.15,))}
    assert all(line.kept for name, line in lines.items() if name.startswith("mean within")), lines
    name = "HitRate@5, 15% failed, 1 : 1, n=60"
    assert abs(lines[f"bias, {name}"].rate) < 0.03 < lines[f"  settled traces: bias, {name}"].rate
    covered = [line.rate for name, line in lines.items() if name.startswith("coverage")]
    assert sum(covered) / len(covered) >= 0.95
    assert lines["  settled traces: P@5, 15% failed, 10 : 1, n=60"].rate < 0.7


def test_failed_verdicts_do_not_help_a_gate(simulations: ModuleType) -> None:
    """Seeded and short: a drop above the limit hardly ever passes while a tenth of the verdicts fail."""
    rates = {line.name.split(":")[0]: line.rate for line in simulations.failed_gates(12, traces=200)}
    assert rates["gate passed, all traces"] == 0


@pytest.mark.slow
def test_means_and_gates_with_failed_verdicts(simulations: ModuleType) -> None:
    """In every cell the interval covers in 93%, and the bias is small where failures are random."""
    means = simulations.failed_means(200, sizes=(100,), shares=(0.05, 0.15), ratios=(1, 10))
    for line in [*means, *simulations.failed_gates(200)]:
        assert line.kept, str(line)
