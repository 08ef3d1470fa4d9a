"""Who judges a run, and how calls are made."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, Self

from judge_eval.backends.stack import Stack, Stacks
from judge_eval.engine import Engine, Judged, Source
from judge_eval.judges.base import Judge
from judge_eval.runs.scoring.scorer import Scorer


class Driver(AbstractAsyncContextManager[Any], Protocol):
    """Whoever drives a run's inquiries in place of the engine, such as over many machines."""

    @property
    def stack(self) -> Stack | Stacks | None:
        """Who answers, and counts what it took; None where that is the evaluator's own stack."""
        ...

    def judging_by(self, judge: Judge) -> Self:
        """Take the judge, which may not be the evaluator's own, before it starts; return the driver."""
        ...

    def take(self) -> list[Judged]:
        """Return what has finished and was not handed on yet."""
        ...

    def results(self, source: Source) -> AsyncIterator[list[Judged]]:
        """Judge every trace of the source and yield blocks of them as they finish, in no fixed order."""
        ...


@dataclass(frozen=True, slots=True)
class Calling:
    """Who judges, and how calls are made."""

    judge: Judge
    stack: Stack | Stacks
    scorer: Scorer
    concurrency: int
    """How many calls may be under way."""
    lead: bool
    """Whether a trace's first call goes ahead of its siblings."""
    driver: Driver | None = None
    """Who drives the inquiries; None has it done in this process."""

    def engine(self) -> Engine | Driver:
        """Return who drives the inquiries."""
        return (
            self.driver.judging_by(self.judge)
            if self.driver
            else Engine(
                self.judge,
                self.stack.backend,
                concurrency=self.concurrency,
                lead=self.lead,
                salvage=lambda: not self.stack.keeps,
            )
        )
