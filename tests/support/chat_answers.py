"""What a chat server on loopback answers: verdicts that follow from the question alone."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any


def words_of(body: Mapping[str, Any]) -> str:
    """Return the text of all messages."""
    return "\n".join(str(message.get("content") or "") for message in body.get("messages", ()))


def shape_of(body: Mapping[str, Any]) -> tuple[str, bool]:
    """Say which field decides (`verdict` or `grade`), and whether several passages are judged at once."""
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
    text = json.dumps(schema) if schema else words_of(body)
    return ("grade" if re.search(r'"grade"', text) else "verdict"), bool(re.search(r'"verdicts"', text))


def ids_of(body: Mapping[str, Any]) -> list[int]:
    """Find the passage numbers of a listwise request: in the schema, else in the last message."""
    result = re.search(r'"enum": (\[1[0-9, ]*\])', json.dumps(body.get("response_format") or {}))
    if result:
        return list(json.loads(result[1]))
    asked = str(body["messages"][-1].get("content") or "")
    numbers = {int(n) for n in re.findall(r"(?i)\b(?:id|passage|chunk|document)\W{1,4}(\d{1,3})\b", asked)}
    count = 0
    while count + 1 in numbers:
        count += 1
    return list(range(1, max(count, 1) + 1))


def decide(text: str) -> int:
    """Draw a number from a text: the same for the same text, whoever asks."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[0]


def judge(body: Mapping[str, Any]) -> dict[str, Any]:
    """Give the verdict that a body deserves: a function of its first question, also when asked to repair.

    The marks of the fences do not count: each cache has a secret of its own that they follow from.
    """
    deciding, listwise = shape_of(body)
    asked = next((str(m.get("content") or "") for m in body["messages"] if m.get("role") == "user"), "")
    asked = re.sub(r" \d{9}>", ">", asked)
    quote = " ".join(max(asked[len(asked) // 2 :].split("\n"), key=len).split()[:6])

    def one(salt: str) -> dict[str, Any]:
        point = decide(asked + salt)
        answer: bool | int = point % 4 if deciding == "grade" else point % 2 == 1
        return {
            "evidence": quote if answer else "",
            "reason": "It states a claim of the reference." if answer else "It states no claim of the reference.",
            "instruction_in_chunk": False,
            deciding: answer,
        }

    if not listwise:
        return one("")
    return {"verdicts": [{"id": number, **one(str(number))} for number in ids_of(body)]}


def completion(body: Mapping[str, Any], content: str | None, *, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """Wrap a text as a chat completion, with the usage a server would bill."""
    text = content or ""
    prompt = sum(len(str(m.get("content") or "")) for m in body.get("messages", ())) // 4 + 8
    answer: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None, **message}
    choice: dict[str, Any] = {"index": 0, "message": answer, "logprobs": None, "finish_reason": finish}
    if body.get("logprobs"):
        choice["logprobs"] = {"content": [
            {"token": token, "logprob": -0.1, "top_logprobs": [{"token": token, "logprob": -0.1}]}
            for token in re.findall(r"\w+|\W", text)
        ]}  # fmt: skip
    return {
        "id": f"chatcmpl-{decide(text):03d}",
        "object": "chat.completion",
        "created": 1750000000,
        "model": f"{body.get('model', 'm')}-2026-01-01",
        "choices": [choice],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": len(text) // 4 + 1,
            "total_tokens": prompt + len(text) // 4 + 1,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        },
        "system_fingerprint": "fp_0",
    }
