"""Overlap of two rankings that need not hold the same items."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np

from judge_eval.stats._arrays import Floats

Ranking: TypeAlias = Sequence[Hashable] | Mapping[Any, float]
"""Items best first, or scores by item (higher is better, equal scores tie)."""


def rbo(a: Ranking, b: Ranking, p: float = 0.9) -> float | None:
    """Return rank-biased overlap, extrapolated (RBO_ext of Webber, Moffat and Zobel 2010, equation 32).

    The rankings may differ in length and in items. Ties take the mean over all ways to break them at
    random, independently in both rankings: the expected overlap at a depth is the sum over items of the
    products of their chances to be within that depth.

    Args:
        a: One ranking: items best first, or a mapping from items to scores.
        b: The other.
        p: The chance to look one rank deeper, strictly between 0 and 1; the first 1 / (1 - p) ranks matter
            most.

    Returns:
        A number in [0, 1]; None where a ranking is empty.

    Raises:
        ValueError: p is out of its range, an item comes twice, or a score is not finite.
    """
    if not 0 < p < 1:
        raise ValueError(f"p: {p} is not between 0 and 1; 0.9 looks at about 10 ranks")
    first, second = _tiers(a, "a"), _tiers(b, "b")
    index = {
        item: k for k, item in enumerate(dict.fromkeys(each for tier in first + second for each in tier))
    }
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


def _tiers(ranking: Ranking, name: str) -> list[list[Hashable]]:
    """Return the items in tiers of equal rank, best first."""
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
