"""Intervals and one-sided bounds of a mean difference over the same traces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from judge_eval.stats._arrays import Floats, Ints, group_sums
from judge_eval.stats.bounded import bounded_interval
from judge_eval.stats.distributions import t_ppf
from judge_eval.stats.estimate import Interval
from judge_eval.stats.intervals import Limits
from judge_eval.stats.paired_rates import score_bounds


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """What the differences of values with known limits allow to be said of their mean."""

    totals: Floats
    """The sum of the differences of each unit (a trace or a cluster), shape (g,)."""
    sizes: Floats
    """How many differences each unit has, shape (g,)."""
    clustered: bool
    span: float | None
    """The greatest possible difference; None where there is none."""
    rates: tuple[int, int, int] | None
    """Pairs lost, pairs won and all pairs, where values are 0 or 1 and traces independent."""

    @classmethod
    def of(
        cls, a: Floats, b: Floats, d: Floats, units: tuple[Ints, int, bool], limits: Limits | None
    ) -> Differences:
        """Look at values `a` and `b` with the differences `d`.

        Args:
            a: The baseline's values, shape (n,).
            b: The candidate's.
            d: `b - a`, without what is only rounding.
            units: The unit of each trace, how many there are, and whether they are clusters.
            limits: The least and the greatest value that one value can have.
        """
        codes, groups, clustered = units
        span = None if limits is None or limits[1] is None else limits[1] - limits[0]
        rates = None
        if span == 1.0 and not clustered and np.isin(a, (0.0, 1.0)).all() and np.isin(b, (0.0, 1.0)).all():
            rates = int((d < 0).sum()), int((d > 0).sum()), int(d.size)
        sums, sizes = group_sums(d, codes, groups), group_sums(np.ones_like(d), codes, groups)
        return cls(sums, sizes, clustered, span, rates)

    def interval(self, level: float, mean: float, error: float) -> Interval | None:
        """Return the two-sided interval: `score` for rates, else `t` (or `CR1 t`) where differences vary.

        Where they do not, `gaffke` if the values have limits, else None.
        """
        if self.rates is not None:
            return Interval(*score_bounds(*self.rates, level=level), level, "score")
        if error > 0:
            half = t_ppf((1 + level) / 2, self.totals.size - 1) * error
            return Interval(mean - half, mean + half, level, "CR1 t" if self.clustered else "t")
        if self.span is None:
            return None
        ends = (-self.span, self.span)
        return Interval(*bounded_interval(self.totals, self.sizes, ends, level), level, "gaffke")

    def bounds(self, level: float, mean: float, error: float) -> tuple[float | None, float | None]:
        """Return the lower and the upper bound of the mean, each at the level, for decisions.

        A decision by them is wrong at most about as often as the level says, for few and lopsided traces
        too. Values between limits: Gaffke's bound on the differences (`bounded_interval` with the whole
        weight). For rates the lower bound is that of Tango's score test, which is sharper; its upper one
        would call 7% of the drops too great that are just allowed. Else Student's t, which needs variation.

        Returns:
            None where the differences allow none.
        """
        if self.span is None:
            if error == 0:
                return None, None
            half = t_ppf(level, self.totals.size - 1) * error
            return mean - half, mean + half
        ends = (-self.span, self.span)
        low, high = bounded_interval(self.totals, self.sizes, ends, 2 * level - 1, end_weight=1.0)
        if self.rates is not None:
            low = score_bounds(*self.rates, level=2 * level - 1)[0]
        return low, high
