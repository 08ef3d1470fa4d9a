"""Which traces of the data a run judges, and how they are read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar

from judge_eval.data.claimfiles import ClaimsFile
from judge_eval.data.options import ReadOptions
from judge_eval.errors import ConfigError
from judge_eval.ranges import check_ranges

OnInvalid = Literal["error", "skip"]
Verb = TypeVar("Verb", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Selection:
    """Which traces are judged.

    Raises:
        ConfigError: A number is out of its range.
    """

    limit: int | None = None
    """The most traces to judge."""
    seed: int | None = None
    """With `limit`, takes a random sample, in the dataset's order, instead of the first traces."""
    shard: tuple[int, int] | None = None
    """`(i, n)` judges part i of n, i from 1."""
    on_invalid: OnInvalid = "error"
    """Whether an invalid record ends the evaluation before it starts, or is skipped."""
    name: str | None = None
    """What to call the data in messages and in the run; a file's path by default."""
    reader: ReadOptions | None = None
    """How files and rows are to be read, where they do not say so themselves."""
    claims: str | Path | ClaimsFile | None = None
    """A file with the claims of the references, see `judge-eval claims`; all traces must be in it."""

    def __post_init__(self) -> None:
        check_ranges({"limit": self.limit, "seed": self.seed})
        if self.shard is not None:
            check_ranges({"shard": self.shard[1]})

    def check_stream(self, newest: bool) -> None:
        """See that a stream will do.

        Args:
            newest: Whether the newest run of the same data is to be gone on with.

        Raises:
            ConfigError: Something asked for takes data that can be read twice.
        """
        if newest or not (self.limit is None and self.shard is None and self.claims is None):
            raise ConfigError(
                "a stream can be read only once; `limit`, `shard`, `claims` and `resume=True` need a list or "
                "a file"
            )


EVERY_TRACE = Selection()


class Selecting(TypedDict, total=False):
    """The fields of `Selection` as the keywords that `Evaluator.evaluate` and its siblings take."""

    limit: int | None
    seed: int | None
    shard: tuple[int, int] | None
    on_invalid: OnInvalid
    name: str | None
    reader: ReadOptions | None
    claims: str | Path | ClaimsFile | None


def selecting(verb: Verb) -> Verb:
    """Have `help()` and editors show the keywords of `Selecting` one by one in a function's signature."""
    shown = inspect.signature(verb)
    named = [one for one in shown.parameters.values() if one.kind is not one.VAR_KEYWORD]
    each = [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
        for one in fields(Selection)
    ]
    verb.__signature__ = shown.replace(parameters=[*named, *each])  # type: ignore[attr-defined]
    return verb
