"""Comparison of systems on the same traces."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from judge_eval.settings import ValueLimits
from judge_eval.stats._arrays import Floats, Ints, check_level, group_codes, group_sums, numbers, pair
from judge_eval.stats.distributions import normal_cdf, normal_ppf, root_of, t_ppf, t_sf
from judge_eval.stats.figure import CLOSED, Interval
from judge_eval.stats.intervals import (
    FEW_TRIALS,
    bounded_end,
    bounded_interval,
    bounded_tail,
    leaning_half,
    manski_quantile,
    standard_error,
    student_holds,
)
from judge_eval.stats.sampling import minimal_detectable_difference

_LEAST_P = 1e-15
Ends: TypeAlias = tuple[npt.ArrayLike, npt.ArrayLike]
"""The least and the greatest possible value of each trace, shape (n,) each."""


def score_bounds(losses: int, wins: int, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return a confidence interval for the difference of two paired rates (Tango 1998).

    It holds all differences that the score test does not reject: it has width even if no pair differs. Each
    end alone is a bound at (1 + level) / 2.

    Args:
        losses: Pairs in which only the first succeeded.
        wins: Pairs in which only the second succeeded.
        n: All pairs, at least one.
        level: Confidence level.

    Returns:
        Both ends of the second rate minus the first, in [-1, 1].

    Raises:
        ValueError: The counts do not fit together.
    """
    if losses < 0 or wins < 0 or losses + wins > n or n < 1:
        raise ValueError(f"losses={losses} and wins={wins} must be 0 or more, and at most n={n} together")
    z = normal_ppf((1 + level) / 2)
    return -_upper(losses, wins, n, z), _upper(wins, losses, n, z)


def _upper(more: int, fewer: int, n: int, z: float) -> float:
    """Return the largest difference of the rate of `more` over that of `fewer` within z of what was seen."""
    low, high = (more - fewer) / n, 1.0
    if low == 1.0:
        return 1.0
    return root_of(lambda difference: -z - _score(more, fewer, n, difference), low, high)


def _score(more: int, fewer: int, n: int, difference: float) -> float:
    """Return Tango's statistic: (more - fewer - n * difference) over its standard error there."""
    a, b = 2 * n, (2 * n - more + fewer) * difference - more - fewer
    c = -fewer * difference * (1 - difference)
    rate = (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
    variance = n * (2 * rate + difference * (1 - difference))
    return (more - fewer - n * difference) / math.sqrt(variance) if variance > 0 else -math.inf


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Differences:
    """Paired differences, with the intervals and bounds of their mean."""

    each: Floats
    """Of each trace, shape (n,)."""
    totals: Floats
    """The sum of the differences of each unit (a trace or a cluster), shape (g,)."""
    sizes: Floats
    """How many differences each unit has, shape (g,)."""
    mean: float
    error: float
    """The standard error of the mean; 0 for fewer than two units."""
    clustered: bool
    span: float | None
    """The greatest possible difference; None where there is none."""
    rates: tuple[int, int, int] | None = None
    """Pairs lost, pairs won and all pairs, where each value is a limit and traces are independent."""
    student: bool
    """Whether Student's interval holds for them (`student_holds`)."""

    @classmethod
    def between(
        cls, a: Floats, b: Floats, codes: Ints, groups: int, limits: ValueLimits | None, *, clustered: bool
    ) -> Differences:
        """Make the differences of the values `a` and `b`; `codes` is the unit of each trace, one of `groups`."""
        d = b - a
        # Rounding of equal scores (0.1 + 0.2 against 0.3) is not a win.
        d[np.abs(d) <= 1e-12 * np.maximum(np.abs(a), np.abs(b))] = 0.0
        error = standard_error(d, codes, groups) or 0.0
        if error < 1e-15 * float(np.maximum(np.abs(a), np.abs(b)).max()):
            error = 0.0  # all that is left is rounding
        least, greatest = limits or (None, None)
        span = rates = None
        if least is not None and greatest is not None:
            span = greatest - least
            if not clustered and np.isin((a, b), (least, greatest)).all():
                rates = int((d < 0).sum()), int((d > 0).sum()), int(d.size)
        sums, sizes = group_sums(d, codes, groups), group_sums(np.ones_like(d), codes, groups)
        return cls(
            each=d,
            totals=sums,
            sizes=sizes,
            mean=float(d.mean()),
            error=error,
            clustered=clustered,
            span=span,
            rates=rates,
            student=student_holds(sums, sizes),
        )

    def interval(self, level: float) -> Interval | None:
        """Return the two-sided interval: `score` for rates; else `t` (or `CR1 t`) or `gaffke`, by a rule.

        Values with limits: Student's where `student_holds`, cut at the limits, else Gaffke's bound
        (`bounded_interval` with the whole weight), because Student's of few or skewed differences covers .21
        to .92; also for rates of under 30 traces, where the score test rejects up to .125 of true nulls.
        Without limits: Student's, and None where the differences do not vary.
        """
        if self._by_score:
            return Interval(*self._score(level), level, "score")
        if self.span is not None and not self.student:
            ends = (-self.span, self.span)
            bounds = bounded_interval(self.totals, self.sizes, ends, level, end_weight=1.0)
            return Interval(*bounds, level, "gaffke")
        if self.error == 0:
            return None
        half = t_ppf((1 + level) / 2, self.totals.size - 1) * self.error
        made = Interval(self.mean - half, self.mean + half, level, "CR1 t" if self.clustered else "t")
        return made if self.span is None else made.within(-self.span, self.span)

    def tail(self, *, upper: bool) -> float:
        """Return the one-sided p at which the lower (or the upper) end of `interval` is 0.

        Twice the lesser of both is the p of the test that the interval inverts: McNemar's (1947) where it is `score`,
        the paired t test, or Gaffke's bound. 1/2 where the differences allow no interval.
        """
        sign = -1.0 if upper else 1.0
        if self._by_score:
            assert self.rates is not None
            losses, wins, _ = self.rates
            return normal_cdf(-sign * (wins - losses) / math.sqrt(wins + losses)) if wins + losses else 0.5
        if self.span is not None and not self.student:
            return bounded_tail(self.totals, self.sizes, -sign * self.span)
        return t_sf(sign * self.mean / self.error, self.totals.size - 1) if self.error else 0.5

    @property
    def _by_score(self) -> bool:
        return self.rates is not None and self.totals.size >= FEW_TRIALS

    def bound(self, level: float, *, upper: bool) -> float | None:
        """Return the lower or the upper bound of the mean at the level, for decisions.

        It keeps its level for few and lopsided traces too. Values between limits: Gaffke's bound on the
        differences (`bounded_interval` with the whole weight). For rates the lower bound is that of Tango's
        score test, which is sharper; its upper one would reject 7% of the drops that are just allowed. Else
        Student's t, which needs variation: None without.
        """
        sign = 1.0 if upper else -1.0
        if self.span is None:
            return self.mean + sign * t_ppf(level, self.totals.size - 1) * self.error if self.error else None
        if self.rates is not None and not upper:
            return self._score(2 * level - 1)[0]
        return bounded_end(self.totals, self.sizes, sign * self.span, level if upper else 1 - level)

    def student_bound(self, level: float, *, upper: bool) -> float | None:
        """Return Student's bound of the mean where `student_holds`; None elsewhere.

        Where the differences lean to its side it is further out (`leaning_half`): uncorrected it is wrong in up to
        .063 in place of .05 of samples.
        """
        if self.span is None or self.rates is not None or not self.student:
            return None
        sign = 1.0 if upper else -1.0
        return self.mean + sign * leaning_half(self.totals, self.sizes, self.error, level, sign)

    def _score(self, level: float) -> tuple[float, float]:
        assert self.rates is not None
        assert self.span is not None
        low, high = score_bounds(*self.rates, level=level)
        return low * self.span, high * self.span


def _imbens_manski(low: Differences, middle: Differences, high: Differences, level: float) -> Interval | None:
    """Return the interval of the difference between the least and the greatest ones, as `imbens_manski`."""
    quantile = manski_quantile(high.mean - low.mean, max(low.error, high.error), level)
    inner = 2 * normal_cdf(quantile) - 1
    ends = low.interval(inner), high.interval(inner)
    if ends[0] is None or ends[1] is None:
        return None
    bottom, top = min(ends[0].low, middle.mean), max(ends[1].high, middle.mean)
    return Interval(bottom, top, level, f"Imbens-Manski {ends[0].method}")


def _p_imbens_manski(low: Differences, high: Differences) -> float:
    """Return 1 less the level at which an end of `_imbens_manski` is 0."""
    # An end leaves 0 out at a level whose quantile C is less than z: the level is Phi(z + gap / s) - Phi(-z) there.
    spread, gap = max(low.error, high.error), high.mean - low.mean
    ps = [1.0]
    for tail in (low.tail(upper=False), high.tail(upper=True)):
        if tail < 0.5:
            beyond = normal_cdf(normal_ppf(max(tail, 1e-12)) - gap / spread) if spread else 0.0
            ps.append(tail + beyond)
    return min(ps)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedComparison:
    """What the same traces say about two systems; differences are candidate minus baseline."""

    n: int
    """How many traces both have a value for."""
    clusters: int | None = None
    """How many clusters they came from; None where traces are independent."""
    baseline_mean: float
    candidate_mean: float
    difference: float
    interval: Interval | None = None
    """Of the difference: `score` for rates, `gaffke`, or `t` (`CR1 t` under clusters) where that holds.

    None for fewer than two units, and where equal differences of unlimited values allow none."""
    lower: float | None = None
    """The one-sided lower bound of the difference at the same level, for decisions; None as `interval`."""
    upper: float | None = None
    """The one-sided upper bound, likewise."""
    t_lower: float | None = None
    """Student's lower bound, corrected for skewness, where it was shown to hold and nothing is open."""
    t_upper: float | None = None
    baseline_range: tuple[float, float] | None = None
    """The least and the greatest value of the baseline, which limit how far a trace can fall or rise."""
    standard_error: float | None = None
    p: float
    """Two-sided p of the test that `interval` inverts: at most .05 where a 95% interval leaves 0 out, and only there.

    What is tested is that the mean difference is 0, whatever its distribution: by Gaffke's bound (for few or skewed
    differences; of hits and misses the exact McNemar test), Student's t or McNemar's test, as `interval.method` says.
    1 without an interval."""
    dz: float | None = None
    """Cohen's dz: the mean difference over its standard deviation; None without variation."""
    wins: int
    """Traces where the candidate is higher, whatever failed."""
    ties: int
    losses: int
    n_open: int = 0
    """Traces whose difference failed verdicts leave open."""
    detectable: float | None = None
    """The smallest true difference that is shown in 80 of 100 samples of these traces, shifted by it.

    Shown: `p` is at most .05, divided by the number of comparisons. None without variation, where no result of so
    many traces could be significant, and where it lies beyond any difference that the limits leave possible.
    """

    __pydantic_config__ = CLOSED


def compare_paired(
    baseline: npt.ArrayLike,
    candidate: npt.ArrayLike,
    *,
    ends: tuple[Ends, Ends] | None = None,
    clusters: Iterable[Hashable] | None = None,
    limits: ValueLimits | None = None,
    comparisons: int = 1,
    level: float = 0.95,
    planning: bool = True,
) -> PairedComparison:
    """Compare two systems on per-trace values of the same traces.

    If failed verdicts leave values open, interval and bounds cover all values they could have
    (`imbens_manski`), and p is that of this interval; means and effect size are those of the values given.

    Args:
        baseline: One finite number a trace, shape (n,).
        candidate: The same traces in the same order.
        ends: The least and the greatest possible values of the baseline, and of the candidate; None: all
            values are known.
        clusters: One id a trace; None: traces are independent.
        limits: The least and the greatest value that one value can have; None: unknown.
        comparisons: How many comparisons are made, this one included (Holm), for `detectable`.
        level: Confidence level of the interval and of each bound.
        planning: Whether `detectable` is computed, which takes longer than all else; else it is None.

    Raises:
        ValueError: There is no trace, a value is missing, or lengths differ.
    """
    a, b = pair(baseline, candidate, ("baseline", "candidate"))
    check_level(level)
    if a.size == 0:
        raise ValueError("no trace is common to both; there is nothing to compare")
    codes, groups = group_codes(clusters, a.size)
    between = partial(Differences.between, codes=codes, groups=groups, limits=limits, clustered=clusters is not None)
    middle = low = high = between(a, b)
    if ends is not None:
        (a_low, a_high), (b_low, b_high) = (pair(*side, ("least", "greatest")) for side in ends)
        low, high = between(a_high, b_low), between(a_low, b_high)
    d, open_ = middle.each, low.each != high.each
    interval = lower = upper = t_lower = t_upper = None
    p = 1.0
    if groups > 1:
        lower, upper = low.bound(level, upper=False), high.bound(level, upper=True)
        if not open_.any():
            interval = middle.interval(level)
            t_lower, t_upper = (middle.student_bound(level, upper=upper) for upper in (False, True))
            p = min(1.0, 2 * min(middle.tail(upper=upper) for upper in (False, True)))
        else:
            interval = _imbens_manski(low, middle, high, level)
            p = 1.0 if interval is None else _p_imbens_manski(low, high)
    spread = float(d.std(ddof=1)) if d.size > 1 else 0.0
    return PairedComparison(
        n=d.size,
        clusters=None if clusters is None else groups,
        baseline_mean=float(a.mean()),
        candidate_mean=float(b.mean()),
        difference=middle.mean,
        interval=interval,
        lower=lower,
        upper=upper,
        t_lower=t_lower,
        t_upper=t_upper,
        baseline_range=(float(a.min()), float(a.max())),
        standard_error=middle.error if groups > 1 else None,
        p=p,
        dz=middle.mean / spread if middle.error and spread else None,
        wins=int((low.each > 0).sum()),
        ties=int(((low.each == 0) & (high.each == 0)).sum()),
        losses=int((high.each < 0).sum()),
        n_open=int(open_.sum()),
        detectable=_detectable(middle, interval, (1 - level) / comparisons) if planning else None,
    )


POWER = 0.8


def _detectable(differences: Differences, interval: Interval | None, alpha: float) -> float | None:
    """Return the least shift that the test at alpha shows with 80% power; see `PairedComparison`."""
    span, error = differences.span, differences.error
    if not error or interval is None:
        return None
    if interval.method.endswith("gaffke"):
        least = _shift_tested(differences, alpha) + normal_ppf(POWER) * error
    elif interval.method.endswith("score"):
        wide = differences.interval(1 - alpha)
        assert wide is not None
        least = (wide.high - wide.low) / 2 + normal_ppf(POWER) * error
    else:
        least = minimal_detectable_difference(error, differences.totals.size - 1, power=POWER, alpha=alpha)
    return None if span is not None and least > span else least


def _shift_tested(differences: Differences, alpha: float) -> float:
    """Return the shift of the centred differences, up or down, at which Gaffke's bound leaves 0 out."""
    span, sizes = differences.span, differences.sizes
    assert span is not None
    residuals = differences.totals - differences.mean * sizes
    shifts = []
    for signed in (residuals, -residuals):
        low, high = 0.0, span
        for _ in range(12):
            middle = (low + high) / 2
            shifted = np.clip(signed + middle * sizes, -span * sizes, span * sizes)
            low, high = (low, middle) if bounded_tail(shifted, sizes, -span) <= alpha / 2 else (middle, high)
        shifts.append(high)
    return max(shifts)


def exact_sign_flip(differences: npt.ArrayLike) -> float:
    """Return the exact p of the sign-flip test (Fisher 1935) of whole numbers, however many there are.

    Under every assignment of signs the sum is a sum of independent variables, each d or -d with even chances; the
    characteristic function of one is cos(dt), so the distribution of the sum is the inverse Fourier transform of their
    product. If each difference is 1 or -1, this is the exact McNemar test (Mosteller 1952). The error is below 1e-12.

    Args:
        differences: A whole number for each unit.

    Returns:
        The two-sided p, in (0, 1]; 1 if there is no difference.

    Raises:
        ValueError: A difference is not a whole number.
    """
    d = numbers(differences, "differences")
    if (d != np.round(d)).any():
        raise ValueError("differences: each must be a whole number")
    sizes, counts = np.unique(np.abs(d[d != 0]).astype(np.int64), return_counts=True)
    most = int(sizes @ counts)
    points = 1 << (2 * most).bit_length()  # a power of two, for a fast transform
    angles = 2 * np.pi * np.arange(points) / points
    waves = np.ones(points)
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        waves *= np.cos(size * angles) ** count
    chances = np.fft.fft(waves).real / points
    seen = abs(int(d.sum()))
    inside = float(chances[:seen].sum() + chances[points - seen + 1 :].sum()) if seen else 0.0
    return float(np.clip(1.0 - inside, _LEAST_P, 1.0))


def holm(p_values: npt.ArrayLike) -> tuple[float, ...]:
    """Adjust p values for several comparisons by Holm's step-down method (1979).

    Args:
        p_values: Shape (m,), each in [0, 1].

    Returns:
        The adjusted p values in the order given; a comparison is significant where its value is <= alpha.

    Raises:
        ValueError: A p value is missing or outside [0, 1].
    """
    p = numbers(p_values, "p_values")
    if ((p < 0) | (p > 1)).any():
        raise ValueError("p_values: each must lie in [0, 1]")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return tuple(adjusted.tolist())
