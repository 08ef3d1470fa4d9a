"""How many items nobody has found yet."""

import math

from judge_eval.stats._arrays import check_level
from judge_eval.stats.distributions import normal_ppf
from judge_eval.stats.figure import Figure, Interval


def chao1(distinct: int, once: int, twice: int, *, level: float = 0.95) -> Figure:
    """Return a lower bound of how many items there are, found or not (Chao 1984, bias-corrected).

    distinct + once (once - 1) / (2 (twice + 1)), with the log-normal interval of Chao (1987). It is "at least":
    systems agree on items that are easy to find, and the interval does not cover that.

    Args:
        distinct: How many different items were found, >= once + twice.
        once: By exactly one system.
        twice: By exactly two systems, > 0: without any there is no interval.
        level: Confidence level.

    Raises:
        ValueError: The counts do not fit together, or `twice` is 0.
    """
    if min(distinct, once) < 0 or once + twice > distinct:
        raise ValueError(
            f"distinct={distinct}, once={once}, twice={twice}: counts must be >= 0, and once + twice <= distinct"
        )
    if twice < 1:
        raise ValueError("nothing was found exactly twice; how much is undiscovered cannot be bounded")
    base, more = once * (once - 1), twice + 1
    missing = base / (2 * more)
    variance = missing + once * (2 * once - 1) ** 2 / (4 * more**2) + once**2 * twice * (once - 1) ** 2 / (4 * more**4)
    interval = None
    if missing > 0:
        z = normal_ppf((1 + check_level(level)) / 2)
        spread = math.exp(z * math.sqrt(math.log1p(variance / missing**2)))
        interval = Interval(distinct + missing / spread, distinct + missing * spread, level, "log-normal")
    return Figure(distinct + missing, interval, distinct)
