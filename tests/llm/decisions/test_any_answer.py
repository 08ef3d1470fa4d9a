"""Any body whatever in answer to questions: no number that is not there."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from judge_eval.errors import JudgeEvalError
from judge_eval.llm.http.client import Received
from judge_eval.llm.http.decisions import Decisions
from judge_eval.wire import Completion, DecisionQuestion, Request
from tests.support.asking_decisions import BINARY_PROMPT, PROMPTS, TEXTS, complete_all, request
from tests.support.decision_server import DecisionServer
from tests.support.decision_shapes import DIALECT_NAMES, DialectName

QUESTIONS = 3
ODD: list[Any] = [
    None, True, False, 0, 1, 0.5, -1, 1.2, 10**400, -0.0, 1e-300, float("nan"), float("inf"), "", "0.9", "c1",
    "c2", [], {}, [[]], {"": None}, "\ud800", "predicate", "score", "refusal", "noul", "yes_no",
    {"c1": 1}, {"yes": 1, "no": 0}, [0.5, 0.5], {"0": 1.0, "1": 0.0},
]  # fmt: skip


def bodies(dialect: DialectName, prompt: str, count: int, seed: int) -> Iterator[tuple[bytes, Any]]:
    """Yield replies with up to four faults anywhere in them, as they are sent and as JSON reads them."""
    rng = random.Random(seed)
    server = DecisionServer(dialect, lambda text: rng.choice([0.0, 0.25, 0.5, 1.0, rng.random()]))
    body = asked_of_backend_body(dialect, prompt)
    for _ in range(count):
        result = copy.deepcopy(server.answer(body, {}).body)
        for _ in range(rng.randint(1, 4)):
            result = mutated(result, rng)
        yield json.dumps(result).encode(), result


def asked_of_backend_body(dialect: DialectName, prompt: str) -> bytes:
    """Write the body of a request with three questions."""
    backend = Decisions("m", base_url="http://127.0.0.1:9/v1", params={"dialect": dialect})
    asked = three(prompt).questionnaire
    assert asked is not None
    return backend.body(asked)


def three(prompt: str) -> Request:
    """Make a request of three questions."""
    return request(*TEXTS[:QUESTIONS], prompt=prompt)


def mutated(value: Any, rng: random.Random) -> Any:
    """Return JSON with something of it replaced, removed, doubled, or moved."""
    if rng.random() < 0.1 or not isinstance(value, dict | list) or not value:
        return copy.deepcopy(rng.choice(ODD))
    if isinstance(value, list):
        place = rng.randrange(len(value))
        how = rng.random()
        if how < 0.15:
            return value[:place] + value[place + 1 :]
        if how < 0.3:
            return [*value, copy.deepcopy(value[place])]
        if how < 0.45:
            return rng.sample(value, len(value))
        return [*value[:place], mutated(value[place], rng), *value[place + 1 :]]
    name = rng.choice(list(value))
    if rng.random() < 0.15:
        return {key: each for key, each in value.items() if key != name}
    if rng.random() < 0.1:
        other = rng.choice([*value, "c9", "name", "probability"])
        return {(other if key == name else key): each for key, each in value.items()}
    return {**value, name: mutated(value[name], rng)}


def number(value: Any) -> bool:
    """Tell whether a value is a probability."""
    return type(value) in (int, float) and 0 <= value <= 1


def shares_in(dialect: DialectName, told: Any, place: int, question: DecisionQuestion) -> list[float] | None:
    """Find, by a second reading, the probabilities that a reply may be taken to give a question."""
    answers = told.get("answers") if isinstance(told, dict) else None
    if dialect in ("openai", "vllm"):
        if not isinstance(answers, list) or len(answers) != QUESTIONS or not isinstance(answers[place], dict):
            return None
        first = answers[place]
        if first.get("name") != question.name:
            return None
        if not question.levels:
            yes = first.get("probability")
            return [1 - yes, yes] if number(yes) else None
        rows = first.get("probabilities")
        if not isinstance(rows, list) or [r.get("label") for r in rows] != [x.label for x in question.levels]:
            return None
        shares = [r.get("probability") for r in rows]
    else:
        if not isinstance(answers, dict) or not isinstance(answers.get(question.name), dict):
            return None
        first = answers[question.name]
        if not question.levels and dialect == "systemone":
            yes = first.get("noul")
            return [1 - yes, yes] if number(yes) else None
        keys = [str(n) for n in range(4)] if question.levels else ["no", "yes"]
        result = first.get("probabilities")
        if not isinstance(result, dict):
            return None
        shares = [result.get(key) for key in keys]
    return shares if all(map(number, shares)) and abs(sum(shares) - 1) < 0.03 else None


def read_all(dialect: DialectName, prompt: str, count: int, seed: int) -> int:
    """Read many odd replies; return how many probabilities were found in them."""
    backend = Decisions("m", base_url="http://127.0.0.1:9/v1", params={"dialect": dialect})
    made, result = three(prompt), 0
    asked = made.questionnaire
    assert asked is not None
    replies = list(bodies(dialect, prompt, count, seed))
    line = iter(replies)

    async def post(body: bytes) -> Received:
        return Received(200, {"x-request-id": "req"}, next(line)[0])

    backend.post = post  # type: ignore[method-assign]
    completions = complete_all(backend, [made] * count)
    for (_, outcome), completion in zip(replies, completions, strict=True):
        if isinstance(completion, BaseException):
            assert isinstance(completion, JudgeEvalError), repr(completion)
            continue
        assert len(completion.answers) == QUESTIONS
        assert Completion.decode(completion.encode()) == completion
        for place, (question, answer) in enumerate(zip(asked.questions, completion.answers, strict=True)):
            if not answer.probabilities:
                assert answer.why in ("refused", "unparsable")
                assert answer.detail
                continue
            result += 1
            assert shares_in(dialect, outcome, place, question) == pytest.approx(list(answer.probabilities))
    return result


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_odd_replies_give_no_number_that_is_not_there(dialect: DialectName, prompt: str) -> None:
    """Whatever a reply holds: no error but our own, and no probability that it does not give the question."""
    assert read_all(dialect, prompt, 250, seed=1) > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_many_odd_replies_give_no_number_that_is_not_there(dialect: DialectName, prompt: str, seed: int) -> None:
    """The same of forty thousand replies."""
    read_all(dialect, prompt, 1_000, seed + 10)


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_deep_and_long_replies_are_read_to_an_end(dialect: DialectName) -> None:
    """Nesting and numbers that no reader takes end neither the run nor the other traces."""
    deep = "[" * 500 + "]" * 500
    for odd in (deep, "9" * 5000, '"' + "x" * 100_000 + '"', "1e999", '{"a":' * 150 + "1" + "}" * 150):
        bodies = [f'{{"answers": {odd}}}', f'{{"answers": [{odd}, {odd}, {odd}]}}']
        bodies.append(f'{{"answers": {{"c1": {odd}, "c2": {{"type": {odd}, "noul": {odd}}}}}}}')
        bodies.append(f'{{"answers": [{{"name": "c1", "type": "predicate", "probability": {odd}}}, 1, 2]}}')
        bodies.append(f'{{"answers": [], "usage": {odd}, "model": {odd}}}')
        for body in bodies:
            backend = Decisions("m", base_url="http://127.0.0.1:9/v1", params={"dialect": dialect})

            async def post(_: bytes, body: str = body) -> Received:
                return Received(200, {}, body.encode())

            backend.post = post  # type: ignore[method-assign]
            (result,) = complete_all(backend, [three(BINARY_PROMPT)])
            if isinstance(result, BaseException):
                assert isinstance(result, JudgeEvalError)
            else:
                assert not any(answer.probabilities for answer in result.answers)
