"""What a metric's name stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from judge_eval.metrics.bounds import Bounds, Reads
from judge_eval.metrics.table import Values

Value: TypeAlias = int | float | str
Compute: TypeAlias = Callable[..., Values]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a metric: a word out of `choices`, or a number where there are none."""

    name: str
    default: Value | None
    choices: Mapping[str, str]
    """Each word with what it puts into the definition."""
    text: str
    """How the choice is introduced in the definition."""
    number: Literal["grade", "share"] = "grade"
    """Without choices: a grade >= 1, or a share from 0 to 1 with at most six decimals."""


@dataclass(frozen=True)
class Spec:
    """What a name stands for."""

    name: str
    family: Literal["rag", "trec"]
    cutoff: Literal["optional", "required", "none"]
    parameters: tuple[Parameter, ...]
    compute: Compute
    """Called with the table, the cutoff and the parameters that are not at their default."""
    formula: str
    needs_total: bool = False
    needs_pool: bool = False
    soft: bool = False
    """Whether it is over the judge's probabilities."""
    reads: Reads = "anything"
    """What the value depends on, which decides how its bounds are found."""
    less_is_better: bool = False
    """Whether a list is the worse the higher its value."""
    bounds: Callable[..., Bounds] | None = None
    """Of a metric over claims: called as `compute` is, for the bounds of every row."""

    @property
    def claims(self) -> bool:
        """Whether it is over the claims that chunks support, not over grades."""
        return self.bounds is not None

    def parameter(self, name: str) -> Parameter | None:
        """Return the parameter of that name, or None."""
        return next((parameter for parameter in self.parameters if parameter.name == name), None)


def rag(name: str, parameters: tuple[Parameter, ...], compute: Compute, formula: str, **more: Any) -> Spec:
    """Make the `Spec` of a metric in the RAG spelling, over the whole list where it has no cutoff."""
    reads = more.pop("reads", "relevance")
    return Spec(name, "rag", "optional", parameters, compute, formula, reads=reads, **more)
