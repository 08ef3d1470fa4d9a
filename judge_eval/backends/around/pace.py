"""The pace that a server takes where it advertises no limit, learned from rejections: pure arithmetic.

Whether rejections are the rule is decided by a cumulative sum of evidence over calls in the order of their
starts (Page, "Continuous inspection schemes", 1954): a tenth rejected at random does not add up, a third
does. Then calls are paced: below what was completed lately at first, back to it within seconds, there for
a while, and beyond it faster and faster (Ha, Rhee and Xu, "CUBIC", 2008), until the next rejection.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

_RANDOM, _RULE = 0.1, 0.35
"""The shares of rejected calls between which is decided: faults at random, and a limit."""
_FOR = math.log(_RULE / _RANDOM)
_AGAINST = math.log((1 - _RANDOM) / (1 - _RULE))
"""What a rejected call speaks for a limit, and what another one speaks against it."""
_SUSPECTED, _HELD, _CONVINCED = 2 * _FOR, 4.0 * _FOR - 1e-9, 6.0 * _FOR - 1e-9
"""The evidence of so many rejections in a row, for a narrower window, for holding everybody, for a pace."""
_FIRST, _DEEP, _SLIGHT = 0.2, 0.5, 0.1
"""By how much the pace falls: as a limit is first met, as rejections are the rule again, at a lone one."""
_RETURN = 5.0
"""The seconds after which it is back."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What is known of the pace; times in seconds on one clock, paces in calls a second."""

    doubt: float = 0.0
    """The evidence that rejections are the rule, >= 0."""
    last: int = 0
    """The number of the last call that was rejected."""
    flow: float = 0.0
    """Completions a second lately."""
    flow_at: float = -math.inf
    """The time of the last completion."""
    top: float = 0.0
    """The pace at which rejections came; 0 where none was learned."""
    depth: float = 0.0
    """The share of it that was taken off then."""
    least: float = 0.0
    """A pace under which rejections are no longer the limit's."""
    fell_at: float = -math.inf
    """When the pace fell."""
    old: int = 0
    """The calls started until then, which tell nothing of the pace since."""

    @property
    def suspected(self) -> bool:
        """Whether rejections came close together."""
        return self.doubt > _SUSPECTED

    @property
    def rule(self) -> bool:
        """Whether rejections are the rule."""
        return self.doubt >= _HELD

    def at(self, now: float) -> float | None:
        """Return the pace, > 0; None where nothing limits it."""
        if not self.top:
            return None
        return self.top * (1 + self.depth * (max(0.0, now - self.fell_at) / _RETURN - 1) ** 3)

    def completed(self, now: float, span: float, *, since: float) -> Pace:
        """Note a completion.

        Args:
            now: The time.
            span: The seconds that count as lately.
            since: Until when no call was let through; that time does not count.
        """
        gone = max(0.0, now - max(self.flow_at, since))
        flow = self.flow * math.exp(-gone / span) + 1 / span
        # Spelled out, since it is done for every call.
        return Pace(
            self.doubt, self.last, flow, now, self.top, self.depth, self.least, self.fell_at, self.old
        )

    def rejected(self, number: int, started: int, now: float, *, learn: bool, cautious: bool) -> Pace:
        """Note a rejection.

        Calls that started in between and are not rejected yet count as taken: rejections come sooner
        than completions.

        Args:
            number: The number of the rejected call.
            started: How many calls have started so far.
            now: The time.
            learn: Whether a pace is needed: not where the server tells its limit.
            cautious: Whether no limit was met before, so that completions lag behind calls.
        """
        # One that comes behind a later one had been counted as taken: that is taken back.
        between = number - self.last - 1 if number > self.last else -1
        last = max(number, self.last)
        if number <= self.old:
            return replace(self, last=last)
        doubt = max(0.0, self.doubt - _AGAINST * between) + _FOR
        seen = replace(self, doubt=min(doubt, _CONVINCED), last=last)
        pace = self.at(now)
        if doubt >= _CONVINCED and learn:
            top = self.flow if pace is None else min(pace, self.flow)
            depth = _FIRST if cautious else _DEEP
            least = top * (1 - depth) / 2
            return replace(seen, doubt=_HELD, top=top, depth=depth, least=least, fell_at=now, old=started)
        if pace is None:
            return seen
        # Where the pace has fallen by half and rejections go on singly, they are not about the pace.
        top = pace if pace >= self.least else 0.0
        return replace(seen, top=top, depth=_SLIGHT, fell_at=now, old=started)


UNKNOWN = Pace()
"""Nothing is known yet."""
