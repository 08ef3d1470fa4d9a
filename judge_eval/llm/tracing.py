"""Reports every call to the judge to OpenTelemetry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from judge_eval.errors import CallError, TransientError, needs_extra
from judge_eval.llm.backend import Backend, Identity, Wrapper
from judge_eval.wire import Completion, Finish, Request

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_PARAMS = ("temperature", "top_p", "seed", "frequency_penalty", "presence_penalty")
_FINISH: dict[Finish, str] = {"refusal": "content_filter", "filter": "content_filter"}
"""Our words in theirs, where they differ."""


class Traced(Wrapper):
    """A backend that opens a span around every call, retries included.

    Names and attributes follow the semantic conventions for generative AI. They have no name for a decision
    model: its operation is `decisions`, like its endpoint. Spans go to the tracer of the process, and cost
    next to nothing without one. With `content` they carry the messages and the reply. Raises `ConfigError` if
    OpenTelemetry's API is not installed.
    """

    def __init__(self, inner: Backend, *, content: bool = False) -> None:
        try:
            from opentelemetry import trace
        except ImportError:
            raise needs_extra("OpenTelemetry is not installed; leave the option out, or install it", "otel") from None
        super().__init__(inner)
        self._content = content
        self._tracer = trace.get_tracer("judge_eval")
        self._kind, self._status = trace.SpanKind.CLIENT, trace.StatusCode.ERROR

    async def complete(self, request: Request) -> Completion:
        """Ask the backend inside, within a span."""
        identity = self.inner.identity
        name = f"{request.operation} {identity.model if identity else ''}".rstrip()
        with self._tracer.start_as_current_span(
            name,
            kind=self._kind,
            attributes=_attributes(identity, request),
            # The text of an error may quote the request.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            if self._content and span.is_recording():
                span.set_attributes(_messages(request))
            try:
                completion = await self.inner.complete(request)
            except BaseException as error:
                span.set_attribute("error.type", _error_type(error))
                span.set_status(self._status)
                raise
            if span.is_recording():
                self._report(span, completion)
            return completion

    def _report(self, span: Span, completion: Completion) -> None:
        finish = _FINISH.get(completion.finish, completion.finish)
        usage = completion.usage
        span.set_attribute("gen_ai.response.finish_reasons", [finish])
        span.set_attribute("gen_ai.usage.input_tokens", usage.input_tokens)
        span.set_attribute("gen_ai.usage.output_tokens", usage.output_tokens)
        known: dict[str, str | int] = {
            "gen_ai.response.model": completion.model,
            "judge_eval.request.id": completion.request_id,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        }
        span.set_attributes({name: value for name, value in known.items() if value})
        if self._content:
            message = {"role": "assistant", "parts": [_text(completion.written)], "finish_reason": finish}
            span.set_attribute("gen_ai.output.messages", json.dumps([message]))


def _attributes(identity: Identity | None, request: Request) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": request.operation,
        "gen_ai.provider.name": _provider(identity),
        "judge_eval.trace.id": request.trace_id,
        "judge_eval.chunk.ids": list(request.chunk_ids),
    }
    if request.operation == "chat":  # a decision model writes nothing
        attributes |= {"gen_ai.output.type": "json", "gen_ai.request.max_tokens": request.max_tokens}
    if identity is None:
        return attributes
    attributes["gen_ai.request.model"] = identity.model
    for name, value in identity.params:
        if name in _PARAMS and isinstance(number := json.loads(value), int | float):
            attributes[f"gen_ai.request.{name}"] = number
    address = urlsplit(identity.base_url)
    if address.hostname:
        attributes["server.address"] = address.hostname
        attributes["server.port"] = address.port or (443 if address.scheme == "https" else 80)
    return attributes


def _provider(identity: Identity | None) -> str:
    """Name the provider; of a decision model its dialect, one of which is OpenAI's."""
    if identity is None:
        return "custom"
    dialect = dict(identity.params).get("dialect")
    return identity.provider if dialect is None else str(json.loads(dialect))


def _messages(request: Request) -> dict[str, str]:
    system = [_text(each.content) for each in request.messages if each.role == "system"]
    rest = [{"role": each.role, "parts": [_text(each.content)]} for each in request.messages if each.role != "system"]
    return {"gen_ai.system_instructions": json.dumps(system), "gen_ai.input.messages": json.dumps(rest)}


def _text(content: str) -> dict[str, str]:
    return {"type": "text", "content": content}


def _error_type(error: BaseException) -> str:
    if isinstance(error, TransientError):
        return error.kind
    return error.why if isinstance(error, CallError) else type(error).__name__
