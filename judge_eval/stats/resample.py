"""Bootstrap intervals of any figure, resampled by trace."""

from collections.abc import Callable, Iterator
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, block_sizes, check_choice, check_level, defined
from judge_eval.stats.distributions import normal_cdf, normal_ppf
from judge_eval.stats.figure import Figure, Interval

Statistic = Callable[[Floats], Floats]
"""From sums of parts, shape (R, ...), to one figure each, shape (R,); NaN where it is undefined."""

ResampleMethod = Literal["bca", "percentile"]

MANY = 100_000
"""With more units than this, equal ones are drawn together."""


class Resampler:
    """One set of bootstrap draws, resampled by trace (or any other unit), shared by several figures.

    Each figure must be a function of sums over traces, such as kappa of the summed confusion matrices: then
    a replicate costs one row of a matrix product, whatever the number of pairs in a trace.

    Args:
        parts: What each trace adds to the sums, shape (G, ...).
        level: Confidence level, between 0 and 1.
        method: `bca` (Efron 1987; acceleration by a jackknife over traces) or `percentile`.
        replicates: How many replicates, >= 100.
        seed: Seed of the draws; equal seeds give equal intervals.

    Raises:
        ValueError: An option is out of range, or `parts` is not an array of finite numbers.
    """

    def __init__(
        self,
        parts: npt.ArrayLike,
        *,
        level: float = 0.95,
        method: ResampleMethod = "bca",
        replicates: int = 2000,
        seed: int = 0,
    ) -> None:
        array = np.asarray(parts, dtype=np.float64)
        if array.ndim < 1 or not np.isfinite(array).all():
            raise ValueError("parts: an array of finite numbers is needed, one entry a trace")
        check_choice("method", method, get_args(ResampleMethod))
        if replicates < 100:
            raise ValueError(f"replicates: {replicates} are too few for an interval; take 1000 or more")
        self.level, self.method = check_level(level), method
        self._parts, self._groups = array, array.shape[0]
        self._total = array.sum(axis=0, keepdims=True)
        units = array.reshape(self._groups, -1)
        self._weights: Floats | None = None
        draws = _draws(self._groups, replicates, seed)
        if self._groups > MANY:
            units, weights = np.unique(units, axis=0, return_counts=True)
            self._parts, self._weights = units.reshape(-1, *array.shape[1:]), weights.astype(np.float64)
            draws = _drawn_alike(weights, replicates, seed)
        rows = [counts @ units for counts in draws]
        self._sums = np.concatenate(rows).reshape(-1, *array.shape[1:]) if rows else array[:0]

    def estimate(self, statistic: Statistic) -> Figure:
        """Return one figure with its interval.

        Replicates where the figure is undefined are left out; where they are more than one in twenty there is
        no interval.

        Args:
            statistic: The figure as a function of the sums, vectorised over the first axis.

        Returns:
            The estimate, n being the number of traces G.
        """
        if self._groups == 0:
            return Figure(None, None, 0)
        value = defined(statistic(self._total)[0])
        if value is None or self._groups < 2:
            return Figure(value, None, self._groups)
        replicated = statistic(self._sums)
        kept = replicated[np.isfinite(replicated)]
        undefined = replicated.size - kept.size
        if undefined > 0.05 * replicated.size:
            return Figure(value, None, self._groups)
        left_out = statistic(self._total - self._parts) if self.method == "bca" else None
        interval = _interval(value, kept, left_out, self.level, self._weights)
        return Figure(value, interval, self._groups)


def _interval(
    value: float, replicates: Floats, left_out: Floats | None, level: float = 0.95, weights: Floats | None = None
) -> Interval:
    """Return the BCa interval of a figure, or the percentile interval without jackknife values (`left_out`).

    `replicates` are finite; `weights` says how many units each entry of `left_out` stands for.
    """
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    if left_out is not None:
        below = ((replicates < value).mean() + (replicates <= value).mean()) / 2
        # A value outside all replicates would make the bias correction infinite.
        edge = 0.5 / replicates.size
        bias = normal_ppf(float(np.clip(below, edge, 1 - edge)))
        acceleration = _acceleration(left_out, weights)
        z = bias + np.array([normal_ppf(float(tail)) for tail in tails])
        tails = np.array([normal_cdf(bias + each / max(1 - acceleration * each, 1e-12)) for each in z])
    low, high = np.quantile(replicates, tails)
    return Interval(float(low), float(high), level, "percentile" if left_out is None else "bca")


def _acceleration(left_out: Floats, weights: Floats | None) -> float:
    there = np.isfinite(left_out)
    kept = left_out[there]
    if kept.size < 2:
        return 0.0
    many = np.ones_like(kept) if weights is None else weights[there]
    deviation = np.average(kept, weights=many) - kept
    spread, skew = float(many @ deviation**2), float(many @ deviation**3)
    return skew / (6 * spread**1.5) if spread > 1e-300 else 0.0


def _drawn_alike(weights: npt.NDArray[np.int64], replicates: int, seed: int) -> Iterator[Floats]:
    """Yield blocks of counts of the drawn units of each kind, shape (rows, kinds)."""
    rng = np.random.default_rng(seed)
    for size in block_sizes(replicates, len(weights)):
        yield rng.multinomial(weights.sum(), weights / weights.sum(), size=size).astype(np.float64)


def _draws(groups: int, replicates: int, seed: int) -> Iterator[Floats]:
    if groups < 2:
        return
    rng = np.random.default_rng(seed)
    for size in block_sizes(replicates, groups):
        drawn = rng.integers(0, groups, size=(size, groups))
        drawn += np.arange(size)[:, None] * groups
        drawn = np.bincount(drawn.ravel(), minlength=size * groups)  # the draws themselves are held no longer
        yield drawn.reshape(size, groups).astype(np.float64)
