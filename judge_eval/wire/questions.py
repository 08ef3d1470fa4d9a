"""Questions for a decision model: what is shared, what is asked of it, and how each is answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

from judge_eval.errors import Why

_WHYS = get_args(Why)
ROUNDED = 0.005
"""How far a probability may lie off: servers write two decimals."""
_DUST = 1e-6


class Level(NamedTuple):
    """One grade of a scale, as a decision model is told of it."""

    label: str
    description: str


class DecisionQuestion(NamedTuple):
    """One question: a statement that is true or not, or a scale of grades where `levels` are given."""

    name: str
    """Unique among those asked together; answers bear it."""
    text: str
    """What is asked, in words of ours alone."""
    data: Mapping[str, Any]
    """What it is asked about, as JSON data of its own; empty where that stands in what is shared."""
    levels: tuple[Level, ...] = ()
    """The grades from 0 on; none for a statement."""

    @property
    def grades(self) -> int:
        """How many grades an answer gives probabilities to."""
        return len(self.levels) or 2


@dataclass(frozen=True, slots=True)
class Questionnaire:
    """What one request to a decision model holds."""

    rules: str
    """What holds for every question, in words of ours alone."""
    shared: Mapping[str, Any]
    """What all questions are about, as JSON data."""
    questions: tuple[DecisionQuestion, ...]
    """One for each passage of the request, in order; or where it holds claims, one for each of those."""


class DecisionAnswer(NamedTuple):
    """How one question was answered."""

    probabilities: tuple[float, ...] = ()
    """By grade from 0 on, each 0 to 1, 1 in all but for rounding; of a statement that of false, then of true.

    Empty where there is no answer.
    """
    why: Why | None = None
    """Why there is none: `refused`, `unparsable`, or what failed."""
    detail: str = ""
    """What happened, safe to show."""


def sums_up(probabilities: Sequence[float]) -> bool:
    """Tell whether numbers are the probabilities of all grades: 0 to 1 each, 1 together but for rounding."""
    for share in probabilities:
        number: object = share  # a backend of one's own may say anything
        if not isinstance(number, int | float) or not 0 <= number <= 1:  # NaN is neither
            return False
    return abs(sum(probabilities) - 1) <= ROUNDED * len(probabilities) + _DUST


def answer_row(answer: DecisionAnswer) -> Any:
    """Write an answer as JSON data: its probabilities, or why there is none and what happened."""
    return list(answer.probabilities) if answer.probabilities else [answer.why, answer.detail]


def answer_of_row(row: Any) -> DecisionAnswer:
    """Read what `answer_row` wrote.

    Raises:
        ValueError: It is not that.
    """
    if type(row) is not list or len(row) < 2:
        raise ValueError("no answer to a question")
    if row[0] in _WHYS and len(row) == 2 and type(row[1]) is str:
        row[1].encode()  # which no lone surrogate survives
        return DecisionAnswer(why=row[0], detail=row[1])
    for share in row:
        if (type(share) is not float and type(share) is not int) or not 0 <= share <= 1:
            raise ValueError("no probability of a grade")
    return DecisionAnswer(tuple(map(float, row)))
