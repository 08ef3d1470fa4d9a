"""Comparison of a candidate with a baseline on the same traces."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, Ints, check_level, group_codes, group_sums, pair
from judge_eval.stats.distributions import t_sf
from judge_eval.stats.estimate import Interval
from judge_eval.stats.intervals import Limits, standard_error
from judge_eval.stats.paired_bounds import Differences
from judge_eval.stats.power import minimal_detectable_difference
from judge_eval.stats.randomisation import sign_flip_test


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """What the same traces say about two systems; differences are candidate minus baseline."""

    n: int
    """How many traces both have a value for."""
    clusters: int | None
    """How many clusters they came from; None where traces are independent."""
    baseline_mean: float
    candidate_mean: float
    difference: float
    interval: Interval | None
    """Of the difference: `score` for rates, `t`, or `CR1 t` under clusters; `gaffke` where all differ alike.

    None for fewer than two units, and where equal differences of unlimited values allow none."""
    lower: float | None
    """The one-sided lower bound of the difference at the same level, for decisions; None as `interval`."""
    upper: float | None
    """The one-sided upper bound, likewise."""
    standard_error: float | None
    p_t: float | None
    """Two-sided p of the paired t test (cluster-robust under clusters); None for fewer than two units."""
    p_randomisation: float
    """Two-sided p of the sign-flip test, which flips whole clusters where there are any."""
    exact: bool
    """Whether all sign flips were enumerated."""
    dz: float | None
    """Cohen's dz: the mean difference over its standard deviation; None without variation."""
    wins: int
    """Traces where the candidate is higher."""
    ties: int
    losses: int
    detectable: float | None
    """The smallest true difference found with 80% power by a two-sided test.

    None without variation, and where it lies beyond any difference that the limits leave possible.
    """

    def __str__(self) -> str:
        interval = f" {self.interval}" if self.interval else ""
        p = f"p={self.p_randomisation:.4g} (randomisation)"
        p += f", p={self.p_t:.4g} (t)" if self.p_t is not None else ""
        counts = f"{self.wins} wins, {self.ties} ties, {self.losses} losses"
        return f"{self.difference:+.4g}{interval}, {p}, {counts} (n={self.n})"


def compare_paired(
    baseline: npt.ArrayLike,
    candidate: npt.ArrayLike,
    *,
    clusters: Iterable[Hashable] | None = None,
    limits: Limits | None = None,
    level: float = 0.95,
    permutations: int = 9999,
    seed: int = 0,
) -> PairedComparison:
    """Compare two systems on per-trace values of the same traces.

    Without variation of the differences the t test has no standard error: p_t is 1 where they are all 0,
    and None where they are all the same other number.

    Args:
        baseline: One finite number a trace, shape (n,).
        candidate: The same traces in the same order.
        clusters: One id a trace; None: traces are independent.
        limits: The least and the greatest value that one value can have; None: unknown.
        level: Confidence level of the interval and of each bound.
        permutations: Draws of the randomisation test where it is not exact.
        seed: Seed of those draws.

    Raises:
        ValueError: There is no trace, a value is missing, or lengths differ.
    """
    a, b = pair(baseline, candidate, ("baseline", "candidate"))
    check_level(level)
    if a.size == 0:
        raise ValueError("no trace is common to both; there is nothing to compare")
    d = b - a
    # Rounding of equal scores (0.1 + 0.2 against 0.3) is no win.
    d[np.abs(d) <= 1e-12 * np.maximum(np.abs(a), np.abs(b))] = 0.0
    codes, groups = group_codes(clusters, d.size)
    clustered = clusters is not None
    mean, error = float(d.mean()), _error(a, b, d, codes, groups)
    differences = Differences.of(a, b, d, (codes, groups, clustered), limits)
    interval = lower = upper = p_t = None
    if error is not None:
        lower, upper = differences.bounds(level, mean, error)
        interval = differences.interval(level, mean, error)
        p_t = 2 * t_sf(abs(mean) / error, groups - 1) if error > 0 else 1.0 if mean == 0 else None
    flipped = sign_flip_test(group_sums(d, codes, groups), permutations=permutations, seed=seed)
    spread = float(d.std(ddof=1)) if d.size > 1 else 0.0
    return PairedComparison(
        n=d.size,
        clusters=groups if clustered else None,
        baseline_mean=float(a.mean()),
        candidate_mean=float(b.mean()),
        difference=mean,
        interval=interval,
        lower=lower,
        upper=upper,
        standard_error=error,
        p_t=p_t,
        p_randomisation=flipped.p,
        exact=flipped.exact,
        dz=mean / spread if error and spread else None,
        wins=int((d > 0).sum()),
        ties=int((d == 0).sum()),
        losses=int((d < 0).sum()),
        detectable=_detectable(error, groups, limits),
    )


def _detectable(error: float | None, groups: int, limits: Limits | None) -> float | None:
    if not error:
        return None
    least = minimal_detectable_difference(error, groups - 1)
    low, high = limits or (None, None)
    return None if low is not None and high is not None and least > high - low else least


def _error(a: Floats, b: Floats, d: Floats, codes: Ints, groups: int) -> float | None:
    """Return the standard error of the mean difference d = b - a, 0 where all that is left is rounding."""
    error = standard_error(d, codes, groups)
    if error is not None and error < 1e-15 * float(np.maximum(np.abs(a), np.abs(b)).max()):
        return 0.0
    return error
