"""Intervals of a mean that hold at every look, so that labelling may stop for whatever reason."""

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, check_level, pair
from judge_eval.stats.figure import Interval

_GRID = 2001


def sequential_mean(
    labels: npt.ArrayLike, predictions: npt.ArrayLike, everything: npt.ArrayLike, *, level: float = 0.95
) -> list[Interval]:
    """Return after each label an interval of the mean label; all of them hold together at the level.

    Betting against every mean m (Waudby-Smith and Ramdas 2024), without replacement: before each label the bet is made
    on x = y - power * (f - mean f), whose expected value among the traces that are left follows from m. The power is
    the regression of the labels so far on their predictions, in [0, 1]. The mean is that of all N traces.

    Args:
        labels: Of traces in the random order in which they were drawn, in [0, 1], shape (n,).
        predictions: The judge's values of the same, in [0, 1].
        everything: The judge's values of all N traces, in [0, 1].
        level: How often all intervals hold.

    Raises:
        ValueError: Lengths differ, a value is missing or out of range, or there are more labels than traces.
    """
    y, f = pair(labels, predictions, ("labels", "predictions"))
    every = np.asarray(everything, dtype=np.float64)
    alpha = 1 - check_level(level)
    if y.size > every.size or min(y.min(), f.min(), every.min()) < 0 or max(y.max(), f.max(), every.max()) > 1:
        raise ValueError("labels and predictions lie between 0 and 1, and no more are labelled than there are traces")
    grid, total, mean = np.linspace(0, 1, _GRID), every.size, float(every.mean())
    wealth = np.zeros((2, grid.size))
    alive = np.ones(grid.size, dtype=np.bool_)
    seen, squares, sums = 0.5, 0.25, np.zeros(4)
    made: list[Interval] = []
    for t in range(y.size):
        power = _power(sums, t)
        # What is expected of the rest if the mean of all is m, on a scale from the least x to the greatest.
        left = total - t
        least, span = power * (mean - 1), 1 + power
        rest = (total * grid - sums[0]) / left
        alive &= (rest > -1e-9) & (rest < 1 + 1e-9)
        expected = (rest - power * ((total * mean - sums[1]) / left - mean) - least) / span
        x = (float(y[t]) - power * (float(f[t]) - mean) - least) / span
        expected = np.clip(expected, 1e-9, 1 - 1e-9)
        bet = np.sqrt(2 * np.log(2 / alpha) / (squares * np.log(2 + t)))
        wealth[0] += np.log1p(np.minimum(bet, 0.5 / expected) * (x - expected))
        wealth[1] += np.log1p(-np.minimum(bet, 0.5 / (1 - expected)) * (x - expected))
        seen += x
        squares += (x - seen / (t + 2)) ** 2
        sums += (y[t], f[t], y[t] * f[t], f[t] ** 2)
        alive &= np.logaddexp(wealth[0], wealth[1]) - np.log(2) < np.log(1 / alpha)
        kept = grid[alive]
        step = 1 / (_GRID - 1)
        ends = (float(kept.min()) - step, float(kept.max()) + step) if kept.size else (made[-1].low, made[-1].high)
        made.append(Interval(*ends, level, "betting").within(0.0, 1.0))
    return made


def _power(sums: Floats, count: int) -> float:
    if count < 5:
        return 0.0
    y, f, both, square = (sums / count).tolist()
    spread = square - f * f
    return min(1.0, max(0.0, (both - y * f) / spread)) if spread > 1e-12 else 0.0
