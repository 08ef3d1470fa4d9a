"""Intervals for the mean of values that have a least and a greatest possible value."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from judge_eval.stats._arrays import Floats
from judge_eval.stats.distributions import normal_ppf

_NODES = 160
_MOST_UNITS = 256


def bounded_interval(
    totals: Floats,
    sizes: Floats,
    limits: tuple[float, float],
    level: float,
    *,
    end_weight: float = 0.5,
) -> tuple[float, float]:
    """Return an interval for a mean of bounded values that holds for few traces and lopsided ones.

    Gaffke's bound (Gaffke 2005; Learned-Miller and Thomas 2019; for 0/1 values it is Clopper and Pearson's)
    weighs the values, and one more at the end of the range, with random weights that sum to 1, uniform among
    all such (Dirichlet): the upper bound is the 97.5% point of the weighted mean with the greatest possible
    value added, the lower one the 2.5% point with the least. Here the added value has half a weight, as
    Jeffreys' interval has for 0/1 values: the coverage lies near what is asked instead of above it
    everywhere. A decision that must not be wrong more often than stated takes the whole weight. Where values
    belong to clusters, whole clusters are weighed.

    Args:
        totals: The sum of the values of each unit (a trace or a cluster), shape (g,), g >= 1.
        sizes: How many values each unit has, shape (g,), > 0.
        limits: The least and the greatest value that a single value can have.
        level: Confidence level, between 0 and 1.
        end_weight: The weight of the added value, > 0; 1 is Gaffke's bound itself.

    Returns:
        Both ends, within the limits; an end is a limit only where every value is.
    """
    least, greatest = limits
    mean = float(totals.sum() / sizes.sum())
    totals, sizes, counts = _distinct(totals, sizes)
    size = float(counts @ sizes / counts.sum())
    tail = (1 - level) / 2

    def bound(end: float, share: float) -> float:
        if np.all(totals == end * sizes):
            return end
        totals_, sizes_ = np.append(totals, end * size), np.append(sizes, size)
        weights = np.append(counts, end_weight)

        spread = math.sqrt(float(weights @ (totals_ - mean * sizes_) ** 2)) / float(weights @ sizes_)

        def excess(m: float) -> float:
            below = min(max(_below_zero(totals_ - m * sizes_, weights), 1e-12), 1 - 1e-12)
            return normal_ppf(below) - normal_ppf(share)

        return _crossing(excess, mean, math.copysign(spread, end - mean), end)

    return min(bound(least, tail), mean), max(bound(greatest, 1 - tail), mean)


def _distinct(totals: Floats, sizes: Floats) -> tuple[Floats, Floats, Floats]:
    """Return equal units once, with their counts; many units of one size are put on a grid of totals."""
    if sizes.min() != sizes.max():
        units, often = np.unique(np.column_stack([totals, sizes]), axis=0, return_counts=True)
        return units[:, 0], units[:, 1], often.astype(np.float64)
    distinct, equal = np.unique(totals, return_counts=True)
    counts: Floats = equal.astype(np.float64)
    if distinct.size > _MOST_UNITS:
        distinct, counts = _binned(distinct, counts)
    return distinct, np.full(distinct.size, sizes[0]), counts


def _below_zero(offsets: Floats, shapes: Floats) -> float:
    """Return P(sum of G_i * offset_i <= 0) for independent gamma variables G_i of the given shapes.

    By the inversion formula of Gil-Pelaez (1951) on the characteristic function, whose integral over
    (0, infinity) Gauss-Legendre quadrature takes after the substitution t = tan(u).
    """
    if offsets.size > _MOST_UNITS:
        offsets, shapes = _binned(offsets, shapes)
    if offsets.max() <= 0 or offsets.min() >= 0:
        return 1.0 if offsets.max() <= 0 else 0.0
    tangent, weights = _quadrature()
    scaled = offsets / math.sqrt(float(shapes @ offsets**2))
    angles = np.outer(scaled, tangent)
    phase = shapes @ np.arctan(angles)
    size = np.exp(-0.5 * (shapes @ np.log1p(angles**2)))
    return float(0.5 - (size * np.sin(phase) * weights).sum() / math.pi)


@lru_cache(maxsize=1)
def _quadrature() -> tuple[Floats, Floats]:
    """Return the points t and the weights of an integral of f(t) / t over (0, infinity)."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    angle = (nodes + 1) * math.pi / 4
    tangent = 2 * np.tan(angle)
    return tangent, weights * math.pi / 4 * 2 / np.cos(angle) ** 2 / tangent


def _binned(offsets: Floats, shapes: Floats) -> tuple[Floats, Floats]:
    """Share each weight between the two nearest of evenly spaced points, which leaves the mean as it is."""
    low, high = float(offsets.min()), float(offsets.max())
    grid = np.linspace(low, high, _MOST_UNITS)
    place = (offsets - low) / (high - low or 1.0) * (_MOST_UNITS - 1)
    left = np.minimum(place.astype(np.int64), _MOST_UNITS - 2)
    right = place - left
    shared = np.bincount(left, shapes * (1 - right), _MOST_UNITS).astype(np.float64)
    return grid, shared + np.bincount(left + 1, shapes * right, _MOST_UNITS)


def _crossing(rising: Callable[[float], float], start: float, step: float, end: float) -> float:
    """Find where a rising function crosses 0 between two points: doubled steps, then the Illinois method.

    The function is asked no farther out than needed: far from the mean its integral oscillates too fast.
    """
    near, at_near = start, rising(start)
    if at_near * step >= 0:
        return start
    far = near
    while True:
        far, step = near + 2 * step, 2 * step
        if (far - end) * step >= 0:
            far = end
        at_far = rising(far)
        if at_far * at_near <= 0:
            break
        if far == end:
            return end
        near, at_near = far, at_far
    kept = False
    middle = far
    for _ in range(100):
        middle = far - at_far * (far - near) / (at_far - at_near)
        at = rising(middle)
        if abs(at) < 1e-11 or abs(far - near) < 1e-15:
            break
        if at * at_far < 0:
            near, at_near, kept = far, at_far, False
        else:
            at_near, kept = at_near / 2 if kept else at_near, True
        far, at_far = middle, at
    return middle
