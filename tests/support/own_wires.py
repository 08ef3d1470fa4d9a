"""Servers on loopback that speak Anthropic's Messages, Gemini's `generateContent` and OpenAI's Responses."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any, get_type_hints
from urllib.parse import unquote

from openai.types.responses import Response
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

from tests.support.canned import Canned, error
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


KNOWN = frozenset(get_type_hints(ResponseCreateParamsNonStreaming))
"""The fields of a request of Responses, by the vendor's SDK."""


class ResponsesServer(NativeServer):
    """A server of OpenAI's Responses, whose replies are made from the vendor's types."""

    path = "/responses"

    def asked(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        """Translate a request; what the vendor's SDK does not know is an assertion's error."""
        assert set(body) <= KNOWN, set(body) - KNOWN
        assert body["store"] is False
        roles = {(each["type"], each["role"]) for each in body["input"]}
        assert roles <= {("message", role) for role in ("system", "user", "assistant")}
        turns = [{"role": each["role"], "content": each["content"]} for each in body["input"]]
        chat: dict[str, Any] = {
            "model": body["model"],
            "messages": [{"role": "system", "content": body.get("instructions", "")}, *turns],
        }
        if form := body.get("text", {}).get("format"):
            rest = {name: value for name, value in form.items() if name != "type"}
            chat["response_format"] = {"type": form["type"], **({"json_schema": rest} if rest else {})}
        if body.get("include") == ["message.output_text.logprobs"]:
            chat["logprobs"] = True
        else:
            assert "top_logprobs" not in body
        return chat

    def made(self, done: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
        """Write a Response, with a thought and a comment before its text."""
        text, finish, usage, refused = parts_of(done)
        content: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
        if tokens := (done["choices"][0].get("logprobs") or {}).get("content"):
            content["logprobs"] = [
                {**each, "bytes": [], "top_logprobs": [{**top, "bytes": []} for top in each["top_logprobs"]]}
                for each in tokens
            ]
        if refused:
            content = {"type": "refusal", "refusal": text}
        message = {"type": "message", "role": "assistant", "status": "completed"}
        comment = {"type": "output_text", "text": '{"verdict": null}', "annotations": []}
        reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(finish)
        record = {
            "id": "resp_1", "object": "response", "created_at": 1750000000, "model": done["model"],
            "status": "incomplete" if reason else "completed",
            "incomplete_details": {"reason": reason} if reason else None,
            "error": None, "instructions": body.get("instructions"), "metadata": {}, "temperature": None,
            "top_p": None, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
            "output": [
                {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "{}"}]},
                {**message, "id": "msg_0", "phase": "commentary", "content": [comment]},
                {**message, "id": "msg_1", "phase": "final_answer", "content": [content]},
            ],
            "usage": {
                "input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"] + 2,
                "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 3},
                "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": usage["total_tokens"] + 2,
            },
        }  # fmt: skip
        return Response.model_validate(record, strict=True).to_dict(mode="json")

    def failed(self, canned: Canned) -> dict[str, Any]:
        """Write an error, as OpenAI does for all its routes."""
        made: dict[str, Any] = canned.body
        return made


class ResponsesAlone(ResponsesServer):
    """A server that answers a model by Responses alone, and says so where it is asked by chat."""

    path = ""
    words = "This model is only supported in v1/responses and not in v1/chat/completions."
    status = 404

    def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
        """Decline a chat request; else answer."""
        if headers[":path"].partition("?")[0].endswith("/responses"):
            return super().answer(raw, headers)
        self.counts["declined"] += 1
        return error(self.status, self.words, param="model")


if __name__ == "__main__":
    main(sys.argv[2:], {"anthropic": MessagesServer, "gemini": ContentServer}[sys.argv[1]])
