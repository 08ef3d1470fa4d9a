"""How few errors among how many independent items show that a risk is small."""

from __future__ import annotations

from functools import lru_cache

from judge_eval.stats._arrays import check_level
from judge_eval.stats.distributions import binomial_cdf


@lru_cache(maxsize=1024)
def errors_allowed(n: int, *, alpha: float = 0.05, level: float = 0.95) -> int | None:
    """Return the largest k with P(Binomial(n, alpha) <= k) <= 1 - level: so few errors show a risk <= alpha.

    Args:
        n: How many independent items there are, >= 0.
        alpha: The greatest risk, between 0 and 1.
        level: How sure to be of it, between 0 and 1.

    Returns:
        None where n is too small: not even 0 errors show it.

    Raises:
        ValueError: An argument is out of its range.
    """
    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        if _shows(middle, n, alpha, level):
            low = middle
        else:
            high = middle
    return low if _shows(low, n, alpha, level) and low >= 0 else None


@lru_cache(maxsize=1024)
def traces_needed(errors: int = 0, *, alpha: float = 0.05, level: float = 0.95) -> int:
    """Return the fewest items, one a trace, of which so many may err and still show a risk <= alpha.

    Args:
        errors: How many errors are to be allowed, >= 0.
        alpha: The greatest risk, between 0 and 1.
        level: How sure to be of it, between 0 and 1.

    Raises:
        ValueError: An argument is out of its range.
    """
    if errors < 0:
        raise ValueError(f"errors: {errors} is negative")
    low, high = errors, errors + 1
    while not _shows(errors, high, alpha, level):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _shows(errors, middle, alpha, level):
            high = middle
        else:
            low = middle
    return high


def _shows(errors: int, n: int, alpha: float, level: float) -> bool:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: {alpha} is not between 0 and 1; 0.05 is usual")
    # 1 - .95 is a little more than .05 in binary floating point, and others are a little less.
    return binomial_cdf(errors, n, alpha) <= (1 - check_level(level)) * (1 + 1e-12)
