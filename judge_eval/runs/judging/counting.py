"""Counting what came of a run's traces, and what its calls took."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from judge_eval.backends.stack import Stack, Stacks
from judge_eval.runs.folder.records import Manifest, Tally, TraceResult
from judge_eval.schema import Stage, repeats_of

NAMED = 5
"""How many traces are named where there are many."""


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
        self._imported = manifest.imported
        self._start, self._started = stack.counts(), monotonic()
        self.failures: dict[int, Counter[str]] = {}
        """By a trace's position, why chunks of it have no verdict."""
        self._seen: set[int] = set()
        self._unsupported: dict[int, int] = {}
        self._beyond: dict[int, str] = {}
        self._stages: dict[int, Counter[Stage]] = {}
        self._chunks = self._failed = self._repeated = 0

    def add(self, result: TraceResult) -> None:
        """Count a result, in place of an earlier one of the same trace."""
        if result.position not in self._seen:
            self._seen.add(result.position)
            self._chunks += len(result.outcomes)
            self._repeated += sum(repeats_of(result.trace.chunks))
        if before := self.failures.pop(result.position, None):
            self._failed -= before.total()
        self._unsupported.pop(result.position, None)
        if bare := result.unsupported(self._imported):
            self._unsupported[result.position] = bare
        self._stages.pop(result.position, None)
        if stages := result.stages:
            self._stages[result.position] = stages
        self._beyond.pop(result.position, None)
        if result.beyond_total:
            self._beyond[result.position] = result.trace_id
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
        counts = self._stack.counts().since(self._start)
        taken = Tally(
            calls=counts.calls,
            hits=counts.hits,
            input_tokens=counts.usage.input_tokens,
            output_tokens=counts.usage.output_tokens,
            cost=self._stack.spent(self._start),
            retries=counts.retries,
            dropped=counts.dropped,
            cache=dict(counts.cache),
        )
        outcome = {
            "traces": len(self._seen),
            "verdicts": self._chunks - self._failed,
            "failed_verdicts": self._failed,
            "failed_traces": len(self.failures),
            "failures": dict(sorted(whys.items())),
            "unsupported": sum(self._unsupported.values()),
            "stages": _by_stage(self._stages.values()),
            "beyond_total": len(self._beyond),
            "beyond": tuple(self._beyond[place] for place in sorted(self._beyond)[:NAMED]),
            "repeated": self._repeated,
        }
        return total([self._before, taken]).model_copy(update=outcome)


_SUMMED = (
    *("traces", "verdicts", "failed_verdicts", "failed_traces", "repeated"),
    *("calls", "hits", "input_tokens", "output_tokens"),
)


def total(tallies: Sequence[Tally]) -> Tally:
    """Add up what several sittings or shards took; the cost is known where that of all calls is."""
    costs = [0.0 if tally.cost is None and not tally.calls else tally.cost for tally in tallies]
    known = [cost for cost in costs if cost is not None]
    failures: Counter[str] = sum((Counter(tally.failures) for tally in tallies), Counter())
    retries: Counter[str] = sum((Counter(tally.retries) for tally in tallies), Counter())
    cache: Counter[str] = sum((Counter(tally.cache) for tally in tallies), Counter())
    bare = [tally.unsupported for tally in tallies if tally.unsupported is not None]
    beyond = [tally.beyond_total for tally in tallies if tally.beyond_total is not None]
    return Tally(
        **{name: sum(getattr(tally, name) for tally in tallies) for name in _SUMMED},
        failures=dict(sorted(failures.items())),
        stages=_by_stage(Counter(tally.stages) for tally in tallies),
        unsupported=sum(bare) if len(bare) == len(tallies) else None,
        beyond_total=sum(beyond) if len(beyond) == len(tallies) else None,
        beyond=tuple(name for tally in tallies for name in tally.beyond)[:NAMED],
        cost=math.fsum(known) if len(known) == len(costs) else None,
        retries=dict(retries),
        cache=dict(sorted(cache.items())),
        dropped=tuple(sorted({name for tally in tallies for name in tally.dropped})),
    )


def _by_stage(counts: Iterable[Counter[Stage]]) -> dict[Stage, int]:
    whole: Counter[Stage] = sum(counts, Counter())
    return dict(sorted(whole.items()))
