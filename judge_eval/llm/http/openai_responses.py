"""The backend for servers that speak OpenAI's Responses."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from judge_eval.digest import compact_json
from judge_eval.foreign import dicts_in, within
from judge_eval.llm.http.capabilities import Capabilities, contract
from judge_eval.llm.http.chat_format import ChatCompletions, count_of, model_of, read_logprobs, usage_of
from judge_eval.llm.http.failures import as_line, whole
from judge_eval.llm.http.secrets import Scrubber
from judge_eval.llm.http.text_server import TextServer
from judge_eval.registry import Provider
from judge_eval.wire import Completion, Finish, Form, Request

WIRE = "openai-responses"
_LOGPROBS = "message.output_text.logprobs"
_LEAST_CAP = 16
"""OpenAI declines lower caps on the tokens of a reply."""
_ENDED = ("completed", "incomplete", "")
_FINISHES: Mapping[str, Finish] = {"content_filter": "filter", "": "stop"}
"""Why a reply is incomplete; for every other reason it is cut."""


class Responses(ChatCompletions):
    """How Responses are asked and read; the server is told to store nothing."""

    path = "responses"
    streams = False
    ours: ClassVar[frozenset[str]] = ChatCompletions.ours | {
        "input", "instructions", "text", "max_output_tokens", "store", "include", "background", "conversation",
        "previous_response_id", "prompt",
    }  # fmt: skip

    def write(self, request: Request, can: Capabilities) -> bytes:
        """Write the body of a request; raises `ConfigError` if it is for decision models."""
        system, turns, tail = self.parts(request, can)
        if can.mode == "json_object" and request.form.schema:
            turns.insert(0, {"role": "system", "content": contract(request.form.schema).strip()})
        # Each has its type, without which some servers decline what the model said.
        items = [{"type": "message", **turn} for turn in turns]
        fields: dict[str, Any] = {"input": items, "max_output_tokens": max(_LEAST_CAP, request.max_tokens)}
        if system:
            fields["instructions"] = system
        seed = self.seed(request, can)
        if seed is not None:
            fields["seed"] = seed
        return compact_json(fields)[:-1] + tail.encode()

    def _tail(self, form: Form, can: Capabilities) -> tuple[str, str]:
        words, tail = super()._tail(form, can)
        # JSON is declined unless a message, not the instructions, asks for it.
        return "" if can.mode == "json_object" else words, tail

    def _fields(self, sent: dict[str, Any], form: Form, can: Capabilities) -> dict[str, Any]:
        fields: dict[str, Any] = {name: value for name, value in sent.items() if name not in self.ours}
        text: dict[str, Any] = {}
        if effort := fields.pop("reasoning_effort", None):
            given = fields.get("reasoning")
            fields["reasoning"] = {**(given if isinstance(given, dict) else {}), "effort": effort}
        if verbosity := fields.pop("verbosity", None):
            text["verbosity"] = verbosity
        if fields.pop("logprobs", None):
            fields["include"] = [_LOGPROBS]
        else:
            fields.pop("top_logprobs", None)
        if (wanted := self.response_format(form, can)) is not None:
            text["format"] = {"type": wanted["type"], **wanted.get("json_schema", {})}
        if text:
            fields["text"] = text
        return {"model": self.model, **fields, "store": False}

    def read(self, body: Mapping[str, Any], scrub: Scrubber) -> Completion | None:
        """Read a Response; None if it has no output, or has not ended. Thoughts and comments are not text."""
        output = body.get("output")
        if not isinstance(output, list) or as_line(body.get("status")) not in _ENDED:
            return None
        items = dicts_in(output)
        messages = [item for item in items if item.get("type") == "message" and item.get("phase") != "commentary"]
        parts = [part for message in messages for part in dicts_in(message.get("content"))]
        texts = [part for part in parts if part.get("type") == "output_text" and isinstance(part.get("text"), str)]
        refusals = [part["refusal"] for part in parts if isinstance(part.get("refusal"), str)]
        thoughts = [
            thought
            for item in items
            if item.get("type") == "reasoning"
            for thought in (*dicts_in(item.get("content")), *dicts_in(item.get("summary")))
        ]
        reason = as_line(within(body, "incomplete_details", "reason"))
        finish: Finish = _FINISHES.get(reason, "length")
        if finish == "stop" and body.get("status") == "incomplete":
            finish = "length"
        text = whole("".join(part["text"] for part in texts))
        if refusals and finish == "stop":
            finish, text = "refusal", text or whole(refusals[0])
        clean = scrub.reply(text)
        tokens = [token for part in texts for token in dicts_in(part.get("logprobs"))]
        usage = body.get("usage")
        return Completion(
            text=clean,
            finish=finish,
            usage=replace(
                usage_of(usage, "input_tokens", "output_tokens"),
                written_tokens=count_of(usage, "input_tokens_details", "cache_write_tokens"),
            ),
            model=model_of(body, scrub),
            logprobs=read_logprobs(tokens) if clean == text else (),
            reasoned=bool(thoughts),
            reasoned_object=not text.strip() and any("{" in as_line(thought.get("text")) for thought in thoughts),
        )


class OpenAIResponses(TextServer):
    """A server that speaks OpenAI's Responses."""

    _wire = Responses


create = Provider(OpenAIResponses, answers_questions=False, takes_batches=True)
"""Makes the backends of the table that speak Responses."""
