"""The backend for servers that speak Anthropic's Messages."""

from collections.abc import Mapping
from typing import Any, ClassVar

from judge_eval.digest import canonical_json, compact_json
from judge_eval.foreign import dicts_in, within
from judge_eval.llm.http.capabilities import Capabilities
from judge_eval.llm.http.chat_format import ChatCompletions, count_of, model_of
from judge_eval.llm.http.failures import as_line, whole
from judge_eval.llm.http.secrets import Scrubber
from judge_eval.llm.http.text_server import TextServer
from judge_eval.registry import Provider
from judge_eval.wire import Completion, Finish, Form, Request, Usage

WIRE = "anthropic-messages"
CACHED_FROM = 512, 4_096
"""Tokens from which some model caches a system text, which is marked then, and from which every model does."""
CHARACTERS = 4
"""Of a token, about."""
_FINISHES: Mapping[str, Finish] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class Messages(ChatCompletions):
    """How Messages are asked and read: structured output, or one forced tool where that is declined."""

    path = "messages"
    streams = False
    ours: ClassVar[frozenset[str]] = ChatCompletions.ours | {"system", "output_config", "stop_sequences"}

    def write(self, request: Request, can: Capabilities) -> bytes:
        """Write the body of a request; raises `ConfigError` if it is for decision models."""
        system, turns, tail = self.parts(request, can)
        fields: dict[str, Any] = {"max_tokens": request.max_tokens, "messages": turns}
        if system:
            is_cached = len(system) >= CACHED_FROM[0] * CHARACTERS
            mark = {"cache_control": {"type": "ephemeral"}} if is_cached else {}
            fields["system"] = [{"type": "text", "text": system, **mark}]
        return compact_json(fields)[:-1] + tail.encode()

    def _fields(self, sent: dict[str, Any], form: Form, can: Capabilities) -> dict[str, Any]:
        absent = ("logprobs", "top_logprobs")
        fields = {"model": self.model, **{name: value for name, value in sent.items() if name not in absent}}
        output: dict[str, Any] = {}
        if effort := fields.pop("reasoning_effort", None):
            output["effort"] = effort
        if form.schema and can.mode in ("strict", "json_schema"):
            output["format"] = {"type": "json_schema", "schema": dict(form.schema)}
        elif form.schema and can.mode == "json_object":
            name = form.schema_name
            fields["tools"] = [{"name": name, "input_schema": dict(form.schema)}]
            fields["tool_choice"] = {"type": "tool", "name": name}
        return {**fields, "output_config": output} if output else fields

    def read(self, body: Mapping[str, Any], scrub: Scrubber) -> Completion | None:
        """Read a Message; None if it has no content. Thoughts are not text."""
        content = body.get("content")
        if not isinstance(content, list):
            return None
        blocks = dicts_in(content)
        texts = [block.get("text") for block in blocks if block.get("type") == "text"]
        calls = [block.get("input") for block in blocks if block.get("type") == "tool_use"]
        text = "".join(each for each in texts if isinstance(each, str))
        if calls and isinstance(calls[0], dict):
            text = canonical_json(calls[0])
        finish: Finish = _FINISHES.get(as_line(body.get("stop_reason")), "stop")
        if finish == "refusal" and not text:
            text = as_line(within(body, "stop_details", "explanation"))
        usage = body.get("usage")
        cached = count_of(usage, "cache_read_input_tokens")
        written = count_of(usage, "cache_creation_input_tokens")
        fresh = count_of(usage, "input_tokens") + written
        thoughts = count_of(usage, "output_tokens_details", "thinking_tokens")
        made = Usage(fresh + cached, count_of(usage, "output_tokens"), cached, thoughts, written)
        return Completion(scrub.reply(whole(text)), finish, made, model_of(body, scrub))


class AnthropicMessages(TextServer):
    """A server that speaks Anthropic's Messages."""

    caches_prompt_from: ClassVar[tuple[int, int]] = CACHED_FROM
    version: ClassVar[Mapping[str, str]] = {"anthropic-version": "2026-10-21"}
    _own_headers = version
    _wire = Messages


create = Provider(AnthropicMessages, answers_questions=False, takes_batches=True, takes_logprobs=False)
"""Makes the backends of the table that speak Messages."""
