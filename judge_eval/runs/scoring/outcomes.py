"""What came of the traces of a run, counted: verdicts, failures, stages, and verdicts to look at."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from judge_eval.errors import NEVER_ASKED
from judge_eval.runs.folder.records import TraceResult
from judge_eval.schema import Stage, repeats_of

Name = TypeVar("Name", bound=str)
MOST_NAMED = 5
"""How many traces a tally names."""
MOST_SERVED = 100
"""How many names of models a tally holds; a server that gives more names its replies, not versions of a model."""


@dataclass(slots=True)
class _Counted:
    """What is to be counted of one trace."""

    failures: Counter[str]
    stages: Counter[Stage]
    unsupported: int
    fewer_votes: int
    beyond: str | None


def served_names(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return what servers called the models, each name once; none if there are more than `MOST_SERVED`."""
    names = {name for group in groups for name in group}
    return tuple(sorted(names)) if len(names) <= MOST_SERVED else ()


class OutcomeCounts:
    """Counts the outcomes of a run; a later result of a trace replaces the earlier one."""

    def __init__(self, imported: bool) -> None:
        self._imported = imported
        self._positions: set[int] = set()
        self._counted: dict[int, _Counted] = {}
        """By position; only traces of which more than verdicts is counted."""
        self.chunks = self.failed = self._repeated = 0
        self.served = set[str]()
        """What servers called the models that answered."""

    def add(self, result: TraceResult) -> None:
        """Count a result."""
        if len(self.served) <= MOST_SERVED:
            self.served.update(call.model for call in result.calls if call.model)
        if result.position not in self._positions:
            self._positions.add(result.position)
            self.chunks += len(result.outcomes)
            self._repeated += sum(repeats_of(result.trace.chunks))
        if earlier := self._counted.pop(result.position, None):
            self.failed -= earlier.failures.total()
        failures = [outcome.why for outcome in result.outcomes if outcome.kind == "no_verdict"]
        stages, unsupported = result.stages, result.unsupported(self._imported)
        fewer_votes, beyond = result.fewer_votes, result.beyond_total
        if failures or stages or unsupported or fewer_votes or beyond:
            name = result.trace_id if beyond else None
            self._counted[result.position] = _Counted(Counter(failures), stages, unsupported, fewer_votes, name)
            self.failed += len(failures)

    @property
    def traces(self) -> int:
        """How many traces were counted."""
        return len(self._positions)

    @property
    def failures(self) -> Counter[str]:
        """Why chunks have no verdict."""
        return sum((counted.failures for counted in self._counted.values()), Counter())

    @property
    def open(self) -> int:
        """How many chunks have no verdict that asking again may bring."""
        return self.failed - sum(self.failures[why] for why in NEVER_ASKED)

    def tally(self) -> dict[str, Any]:
        """Return the fields of a `Tally` that the outcomes give."""
        counted = self._counted.values()
        beyond = [name for _, each in sorted(self._counted.items()) if (name := each.beyond) is not None]
        return {
            "traces": self.traces,
            "verdicts": self.chunks - self.failed,
            "failed_verdicts": self.failed,
            "failed_traces": sum(bool(each.failures) for each in counted),
            "failures": total_counts(each.failures for each in counted),
            "unsupported": sum(each.unsupported for each in counted),
            "fewer_votes": sum(each.fewer_votes for each in counted),
            "stages": total_counts(each.stages for each in counted),
            "beyond_total": len(beyond),
            "beyond": tuple(beyond[:MOST_NAMED]),
            "repeated": self._repeated,
        }


def total_counts(counts: Iterable[Mapping[Name, int]]) -> dict[Name, int]:
    """Add up counts by name, in alphabetical order."""
    whole = Counter[Name]()
    for each in counts:
        whole.update(each)
    return dict(sorted(whole.items()))
