"""A figure with its confidence interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

CLOSED = {"extra": "forbid", "allow_inf_nan": False}
"""How pydantic reads a figure from a file: no unknown field, no NaN."""


def named_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, as they are; `asdict` would copy what they hold."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


class Interval(tuple[float, float]):
    """A confidence interval: its ends, `low <= high`, in the units of the figure; as JSON `[low, high]`.

    Args:
        low: The lower end.
        high: The upper end.
        level: The confidence level, between 0 and 1.
        method: How it was made, such as `t`, `CR1 t`, `bca`, `wilson`; empty if it was read from a file.
    """

    level: float
    method: str
    _fields = ("low", "high")  # as of named tuples: `dataclasses.asdict` makes a copy by them

    def __new__(cls, low: float, high: float, level: float = 0.95, method: str = "") -> Interval:
        """Make an interval."""
        interval = super().__new__(cls, (low, high))
        interval.level, interval.method = level, method
        return interval

    def __getnewargs__(self) -> tuple[float, float, float, str]:
        return self.low, self.high, self.level, self.method

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, handler: Callable[[object], Any]) -> dict[str, Any]:
        def read(value: object, ends: Callable[[object], tuple[float, float]]) -> Interval:
            return value if isinstance(value, cls) else cls(*ends(value))

        inner = handler(tuple[float, float])
        return {"type": "function-wrap", "function": {"type": "no-info", "function": read}, "schema": inner}

    @property
    def low(self) -> float:
        """The lower end."""
        return self[0]

    @property
    def high(self) -> float:
        """The upper end."""
        return self[1]

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and self.low <= value <= self.high

    def within(self, low: float | None, high: float | None) -> Interval:
        """Cut off what no value can reach, from `low` to `high` (None: no end); the coverage is the same."""
        least, most = -math.inf if low is None else low, math.inf if high is None else high
        bottom, top = (min(max(end, least), most) for end in self)
        return Interval(bottom, top, self.level, self.method)

    def __str__(self) -> str:
        return f"[{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure, its interval and what both rest on."""

    value: float | None
    """The figure; None where it is undefined (no data, or 0/0)."""
    interval: Interval | None
    """95% unless its level says otherwise; None where the data do not allow one: fewer than two units, or an undefined
    figure."""
    n: int
    """How many values the figure rests on."""
    traces: int | None = None
    """How many traces (or clusters) they came from; None where each value was a unit of its own."""

    __pydantic_config__ = CLOSED

    @property
    def text(self) -> str:
        """The figure with its interval, four decimals each."""
        if self.value is None:
            return "undefined"
        span = "" if self.interval is None else f" [{self.interval.low:.4f}, {self.interval.high:.4f}]"
        return f"{self.value:.4f}{span}"

    def __str__(self) -> str:
        value = "undefined" if self.value is None else f"{self.value:.4g}"
        interval = f" {self.interval}" if self.interval else ""
        traces = f" in {self.traces} traces" if self.traces is not None else ""
        return f"{value}{interval} (n={self.n}{traces})"
