from __future__ import annotations

import numpy as np
import pytest

from judge_eval.errors import MetricError
from judge_eval.metrics import GradeTable, parse_metric


def test_soft_precision_is_the_mean_probability() -> None:
    """Probabilities are averaged to the cutoff; where none is known the verdict counts as 1 or 0."""
    table = GradeTable.from_rows(
        [[1, 0, 1], [], [0]], probable=[[0.9, None, 0.5], [], [0.25]], expected=[[0.9, None, 0.5], [], [0.25]]
    )
    assert parse_metric("SoftP@2").compute(table).tolist() == pytest.approx([0.45, 0, 0.25])
    assert parse_metric("SoftP(norm=k)@2").compute(table).tolist() == pytest.approx([0.45, 0, 0.125])
    assert parse_metric("SoftP").compute(table)[0] == pytest.approx(1.4 / 3)


def test_without_probabilities_the_soft_metrics_are_the_hard_ones() -> None:
    """Every soft metric falls back to its hard twin, row by row."""
    rng = np.random.default_rng(3)
    rows = [rng.integers(0, 4, size=int(n)).tolist() for n in rng.integers(0, 9, size=50)]
    table = GradeTable.from_rows(rows, relevant=2, maximum=3)
    for soft, hard in (("SoftP@5", "P@5"), ("EDCG@5", "DCG@5"), ("EDCG", "DCG")):
        assert parse_metric(soft).compute(table) == pytest.approx(parse_metric(hard).compute(table))


def test_expected_dcg_is_the_mean_of_dcg_over_the_distribution() -> None:
    """With independent grades drawn from the distribution, the mean DCG is the expected DCG."""
    rng = np.random.default_rng(7)
    shares = rng.dirichlet(np.ones(4), size=5)
    table = GradeTable.from_rows([[0] * 5], maximum=3, expected=[(shares @ np.arange(4)).tolist()])
    draws = np.stack([rng.choice(4, size=40_000, p=row) for row in shares], axis=1)
    drawn = (draws / np.log2(np.arange(2, 7))).sum(axis=1)
    error = drawn.std() / np.sqrt(len(drawn))
    assert parse_metric("EDCG@5").compute(table)[0] == pytest.approx(drawn.mean(), abs=5 * error)


def test_failed_verdicts_leave_no_value_and_have_bounds() -> None:
    """A failed verdict is neither a probability nor a 0; bounds fill it both ways."""
    table = GradeTable.from_rows([[1, None]], maximum=1, probable=[[0.5, None]])
    metric = parse_metric("SoftP@2")
    assert np.isnan(metric.compute(table)[0])
    low, high = metric.compute(table, missing="bounds")
    assert (low[0], high[0]) == (0.25, 0.75)


def test_probabilities_must_fit_the_grades() -> None:
    """One number a grade, or an error."""
    with pytest.raises(MetricError, match="probable"):
        GradeTable.from_rows([[1, 0]], probable=[[0.5]])
