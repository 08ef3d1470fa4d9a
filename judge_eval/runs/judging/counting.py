"""Counting what came of a run's traces, and what its calls took."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from judge_eval.backends.stack import Stack, Stacks
from judge_eval.runs.folder.records import Manifest, Tally, TraceResult


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is; handed to whoever watches."""

    traces: int
    total: int | None
    """How many traces there are; None for a stream."""
    verdicts: int
    failed: int
    calls: int
    hits: int
    retries: int
    seconds: float
    folder: str | None


class Counting:
    """The counts of a sitting, on top of what earlier ones of its run took.

    Args:
        stack: Who counts the calls.
        manifest: Of the run at the start; its tally tells what earlier sittings took.
    """

    def __init__(self, stack: Stack | Stacks, manifest: Manifest) -> None:
        self._stack, self._before, self._dataset = stack, manifest.tally, manifest.dataset
        self._start, self._started = stack.counts(), monotonic()
        self.failures: dict[int, Counter[str]] = {}
        """By a trace's position, why chunks of it have no verdict."""
        self._seen: set[int] = set()
        self._chunks = self._failed = 0

    def add(self, result: TraceResult) -> None:
        """Count a result, in place of an earlier one of the same trace."""
        if result.position not in self._seen:
            self._seen.add(result.position)
            self._chunks += len(result.outcomes)
        if before := self.failures.pop(result.position, None):
            self._failed -= before.total()
        whys = [o.why for o in result.outcomes if o.kind == "no_verdict"]
        if whys:
            self.failures[result.position] = Counter(whys)
            self._failed += len(whys)

    @property
    def few_unreadable(self) -> bool:
        """Whether a few replies (at most a tenth) stayed unreadable, which another sitting may mend."""
        unreadable = sum(whys["unparsable"] for whys in self.failures.values())
        return 0 < unreadable <= max(1, self._chunks // 10)

    def progress(self, folder: Path | None) -> Progress:
        """Tell how far the run is; `folder` is where it is kept."""
        counts = self._stack.counts().since(self._start)
        return Progress(
            traces=len(self._seen),
            total=(self._dataset.shard or self._dataset).traces or None,
            verdicts=self._chunks - self._failed,
            failed=self._failed,
            calls=counts.calls,
            hits=counts.hits,
            retries=sum(counts.retries.values()),
            seconds=monotonic() - self._started,
            folder=None if folder is None else str(folder),
        )

    def tally(self) -> Tally:
        """Tell what the run took in all its sittings, and what failed in it."""
        whys: Counter[str] = sum(self.failures.values(), Counter())
        before, counts = self._before, self._stack.counts().since(self._start)
        cost = self._stack.spent(self._start)
        unknown = before.cost is None and before.calls
        return Tally(
            traces=len(self._seen),
            verdicts=self._chunks - self._failed,
            failed_verdicts=self._failed,
            failed_traces=len(self.failures),
            failures=dict(sorted(whys.items())),
            calls=before.calls + counts.calls,
            hits=before.hits + counts.hits,
            input_tokens=before.input_tokens + counts.usage.input_tokens,
            output_tokens=before.output_tokens + counts.usage.output_tokens,
            cost=None if cost is None or unknown else cost + (before.cost or 0.0),
            retries=dict(Counter(before.retries) + Counter(counts.retries)),
            dropped=tuple(sorted({*before.dropped, *counts.dropped})),
        )
