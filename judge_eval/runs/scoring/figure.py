"""A figure with its interval, as records keep it."""

from __future__ import annotations

from judge_eval.record import Record
from judge_eval.safe_text import interval
from judge_eval.stats import Estimate
from judge_eval.stats.estimate import ends_of


class Figure(Record):
    """A figure with its 95% interval, resampled by trace or robust to chunks that share one."""

    value: float | None = None
    """None where it is undefined (0/0)."""
    interval: tuple[float, float] | None = None
    n: int
    traces: int | None = None

    @property
    def text(self) -> str:
        """The figure with its interval, four decimals each."""
        if self.value is None:
            return "undefined"
        return f"{self.value:.4f} {interval(self.interval)}".rstrip()

    @classmethod
    def of(cls, estimate: Estimate) -> Figure:
        """Write an estimate down."""
        return cls(value=estimate.value, interval=ends_of(estimate.interval), n=estimate.n, traces=estimate.clusters)
