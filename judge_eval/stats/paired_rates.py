"""Score bounds for the difference of two rates over the same traces."""

from __future__ import annotations

import math

from judge_eval.stats.distributions import normal_ppf


def score_bounds(losses: int, wins: int, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return a confidence interval for the difference of two paired rates (Tango 1998).

    Made of all differences that the score test does not reject, the other parameter at its most likely value
    under each: it has width where no pair differs, and keeps its level where few do.

    Args:
        losses: Pairs in which only the first succeeded.
        wins: Pairs in which only the second succeeded.
        n: All pairs, at least one.
        level: Confidence level; each end alone is a bound at (1 + level) / 2.

    Returns:
        Both ends of the second rate minus the first, in [-1, 1].

    Raises:
        ValueError: The counts do not fit together.
    """
    if losses < 0 or wins < 0 or losses + wins > n or n < 1:
        raise ValueError(f"losses and wins: {losses} and {wins} of {n} are no counts of pairs")
    z = normal_ppf((1 + level) / 2)
    return -_upper(losses, wins, n, z), _upper(wins, losses, n, z)


def _upper(more: int, fewer: int, n: int, z: float) -> float:
    """Return the largest difference of the rate of `more` over that of `fewer` within z of what was seen."""
    low, high = (more - fewer) / n, 1.0
    if low == 1.0:
        return 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _score(more, fewer, n, middle) < -z:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def _score(more: int, fewer: int, n: int, difference: float) -> float:
    """Return Tango's statistic: (more - fewer - n * difference) over its standard error there."""
    a, b = 2 * n, (2 * n - more + fewer) * difference - more - fewer
    c = -fewer * difference * (1 - difference)
    rate = (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
    variance = n * (2 * rate + difference * (1 - difference))
    return (more - fewer - n * difference) / math.sqrt(variance) if variance > 0 else -math.inf
