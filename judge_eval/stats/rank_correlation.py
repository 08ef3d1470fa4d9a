"""How alike two rankings are."""

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, pair

Ranking: TypeAlias = Sequence[Hashable] | Mapping[Any, float]
"""Items best first, or scores by item (higher is better, equal scores tie)."""


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
    dx, dy = (np.sign(np.subtract.outer(v, v)).astype(np.int64) for v in (x, y))
    agree, tied_x, tied_y = int((dx * dy).sum()), int((dx == 0).sum()), int((dy == 0).sum())
    pairs = x.size * x.size
    free = (pairs - tied_x) * (pairs - tied_y)
    return agree / math.sqrt(free) if free > 0 else None


def spearman(a: npt.ArrayLike, b: npt.ArrayLike) -> float | None:
    """Return Spearman's rho: Pearson's correlation of mid-ranks; otherwise as `kendall_tau_b`."""
    x, y = pair(a, b, ("a", "b"))
    if x.size == 0:
        return None
    p, q = _midranks(x), _midranks(y)
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


def rbo(a: Ranking, b: Ranking, p: float = 0.9) -> float | None:
    """Return rank-biased overlap, extrapolated (RBO_ext of Webber, Moffat and Zobel 2010, equation 32).

    The rankings may differ in length and in items. Ties take the mean over all ways to break them at
    random, independently in both rankings: the expected overlap at a depth is the sum over items of the
    products of their chances to be within that depth.

    Args:
        a: One ranking: items best first, or a mapping from items to scores.
        b: The other.
        p: The chance to look one rank deeper, strictly between 0 and 1; the first 1 / (1 - p) ranks matter most.

    Returns:
        A number in [0, 1]; None where a ranking is empty.

    Raises:
        ValueError: p is out of its range, an item comes twice, or a score is not finite.
    """
    if not 0 < p < 1:
        raise ValueError(f"p: {p} is not between 0 and 1; 0.9 looks at about 10 ranks")
    first, second = _tiers(a, "a"), _tiers(b, "b")
    index = {item: k for k, item in enumerate(dict.fromkeys(chain(*first, *second)))}
    short, long = sorted((sum(map(len, first)), sum(map(len, second))))
    if short == 0:
        return None
    depths = np.arange(1, long + 1, dtype=np.float64)
    overlap = (_within(first, index, depths) * _within(second, index, depths)).sum(axis=0)
    discount = p**depths
    agreement = (overlap / depths) @ discount
    deeper = depths[short:]
    beyond = overlap[short - 1] * ((deeper - short) / (short * deeper)) @ discount[short:]
    rest = (overlap[-1] - overlap[short - 1]) / long + overlap[short - 1] / short
    # The last bits may carry identical rankings over 1.
    return min(1.0, float((1 - p) / p * (agreement + beyond) + rest * p**long))


def _midranks(values: Floats) -> Floats:
    """Return the ranks from 1, ascending; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    return ((2 * ends - counts + 1) / 2)[inverse]


def _tie_groups(descending: Floats) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(descending)) + 1
    starts = [0, *edges.tolist()]
    return list(zip(starts, [*starts[1:], descending.size], strict=True))


def _tiers(ranking: Ranking, name: str) -> list[list[Hashable]]:
    if isinstance(ranking, Mapping):
        if not all(math.isfinite(score) for score in ranking.values()):
            raise ValueError(f"{name}: a score is missing or not finite")
        ordered = sorted(ranking, key=lambda item: -ranking[item])
        return [list(tier) for _, tier in groupby(ordered, key=lambda item: ranking[item])]
    if len(set(ranking)) != len(ranking):
        raise ValueError(f"{name}: an item comes twice in the ranking")
    return [[item] for item in ranking]


def _within(tiers: list[list[Hashable]], index: Mapping[Hashable, int], depths: Floats) -> Floats:
    """Return the chance of each item to be within each depth, shape (items, depths)."""
    chances = np.zeros((len(index), depths.size))
    above = 0
    for tier in tiers:
        chances[[index[item] for item in tier]] = np.clip((depths - above) / len(tier), 0.0, 1.0)
        above += len(tier)
    return chances
