"""What a server advertises of its limits, and how much of it is left: pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

_SCARCE = 0.25
"""The share of a quota below which calls are paced."""


@dataclass(frozen=True, slots=True)
class Quota:
    """One advertised limit: how much a period allows, what is left, seconds until it is whole again."""

    limit: float
    remaining: float
    reset: float | None = None

    @property
    def refill(self) -> float:
        """Units a second, > 0.

        A bucket that fills steadily says so by `reset`, whatever its period; where a period starts anew
        at once, that quotient is too high, and a minute is meant.
        """
        per_minute = self.limit / 60
        if self.reset and self.limit - self.remaining >= 1:
            return min((self.limit - self.remaining) / self.reset, per_minute)
        return per_minute


@dataclass(frozen=True, slots=True)
class RateSignal:
    """What a server advertised with one reply."""

    requests: Quota | None = None
    tokens: Quota | None = None


@dataclass(frozen=True, slots=True)
class QuotaMeter:
    """A guess at what is left of a quota, carried forward from the last reply."""

    limit: float
    refill: float
    level: float
    at: float

    def left(self, now: float) -> float:
        """What is left now; below 0 where more was started than there was."""
        return min(self.limit, self.level + self.refill * (now - self.at))

    def gap(self, cost: float, now: float) -> float:
        """Seconds to leave after a call of this cost: 0 while plenty is left."""
        share = self.left(now) / (self.limit * _SCARCE)
        if share >= 1:
            return 0.0
        # Just under the refill at an empty bucket, so that it settles a little above empty.
        return cost / (self.refill * (0.98 + 2 * max(share, 0.0)))

    def spent(self, cost: float, now: float) -> QuotaMeter:
        """The meter after a call has started."""
        return QuotaMeter(self.limit, self.refill, self.left(now) - cost, now)
