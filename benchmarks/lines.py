"""A simulated rate, beside the bounds that it must keep."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One simulated rate, beside the bounds that it must keep."""

    name: str
    rate: float
    simulations: int
    low: float | None = None
    high: float | None = None

    @property
    def kept(self) -> bool:
        """Whether the rate lies within its bounds."""
        return (self.low is None or self.low <= self.rate) and (self.high is None or self.rate <= self.high)

    def __str__(self) -> str:
        error = math.sqrt(max(0.0, self.rate * (1 - self.rate)) / self.simulations)  # of a share
        bounds = (
            "" if self.low is None else f"  bounds [{self.low:.2f}, {self.high:.2f}] {'ok' if self.kept else 'BROKEN'}"
        )
        return f"{self.name:<62} {self.rate:.4f} +- {error:.4f}{bounds}"
