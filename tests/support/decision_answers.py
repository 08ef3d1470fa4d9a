"""What the questions of a decision body are about, and the answers to them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.support.decision_shapes import JSON, DialectName

Share: TypeAlias = float | tuple[float, ...] | None
"""Of a chunk: the probability that it is relevant, those of all levels, or None to decline the question."""


@dataclass(frozen=True)
class Posed:
    """One question as the server understands it."""

    name: str
    levels: tuple[str, ...]
    """Their labels; none of a statement."""
    text: str
    """Of the chunk that it is about."""


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
    return [(item["id" if dialect == "sglang" else "name"], item) for item in body["questions"]]


def posed(dialect: DialectName, body: JSON) -> list[Posed]:
    """Understand the questions of a body."""
    shared = shared_of(dialect, body)
    collected = []
    for name, question in asked_of(dialect, body):
        result = question.get("instructions") or question.get("question")
        own = _data(result)
        chunk = own.get("chunk") or shared.get("chunk") or shared.get("chunks", {}).get(name)
        levels = question.get("levels") or question.get("criteria") or ()
        labels = tuple(item["label"] if isinstance(item, dict) else item for item in levels)
        collected.append(Posed(name, labels, chunk["text"]))
    return collected


def _data(told: Any) -> JSON:
    """Find the data of instructions: a part of JSON, or the last line of a text."""
    parts = [{"type": "input_text", "text": told}] if isinstance(told, str) else told
    last = parts[-1]
    if last["type"] == "input_json":
        result: JSON = last["data"]
        return result
    text = last["text"].rpartition("\n")[2]
    return json.loads(text) if text.startswith("{") else {}


# What they answer


def answer(dialect: DialectName, first: Posed, share: Share, decimals: int | None) -> JSON:
    """Answer one question; `name` says whose answer it is, also where that is a key in the end."""
    if share is None:
        return {"type": "refusal", "name": first.name}
    if isinstance(share, float | int):
        share = (1 - share, share)
        if first.levels:
            low, high = (each / 2 for each in share)
            share = (low,) * (len(first.levels) - 2) + (high, high) if len(first.levels) == 4 else share
    shares = [round(each, decimals) if decimals is not None else each for each in share]
    if not first.levels:
        return {
            "openai": {"type": "predicate", "name": first.name, "probability": shares[1]},
            "vllm": {"type": "predicate", "name": first.name, "probability": shares[1]},
            "sglang": {
                "type": "yes_no", "name": first.name, "probabilities": {"yes": shares[1], "no": shares[0]},
                "label_mass": 0.98, "choice": None, "score": None,
            },
            "systemone": {"type": "noul", "name": first.name, "noul": shares[1]},
        }[dialect]  # fmt: skip
    mean = sum(grade * each for grade, each in enumerate(shares))
    score = round(mean, decimals) if decimals is not None else mean
    scored: JSON = {"type": "score", "name": first.name, "score": score}
    if dialect in ("openai", "vllm"):
        rows = [
            {"value": grade, "label": label, "probability": each}
            for grade, (label, each) in enumerate(zip(first.levels, shares, strict=True))
        ]
        return {**scored, "probabilities": rows, "confidence": max(shares)}
    named = {str(grade): each for grade, each in enumerate(shares)}
    if dialect == "sglang":
        return {**scored, "probabilities": named, "label_mass": 0.98}
    legend = {str(grade): label for grade, label in enumerate(first.levels)}
    return {**scored, "probabilities": named, "confidence": max(shares), "legend": legend}
