"""Servers on loopback that speak Anthropic's Messages and Gemini's `generateContent`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from tests.support.canned import Canned
from tests.support.chat_server import ChatServer, main


class NativeServer(ChatServer):
    """A chat server whose bodies are those of another wire: they are translated there and back."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.native: list[dict[str, Any]] = []
        """The bodies as they were received."""
        self.paid: Counter[bytes] = Counter()
        """How often each body was answered."""

    def reset(self) -> None:
        """Forget calls, counts and script."""
        super().reset()
        self.native.clear()

    def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
        """Decide on the reply to one call."""
        body = json.loads(raw)
        if self.keep:
            self.native.append(body)
        canned = super().answer(json.dumps(self.asked(body, headers)).encode(), headers)
        if not isinstance(canned.body, dict):
            return canned
        if "choices" in canned.body:
            self.paid[raw] += 1
            return Canned(200, canned.headers, self.made(canned.body, body), canned.delay, paid=("paid",))
        if set(canned.body) == {"error"}:
            return Canned(canned.status, canned.headers, self.failed(canned), canned.delay)
        return canned

    def asked(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        """Translate a request into a chat request."""
        raise NotImplementedError

    def made(self, done: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
        """Translate a chat completion into a reply to `body`."""
        raise NotImplementedError

    def failed(self, canned: Canned) -> dict[str, Any]:
        """Translate an error."""
        raise NotImplementedError


def parts_of(done: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any], bool]:
    """Return text, finish and usage of a chat completion, and whether the text is a refusal."""
    choice = done["choices"][0]
    refusal = choice["message"].get("refusal")
    text = refusal or choice["message"]["content"] or ""
    return text, choice["finish_reason"], done["usage"], bool(refusal)


class MessagesServer(NativeServer):
    """A server of Anthropic's Messages."""

    path = "/messages"

    def asked(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        """Translate a request; what Messages does not know is an assertion's error."""
        known = {"model", "max_tokens", "messages", "system", "output_config", "tools", "tool_choice"}
        assert set(body) <= known | {"thinking"}, set(body) - known
        assert headers["anthropic-version"] == "2026-10-21"
        system = body.get("system", [])
        texts = system if isinstance(system, str) else "".join(block["text"] for block in system)
        chat: dict[str, Any] = {
            "model": body["model"],
            "messages": [{"role": "system", "content": texts}, *body["messages"]],
        }
        output = body.get("output_config", {}).get("format")
        if output:
            chat["response_format"] = {"type": "json_schema", "json_schema": {"name": "x", "schema": output["schema"]}}
        for tool in body.get("tools", ()):
            assert body["tool_choice"] == {"type": "tool", "name": tool["name"]}
            schema = {"name": tool["name"], "schema": tool["input_schema"]}
            chat["response_format"] = {"type": "json_schema", "json_schema": schema}
        return chat

    def made(self, done: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
        """Write a Message, with a thought before its text."""
        text, finish, usage, refused = parts_of(done)
        reason = "refusal" if refused else {"length": "max_tokens"}.get(finish, "end_turn")
        content: list[dict[str, Any]] = [{"type": "thinking", "thinking": "{}", "signature": "c2ln"}]
        if body.get("tools") and not refused:
            name = body["tools"][0]["name"]
            content += [{"type": "tool_use", "id": "toolu_1", "name": name, "input": json.loads(text)}]
            reason = "tool_use"
        else:
            content += [{"type": "text", "text": text}]
        return {
            "id": "msg_1", "type": "message", "role": "assistant", "model": done["model"],
            "content": content, "stop_reason": reason, "stop_sequence": None,
            "usage": {
                "input_tokens": usage["prompt_tokens"], "cache_creation_input_tokens": 3,
                "cache_read_input_tokens": 5, "output_tokens": usage["completion_tokens"] + 2,
                "output_tokens_details": {"thinking_tokens": 2},
            },
        }  # fmt: skip

    def failed(self, canned: Canned) -> dict[str, Any]:
        """Write an error."""
        kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
        message = canned.body["error"]["message"]
        return {
            "type": "error",
            "error": {"type": kinds.get(canned.status, "api_error"), "message": message},
            "request_id": "req_1",
        }


class ContentServer(NativeServer):
    """A server of Gemini's `generateContent`."""

    path = ":generateContent"

    def asked(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        """Translate a request; what Gemini does not know is an assertion's error."""
        known = {"contents", "systemInstruction", "generationConfig", "tools", "toolConfig"}
        assert set(body) <= known, set(body) - known
        settings = body.get("generationConfig", {})
        assert set(settings) <= {
            "temperature", "topP", "topK", "maxOutputTokens", "seed", "responseMimeType",
            "responseJsonSchema", "responseLogprobs", "logprobs", "thinkingConfig",
        }, settings  # fmt: skip
        values = [
            {"role": each["role"].replace("model", "assistant"), "content": each["parts"][0]["text"]}
            for each in body["contents"]
        ]
        system = "".join(part["text"] for part in body.get("systemInstruction", {}).get("parts", ()))
        model = unquote(headers[":path"].partition("/models/")[2].partition(":")[0])
        chat: dict[str, Any] = {"model": model, "messages": [{"role": "system", "content": system}, *values]}
        schema = settings.get("responseJsonSchema")
        for tool in body.get("tools", ()):
            schema = tool["functionDeclarations"][0]["parametersJsonSchema"]
        if schema:
            chat["response_format"] = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        if settings.get("responseLogprobs"):
            chat["logprobs"] = True
        return chat

    def made(self, done: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
        """Write a reply, with a thought before its text."""
        text, finish, usage, refused = parts_of(done)
        reason = "SAFETY" if refused else {"length": "MAX_TOKENS"}.get(finish, "STOP")
        part: dict[str, Any] = {"text": text}
        if body.get("tools") and not refused:
            name = body["tools"][0]["functionDeclarations"][0]["name"]
            part = {"functionCall": {"name": name, "args": json.loads(text)}}
        candidate: dict[str, Any] = {
            "content": {"role": "model", "parts": [{"text": "a thought", "thought": True}, part]},
            "finishReason": reason,
            "index": 0,
        }
        tokens = (done["choices"][0].get("logprobs") or {}).get("content")
        if tokens:
            chosen = [{"token": each["token"], "logProbability": each["logprob"]} for each in tokens]
            candidate["logprobsResult"] = {
                "chosenCandidates": chosen,
                "topCandidates": [{"candidates": [each]} for each in chosen],
            }
        return {
            "candidates": [candidate],
            "modelVersion": done["model"],
            "responseId": "r1",
            "usageMetadata": {
                "promptTokenCount": usage["prompt_tokens"], "cachedContentTokenCount": 5,
                "candidatesTokenCount": usage["completion_tokens"], "thoughtsTokenCount": 2,
                "totalTokenCount": usage["total_tokens"] + 2,
            },
        }  # fmt: skip

    def failed(self, canned: Canned) -> dict[str, Any]:
        """Write an error."""
        words = {400: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
        message, status = canned.body["error"]["message"], words.get(canned.status, "INTERNAL")
        return {"error": {"code": canned.status, "message": message, "status": status}}


if __name__ == "__main__":
    main(sys.argv[2:], {"anthropic": MessagesServer, "gemini": ContentServer}[sys.argv[1]])
