"""Counting what completions were paid for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
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


@dataclass(frozen=True, slots=True)
class Counts:
    """What a stack has done up to a moment."""

    calls: int = 0
    """Completions that were paid for."""
    hits: int = 0
    """Requests answered without a call."""
    usage: Usage = field(default_factory=Usage)
    retries: Mapping[str, int] = field(default_factory=dict)
    """Attempts that were repeated, by what had gone wrong."""
    dropped: tuple[str, ...] = ()
    """What the server would not take and was left out of requests."""
    cache: Mapping[str, int] = field(default_factory=dict)
    """What is odd about the cache: rows `refused`, and answers paid for `beside` those of somebody else."""
    parts: Mapping[str, Counts] = field(default_factory=dict)
    """Of several models or workers: what each has done."""

    @classmethod
    def total(cls, parts: Mapping[str, Counts]) -> Counts:
        """Add up what several have done."""
        each = list(parts.values())
        return cls(
            sum(counts.calls for counts in each),
            sum(counts.hits for counts in each),
            sum((counts.usage for counts in each), Usage()),
            sum((Counter(counts.retries) for counts in each), Counter()),
            tuple(sorted({name for counts in each for name in counts.dropped})),
            sum((Counter(counts.cache) for counts in each), Counter()),
            parts,
        )

    def since(self, start: Counts) -> Counts:
        """Return what came after `start`."""
        return Counts(
            self.calls - start.calls,
            self.hits - start.hits,
            self.usage - start.usage,
            Counter(self.retries) - Counter(start.retries),
            self.dropped,
            Counter(self.cache) - Counter(start.cache),
        )


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
