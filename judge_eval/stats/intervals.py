"""Confidence intervals for means, shares and differences."""

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from judge_eval.settings import ValueLimits, ends
from judge_eval.stats._arrays import Floats, Ints, check_choice, check_level, group_codes, group_sums, numbers, pair
from judge_eval.stats.distributions import beta_ppf, legendre, normal_cdf, normal_ppf, root_of, t_ppf
from judge_eval.stats.figure import Figure, Interval
from judge_eval.stats.resample import Resampler

_MOST_UNITS = 256
_LEAST_TAIL = 1e-12
FEW_TRIALS = 30
"""Below this many trials the interval of a rate is `blaker`, not `wilson`."""
STUDENT_UNITS, STUDENT_MOVED, STUDENT_SKEW = 50, 20, 0.1
"""What `student_holds` asks for."""


def bounded_interval(
    totals: Floats, sizes: Floats, limits: tuple[float, float], level: float, *, end_weight: float = 0.5
) -> tuple[float, float]:
    """Return an interval for a mean of bounded values that holds for few traces and lopsided ones.

    Gaffke's bound (Gaffke 2005; Learned-Miller and Thomas 2019; for 0/1 values it is Clopper and Pearson's)
    weighs the values, and one more at the end of the range, with random weights that sum to 1, uniform among
    all such (Dirichlet): the upper bound is the 97.5% point of the weighted mean with the greatest possible
    value added, the lower one the 2.5% point with the least. Here the added value has half a weight, as in
    Jeffreys' interval for 0/1 values: the coverage is near the level instead of above it everywhere. A
    decision that must not be wrong more often takes the whole weight. Whole clusters are weighed.

    Args:
        totals: The sum of the values of each unit (a trace or a cluster), shape (g,), g >= 1.
        sizes: How many values each unit has, shape (g,), > 0.
        limits: The least and the greatest value that a single value can have.
        level: Confidence level, between 0 and 1.
        end_weight: The weight of the added value, > 0; 1 is Gaffke's bound itself.

    Returns:
        Both ends, within the limits; an end is a limit only where every value is.
    """
    tail = (1 - level) / 2
    return (
        bounded_end(totals, sizes, limits[0], tail, end_weight=end_weight),
        bounded_end(totals, sizes, limits[1], 1 - tail, end_weight=end_weight),
    )


def bounded_end(totals: Floats, sizes: Floats, end: float, share: float, *, end_weight: float = 1.0) -> float:
    """Return one end of `bounded_interval`: the `share` point with a value at the limit `end` added."""
    mean = float(totals.sum() / sizes.sum())
    if np.all(totals == end * sizes):
        return end
    totals, sizes, counts = _distinct(totals, sizes)
    size = float(counts @ sizes / counts.sum())
    totals, sizes = np.append(totals, end * size), np.append(sizes, size)
    weights = np.append(counts, end_weight)
    spread = math.sqrt(float(weights @ (totals - mean * sizes) ** 2)) / float(weights @ sizes)

    def excess(m: float) -> float:
        below = min(max(_below_zero(totals - m * sizes, weights), 1e-12), 1 - 1e-12)
        return normal_ppf(below) - normal_ppf(share)

    made = _crossing(excess, mean, math.copysign(spread, end - mean), end)
    return min(made, mean) if share < 0.5 else max(made, mean)


def bounded_tail(totals: Floats, sizes: Floats, end: float) -> float:
    """Return the one-sided p of the null hypothesis that a mean of bounded values is on the side of `end` from 0.

    The share at which `bounded_end`, with the whole weight, is 0. For differences of -1, 0 and 1 it is the p of the
    exact McNemar test.

    Args:
        totals: The sum of the values of each unit (a trace or a cluster), shape (g,), g >= 1.
        sizes: How many values each unit has, shape (g,), > 0.
        end: The least possible value (the mean is at most 0) or the greatest (at least 0), not 0.
    """
    sign = -1.0 if end < 0 else 1.0
    totals, sizes, counts = _distinct(totals, sizes)
    size = float(counts @ sizes / counts.sum())
    return max(_below_zero(-sign * np.append(totals, end * size), np.append(counts, 1.0)), _LEAST_TAIL)


def student_holds(totals: Floats, sizes: Floats) -> bool:
    """Return whether Student's interval holds for a mean of differences, as far as they show it.

    At least 50 units (traces or clusters), at least 20 of them different from 0, and a skewness of at most a
    tenth of the square root of their number: its error in coverage grows with that ratio. Shown for the
    populations of `python -m benchmarks stats_calibration`; what never occurred yet cannot show.

    Args:
        totals: The sum of the differences of each unit, shape (g,).
        sizes: How many differences each unit has, shape (g,), > 0.
    """
    units = totals.size
    if units < STUDENT_UNITS or np.count_nonzero(totals) < STUDENT_MOVED:
        return False
    skew = skewness(totals, sizes)
    return skew is not None and abs(skew) <= STUDENT_SKEW * math.sqrt(units)


def skewness(totals: Floats, sizes: Floats) -> float | None:
    """Return the skewness of the units' residuals; None where they do not vary."""
    residuals = totals - sizes * (totals.sum() / sizes.sum())
    spread = float(np.mean(residuals**2))
    return float(np.mean(residuals**3)) / spread**1.5 if spread > 0 else None


def leaning_half(totals: Floats, sizes: Floats, error: float, level: float, sign: float) -> float:
    """Return how far Student's one-sided bound of a mean is above it (`sign` 1) or below it (-1).

    Where the units lean to that side it is further out, by the first term of the Cornish-Fisher expansion.

    Args:
        totals: The sum of the values of each unit (a trace or a cluster), shape (g,), g >= 2.
        sizes: How many values each unit has, shape (g,), > 0.
        error: The standard error of the mean.
        level: Of this bound alone, above .5.
        sign: The side.
    """
    t = t_ppf(level, totals.size - 1)
    lean = max(0.0, sign * (skewness(totals, sizes) or 0.0)) / math.sqrt(totals.size)
    return (t + lean * (2 * t * t + 1) / 6) * error


def _distinct(totals: Floats, sizes: Floats) -> tuple[Floats, Floats, Floats]:
    """Return distinct units with their counts; many units of one size are put on a grid of totals."""
    if sizes.min() != sizes.max():
        units, often = np.unique(np.column_stack([totals, sizes]), axis=0, return_counts=True)
        return units[:, 0], units[:, 1], often.astype(np.float64)
    distinct, equal = np.unique(totals, return_counts=True)
    counts: Floats = equal.astype(np.float64)
    if distinct.size > _MOST_UNITS:
        distinct, counts = _binned(distinct, counts)
    return distinct, np.full(distinct.size, sizes[0]), counts


def _below_zero(offsets: Floats, shapes: Floats) -> float:
    """Return P(sum of G_i * offset_i <= 0) for independent gamma variables G_i of the given shapes."""
    # By the inversion formula of Gil-Pelaez (1951) on the characteristic function, whose integral over (0,
    # infinity) Gauss-Legendre quadrature takes after the substitution t = tan(u).
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
    nodes, weights = legendre(160)
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
    """Find where a rising function crosses 0: doubled steps, then the Illinois method."""
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
        if abs(at) < 1e-9 or abs(far - near) < 1e-15:
            break
        if at * at_far < 0:
            near, at_near, kept = far, at_far, False
        else:
            at_near, kept = at_near / 2 if kept else at_near, True
        far, at_far = middle, at
    return middle


IntervalMethod = Literal["auto", "t", "bca", "percentile"]


def mean_interval(
    values: npt.ArrayLike,
    *,
    clusters: Iterable[Hashable] | None = None,
    level: float = 0.95,
    method: IntervalMethod = "auto",
    limits: ValueLimits | None = None,
    replicates: int = 9999,
    seed: int = 0,
) -> Figure:
    """Return the mean of per-trace values with its interval.

    `method="auto"` takes what holds for these values, and the interval's own `method` names it:

    - where every value is one of the two limits, as hits and misses are, `wilson` (1927) from 30 traces on,
      below `blaker` (2000), which is exact: Wilson's of 5 hits or misses at a rate of .97 covers .86;
    - `gaffke` where values lie between two limits (`bounded_interval`): Student's interval of few values
      that are mostly at an end is too short;
    - `t` where there is no least or no greatest value, or no limits are named: Student's interval.

    With clusters these are `clustered gaffke`, which weighs whole clusters, and `CR1 t`, the cluster-robust
    interval (sandwich variance times G/(G-1)) with t on G-1 degrees of freedom (Cameron and Miller 2015).
    `"bca"` (Efron 1987) and `"percentile"` resample traces, or whole clusters where these are given.

    No interval has zero width: equal values without limits, or with a method that does not use them, have none.

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
    check_choice("method", method, get_args(IntervalMethod))
    x = _held_within(x, limits)
    codes, groups = group_codes(clusters, x.size)
    named = None if clusters is None else groups
    if x.size == 0:
        return Figure(None, None, 0, named)
    mean, error = float(x.mean()), standard_error(x, codes, groups)
    if groups < 2 or error is None:
        return Figure(mean, None, x.size, named)
    interval: Interval | None
    if method in ("bca", "percentile"):
        parts = np.column_stack([group_sums(x, codes, groups), group_sums(np.ones_like(x), codes, groups)])
        draws = Resampler(parts, level=level, method=method, replicates=replicates, seed=seed)
        interval = draws.estimate(lambda sums: sums[:, 0] / sums[:, 1]).interval
    elif method == "auto" and limits is not None and limits[0] is not None and limits[1] is not None:
        interval = _within_limits(x, (limits[0], limits[1]), codes, groups, named, level)
    else:
        half = t_ppf((1 + level) / 2, groups - 1) * error
        interval = Interval(mean - half, mean + half, level, "t" if clusters is None else "CR1 t")
    if interval is not None and interval.high - interval.low <= 1e-12 * max(1.0, abs(mean)):
        interval = None
    if interval is not None and limits is not None:
        interval = interval.within(*limits)
    return Figure(mean, interval, x.size, named)


def _within_limits(
    x: Floats, limits: tuple[float, float], codes: Ints, groups: int, named: int | None, level: float
) -> Interval:
    least, greatest = limits
    top = x == greatest
    if named is None and bool(np.all(top | (x == least))):
        share = proportion_interval(int(top.sum()), x.size, level=level).interval
        assert share is not None
        width = greatest - least
        return Interval(least + share.low * width, least + share.high * width, level, share.method)
    sums, sizes = group_sums(x, codes, groups), group_sums(np.ones_like(x), codes, groups)
    low, high = bounded_interval(sums, sizes, limits, level)
    return Interval(low, high, level, "gaffke" if named is None else "clustered gaffke")


def _held_within(x: Floats, limits: ValueLimits | None) -> Floats:
    if limits is None or not x.size:
        return x
    least, greatest = limits
    limited = np.clip(x, *ends(limits))
    beyond = np.abs(limited - x) > 1e-9 * max(1.0, abs(least or 0.0), abs(greatest or 0.0))
    if beyond.any():
        bad = int(np.flatnonzero(beyond)[0])
        raise ValueError(f"values[{bad}] is {float(x[bad])!r}, outside of the limits {limits}")
    return limited


def standard_error(values: Floats, codes: npt.NDArray[np.int64], groups: int) -> float | None:
    """Return the standard error of a mean, robust to clusters (CR1); None for fewer than two clusters.

    sqrt(G/(G-1) * sum over clusters of (sum of residuals)^2) / n; with clusters of one this is s / sqrt(n).
    `codes` is the cluster of each value, 0 to groups - 1.
    """
    if groups < 2:
        return None
    sums = group_sums(values - values.mean(), codes, groups)
    return math.sqrt(groups / (groups - 1) * float(sums @ sums)) / values.size


def imbens_manski(
    low: npt.ArrayLike,
    high: npt.ArrayLike,
    values: npt.ArrayLike,
    *,
    clusters: Iterable[Hashable] | None = None,
    level: float = 0.95,
    method: IntervalMethod = "auto",
    limits: ValueLimits | None = None,
    seed: int = 0,
) -> Figure:
    """Return a mean of values that are known between bounds, with an interval for the mean of the true ones.

    The interval of Imbens and Manski (2004, Econometrica 72): from the lower end of an interval for the mean of the
    least values to the upper end of one for the greatest. Each end is wrong with a chance of 1 - Phi(C), where Phi(C +
    gap / s) - Phi(-C) = level, gap = the difference of the two means, s = the greater of their standard errors. The two
    intervals are those of `mean_interval`, so without a gap this is `mean_interval`.

    Args:
        low: The least possible value of each trace, shape (n,).
        high: The greatest.
        values: The value to count each with, between the two.
        clusters: As in `mean_interval`.
        level: As in `mean_interval`.
        method: As in `mean_interval`.
        limits: As in `mean_interval`.
        seed: As in `mean_interval`.

    Raises:
        ValueError: As `mean_interval`; or the columns differ in length.
    """
    least, greatest = pair(low, high, ("low", "high"))
    mean_of, _ = pair(values, low, ("values", "low"))
    names = None if clusters is None else list(clusters)

    def at(column: Floats, confidence: float) -> Figure:
        return mean_interval(column, clusters=names, level=confidence, method=method, limits=limits, seed=seed)

    plain = at(mean_of, level)
    if plain.value is None or np.array_equal(least, greatest):
        return plain
    codes, groups = group_codes(names, least.size)
    errors = [standard_error(column, codes, groups) or 0.0 for column in (least, greatest)]
    inner = 2 * normal_cdf(manski_quantile(float((greatest - least).mean()), max(errors), level)) - 1
    ends = [at(column, inner).interval for column in (least, greatest)]
    if ends[0] is None or ends[1] is None:
        return replace(plain, interval=None)
    bottom, top = min(ends[0].low, plain.value), max(ends[1].high, plain.value)
    made = f"Imbens-Manski {ends[0].method if ends[0].method == ends[1].method else 'gaffke'}"
    return replace(plain, interval=Interval(bottom, top, level, made))


def manski_quantile(gap: float, error: float, level: float) -> float:
    """Return C with Phi(C + gap / error) - Phi(-C) = level: between the one- and the two-sided quantile."""
    if error <= 0:
        return normal_ppf(level) if gap > 0 else normal_ppf((1 + level) / 2)
    low, high = normal_ppf(level), normal_ppf((1 + level) / 2)
    return root_of(lambda c: normal_cdf(c + gap / error) - normal_cdf(-c) - level, low, high)


def breakdown(
    values: npt.ArrayLike,
    tags: Iterable[Iterable[str]],
    *,
    ends: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    clusters: Iterable[Hashable] | None = None,
    level: float = 0.95,
    limits: ValueLimits | None = None,
) -> dict[str, Figure]:
    """Return the mean and its interval of the traces that carry each tag, tags in alphabetical order.

    Args:
        values: One finite number a trace, shape (n,).
        tags: The tags of each trace, n of them; a trace counts under each of its tags.
        ends: The least and the greatest possible value of each trace; None: the values are known.
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
    low, high = (x, x) if ends is None else pair(*ends, ("low", "high"))
    return {
        name: imbens_manski(
            low[rows[name]],
            high[rows[name]],
            x[rows[name]],
            clusters=None if clusters is None else codes[rows[name]].tolist(),
            level=level,
            limits=limits,
        )
        for name in sorted(rows)
    }


def proportion_interval(
    successes: int, n: int, *, level: float = 0.95, method: Literal["auto", "wilson", "exact", "blaker"] = "auto"
) -> Figure:
    """Return a rate with an interval that stays inside [0, 1] and has width even at 0 of n or n of n.

    Args:
        successes: How many of the n, 0 <= successes <= n.
        n: How many independent trials.
        level: Confidence level.
        method: `wilson` is Wilson's score interval (1927), `exact` Clopper and Pearson's (1934); `blaker` is
            Blaker's (2000, Canadian Journal of Statistics 28), which covers at least the level too and lies
            within it. `auto` takes `wilson` from 30 trials on, else `blaker`.

    Returns:
        The estimate; its value is None for n = 0.

    Raises:
        ValueError: The counts do not fit, or an option is out of range.
    """
    check_level(level)
    if not 0 <= successes <= n:
        raise ValueError(f"successes: {successes} of {n} is not a count")
    check_choice("method", method, ("auto", "wilson", "exact", "blaker"))
    if method == "auto":
        method = "wilson" if n >= FEW_TRIALS else "blaker"
    if n == 0:
        return Figure(None, None, 0)
    rate, tail = successes / n, (1 - level) / 2
    if method == "wilson":
        z = normal_ppf(1 - tail)
        centre, scale = rate + z * z / (2 * n), 1 + z * z / n
        half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
        low, high = (centre - half) / scale, (centre + half) / scale
    elif method == "blaker":
        low, high = _blaker_lower(successes, n, 1 - level), 1 - _blaker_lower(n - successes, n, 1 - level)
    else:
        low = beta_ppf(tail, successes, n - successes + 1) if successes else 0.0
        high = exact_upper(successes, n, level=1 - tail)
    low, high = (0.0 if successes == 0 else low), (1.0 if successes == n else high)
    return Figure(rate, Interval(low, high, level, method), n)


@lru_cache(maxsize=1024)
def _blaker_lower(successes: int, n: int, alpha: float) -> float:
    """Return the least rate under which counts as improbable as this one have a chance above alpha together."""
    # How improbable a count is, is said by the lesser of its two tails. A grid in which the first such rate lies is
    # made finer, since acceptance jumps where another count joins.
    low, high = beta_ppf(alpha / 2, successes, n - successes + 1) if successes else 0.0, successes / n
    counts = np.arange(n + 1)
    ways = np.array([math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(n + 1)])
    while high - low > 1e-12:
        rates = np.linspace(low, min(high, 1 - 1e-15), 257)
        chances = np.exp(ways + np.outer(np.log(rates), counts) + np.outer(np.log1p(-rates), n - counts))
        tails = np.minimum(chances.cumsum(axis=1), chances[:, ::-1].cumsum(axis=1)[:, ::-1])
        accepted = (chances * (tails <= tails[:, [successes]] * (1 + 1e-9))).sum(axis=1) > alpha
        first = max(1, int(accepted.argmax()))
        low, high = float(rates[first - 1]), float(rates[first])
    return low


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
