"""What goes into the engine and what comes out of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from judge_eval.schema import Claim, Judgment, Trace, Verdict

BLOCK = 16
"""How many traces are opened at once, so that their look-ups are one; few enough for a core's cache."""


@dataclass(frozen=True, slots=True)
class Item:
    """A trace on its way into the engine."""

    position: int
    """Its place in the dataset, counted from 0."""
    trace: Trace
    known: Mapping[str, Verdict]
    """Verdicts it has from before, by chunk id."""
    claims: tuple[Claim, ...] | None = None
    """The claims that those were judged by, where they were."""

    @property
    def asked(self) -> Trace:
        """The trace as the judge is given it: with claims it has from before, unless it brings its own."""
        if self.claims is None or self.trace.claims is not None:
            return self.trace
        return self.trace.model_copy(update={"claims": self.claims})


@dataclass(frozen=True, slots=True)
class Judged:
    """A trace on its way out."""

    position: int
    trace: Trace
    judgment: Judgment


Source: TypeAlias = Iterator[Item] | AsyncIterator[Item]
