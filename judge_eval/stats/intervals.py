"""Summaries of per-trace values with their confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, Ints, check_level, group_codes, group_sums, numbers
from judge_eval.stats.bounded import bounded_interval
from judge_eval.stats.distributions import beta_ppf, normal_ppf, t_ppf
from judge_eval.stats.estimate import Estimate, Interval
from judge_eval.stats.resample import Resampler

IntervalMethod = Literal["auto", "t", "bca", "percentile"]
Limits = tuple[float, float | None]
"""The least and the greatest value that one value can have; None: there is no greatest."""


def mean_interval(
    values: npt.ArrayLike,
    *,
    clusters: Iterable[Hashable] | None = None,
    level: float = 0.95,
    method: IntervalMethod = "auto",
    limits: Limits | None = None,
    replicates: int = 9999,
    seed: int = 0,
) -> Estimate:
    """Return the mean of per-trace values with its interval.

    `method="auto"` takes what holds for these values, and the interval's own `method` names it:

    - `wilson` where every value is one of the two limits, as hits and misses are (Wilson 1927);
    - `gaffke` where values lie between two limits (`bounded_interval`): Student's interval of ten
      average precisions of which 85% are 1 covers the mean 72 times in 100 where it says 95;
    - `t` where there is no greatest value, or no limits are named: Student's interval.

    With clusters these are `clustered gaffke`, which weighs whole clusters, and `CR1 t`, the cluster-robust
    interval (sandwich variance times G/(G-1)) with t on G-1 degrees of freedom (Cameron and Miller 2015).
    `"bca"` (Efron 1987) and `"percentile"` resample traces, or whole clusters where these are given.

    No interval has zero width: where values are all equal and nothing is known of the values that did not
    come up (no limits, or a method that does not use them), there is none.

    Args:
        values: One finite number a trace, shape (n,).
        clusters: One id a trace (the same document, the same conversation); None: traces are independent.
        level: Confidence level, between 0 and 1.
        method: Which interval.
        limits: The least and the greatest value that one value can have; None: unknown.
        replicates: Bootstrap replicates, >= 100 (bootstrap methods only).
        seed: Seed of the bootstrap.

    Returns:
        The estimate; its value is None for n = 0, its interval None for fewer than two traces or clusters,
        and where equal values allow none. Every interval lies within the limits.

    Raises:
        ValueError: A value is missing or outside the limits, an option is out of range, ids and values
            differ in number.
    """
    x = numbers(values, "values")
    check_level(level)
    if method not in ("auto", "t", "bca", "percentile"):
        raise ValueError(f"method: {method!r} is none of 'auto', 't', 'bca', 'percentile'")
    x = _held_within(x, limits)
    codes, groups = group_codes(clusters, x.size)
    named = None if clusters is None else groups
    if x.size == 0:
        return Estimate(None, None, 0, named)
    mean, error = float(x.mean()), standard_error(x, codes, groups)
    if groups < 2 or error is None:
        return Estimate(mean, None, x.size, named)
    interval: Interval | None
    if method in ("bca", "percentile"):
        parts = np.column_stack([group_sums(x, codes, groups), group_sums(np.ones_like(x), codes, groups)])
        draws = Resampler(parts, level=level, method=method, replicates=replicates, seed=seed)
        interval = draws.estimate(lambda sums: sums[:, 0] / sums[:, 1]).interval
    elif method == "auto" and limits is not None and limits[1] is not None:
        interval = _within_limits(x, (limits[0], limits[1]), codes, groups, named, level)
    else:
        half = t_ppf((1 + level) / 2, groups - 1) * error
        interval = Interval(mean - half, mean + half, level, "t" if clusters is None else "CR1 t")
    if interval is not None and interval.high - interval.low <= 1e-12 * max(1.0, abs(mean)):
        interval = None
    if interval is not None and limits is not None:
        interval = interval.within(*limits)
    return Estimate(mean, interval, x.size, named, error)


def _within_limits(
    x: Floats, limits: tuple[float, float], codes: Ints, groups: int, named: int | None, level: float
) -> Interval:
    least, greatest = limits
    top = x == greatest
    if named is None and bool(np.all(top | (x == least))):
        share = proportion_interval(int(top.sum()), x.size, level=level).interval
        assert share is not None
        width = greatest - least
        return Interval(least + share.low * width, least + share.high * width, level, "wilson")
    sums, sizes = group_sums(x, codes, groups), group_sums(np.ones_like(x), codes, groups)
    low, high = bounded_interval(sums, sizes, limits, level)
    return Interval(low, high, level, "gaffke" if named is None else "clustered gaffke")


def _held_within(x: Floats, limits: Limits | None) -> Floats:
    """Return the values with what rounding put beyond a limit set to the limit."""
    if limits is None or not x.size:
        return x
    least, greatest = limits
    held = np.clip(x, least, greatest)
    beyond = np.abs(held - x) > 1e-9 * max(1.0, abs(least), abs(greatest or 0.0))
    if beyond.any():
        bad = int(np.flatnonzero(beyond)[0])
        raise ValueError(f"values[{bad}] is {float(x[bad])!r}, outside of the limits {limits}")
    return held


def standard_error(values: Floats, codes: npt.NDArray[np.int64], groups: int) -> float | None:
    """Return the standard error of a mean, robust to clusters (CR1).

    sqrt(G/(G-1) * sum over clusters of (sum of residuals)^2) / n; with clusters of one this is s / sqrt(n).

    Args:
        values: Shape (n,), n >= 1.
        codes: The cluster of each value, 0 to groups - 1.
        groups: How many clusters there are.

    Returns:
        None for fewer than two clusters.
    """
    if groups < 2:
        return None
    sums = group_sums(values - values.mean(), codes, groups)
    return math.sqrt(groups / (groups - 1) * float(sums @ sums)) / values.size


def breakdown(
    values: npt.ArrayLike,
    tags: Iterable[Iterable[str]],
    *,
    clusters: Iterable[Hashable] | None = None,
    level: float = 0.95,
    limits: Limits | None = None,
) -> dict[str, Estimate]:
    """Return the mean and its interval of the traces that carry each tag, tags in alphabetical order.

    Args:
        values: One finite number a trace, shape (n,).
        tags: The tags of each trace, n of them; a trace counts under each of its tags.
        clusters: As in `mean_interval`.
        level: Confidence level.
        limits: As in `mean_interval`.

    Raises:
        ValueError: As `mean_interval`, or tags and values differ in number.
    """
    x = numbers(values, "values")
    codes, _ = group_codes(clusters, x.size)
    rows: dict[str, list[int]] = {}
    count = 0
    for count, names in enumerate(tags, 1):
        for name in set(names):
            rows.setdefault(name, []).append(count - 1)
    if count != x.size:
        raise ValueError(f"tags: {count} sets of tags for {x.size} values; each value needs one")
    return {
        name: mean_interval(
            x[rows[name]],
            clusters=None if clusters is None else codes[rows[name]].tolist(),
            level=level,
            limits=limits,
        )
        for name in sorted(rows)
    }


def proportion_interval(
    successes: int, n: int, *, level: float = 0.95, method: Literal["wilson", "exact"] = "wilson"
) -> Estimate:
    """Return a rate with an interval that stays inside [0, 1] and has width even at 0 of n or n of n.

    Args:
        successes: How many of the n, 0 <= successes <= n.
        n: How many independent trials.
        level: Confidence level.
        method: `wilson` is Wilson's score interval (1927), `exact` is Clopper and Pearson's (1934).

    Returns:
        The estimate; its value is None for n = 0.

    Raises:
        ValueError: The counts do not fit, or an option is out of range.
    """
    check_level(level)
    if not 0 <= successes <= n:
        raise ValueError(f"successes: {successes} of {n} is not a count")
    if method not in ("wilson", "exact"):
        raise ValueError(f"method: {method!r} is none of 'wilson', 'exact'")
    if n == 0:
        return Estimate(None, None, 0)
    rate, tail = successes / n, (1 - level) / 2
    if method == "wilson":
        z = normal_ppf(1 - tail)
        centre, scale = rate + z * z / (2 * n), 1 + z * z / n
        half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
        low, high = (centre - half) / scale, (centre + half) / scale
    else:
        low = beta_ppf(tail, successes, n - successes + 1) if successes else 0.0
        high = exact_upper(successes, n, level=1 - tail)
    low, high = (0.0 if successes == 0 else low), (1.0 if successes == n else high)
    return Estimate(rate, Interval(low, high, level, method), n)


@lru_cache(maxsize=1024)
def exact_upper(successes: int, n: int, *, level: float = 0.95) -> float:
    """Return the one-sided upper bound of a rate by Clopper and Pearson (1934).

    The rate under which so few successes or fewer have the chance 1 - level.

    Args:
        successes: How many of the n, 0 <= successes <= n.
        n: How many independent trials, at least one.
        level: Confidence level of this one bound.

    Raises:
        ValueError: The counts do not fit, or the level is out of its range.
    """
    check_level(level)
    if not 0 <= successes <= n or n < 1:
        raise ValueError(f"successes: {successes} of {n} is not a count")
    return beta_ppf(level, successes + 1, n - successes) if successes < n else 1.0
