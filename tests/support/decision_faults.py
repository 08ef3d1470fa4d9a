"""What can be wrong with the answers of a decision model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.support.decision_shapes import JSON


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
        return [item for item in answers if item is not hit]
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
        for item in shares if isinstance(shares, list) else ():
            item["probability"] = 0.4
        if isinstance(shares, dict):
            shares |= dict.fromkeys(shares, 0.4)
    elif fault == "score":
        hit["score"] = 2.9 if hit["score"] < 1.5 else 0.1
    elif fault == "no_object":
        answers[place] = 7  # type: ignore[call-overload]
    else:
        raise AssertionError(fault)
    return answers
