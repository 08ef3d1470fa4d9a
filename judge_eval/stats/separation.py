"""How well scores separate relevant chunks from others (AUC), of one judge or of two on the same chunks."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, check_level, group_codes, group_sums, numbers, pair, verdicts
from judge_eval.stats.agreement import share_bounds
from judge_eval.stats.distributions import t_ppf
from judge_eval.stats.figure import Figure, Interval

_MOVED = 10
"""With fewer clusters that differ Student's interval of a difference does not hold."""


def auc(scores: npt.ArrayLike, labels: npt.ArrayLike, clusters: Iterable[Hashable], *, level: float = 0.95) -> Figure:
    """Return the chance that a relevant chunk has a higher score than another, equal scores counting half.

    The standard error is that of E. DeLong et al. (1988) for clustered data (N. Obuchowski, 1997), the interval
    Student's, united with Gaffke's of the placements (see `bounded_interval`), which has width if no pair is wrong.

    Args:
        scores: Any numbers, shape (n,).
        labels: Relevant (true, 1) or not (false, 0), shape (n,).
        clusters: The trace of each chunk, or what it belongs to.
        level: Confidence level, between 0 and 1.

    Returns:
        The AUC, undefined without both kinds of chunks.

    Raises:
        ValueError: A value is missing, a label is neither 0 nor 1, or lengths differ.
    """
    x, y = pair(scores, labels, ("scores", "labels"))
    return _figure(_placements(x, verdicts(y, "labels")), y, clusters, (0.0, 1.0), level)


def auc_difference(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    labels: npt.ArrayLike,
    clusters: Iterable[Hashable],
    *,
    level: float = 0.95,
) -> Figure:
    """Return the AUC of the first scores minus that of the second of the same chunks, with a paired interval.

    The interval is Student's alone if at least 10 clusters differ, which covers .94 to .98 of normal scores (10 to 100
    clusters); else as of `auc`, which says for the rest what the arguments are and what is raised.
    """
    x, y = pair(first, labels, ("first", "labels"))
    other = numbers(second, "second")
    if other.size != x.size:
        raise ValueError(f"second has {other.size} values, first has {x.size}; they must be paired")
    y = verdicts(y, "labels")
    return _figure(_placements(x, y) - _placements(other, y), y, clusters, (-1.0, 1.0), level)


def _placements(x: Floats, y: Floats) -> Floats:
    """Return which share of the other kind of chunks lies on the right side of each chunk, equal ones by half."""
    placements = np.full(x.size, np.nan)
    for kind in (1.0, 0.0):
        others = np.sort(x[y != kind])
        if not others.size:
            continue
        mine = x[y == kind]
        below = (np.searchsorted(others, mine, "left") + np.searchsorted(others, mine, "right")) / (2 * others.size)
        placements[y == kind] = below if kind else 1 - below
    return placements


def _figure(
    placements: Floats, y: Floats, clusters: Iterable[Hashable], limits: tuple[float, float], level: float
) -> Figure:
    codes, groups = group_codes(clusters, y.size)
    tail = (1 + check_level(level)) / 2
    if np.isnan(placements).any() or not y.size:
        return Figure(None, None, y.size, groups)
    value = float(placements[y == 1].mean())
    if groups < 2:
        return Figure(value, None, y.size, groups)
    sides = [(y == kind) for kind in (1.0, 0.0)]
    parts = sum(group_sums((placements - value) * side / side.sum(), codes, groups) for side in sides)
    error = math.sqrt(groups / (groups - 1) * float(np.sum(np.square(parts))))
    half = t_ppf(tail, groups - 1) * error
    moved = np.count_nonzero(group_sums(np.abs(placements), codes, groups)) if limits[0] < 0 else 0
    if moved >= _MOVED:
        return Figure(value, Interval(value - half, value + half, level, "DeLong t").within(*limits), y.size, groups)
    totals = [group_sums(np.where(side, placements, 0.0), codes, groups) for side in sides]
    sizes = [group_sums(side.astype(np.float64), codes, groups) for side in sides]
    ends = [share_bounds(*pair, limits, level) for pair in zip(totals, sizes, strict=True)]
    down, up = (max(half, math.hypot(*(value - each[k] for each in ends))) for k in (0, 1))
    interval = Interval(value - down, value + up, level, "DeLong t, gaffke").within(*limits)
    return Figure(value, interval, y.size, groups)
