"""Correlation of two rankings of the same systems."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, pair

_BLOCK = 4_000_000


def kendall_tau_b(a: npt.ArrayLike, b: npt.ArrayLike) -> float | None:
    """Return Kendall's tau-b (1945), which allows for ties.

    Args:
        a: Scores of the systems, shape (n,).
        b: Other scores of the same systems.

    Returns:
        A number in [-1, 1]; None where one of the rankings does not vary.

    Raises:
        ValueError: A score is missing, or lengths differ.
    """
    x, y = pair(a, b, ("a", "b"))
    agree = tied_x = tied_y = 0
    step = max(1, _BLOCK // max(1, x.size))
    for start in range(0, x.size, step):
        dx = np.sign(x[start : start + step, None] - x).astype(np.int64)
        dy = np.sign(y[start : start + step, None] - y).astype(np.int64)
        agree += int((dx * dy).sum())
        tied_x += int((dx == 0).sum())
        tied_y += int((dy == 0).sum())
    pairs = x.size * x.size
    free = (pairs - tied_x) * (pairs - tied_y)
    return agree / math.sqrt(free) if free > 0 else None


def spearman(a: npt.ArrayLike, b: npt.ArrayLike) -> float | None:
    """Return Spearman's rho: Pearson's correlation of mid-ranks.

    Args:
        a: Scores of the systems, shape (n,).
        b: Other scores of the same systems.

    Returns:
        A number in [-1, 1]; None where one of the rankings does not vary.

    Raises:
        ValueError: A score is missing, or lengths differ.
    """
    x, y = pair(a, b, ("a", "b"))
    if x.size == 0:
        return None
    p, q = midranks(x), midranks(y)
    p, q = p - p.mean(), q - q.mean()
    spread = math.sqrt(float(p @ p) * float(q @ q))
    return max(-1.0, min(1.0, float(p @ q) / spread)) if spread > 0 else None


def tau_ap(reference: npt.ArrayLike, scores: npt.ArrayLike) -> float | None:
    """Return the AP correlation (Yilmaz, Aslam and Robertson 2008), which weighs the top most.

    2 / (n - 1) * sum over ranks i = 2..n of C(i) / (i - 1), minus 1, with C(i) the systems above rank i in
    the ranking by `scores` that are rightly above by `reference`. It is not symmetric. Ties, on either
    side, take the mean over all ways to break them at random, in closed form.

    Args:
        reference: The true scores of the systems, higher is better, shape (n,).
        scores: The scores under test, for the same systems.

    Returns:
        A number in [-1, 1]; None for fewer than two systems.

    Raises:
        ValueError: A score is missing, or lengths differ.
    """
    truth, tested = pair(reference, scores, ("reference", "scores"))
    n = truth.size
    if n < 2:
        return None
    order = np.argsort(-tested, kind="stable")
    truth, tested = truth[order], tested[order]
    # Rightly above: 1 where the reference agrees, one half where it ties.
    right = 0.5 + 0.5 * np.sign(truth[:, None] - truth[None, :])
    total = 0.0
    for start, stop in _tie_groups(tested):
        above = float(right[:start, start:stop].sum()) / (stop - start)
        for place in range(max(start, 1), stop):
            total += (above + 0.5 * (place - start)) / place
    return 2 * total / (n - 1) - 1


def midranks(values: Floats) -> Floats:
    """Return the ranks from 1, ascending; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    ranks: Floats = ((2 * ends - counts + 1) / 2)[inverse]
    return ranks


def _tie_groups(descending: Floats) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(descending)) + 1
    starts = [0, *edges.tolist()]
    return list(zip(starts, [*starts[1:], descending.size], strict=True))
