"""What a server says of one question: checked to the last field, or named as what cannot be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from judge_eval.wire import ROUNDED, DecisionAnswer, DecisionQuestion, sums_up

_DUST = 1e-6


class OddAnswerError(ValueError):
    """An answer is not what was asked for; the message says what it is."""


def odd(what: str) -> DecisionAnswer:
    """Make the answer of a question to which there is none that can be used."""
    return DecisionAnswer((), "unparsable", what)


def refusal() -> DecisionAnswer:
    """Make the answer of a question that the model declined."""
    return DecisionAnswer((), "refused", "the decision model declined this question")


def probability(value: Any, what: str = "a probability") -> float:
    """Read a probability.

    Raises:
        OddAnswerError: It is none, or missing.
    """
    if value is None:
        raise OddAnswerError(f"{what} is missing")
    if type(value) not in (int, float) or not 0 <= value <= 1:  # NaN is neither
        raise OddAnswerError(f"{what} is {glimpse(value)}; it lies between 0 and 1")
    return float(value)


def statement(value: Any) -> DecisionAnswer:
    """Read the probability that a statement is true.

    Raises:
        OddAnswerError: It is none.
    """
    yes = probability(value)
    return DecisionAnswer((round(1 - yes, 12), yes))


def graded(shares: Sequence[Any], score: Any, question: DecisionQuestion) -> DecisionAnswer:
    """Read the probabilities of all grades, and see that they sum up, and that the score follows from them.

    Args:
        shares: By grade from 0 on.
        score: The server's mean grade; None where it gives none.
        question: What was asked.

    Raises:
        OddAnswerError: They do not.
    """
    if len(shares) != question.grades:
        raise OddAnswerError(f"probabilities of {len(shares)} grades, not of {question.grades}")
    read = [probability(share, f"the probability of grade {grade}") for grade, share in enumerate(shares)]
    if not sums_up(read):
        raise OddAnswerError(f"the probabilities sum up to {sum(read):.4g}")
    if score is not None:
        mean = sum(grade * share for grade, share in enumerate(read))
        slack = ROUNDED * (1 + sum(range(len(read)))) + _DUST
        # The range comes first: of an integer without end there is no difference to a float.
        if type(score) not in (int, float) or not (0 <= score <= len(read) and abs(score - mean) <= slack):
            raise OddAnswerError(
                f"the score is {glimpse(score)}, and {mean:.4g} follows from the probabilities"
            )
    return DecisionAnswer(tuple(read))


def by_name(answers: Any, questions: Sequence[DecisionQuestion]) -> Mapping[str, Mapping[str, Any]]:
    """Read answers that stand in an object under their questions' names.

    Raises:
        OddAnswerError: It is no object, or holds answers that nobody asked for.
    """
    if not isinstance(answers, dict):
        raise OddAnswerError("the answers are no object")
    if more := answers.keys() - {question.name for question in questions}:
        raise OddAnswerError(f"an answer to {glimpse(min(more))}, which was not asked")
    return {name: answer if isinstance(answer, dict) else {} for name, answer in answers.items()}


def in_order(answers: Any, questions: Sequence[DecisionQuestion]) -> Sequence[Mapping[str, Any]]:
    """Read answers that stand in a list, one a question, in the questions' order, under their names.

    Raises:
        OddAnswerError: They are more or fewer, or under other names.
    """
    if not isinstance(answers, list):
        raise OddAnswerError("the answers are no list")
    if len(answers) != len(questions):
        raise OddAnswerError(f"{len(answers)} answers to {len(questions)} questions")
    read = [answer if isinstance(answer, dict) else {} for answer in answers]
    for question, answer in zip(questions, read, strict=True):
        if answer.get("name") != question.name:
            raise OddAnswerError(
                f"an answer to {glimpse(answer.get('name'))} where {question.name!r} was asked"
            )
    return read


def glimpse(value: Any) -> str:
    """Show a server's value in a few characters, none of which steer a terminal or fit no file."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = ascii(value)
    return text if len(text) <= 40 else text[:37] + "..."
