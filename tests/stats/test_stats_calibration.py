import dataclasses

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from judge_eval.stats import calibrate_isotonic, calibrate_threshold, cohen_kappa
from judge_eval.stats.calibration import pool_adjacent_violators

pytestmark = pytest.mark.foreign


def graded(traces: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Grades 0-3 of a judge whose 1 already means relevant, human labels, and the trace of each chunk."""
    rng = np.random.default_rng(seed)
    labels = rng.random(traces * 5) < 0.4
    grades = np.where(labels, rng.choice(4, traces * 5, p=[0.05, 0.35, 0.3, 0.3]), rng.random(traces * 5) < 0.1)
    return grades.astype(float), labels.astype(float), np.repeat(np.arange(traces), 5).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_pooling_equals_scikit_learn(seed: int) -> None:
    """Pooling adjacent violators gives scikit-learn's isotonic regression, ties in the scores included."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 12, 60).astype(float), rng.random(60)
    knots, heights = pool_adjacent_violators(x, y)
    oracle = IsotonicRegression().fit(x, y).predict(knots)
    assert heights == pytest.approx(oracle, abs=1e-12)


def test_threshold_is_chosen_on_one_part_and_measured_on_the_other() -> None:
    """The threshold is the best of the fitted traces; every figure is that of the held-out traces alone."""
    grades, labels, traces = graded()
    result = calibrate_threshold(grades, labels, traces, held_out=0.4, seed=7)
    aside = np.zeros(60, dtype=bool)
    aside[np.random.default_rng(7).choice(60, size=24, replace=False)] = True
    held = aside[traces]
    kappas = {t: cohen_kappa(grades[~held] >= t, labels[~held]) or 0 for t in (0, 1, 2, 3)}
    assert result.threshold == max(kappas, key=kappas.__getitem__) == 1
    assert result.kappa.value == pytest.approx(cohen_kappa(grades[held] >= 1, labels[held]), abs=1e-12)
    assert result.accuracy.value == pytest.approx(((grades >= 1) == labels)[held].mean(), abs=1e-12)
    assert (result.fitted_traces, result.kappa.traces, result.kappa.n) == (36, 24, 120)
    assert result.kappa.interval is not None
    assert result.kappa.value in result.kappa.interval


def test_held_out_labels_do_not_move_the_choice() -> None:
    """Turning every held-out label around changes the figures and nothing else."""
    grades, labels, traces = graded()
    aside = np.zeros(60, dtype=bool)
    aside[np.random.default_rng(0).choice(60, size=30, replace=False)] = True
    turned = np.where(aside[traces], 1 - labels, labels)
    for objective in ("kappa", "f1", "youden"):
        first = calibrate_threshold(grades, labels, traces, objective=objective)
        second = calibrate_threshold(grades, turned, traces, objective=objective)
        assert first.threshold == second.threshold
        assert first.kappa.value is not None
        assert second.kappa.value is not None
        assert second.kappa.value < 0 < first.kappa.value
    mapped = [calibrate_isotonic(grades, each, traces) for each in (labels, turned)]
    assert mapped[0].relevance == mapped[1].relevance
    assert mapped[0].brier != mapped[1].brier


def test_no_figure_of_the_fitted_part_is_to_be_had() -> None:
    """The estimates of both results all rest on the held-out chunks, none on the fitted ones."""
    grades, labels, traces = graded()
    for match in (
        calibrate_threshold(grades, labels, traces, held_out=0.25),
        calibrate_isotonic(grades, labels, traces, held_out=0.25),
    ):
        figures = [getattr(match, field.name) for field in dataclasses.fields(match)]
        estimates = [each for each in figures if dataclasses.is_dataclass(each)]
        assert len(estimates) >= 2
        assert all((each.n, each.traces) == (75, 15) for each in estimates)


def test_isotonic_map() -> None:
    """The map rises, is a probability, beats a constant on held-out traces and is flat beyond its knots."""
    grades, labels, traces = graded(200, 1)
    result = calibrate_isotonic(grades, labels, traces)
    assert result.scores == (0, 1, 2, 3)
    assert all(0 <= a <= b <= 1 for a, b in zip(result.relevance, result.relevance[1:], strict=False))
    assert result.brier.value is not None
    assert result.brier_constant.value is not None
    assert result.brier.value < result.brier_constant.value / 2
    middle = (result.relevance[1] + result.relevance[2]) / 2
    assert result.apply([-1, 1.5, 9]) == pytest.approx([result.relevance[0], middle, result.relevance[-1]])


def test_a_trace_is_never_on_both_sides() -> None:
    """Chunks of one trace stand together: with one label kind per side of the split, fitting is refused."""
    traces = ["a"] * 5 + ["b"] * 5 + ["c"] * 5 + ["d"] * 5
    labels = [0.0] * 20
    labels[:5] = [1.0] * 5
    outcomes = set()
    for seed in range(12):
        try:
            outcomes.add(calibrate_threshold(list(range(20)), labels, traces, seed=seed).fitted_traces)
        except ValueError as error:
            outcomes.add(str(error).split(";")[0])
    assert outcomes == {2, "the traces to fit on hold only one kind of label"}


def test_calibration_checks_its_input() -> None:
    """Too few traces, grades for labels, a share outside (0, 1), an unknown objective are refused."""
    grades, labels, traces = graded(10)
    with pytest.raises(ValueError, match="cannot be split"):
        calibrate_threshold([1, 0, 1], [1, 0, 1], ["a", "b", "c"])
    with pytest.raises(ValueError, match="only 0 and 1"):
        calibrate_threshold(grades, grades, traces)
    with pytest.raises(ValueError, match="held_out"):
        calibrate_isotonic(grades, labels, traces, held_out=1.0)
    with pytest.raises(ValueError, match="objective"):
        calibrate_threshold(grades, labels, traces, objective="accuracy")  # type: ignore[arg-type]


def test_threshold_is_a_score_of_the_fitted_part() -> None:
    """Even the scores of held-out chunks have no say: the threshold is one that a fitted chunk has."""
    rng = np.random.default_rng(5)
    labels = rng.random(300) < 0.5
    scores = labels * 0.4 + rng.random(300)
    traces = np.repeat(np.arange(60), 5)
    for seed in range(10):
        aside = np.zeros(60, dtype=bool)
        aside[np.random.default_rng(seed).choice(60, size=30, replace=False)] = True
        result = calibrate_threshold(scores, labels, traces.tolist(), seed=seed)
        assert result.threshold in scores[~aside[traces]]
