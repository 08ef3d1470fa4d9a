"""How chat servers differ in what they accept, and in how they write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.canned import Canned, error
from tests.support.chat_answers import completion

Flavour = str
"""`openai`, `reasoning`, `ollama`, `vllm`, `llamacpp`, `openrouter`, `gateway`, `azure`: what is accepted."""


def objection(flavour: Flavour, body: Mapping[str, Any]) -> Canned | None:
    """Return the error with which such a server declines the body, None where it takes it."""
    form = body.get("response_format") or {}
    if flavour == "reasoning":
        for name in ("temperature", "top_p", "logprobs", "max_tokens"):
            if body.get(name) is not None and body[name] is not False:
                return error(
                    400, f"Unsupported parameter: '{name}' is not supported with this model.",
                    code="unsupported_parameter", param=name,
                )  # fmt: skip
    if flavour in ("ollama", "gateway") and form.get("json_schema", {}).get("strict") is not None:
        return error(400, "json_schema.strict: unknown field 'strict'", code="invalid_request_error")
    if flavour in ("openrouter", "llamacpp", "gateway") and "max_completion_tokens" in body:
        return error(400, "Unrecognized request argument supplied: max_completion_tokens")
    if flavour in ("llamacpp", "gateway") and form.get("type") == "json_schema":
        return error(400, "response_format type must be one of 'text' or 'json_object'", param="response_format")
    if flavour == "gateway":
        if sum(message["role"] == "system" for message in body["messages"]) != 1:
            return error(400, "exactly one system message is expected")
        if "tools" in body:
            return error(400, "tools are not supported by this model")
        if form:
            return error(400, "'response_format' of type 'json_object' is not supported by this model")
    if flavour == "vllm" and "max_completion_tokens" in body and "max_tokens" in body:
        return error(400, "max_tokens and max_completion_tokens cannot both be set")
    return None


def dress(flavour: Flavour, body: Mapping[str, Any], content: str) -> dict[str, Any]:
    """Write a completion as such a server does."""
    thoughts = "The passage is short. Let me look at it."
    if flavour == "vllm":
        return completion(body, content, reasoning=thoughts, reasoning_content=thoughts)
    if flavour == "llamacpp":
        done = completion(body, f"<think>{thoughts} {{}}</think>\n{content}")
        done["timings"] = {"prompt_n": 1, "predicted_ms": 1.5}
        return done
    if flavour == "gateway":
        return completion(body, f"Here is my answer:\n```json\n{content}\n```")
    if flavour == "ollama":
        done = completion(body, content)
        done["usage"] = {k: v for k, v in done["usage"].items() if k.endswith("_tokens")}
        return done
    return completion(body, content)
