"""Counting what completions were paid for."""

from __future__ import annotations

from dataclasses import dataclass, field

from judge_eval.backends.base import Backend, Wrapper
from judge_eval.wire import Completion, Request, Usage


@dataclass(slots=True)
class Meter:
    """What was paid for so far: every completion that arrived, readable or not."""

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    dropped: set[str] = field(default_factory=set)
    """What the server would not take and was left out of requests."""


class Metered(Wrapper):
    """Counts the completions that come through; stands between the cache and whoever is paid.

    Args:
        inner: Whom to ask.
    """

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.meter = Meter()

    async def complete(self, request: Request) -> Completion:
        """Ask, and count what came."""
        completion = await self.inner.complete(request)
        meter = self.meter
        meter.calls += 1
        meter.usage += completion.usage
        meter.dropped.update(completion.dropped)
        return completion
