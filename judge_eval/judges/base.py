"""What a judge is: a plan that yields waves of requests and returns a judgment."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from judge_eval.schema import Judgment, Scale, Trace, Verdict
from judge_eval.wire import Reply, Request

Wave: TypeAlias = Sequence[Request]
"""Requests that do not depend on each other; never empty."""

Inquiry: TypeAlias = Generator[Wave, Sequence[Reply], Judgment]
"""Yields a wave, is sent the replies in the same order, returns the judgment."""


@runtime_checkable
class Judge(Protocol):
    """A plan for judging a trace, without I/O.

    Drive it by hand like this:

        inquiry = judge.inquire(trace)
        wave = next(inquiry)
        wave = inquiry.send([answer(request) for request in wave])  # StopIteration.value is the judgment
    """

    @property
    def scale(self) -> Scale:
        """The grades it gives, with the threshold in force."""
        ...

    @property
    def needs(self) -> tuple[Literal["reference", "answer"], ...]:
        """What a trace must bring besides its question."""
        ...

    def describe(self) -> dict[str, Any]:
        """Everything about it that could change a verdict, as plain JSON data, for a run's manifest."""
        ...

    def inquire(self, trace: Trace, known: Mapping[str, Verdict] = ...) -> Inquiry:
        """Plan the judging of one trace.

        Args:
            trace: What to judge.
            known: Verdicts by chunk id that are already there and not asked for again.
        """
        ...
