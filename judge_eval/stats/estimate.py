"""A figure with its confidence interval."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval: `low <= high`, in the units of the estimate."""

    low: float
    high: float
    level: float
    """The confidence level, between 0 and 1, such as 0.95."""
    method: str
    """How it was made, such as `t`, `CR1 t`, `bca`, `wilson`."""

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def within(self, low: float | None, high: float | None) -> Interval:
        """Cut off what no value can reach, from `low` to `high` (None: no end); the coverage is the same."""
        least, most = -math.inf if low is None else low, math.inf if high is None else high
        bottom, top = (min(max(end, least), most) for end in (self.low, self.high))
        return Interval(bottom, top, self.level, self.method)

    def __str__(self) -> str:
        return f"[{self.low:.4g}, {self.high:.4g}]"


def ends_of(interval: Interval | None) -> tuple[float, float] | None:
    """Return both ends of an interval, as records keep them; None where there is none."""
    return None if interval is None else (interval.low, interval.high)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, its interval and what both rest on."""

    value: float | None
    """The figure; None where it is undefined (no data, or 0/0)."""
    interval: Interval | None
    """None where the data do not allow one: fewer than two units, or an undefined figure."""
    n: int
    """How many values the figure rests on."""
    clusters: int | None = None
    """How many clusters they came from; None where each value was a unit of its own."""
    standard_error: float | None = None
    """In the units of the figure; None where it was not estimated."""
    undefined: int = 0
    """How many bootstrap replicates had to be left out because the figure was undefined there."""

    def __str__(self) -> str:
        value = "undefined" if self.value is None else f"{self.value:.4g}"
        interval = f" {self.interval}" if self.interval else ""
        clusters = f" in {self.clusters} clusters" if self.clusters is not None else ""
        return f"{value}{interval} (n={self.n}{clusters})"
