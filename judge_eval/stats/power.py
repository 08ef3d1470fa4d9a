"""How small a difference the data at hand could have shown."""

from __future__ import annotations

from functools import lru_cache

from judge_eval.stats.distributions import t_power, t_ppf


def minimal_detectable_difference(
    standard_error: float, df: float, *, power: float = 0.8, alpha: float = 0.05
) -> float:
    """Return the smallest true difference that a two-sided t test finds with the given power.

    Exact under normal differences: the noncentral t distribution is solved for the noncentrality, which is
    the difference over its standard error.

    Args:
        standard_error: Of the mean difference, >= 0, in its units.
        df: Degrees of freedom: n - 1, or the number of clusters - 1.
        power: The wanted power, above alpha and below 1.
        alpha: The test's level, between 0 and 1.

    Returns:
        The difference in the units of the standard error, >= 0.

    Raises:
        ValueError: An argument is out of its range.
    """
    if standard_error < 0:
        raise ValueError(f"standard_error: {standard_error} is negative")
    if not 0 < alpha < power < 1:
        raise ValueError(f"power: {power} must lie between alpha ({alpha}) and 1")
    return standard_error * _noncentrality(df, power, alpha)


@lru_cache(maxsize=1024)
def _noncentrality(df: float, power: float, alpha: float) -> float:
    low, high = 0.0, t_ppf(1 - alpha / 2, df)
    while t_power(high, df, alpha) < power:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if t_power(middle, df, alpha) < power:
            low = middle
        else:
            high = middle
    return (low + high) / 2
