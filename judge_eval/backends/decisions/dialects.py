"""The shapes in which servers of decision models are asked and answer; which one is told, never guessed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from judge_eval.backends.decisions.checking import (
    OddAnswerError,
    by_name,
    graded,
    in_order,
    odd,
    refusal,
    statement,
)
from judge_eval.prompts.decision import json_text
from judge_eval.wire import DecisionAnswer, DecisionQuestion, Questionnaire

JSON = dict[str, Any]
_MOST_JSON = 250_000
"""Bytes of compact JSON in one part; OpenAI takes 256 KiB."""
_Read = Callable[[Mapping[str, Any], DecisionQuestion], DecisionAnswer]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one kind of server is asked and answers."""

    name: str
    path: str
    """Under the base URL."""
    most: int
    """The most questions in one request."""
    write: Callable[[Questionnaire], JSON]
    """Writes the body, but for the model's name."""
    read: Callable[[Any, Sequence[DecisionQuestion]], list[DecisionAnswer]]
    """Reads the body's `answers`, one a question, in their order."""
    tokens: tuple[str, str] = ("input_tokens", "output_tokens")
    """What the body's `usage` calls tokens, and with `_details` what it calls their parts."""


# OpenAI: parts of text and JSON; answers in a list


def _openai(asked: Questionnaire) -> JSON:
    shared = [_text_part(asked.rules), _data_part(asked.shared)]
    return {
        "input": [{"role": "user", "content": shared}],
        "questions": [_openai_question(question) for question in asked.questions],
    }


def _openai_question(question: DecisionQuestion) -> JSON:
    instructions: Any = question.text
    if question.data:
        instructions = [_text_part(question.text), _data_part(question.data)]
    return _listed(question, instructions)


def _text_part(text: str) -> JSON:
    return {"type": "input_text", "text": text}


def _data_part(data: Mapping[str, Any]) -> JSON:
    """Write data as JSON, or as JSON in a text where there is more than a part may hold."""
    if _is_large(data):
        return _text_part(json_text(data))
    return {"type": "input_json", "data": data}


def _is_large(data: Mapping[str, Any]) -> bool:
    if _most_bytes(data) <= _MOST_JSON:
        return False  # as nearly always, told without writing it
    return len(json_text(data).encode("utf-8", "surrogatepass")) > _MOST_JSON


def _most_bytes(data: Mapping[str, Any]) -> int:
    """Return no fewer bytes than texts in objects take as JSON: a character takes six, a pair six more."""
    size = 6 * len(data)
    for name, value in data.items():
        size += 6 * len(name) + (6 * len(value) if isinstance(value, str) else _most_bytes(value) + 2)
    return size


def _listed(question: DecisionQuestion, instructions: Any) -> JSON:
    """Write a question as it stands in a list of them."""
    kind = "score" if question.levels else "predicate"
    asked: JSON = {"type": kind, "name": question.name, "instructions": instructions}
    if question.levels:
        asked["levels"] = [{"label": one.label, "description": one.description} for one in question.levels]
    return asked


def _read_list(answers: Any, questions: Sequence[DecisionQuestion]) -> list[DecisionAnswer]:
    try:
        read = in_order(answers, questions)
    except OddAnswerError as error:
        return [odd(str(error))] * len(questions)
    return [_each(_listed_answer, answer, asked) for answer, asked in zip(read, questions, strict=True)]


def _listed_answer(answer: Mapping[str, Any], question: DecisionQuestion) -> DecisionAnswer:
    kind = answer.get("type")
    if kind == "refusal":
        return refusal()
    _is_kind(kind, "score" if question.levels else "predicate")
    if not question.levels:
        return statement(answer.get("probability"))
    shares = answer.get("probabilities")
    if not isinstance(shares, list):
        raise OddAnswerError("there are no probabilities")
    rows = [share if isinstance(share, dict) else {} for share in shares]
    said = [(row.get("value"), row.get("label")) for row in rows]
    if said != [(grade, level.label) for grade, level in enumerate(question.levels)]:
        raise OddAnswerError("the levels are not those that were asked for, in their order")
    return graded([row.get("probability") for row in rows], answer.get("score"), question)


# vLLM: the same lists, text alone


def _vllm(asked: Questionnaire) -> JSON:
    return {
        "input": [{"role": "user", "content": f"{asked.rules}\n\n{json_text(asked.shared)}"}],
        "questions": [_listed(question, _in_text(question)) for question in asked.questions],
    }


def _in_text(question: DecisionQuestion) -> str:
    """Write a question and its data as one text."""
    return f"{question.text}\n{json_text(question.data)}" if question.data else question.text


# SGLang: yes or no, and answers in an object


def _sglang(asked: Questionnaire) -> JSON:
    questions: list[JSON] = []
    for question in asked.questions:
        written: JSON = {"id": question.name, "type": "yes_no", "question": _in_text(question)}
        if question.levels:
            written |= {"type": "score", "levels": _described(question)}
        questions.append(written)
    return {"input": f"{asked.rules}\n\n{json_text(asked.shared)}", "questions": questions}


def _described(question: DecisionQuestion) -> list[str]:
    return [f"{level.label}: {level.description}" for level in question.levels]


def _read_sglang(answer: Mapping[str, Any], question: DecisionQuestion) -> DecisionAnswer:
    _is_kind(answer.get("type"), "score" if question.levels else "yes_no")
    shares = answer.get("probabilities")
    if question.levels:
        return _by_level(shares, answer.get("score"), question)
    if not isinstance(shares, dict) or shares.keys() != {"yes", "no"}:
        raise OddAnswerError("there is no probability of yes and of no")
    return graded([shares["no"], shares["yes"]], None, question)


def _by_level(shares: Any, score: Any, question: DecisionQuestion) -> DecisionAnswer:
    wanted = [str(grade) for grade in range(question.grades)]
    if not isinstance(shares, dict) or shares.keys() != set(wanted):
        raise OddAnswerError(f"there are no probabilities of the grades 0 to {question.grades - 1}")
    return graded([shares[grade] for grade in wanted], score, question)


# System One: a state, and questions and answers in objects


def _systemone(asked: Questionnaire) -> JSON:
    questions: JSON = {}
    for question in asked.questions:
        written: JSON = {"type": "noul", "instructions": _in_text(question)}
        if question.levels:
            written |= {"type": "score", "criteria": _described(question)}
        questions[question.name] = written
    return {"state": {"rules": asked.rules, **asked.shared}, "questions": questions}


def _read_systemone(answer: Mapping[str, Any], question: DecisionQuestion) -> DecisionAnswer:
    _is_kind(answer.get("type"), "score" if question.levels else "noul")
    if question.levels:
        return _by_level(answer.get("probabilities"), answer.get("score"), question)
    return statement(answer.get("noul"))


# All


def _is_kind(kind: Any, wanted: str) -> None:
    if kind != wanted:
        raise OddAnswerError(f"an answer of another type than {wanted}")


def _each(read: _Read, answer: Mapping[str, Any], question: DecisionQuestion) -> DecisionAnswer:
    try:
        return read(answer, question)
    except OddAnswerError as error:
        return odd(str(error))


def _map_reader(read: _Read) -> Callable[[Any, Sequence[DecisionQuestion]], list[DecisionAnswer]]:
    def reading(answers: Any, questions: Sequence[DecisionQuestion]) -> list[DecisionAnswer]:
        try:
            named = by_name(answers, questions)
        except OddAnswerError as error:
            return [odd(str(error))] * len(questions)
        return [
            _each(read, named[one.name], one) if one.name in named else odd("there is no answer to it")
            for one in questions
        ]

    return reading


DIALECTS: Final[Mapping[str, Dialect]] = {
    one.name: one
    for one in (
        Dialect("openai", "/decisions", 400, _openai, _read_list),
        Dialect("vllm", "/decisions", 200, _vllm, _read_list),
        Dialect(
            "sglang",
            "/decisions",
            400,
            _sglang,
            _map_reader(_read_sglang),
            ("prompt_tokens", "completion_tokens"),
        ),
        Dialect("systemone", "/systemone", 400, _systemone, _map_reader(_read_systemone)),
    )
}
"""By name: OpenAI's, vLLM's and SGLang's `/decisions`, and `/systemone` of many servers."""
