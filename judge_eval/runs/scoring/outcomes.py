"""What came of the traces of a run, counted: verdicts, failures, stages, and verdicts to look at."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from judge_eval.errors import NEVER_ASKED, NO_FAILURE
from judge_eval.runs.folder.records import FailureExample, TraceResult
from judge_eval.safe_text import shortened
from judge_eval.schema import NoVerdict, Stage, repeats_of

Name = TypeVar("Name", bound=str)
MOST_NAMED = 5
"""How many traces a tally names."""
_LONGEST_DETAIL = 200  # characters of an example
_QUOTED = re.compile(r" ?['0-9:]| \"")  # where a detail begins to quote or count
MOST_SERVED = 100
"""How many names of models a tally holds; a server that gives more names its replies, not versions of a model."""


@dataclass(slots=True)
class _Counted:
    """What is to be counted of one trace."""

    failures: Counter[str]
    examples: dict[tuple[str, str], FailureExample]
    """By why and the words of the detail that chunks share: the first failure, and how many there are."""
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
            self.chunks += sum(outcome.kind == "verdict" or outcome.why != NO_FAILURE for outcome in result.outcomes)
            self._repeated += sum(repeats_of(result.trace.chunks))
        if earlier := self._counted.pop(result.position, None):
            self.failed -= earlier.failures.total()
        failures = [o for o in result.outcomes if o.kind == "no_verdict" and o.why != NO_FAILURE]
        stages, unsupported = result.stages, result.unsupported(self._imported)
        fewer_votes, beyond = result.fewer_votes, result.beyond_total
        if failures or stages or unsupported or fewer_votes or beyond:
            name = result.trace_id if beyond else None
            whys, examples = Counter[str](o.why for o in failures), _examples(result.trace_id, failures)
            self._counted[result.position] = _Counted(whys, examples, stages, unsupported, fewer_votes, name)
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
    def example(self) -> FailureExample | None:
        """The most frequent reason of failures, with the first chunk that has it."""
        counts, first = Counter[tuple[str, str]](), dict[tuple[str, str], FailureExample]()
        for _, counted in sorted(self._counted.items()):
            for reason, example in counted.examples.items():
                counts[reason] += example.count
                first.setdefault(reason, example)
        for reason, count in counts.most_common(1):  # of equally frequent ones the first
            return first[reason].replace(count=count)
        return None

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
            "example": self.example,
            "unsupported": sum(each.unsupported for each in counted),
            "fewer_votes": sum(each.fewer_votes for each in counted),
            "stages": total_counts(each.stages for each in counted),
            "beyond_total": len(beyond),
            "beyond": tuple(beyond[:MOST_NAMED]),
            "repeated": self._repeated,
        }


def _examples(trace_id: str, failures: Iterable[NoVerdict]) -> dict[tuple[str, str], FailureExample]:
    """Return the first failure of each reason, with how many of a trace's there are."""
    counts, first = Counter[tuple[str, str]](), dict[tuple[str, str], NoVerdict]()
    for failure in failures:
        reason = (failure.why, _QUOTED.split(failure.detail, maxsplit=1)[0])
        counts[reason] += 1
        first.setdefault(reason, failure)
    return {
        reason: FailureExample(
            why=failure.why,
            detail=shortened(failure.detail, _LONGEST_DETAIL),
            trace_id=trace_id,
            chunk_id=failure.chunk_id,
            count=counts[reason],
        )
        for reason, failure in first.items()
    }


def total_counts(counts: Iterable[Mapping[Name, int]]) -> dict[Name, int]:
    """Add up counts by name, in alphabetical order."""
    whole = Counter[Name]()
    for each in counts:
        whole.update(each)
    return dict(sorted(whole.items()))
