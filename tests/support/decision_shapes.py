"""What servers of decision models take, one dialect each, and why they decline the rest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

import pytest
from pydantic import BaseModel, ConfigDict, Field, StrictStr, TypeAdapter, ValidationError

pytest.importorskip("openai.types.decision_create_params", reason="the SDK is older than decision models")

from openai.types.decision_create_params import DecisionCreateParams

DialectName: TypeAlias = Literal["openai", "vllm", "sglang", "systemone"]
DIALECT_NAMES: Final[tuple[DialectName, ...]] = ("openai", "vllm", "sglang", "systemone")
JSON: TypeAlias = dict[str, Any]


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
    questions: dict[str, Annotated[_SystemOneNoul | _SystemOneScore, Field(discriminator="type")]] = Field(min_length=1)


_SHAPES: Final[Mapping[DialectName, type[BaseModel]]] = {"vllm": _Vllm, "sglang": _Sglang, "systemone": _SystemOne}
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
