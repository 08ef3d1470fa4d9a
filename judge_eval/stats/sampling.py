"""How many traces to label, and which ones."""

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from judge_eval.stats._arrays import Floats, Ints, check_choice, check_level, group_codes, group_sums
from judge_eval.stats.distributions import binomial_cdf, root_of, t_power, t_ppf


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
    too_many = bisect_left(range(max(0, n) + 1), True, key=lambda errors: not _shows(errors, n, alpha, level))
    return too_many - 1 if too_many else None


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
    enough = errors + 1
    while not _shows(errors, enough, alpha, level):
        enough *= 2
    return bisect_left(range(enough), True, errors + 1, key=lambda n: _shows(errors, n, alpha, level))


def _shows(errors: int, n: int, alpha: float, level: float) -> bool:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: {alpha} is not between 0 and 1; 0.05 is usual")
    # 1 - .95 is a little more than .05 in binary floating point, and others are a little less.
    return binomial_cdf(errors, n, alpha) <= (1 - check_level(level)) * (1 + 1e-12)


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
    return root_of(lambda shift: t_power(shift, df, alpha) - power, 0.0, t_ppf(1 - alpha / 2, df))


@dataclass(frozen=True, slots=True)
class Sample:
    """A random choice of traces with the chance that each one had."""

    chosen: tuple[int, ...]
    """Positions of the chosen traces, ascending."""
    probabilities: tuple[float, ...]
    """The chance of every trace to be chosen, in (0, 1], chosen or not."""

    @property
    def weights(self) -> tuple[float, ...]:
        """For each chosen trace the inverse of its chance to be chosen."""
        return tuple(1 / self.probabilities[k] for k in self.chosen)


def simple_random_sample(n: int, size: int, *, seed: int = 0) -> Sample:
    """Choose traces at random without replacement, all with the same chance.

    Args:
        n: How many traces there are.
        size: How many to choose, 1 <= size <= n.
        seed: Seed; equal seeds choose equally.

    Raises:
        ValueError: The size is out of its range.
    """
    return stratified_sample([0] * n, size, seed=seed)


def stratified_sample(
    strata: Iterable[Hashable],
    size: int,
    *,
    allocation: Literal["proportional", "equal"] | Sequence[float] = "equal",
    seed: int = 0,
) -> Sample:
    """Choose traces at random within strata, such as the judged grade.

    Each stratum gives at least two traces, or all it has. The rest goes by `allocation`: in proportion to the
    strata's sizes, or the same number to each as far as they last.

    Figures of such a sample must be weighted by `Sample.weights`, as `ppi_mean_sampled` does.

    Args:
        strata: The stratum of each trace, n of them.
        size: How many to choose, from the number of strata up to n.
        allocation: `equal` looks hardest at rare strata, `proportional` at none; else a weight >= 0 of each trace.
        seed: Seed; equal seeds choose equally.

    Raises:
        ValueError: The size or the allocation is out of its range.
    """
    ids = list(strata)
    codes, groups = group_codes(ids, len(ids), "strata")
    if isinstance(allocation, str):
        check_choice("allocation", allocation, ("proportional", "equal"))
    if not max(1, groups) <= size <= len(ids):
        raise ValueError(f"size: {size} must lie between {max(1, groups)} (one a stratum) and {len(ids)} (all)")
    available = np.bincount(codes, minlength=groups)
    due: Floats = np.ones(groups)
    if not isinstance(allocation, str):
        due = group_sums(np.asarray(allocation, dtype=np.float64), codes, groups) + 1e-9
    elif allocation == "proportional":
        due = available.astype(np.float64)
    take = _allocate(available, size, due)
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(np.flatnonzero(codes == k), size=int(take[k]), replace=False) for k in range(groups)]
    probabilities = (take / available)[codes]
    return Sample(tuple(sorted(np.concatenate(chosen).tolist())), tuple(probabilities.tolist()))


def unequal_sample(shares: Sequence[float], size: int, *, seed: int = 0) -> Sample:
    """Choose a fixed number at random without replacement, each with a chance in proportion to its share.

    Systematic sampling of a list in random order (Madow 1949): chances are exact, those above 1 are cut to 1
    and the rest share what is left. With equal shares it is a simple random sample.

    Args:
        shares: How much each should be chosen, > 0.
        size: How many to choose, 1 <= size <= n.
        seed: Seed; equal seeds choose equally.

    Raises:
        ValueError: The size or a share is out of its range.
    """
    given = np.array(shares, dtype=np.float64)
    if not 1 <= size <= given.size or not (given > 0).all():
        raise ValueError(f"size: {size} must lie between 1 and {given.size}, and every share above 0")
    chances = np.zeros(given.size)
    while True:
        free = chances < 1
        wanted = (size - (~free).sum()) * given / max(given[free].sum(), 1e-300)
        if not (over := free & (wanted >= 1)).any():
            break
        chances[over] = 1.0
    chances[free] = wanted[free]
    rng = np.random.default_rng(seed)
    order = rng.permutation(given.size)
    ends = np.cumsum(chances[order]) * (size / chances.sum())
    ends[-1] = size  # whatever rounding left
    hits = np.searchsorted(ends, rng.random() + np.arange(size), side="right")
    return Sample(tuple(sorted(order[np.minimum(hits, given.size - 1)].tolist())), tuple(chances.tolist()))


def _allocate(available: Ints, size: int, due: Floats) -> Ints:
    """Divide the sample, one trace at a time, to the stratum furthest below its share (Sainte-Lague)."""
    take = np.zeros(available.size, dtype=np.int64)
    least = np.minimum(available, 2)
    for _ in range(size):
        # The minimum of each stratum comes first, and one for each before two.
        owed = np.where(take < least, take, np.inf)
        shares = np.where(take < available, (take + 0.5) / due, np.inf)
        take[int(np.argmin(owed if np.isfinite(owed).any() else shares))] += 1
    return take
