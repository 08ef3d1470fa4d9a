"""A server of decision models on loopback: real HTTP, one dialect each, strict about what it is sent.

In a test::

    with DecisionServer("openai", rule=lambda text: 0.9 if "tomato" in text else 0.1) as server:
        server.fault = "swapped"               # every answer from now on has it
        server.script(error(429))              # the next call gets this
        backend = create("some-model", base_url=server.url, params={"dialect": "openai"})

As a process of its own (for benchmarks): `python -m tests.support.decision_server --latency 0.05` prints its
URL as the first line. `GET /_stats` counts.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, TypeAlias

import pytest
from pydantic import BaseModel, ConfigDict, Field, StrictStr, TypeAdapter, ValidationError

from tests.support.canned import Canned, error
from tests.support.chat_answers import decide
from tests.support.chat_server import ChatServer

pytest.importorskip("openai.types.decision_create_params", reason="the SDK is older than decision models")

from openai.types.decision_create_params import DecisionCreateParams

DialectName: TypeAlias = Literal["openai", "vllm", "sglang", "systemone"]
DIALECT_NAMES: Final[tuple[DialectName, ...]] = ("openai", "vllm", "sglang", "systemone")
Share: TypeAlias = float | tuple[float, ...] | None
"""Of a chunk: the probability that it is relevant, those of all levels, or None to decline the question."""
JSON: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Posed:
    """One question as the server understands it."""

    name: str
    levels: tuple[str, ...]
    """Their labels; none of a statement."""
    text: str
    """Of the chunk that it is about."""


# What the servers take


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


_Mega = Annotated[StrictStr, Field(max_length=2**20)]
_Filled = Annotated[StrictStr, Field(min_length=1, pattern=r"\S")]


class _VllmMessage(_Strict):
    role: Literal["user"]
    content: Annotated[StrictStr, Field(max_length=10 * 2**20)]


class _VllmLevel(_Strict):
    label: _Mega
    description: _Mega = ""


class _VllmPredicate(_Strict):
    type: Literal["predicate"]
    name: _Mega
    instructions: _Mega


class _VllmScore(_Strict):
    type: Literal["score"]
    name: _Mega
    instructions: _Mega
    levels: list[_VllmLevel] = Field(min_length=2, max_length=10)


class _Vllm(_Strict):
    model: _Mega
    input: list[_VllmMessage]
    questions: list[Annotated[_VllmPredicate | _VllmScore, Field(discriminator="type")]] = Field(
        min_length=1, max_length=200
    )


class _SglangYesNo(_Strict):
    id: _Filled
    type: Literal["yes_no"]
    question: _Filled


class _SglangScore(_Strict):
    id: _Filled
    type: Literal["score"]
    question: _Filled
    levels: list[_Filled] = Field(min_length=2, max_length=10)


class _Sglang(_Strict):
    model: str
    input: _Filled
    temperature: float = Field(default=1.0, gt=0)
    questions: list[Annotated[_SglangYesNo | _SglangScore, Field(discriminator="type")]] = Field(min_length=1)


class _SystemOneNoul(_Strict):
    type: Literal["noul"]
    instructions: _Filled


class _SystemOneScore(_Strict):
    type: Literal["score"]
    instructions: _Filled
    criteria: list[_Filled] = Field(min_length=1, max_length=10)


class _SystemOne(BaseModel):  # unknown fields of the whole are ignored there
    model: str
    state: JSON
    questions: dict[str, Annotated[_SystemOneNoul | _SystemOneScore, Field(discriminator="type")]] = Field(
        min_length=1
    )


_SHAPES: Final[Mapping[DialectName, type[BaseModel]]] = {
    "vllm": _Vllm,
    "sglang": _Sglang,
    "systemone": _SystemOne,
}
_SDK: Final[TypeAdapter[Any]] = TypeAdapter(DecisionCreateParams)
_KEYS: Final[Mapping[str, set[str]]] = {
    "predicate": {"type", "name", "instructions"},
    "score": {"type", "name", "instructions", "levels"},
    "input_text": {"type", "text"},
    "input_json": {"type", "data"},
}


def objection(dialect: DialectName, body: JSON) -> str:
    """Say why such a server declines a body; "" where it takes it."""
    try:
        if dialect != "openai":
            _SHAPES[dialect].model_validate(body)
        else:
            _consume(_SDK.validate_python(_without_data(body), strict=True))
            _check_openai(body)
    except (ValidationError, ValueError) as wrong:
        return str(wrong)[:500]
    if dialect != "systemone":
        names = [question.get("name") or question.get("id") for question in body["questions"]]
        if len(set(names)) < len(names):
            return "names of questions repeat"
    return ""


def _without_data(value: Any) -> Any:
    """Leave out the data of JSON parts: pydantic takes an object there for an iterable of its keys."""
    if isinstance(value, dict):
        if value.get("type") == "input_json":
            return {**value, "data": []}
        return {name: _without_data(each) for name, each in value.items()}
    return [_without_data(each) for each in value] if isinstance(value, list) else value


def _consume(value: Any) -> None:
    """Walk through what is validated only when it is read."""
    if isinstance(value, Mapping):
        for each in value.values():
            _consume(each)
    elif isinstance(value, Iterable) and not isinstance(value, str):
        for each in value:
            _consume(each)


def _check_openai(body: JSON) -> None:
    if body.keys() - DecisionCreateParams.__annotations__.keys():
        raise ValueError("unknown field")
    if not 1 <= len(body["questions"]) <= 400:
        raise ValueError("between 1 and 400 questions")
    for question in body["questions"]:
        if question.keys() != _KEYS[question["type"]]:
            raise ValueError(f"fields of a question: {sorted(question)}")
        if question["type"] == "score" and not 2 <= len(question["levels"]) <= 10:
            raise ValueError("between 2 and 10 levels")
        _check_parts(question["instructions"])
    for message in body["input"]:
        if message.keys() - {"role", "content", "type"}:
            raise ValueError("fields of a message")
        _check_parts(message["content"])


def _check_parts(parts: Any) -> None:
    for part in [] if isinstance(parts, str) else parts:
        if part.keys() != _KEYS[part["type"]]:
            raise ValueError(f"fields of a part: {sorted(part)}")
        if part["type"] == "input_json":
            if not isinstance(part["data"], dict):
                raise ValueError("data is no object")
            size = len(json.dumps(part["data"], ensure_ascii=False, separators=(",", ":")).encode())
            if size > 256 * 1024 or _values(part["data"]) > 10_000 or _depth(part["data"]) > 32:
                raise ValueError("input_json is too big")


def _values(data: Any) -> int:
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return 1 + sum(map(_values, inner))


def _depth(data: Any) -> int:
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


# What the questions are about


def shared_of(dialect: DialectName, body: JSON) -> JSON:
    """Return the data that all questions share."""
    if dialect == "systemone":
        shared: JSON = body["state"]
    elif dialect == "sglang":
        shared = json.loads(body["input"].rpartition("\n\n")[2])
    elif dialect == "vllm":
        shared = json.loads(body["input"][0]["content"].rpartition("\n\n")[2])
    else:
        shared = _data(body["input"][0]["content"])
    return shared


def asked_of(dialect: DialectName, body: JSON) -> list[tuple[str, Any]]:
    """Return each question's name with all that was sent of it."""
    if dialect == "systemone":
        return list(body["questions"].items())
    return [(one["id" if dialect == "sglang" else "name"], one) for one in body["questions"]]


def posed(dialect: DialectName, body: JSON) -> list[Posed]:
    """Understand the questions of a body."""
    shared = shared_of(dialect, body)
    found = []
    for name, question in asked_of(dialect, body):
        told = question.get("instructions") or question.get("question")
        own = _data(told)
        chunk = own.get("chunk") or shared.get("chunk") or shared.get("chunks", {}).get(name)
        levels = question.get("levels") or question.get("criteria") or ()
        labels = tuple(one["label"] if isinstance(one, dict) else one for one in levels)
        found.append(Posed(name, labels, chunk["text"]))
    return found


def _data(told: Any) -> JSON:
    """Find the data of instructions: a part of JSON, or the last line of a text."""
    parts = [{"type": "input_text", "text": told}] if isinstance(told, str) else told
    last = parts[-1]
    if last["type"] == "input_json":
        found: JSON = last["data"]
        return found
    text = last["text"].rpartition("\n")[2]
    return json.loads(text) if text.startswith("{") else {}


# What they answer


def answer(dialect: DialectName, one: Posed, share: Share, decimals: int | None) -> JSON:
    """Answer one question; `name` says whose answer it is, also where that is a key in the end."""
    if share is None:
        return {"type": "refusal", "name": one.name}
    if isinstance(share, float | int):
        share = (1 - share, share)
        if one.levels:
            low, high = (each / 2 for each in share)
            share = (low,) * (len(one.levels) - 2) + (high, high) if len(one.levels) == 4 else share
    shares = [round(each, decimals) if decimals is not None else each for each in share]
    if not one.levels:
        return {
            "openai": {"type": "predicate", "name": one.name, "probability": shares[1]},
            "vllm": {"type": "predicate", "name": one.name, "probability": shares[1]},
            "sglang": {
                "type": "yes_no", "name": one.name, "probabilities": {"yes": shares[1], "no": shares[0]},
                "label_mass": 0.98, "choice": None, "score": None,
            },
            "systemone": {"type": "noul", "name": one.name, "noul": shares[1]},
        }[dialect]  # fmt: skip
    mean = sum(grade * each for grade, each in enumerate(shares))
    score = round(mean, decimals) if decimals is not None else mean
    scored: JSON = {"type": "score", "name": one.name, "score": score}
    if dialect in ("openai", "vllm"):
        rows = [
            {"value": grade, "label": label, "probability": each}
            for grade, (label, each) in enumerate(zip(one.levels, shares, strict=True))
        ]
        return {**scored, "probabilities": rows, "confidence": max(shares)}
    named = {str(grade): each for grade, each in enumerate(shares)}
    if dialect == "sglang":
        return {**scored, "probabilities": named, "label_mass": 0.98}
    legend = {str(grade): label for grade, label in enumerate(one.levels)}
    return {**scored, "probabilities": named, "confidence": max(shares), "legend": legend}


def put(answer: JSON, value: Any) -> None:
    """Put something in the place of a probability; `...` removes it."""
    holder: Any = answer
    key: Any = next((name for name in ("probability", "noul") if name in answer), None)
    if key is None:
        holder, key = answer["probabilities"], "yes" if "yes" in answer["probabilities"] else "1"
        if isinstance(holder, list):
            holder, key = holder[1], "probability"
    if value is ...:
        del holder[key]
    else:
        holder[key] = value


VALUES: Final[Mapping[str, Any]] = {
    "missing": ..., "null": None, "nan": float("nan"), "infinite": float("inf"), "over": 1.2,
    "negative": -0.01, "text": "0.9", "true": True, "list": [0.9], "object": {"p": 0.9},
}  # fmt: skip
"""Faults of one probability."""


def spoil(fault: str, answers: list[JSON], place: int) -> list[JSON]:
    """Return answers with a fault in them.

    Args:
        fault: Its name: one of `VALUES` or of those below.
        answers: Without it.
        place: Which answer has it, where it is one's.
    """
    hit = answers[place]
    if fault in VALUES:
        put(hit, VALUES[fault])
    elif fault == "short":
        return [one for one in answers if one is not hit]
    elif fault == "long":
        return [*answers, {**answers[0], "name": "c999"}]
    elif fault == "swapped":
        other = answers[place - 1]
        hit["name"], other["name"] = other["name"], hit["name"]
    elif fault == "renamed":
        hit["name"] = "c999"
    elif fault == "unnamed":
        hit["name"] = None
    elif fault == "kind":
        hit["type"] = "score" if hit["type"] != "score" else "predicate"
    elif fault == "odd_kind":
        hit["type"] = ["score"]
    elif fault == "reordered":
        shares = hit["probabilities"]
        hit["probabilities"] = shares[::-1] if isinstance(shares, list) else {"3": 1.0}
    elif fault == "sum":
        shares = hit["probabilities"]
        for one in shares if isinstance(shares, list) else ():
            one["probability"] = 0.4
        if isinstance(shares, dict):
            shares |= dict.fromkeys(shares, 0.4)
    elif fault == "score":
        hit["score"] = 2.9 if hit["score"] < 1.5 else 0.1
    elif fault == "no_object":
        answers[place] = 7  # type: ignore[call-overload]
    else:
        raise AssertionError(fault)
    return answers


class DecisionServer(ChatServer):
    """A server of decision models in a thread of its own; use it as a context manager.

    Args:
        dialect: Which server it is like, in what it takes and how it writes.
        rule: The answer to a question about a chunk's text.
        latency: Seconds each answer takes.
        keep: Whether bodies are kept for `calls`.
        decimals: To how many the probabilities are rounded; None does not round.
        each: Whether what the questions share is billed for each of them.
    """

    def __init__(
        self,
        dialect: DialectName = "openai",
        rule: Callable[[str], Share] = lambda text: round(decide(text) / 255, 2),
        *,
        latency: float = 0.0,
        keep: bool = True,
        decimals: int | None = None,
        each: bool = False,
        port: int = 0,
    ) -> None:
        super().__init__(latency=latency, keep=keep, port=port)
        self.dialect, self.rule, self.decimals, self.each = dialect, rule, decimals, each
        self.path = "/systemone" if dialect == "systemone" else "/decisions"
        self.fault: str | None = None
        """What is wrong with every answer that follows; see `spoil`."""
        self.fault_at: str | None = None
        """The text whose answer it is; None for the second of a request, or the only one."""
        self.most: int | None = None
        """More questions are declined, in words."""
        self.most_characters: int | None = None
        """More in a body are declined as `too_large` says."""
        self.too_large: Literal["413", "504", "context"] = "413"
        self.filtered: str | None = None
        """A body that holds it meets a content filter."""
        self.disliked: str | None = None
        """A body that holds it is declined without a reason."""
        self.slow: dict[str, float] = {}
        """Seconds that a body which holds a text takes."""
        self.packed = False
        """Whether replies are packed with gzip."""
        self.billed: list[int] = []
        """Tokens of each call that was answered."""
        self.objections: list[str] = []
        """What was wrong with what it was sent."""

    def paid(self, text: str) -> int:
        """Return how often answers about a chunk were sent."""
        return self.counts[f"about {text}"]

    def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
        """Decide on the reply to one call."""
        self.counts["calls"] += 1
        self._seen[raw] += 1
        body = json.loads(raw)
        if self.keep:
            self.calls.append(body)
            self.headers.append(headers)
        if self._scripted and (canned := self._scripted.popleft()).body is not None:
            return canned
        if wrong := objection(self.dialect, body):
            self.objections.append(wrong)
            return error(400, wrong)
        if declined := self._declined(body, raw.decode()):
            return declined
        canned = self._answered(body, raw)
        wait = max((seconds for text, seconds in self.slow.items() if text in raw.decode()), default=0.0)
        canned = replace(canned, delay=wait)
        if self.packed:
            packed = gzip.compress(json.dumps(canned.body).encode())
            canned = replace(canned, body=packed, headers={**canned.headers, "content-encoding": "gzip"})
        return canned

    def _declined(self, body: JSON, text: str) -> Canned | None:
        if self.most is not None and len(body["questions"]) > self.most:
            return error(400, f"Too many questions: at most {self.most} are allowed")
        if self.most_characters is not None and len(text) > self.most_characters:
            if self.too_large == "504":
                page = "<html><body><h1>504 Gateway Time-out</h1></body></html>"
                return Canned(504, {"content-type": "text/html"}, page)
            if self.too_large == "413":
                return Canned(413, {"content-type": "text/html"}, "<html>Request Entity Too Large</html>")
            told = "This model's maximum context length is 4096 tokens"
            return error(400, told, code="context_length_exceeded")
        if self.filtered is not None and self.filtered in text:
            return error(400, "The content was flagged", code="content_filter")
        if self.disliked is not None and self.disliked in text:
            return error(400, "The request was declined")
        return None

    def _answered(self, body: JSON, raw: bytes) -> Canned:
        questions = posed(self.dialect, body)
        answers = [answer(self.dialect, one, self.rule(one.text), self.decimals) for one in questions]
        if self.fault is not None:
            answers = self._spoiled(answers, questions)
        tokens = len(raw) // 4
        if self.each:
            tokens += (len(questions) - 1) * (len(json.dumps(shared_of(self.dialect, body))) // 4)
        self.billed.append(tokens)
        done = self._written(body, answers, tokens)
        headers = {"x-request-id": f"req_{self.counts['calls']}"}
        return Canned(200, headers, done, paid=("paid", *(f"about {one.text}" for one in questions)))

    def _spoiled(self, answers: list[JSON], questions: Sequence[Posed]) -> list[JSON]:
        assert self.fault is not None
        places = [n for n, one in enumerate(questions) if one.text == self.fault_at]
        if self.fault_at is not None and not places:
            return answers
        place = places[0] if places else min(1, len(answers) - 1)
        return spoil(self.fault, answers, place)

    def _written(self, body: JSON, answers: list[Any], tokens: int) -> JSON:
        done: JSON = {"model": f"{body['model']}-2026-10-01"}
        if self.dialect in ("openai", "vllm"):
            parts = {"cached_tokens": 0, "cache_write_tokens": 0}
            usage: JSON = {"input_tokens": tokens, "input_tokens_details": parts, "output_tokens": 0}
            usage |= {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": tokens}
            return {**done, "answers": answers, "usage": usage}
        names = [str(one.pop("name")) if isinstance(one, dict) else "c2" for one in answers]
        named = dict(zip(names, answers, strict=True))
        if self.dialect == "systemone":
            return {**done, "answers": named, "usage": {"input_tokens": tokens, "output_tokens": 0}}
        counts = {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}
        told = {"object": "decisions", "prompt_format_version": 1}
        return {**done, **told, "answers": named, "usage": counts}


def main(arguments: list[str] | None = None) -> None:
    """Serve until SIGINT or SIGTERM; the first line printed is the base URL."""
    parser = argparse.ArgumentParser(prog="decision_server", description="Decision models on loopback.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dialect", default="openai", choices=DIALECT_NAMES)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds an answer takes")
    parser.add_argument("--no-keep", action="store_true", help="do not keep bodies")
    given = parser.parse_args(arguments)
    server = DecisionServer(given.dialect, latency=given.latency, keep=not given.no_keep, port=given.port)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, lambda: server._stop.set())
        await server.serve(lambda: print(server.url, flush=True))  # noqa: T201

    asyncio.run(serve())


if __name__ == "__main__":
    main()
