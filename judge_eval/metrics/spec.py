"""The `Spec` of a metric, and the check of its values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import MetricError
from judge_eval.metrics.bounds import Bounds, Reads
from judge_eval.metrics.table import GradeTable, Values
from judge_eval.settings import ValueLimits, ends

Value: TypeAlias = int | float | str
Compute: TypeAlias = Callable[..., Values]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a metric: a word out of `choices`, or a number where there are none."""

    name: str
    default: Value | None
    choices: Mapping[str, str]
    """Each word with its text in the definition."""
    text: str
    """Its name in the definition."""
    number: Literal["grade", "share"] = "grade"
    """Without choices: a grade >= 1, or a share from 0 to 1 with at most six decimals."""


@dataclass(frozen=True)
class Spec:
    """A metric by its name: its function, parameters, formula and limits."""

    name: str
    family: Literal["rag", "trec"]
    cutoff: Literal["optional", "required", "none"]
    parameters: tuple[Parameter, ...]
    compute: Compute
    """Called with the table, the cutoff and the parameters that are not at their default."""
    formula: str
    needs_total: bool = False
    needs_pool: bool = False
    probabilities: bool = False
    """Whether it is over the judge's probabilities."""
    reader: bool = False
    """Whether it is over a reader's probabilities to abstain with each chunk alone."""
    any_threshold: bool = False
    """Of a metric over probabilities: whether it reads mean grades, which do not depend on a threshold."""
    reads: Reads = "anything"
    """What the value depends on; its bounds rest on it."""
    less_is_better: bool = False
    """Whether a lower value is better."""
    main: bool = False
    """Whether it is shown before the other metrics of a run."""
    perfect_is_one: bool = False
    """Whether it is 1 for a perfect order of a list with something relevant, and 0 for a list without."""
    rank_shares: Callable[[Sequence[bool]], list[float]] | None = None
    """What each rank adds to the value of a list, of which is said at each rank whether its chunk is relevant."""
    by_claims: str | None = None
    """The metric over claims that takes its place if the judge says which claims each chunk supports."""
    bounds: Callable[..., Bounds] | None = None
    """Of a metric over claims: called as `compute` is, for the bounds of every row."""
    additive: bool = False
    """Whether the value is a sum of what each chunk adds by its own grade, rank and length of list."""
    expected_by: str | None = None
    """The metric that is its mean if each chunk is relevant by itself with a probability."""
    evidence: Literal["of claims", "any"] | None = None
    """Of a metric with its cutoff in words: the evidence of which it asks when it has been read. It has `bounds`."""
    in_words: Spec | None = None
    """The metric of this name with its cutoff in words (`@500w`); None if there is none."""
    limits: ValueLimits = (0.0, 1.0)
    """The least and the greatest value that any list can have; None if there is none. Intervals, bounds
    and gates rest on it."""
    claims: bool = field(init=False)
    """Whether it is over the claims that chunks support, not over grades."""
    grades_alone: bool = field(init=False)
    """Whether it reads nothing of a list but its grades."""

    def __post_init__(self) -> None:
        least, greatest = self.limits
        if any(end is not None and not math.isfinite(end) for end in self.limits) or (
            least is not None and greatest is not None and least >= greatest
        ):
            raise ValueError(
                f"{self.name}: limits={self.limits!r}; give the least and the greatest value, None for none"
            )

        claims = self.bounds is not None and self.evidence != "any"
        object.__setattr__(self, "claims", claims)
        object.__setattr__(
            self, "grades_alone", not (claims or self.probabilities or self.reader or self.evidence is not None)
        )


def rag(name: str, parameters: tuple[Parameter, ...], compute: Compute, formula: str, **more: Any) -> Spec:
    """Make the `Spec` of a metric in the RAG spelling, over the whole list where it has no cutoff."""
    reads = more.pop("reads", "relevance")
    return Spec(name, "rag", "optional", parameters, compute, formula, reads=reads, **more)


ROUNDING = 1e-9
"""A value may be beyond a limit by this much; relative to a limit above 1."""


def limits_text(limits: ValueLimits) -> str:
    """Write limits for a message: `from 0 to 1`, `at least 0`, `any number`."""
    least, greatest = limits
    if least is None:
        return "any number" if greatest is None else f"at most {greatest:g}"
    return f"at least {least:g}" if greatest is None else f"from {least:g} to {greatest:g}"


def check_values(
    name: str, values: Any, table: GradeTable, limits: ValueLimits, rows: NDArray[np.bool_] | None = None
) -> Values:
    """Check that a metric has one number (or NaN) within its limits a row (or some), and return float64."""
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        column = np.empty((0, 0))
    if column.shape != (len(table),):
        raise MetricError(f"{name}: its function must return one number for each row, shape ({len(table)},)")
    least, greatest = ends(limits)
    slack = [ROUNDING * max(1.0, abs(end)) if np.isfinite(end) else 0.0 for end in (least, greatest)]
    with np.errstate(invalid="ignore"):
        wrong = (column < least - slack[0]) | (column > greatest + slack[1]) | np.isinf(column)
    if rows is not None:
        wrong &= rows
    if wrong.any():
        (row, *_) = np.flatnonzero(wrong).tolist()
        raise MetricError(
            f"{name}: returns {column[row]:g}, outside of its limits ({limits_text(limits)}), for the grades "
            f"{table.row(row)[:20].tolist()}; its `Spec` must state `limits` that hold for every list"
        )
    return column


REL = Parameter("rel", None, {}, "relevant")
DEDUP = Parameter(
    "dedup",
    "none",
    {
        "none": "a text that is repeated counts at each of its ranks",
        "text": "a chunk with title and text of an earlier one takes its rank, and v_i = 0 there",
    },
    "repeated texts",
)
