"""Logistic regression with an L2 penalty, and its covariance by whole clusters."""

import numpy as np

from judge_eval.stats._arrays import Floats, Ints

_STEPS = 100


def sigmoid(z: Floats) -> Floats:
    """Return 1 / (1 + exp(-z)), without overflow."""
    share: Floats = (1 + np.tanh(z / 2)) / 2
    return share


def fit_logistic(design: Floats, target: Floats, *, penalty: Floats | float = 1e-12) -> Floats:
    """Return the coefficients that minimise the log loss plus half the penalty times their squares.

    Newton's method (iteratively reweighted least squares), with steps halved where the loss would rise. `design` are
    the features, shape (n, p), with a column of ones for an intercept; `target` is in [0, 1], shape (n,). Where classes
    can be told apart only a penalty keeps the coefficients, shape (p,), finite.
    """
    ridge = np.broadcast_to(np.asarray(penalty, dtype=np.float64), design.shape[1:])

    def loss(line: Floats) -> float:
        z = design @ line
        return float((np.logaddexp(0.0, z) - target * z).sum() + ridge @ line**2 / 2)

    line = np.zeros(design.shape[1])
    at = loss(line)
    for _ in range(_STEPS):
        fitted = sigmoid(design @ line)
        gradient = design.T @ (fitted - target) + ridge * line
        step = np.linalg.solve(_curvature(design, fitted, ridge), gradient)
        size, now = 1.0, loss(line - step)
        while now > at and size > 1e-9:
            size /= 2
            now = loss(line - size * step)
        if now > at:
            break
        line, gone, at = line - size * step, at - now, now
        if float(np.abs(size * step).max()) < 1e-12 or gone < 0:
            break
    return line


def leave_out(design: Floats, target: Floats, line: Floats, codes: Ints, penalty: Floats | float = 1e-12) -> Floats:
    """Return the coefficients without each cluster in turn, by one Newton step, shape (clusters, p).

    Their spread is the jackknife's variance by whole clusters (CR3), (G - 1) / G times the sum of squares
    about their mean. It is not too small where clusters are few. `line` are the coefficients of the fit, shape (p,),
    `codes` the cluster of each row, numbered from 0, shape (n,).
    """
    ridge = np.broadcast_to(np.asarray(penalty, dtype=np.float64), design.shape[1:])
    fitted = sigmoid(design @ line)
    groups, width = int(codes.max()) + 1, design.shape[1]
    score, curvature = np.zeros((groups, width)), np.zeros((groups, width, width))
    np.add.at(score, codes, design * (target - fitted)[:, None])
    np.add.at(curvature, codes, (fitted * (1 - fitted))[:, None, None] * design[:, :, None] * design[:, None, :])
    left = _curvature(design, fitted, ridge) - curvature + 1e-9 * np.eye(width)
    without: Floats = line - np.linalg.solve(left, score[:, :, None])[:, :, 0]
    return without


def _curvature(design: Floats, fitted: Floats, ridge: Floats) -> Floats:
    curvature: Floats = (design * (fitted * (1 - fitted))[:, None]).T @ design + np.diag(ridge)
    return curvature
