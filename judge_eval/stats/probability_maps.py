"""Maps from a judge's probabilities to how often people agree, fitted on labels, measured on other traces."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, Ints, group_codes
from judge_eval.stats.calibration import pool_adjacent_violators
from judge_eval.stats.estimate import Estimate
from judge_eval.stats.intervals import mean_interval
from judge_eval.stats.reliability import (
    ReliabilityFigures,
    checked_probabilities,
    clipped,
    losses,
    reliability_figures,
)

MapMethod: TypeAlias = Literal["isotonic", "logistic"]
METHODS: tuple[MapMethod, ...] = ("logistic", "isotonic")
"""Every way of fitting, the one with fewer parameters first: it is taken where both do equally well."""
FEWEST = 10
"""The fewest traces to fit on."""


@dataclass(frozen=True, slots=True)
class ProbabilityMap:
    """A map from probabilities to probabilities that never falls."""

    method: MapMethod
    knots: tuple[float, ...] = ()
    """Of an isotonic map: the probabilities where it is known, ascending."""
    heights: tuple[float, ...] = ()
    """Its values there, never falling; it is linear between them and constant beyond."""
    slope: float = 1.0
    """Of a logistic map, >= 0: sigmoid(slope * logit(p) + intercept), p held within .005 and .995."""
    intercept: float = 0.0

    def apply(self, probabilities: npt.ArrayLike) -> Floats:
        """Return the mapped probabilities, within .005 and .995.

        Args:
            probabilities: In [0, 1], of any shape.
        """
        p = np.asarray(probabilities, dtype=np.float64)
        if self.method == "isotonic":
            mapped = np.interp(p, self.knots, self.heights)
        else:
            mapped = _sigmoid(self.slope * _logit(p) + self.intercept)
        return clipped(mapped)


@dataclass(frozen=True, slots=True)
class ProbabilityCalibration:
    """A map fitted on all labelled traces; every figure is of maps fitted on other traces than it is of."""

    map: ProbabilityMap
    before: ReliabilityFigures
    """Of the probabilities as they are."""
    after: ReliabilityFigures
    """Of the mapped ones, each mapped by what was fitted, choice of method included, without its trace."""
    gain: Estimate
    """How much smaller the log loss is after than before."""
    log_losses: dict[MapMethod, float]
    """By method the log loss on held-out traces that the choice was made by."""
    folds: int


def calibrate_probabilities(
    probabilities: npt.ArrayLike,
    labels: npt.ArrayLike,
    traces: Iterable[Hashable],
    *,
    method: MapMethod | None = None,
    folds: int = 5,
    level: float = 0.95,
    seed: int = 0,
) -> ProbabilityCalibration:
    """Fit a map from a judge's probabilities to the share that people call relevant.

    `isotonic` pools adjacent violators (Ayer et al. 1955); `logistic` is Platt's (1999), a line on the logit
    with his smoothed labels, its slope held at 0 where it would fall. Where no method is named, the one with
    the lesser log loss on held-out traces is taken.

    The map is fitted on all traces. What is said of it is cross-fitted: whole traces are dealt into folds,
    and the probabilities of each fold are mapped by what the others alone give, the choice of a method
    included.

    Args:
        probabilities: That each chunk is relevant, in [0, 1], shape (n,).
        labels: Relevant by human label (true, 1) or not (false, 0), shape (n,).
        traces: The trace of each chunk.
        method: The method; None chooses.
        folds: How many folds, >= 2.
        level: Confidence level of the intervals.
        seed: Of the folds, and of the draws behind intervals.

    Raises:
        ValueError: There are fewer than ten traces, all labels are equal or nearly so, a value is missing
            or out of range, an option is, or lengths differ.
    """
    p, y = checked_probabilities(probabilities, labels)
    codes, groups = group_codes(traces, p.size, "traces")
    if method is not None and method not in METHODS:
        raise ValueError(f"method: {method!r} is none of 'isotonic', 'logistic'")
    if folds < 2:
        raise ValueError(f"folds: {folds}; at least 2 are needed")
    if groups < FEWEST:
        raise ValueError(
            f"{groups} labelled traces are too few for a map; at least {FEWEST} are needed, 100 are sensible"
        )
    wanted = METHODS if method is None else (method,)
    part = _deal(codes, groups, folds, seed)
    mapped = np.empty_like(p)
    for fold in range(folds):
        held = part == fold
        inner = ~held
        if np.unique(y[inner]).size < 2:
            raise ValueError("the traces to fit on hold only one kind of label; label more traces")
        _, local = np.unique(codes[inner], return_inverse=True)
        best = _best(p[inner], y[inner], local.astype(np.int64), wanted, folds, seed)[0]
        mapped[held] = fit_map(p[inner], y[inner], best).apply(p[held])
    chosen, scores = _best(p, y, codes, wanted, folds, seed)
    # What the gain of a chunk can be, whichever label it had: the limits of its mean.
    either = [losses(p, label) - losses(mapped, label) for label in (np.zeros_like(y), np.ones_like(y))]
    limits = float(np.min(either)), float(np.max(either))
    gain = mean_interval(losses(p, y) - losses(mapped, y), clusters=codes, limits=limits, level=level)
    return ProbabilityCalibration(
        map=fit_map(p, y, chosen),
        before=reliability_figures(p, y, codes, level=level, seed=seed),
        after=reliability_figures(mapped, y, codes, level=level, seed=seed),
        gain=replace(gain, clusters=groups),
        log_losses=scores,
        folds=folds,
    )


def fit_map(probabilities: Floats, labels: Floats, method: MapMethod) -> ProbabilityMap:
    """Fit a map on all that is given; see `calibrate_probabilities`.

    Args:
        probabilities: In [0, 1], shape (n,), n >= 1.
        labels: 0 or 1, shape (n,).
        method: Which kind.
    """
    if method == "isotonic":
        knots, heights = pool_adjacent_violators(probabilities, labels)
        # Inside a run of equal heights a knot says nothing.
        needed = np.ones(knots.size, dtype=np.bool_)
        needed[1:-1] = (heights[1:-1] != heights[:-2]) | (heights[1:-1] != heights[2:])
        kept = tuple(knots[needed].tolist()), tuple(heights[needed].tolist())
        return ProbabilityMap("isotonic", knots=kept[0], heights=kept[1])
    slope, intercept = _platt(_logit(probabilities), labels)
    return ProbabilityMap("logistic", slope=slope, intercept=intercept)


def _best(
    p: Floats, y: Floats, codes: Ints, methods: tuple[MapMethod, ...], folds: int, seed: int
) -> tuple[MapMethod, dict[MapMethod, float]]:
    """Return the method with the least log loss on held-out traces, and that of each."""
    part = _deal(codes, int(codes.max()) + 1, folds, seed + 1)
    scores: dict[MapMethod, float] = {}
    for method in methods:
        mapped = np.empty_like(p)
        for fold in range(folds):
            held = part == fold
            mapped[held] = fit_map(p[~held], y[~held], method).apply(p[held])
        scores[method] = float(losses(mapped, y).mean())
    return min(scores, key=lambda name: scores[name]), scores


def _deal(codes: Ints, groups: int, folds: int, seed: int) -> Ints:
    """Return the fold of each chunk: whole traces, as evenly as can be."""
    order = np.random.default_rng(seed).permutation(groups)
    fold = np.empty(groups, dtype=np.int64)
    fold[order] = np.arange(groups) % folds
    dealt: Ints = fold[codes]
    return dealt


def _logit(p: Floats) -> Floats:
    held = clipped(p)
    logit: Floats = np.log(held / (1 - held))
    return logit


def _sigmoid(z: Floats) -> Floats:
    share: Floats = (1 + np.tanh(z / 2)) / 2
    return share


def _platt(x: Floats, y: Floats) -> tuple[float, float]:
    """Return slope and intercept of Platt's fit: Newton's method, halved steps where the loss would rise."""
    ones = float(y.sum())
    target = np.where(y > 0, (ones + 1) / (ones + 2), 1 / (y.size - ones + 2))
    share = float(target.mean())
    flat = 0.0, float(np.log(share / (1 - share)))
    if x.min() == x.max():
        return flat
    design = np.column_stack([x, np.ones_like(x)])

    def loss(line: Floats) -> float:
        z = design @ line
        return float((np.logaddexp(0.0, z) - target * z).sum())

    line, at = np.array(flat), loss(np.array(flat))
    for _ in range(100):
        fitted = _sigmoid(design @ line)
        gradient = design.T @ (fitted - target)
        curvature = (design * (fitted * (1 - fitted))[:, None]).T @ design + 1e-12 * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        size, now = 1.0, loss(line - step)
        while now > at and size > 1e-9:
            size /= 2
            now = loss(line - size * step)
        if now > at:
            break
        line, gone, at = line - size * step, at - now, now
        if float(np.abs(size * step).max()) < 1e-12 or gone < 0:
            break
    return (float(line[0]), float(line[1])) if line[0] > 0 else flat
