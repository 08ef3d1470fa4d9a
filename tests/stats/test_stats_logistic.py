"""Logistic regression: scikit-learn's coefficients, and the jackknife by clusters by refitting."""

from __future__ import annotations

import numpy as np
import pytest

from judge_eval.stats.logistic import fit_logistic, leave_out


@pytest.mark.slow
def test_coefficients_are_those_of_scikit_learn() -> None:
    """With an L2 penalty of 1 on the slopes and none on the intercept."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 3))
    y = (rng.random(200) < 1 / (1 + np.exp(-(x @ [1.0, -2.0, 0.0] + 0.5)))).astype(float)
    design = np.column_stack([np.ones(200), x])
    ours = fit_logistic(design, y, penalty=np.array([1e-12, 1.0, 1.0, 1.0]))
    theirs = linear_model.LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(x, y)
    assert ours == pytest.approx([theirs.intercept_[0], *theirs.coef_[0]], abs=1e-5)


def test_one_step_without_a_cluster_is_close_to_a_fit_without_it() -> None:
    """Of ten clusters each, the spread of the steps is within 10% of that of ten fits."""
    rng = np.random.default_rng(4)
    x = np.column_stack([np.ones(300), rng.normal(size=300)])
    codes = np.arange(300) // 30
    y = (rng.random(300) < 1 / (1 + np.exp(-x @ [0.3, 1.0]))).astype(float)
    line = fit_logistic(x, y)
    steps = leave_out(x, y, line, codes)
    fits = np.array([fit_logistic(x[codes != k], y[codes != k]) for k in range(10)])
    assert steps.std(axis=0) == pytest.approx(fits.std(axis=0), rel=0.1)


def test_classes_that_are_apart_keep_finite_coefficients() -> None:
    """A penalty holds what the data alone would send to infinity."""
    x = np.column_stack([np.ones(20), np.repeat([-1.0, 1.0], 10)])
    line = fit_logistic(x, (x[:, 1] > 0).astype(float), penalty=1.0)
    assert np.isfinite(line).all()
    assert line[1] > 1
