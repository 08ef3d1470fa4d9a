"""The backend for servers that speak Gemini's `generateContent`."""

from collections.abc import Mapping
from typing import Any, ClassVar

from judge_eval.digest import compact_json
from judge_eval.foreign import dicts_in, within
from judge_eval.llm.http.capabilities import Capabilities
from judge_eval.llm.http.chat_format import ChatCompletions, count_of, model_of, token_logprobs
from judge_eval.llm.http.failures import as_line, whole
from judge_eval.llm.http.secrets import Scrubber
from judge_eval.llm.http.text_server import TextServer
from judge_eval.registry import Provider
from judge_eval.wire import Completion, Finish, Form, Request, TokenLogprob, Usage

WIRE = "gemini"
_NAMES = {
    "top_p": "topP",
    "top_k": "topK",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "logprobs": "responseLogprobs",
    "top_logprobs": "logprobs",
    "stop": "stopSequences",
}
"""How Gemini spells parameters; all others are sent as they are given."""
_STOPPED = ("STOP", "FINISH_REASON_UNSPECIFIED", "")


class GenerateContent(ChatCompletions):
    """How `generateContent` is asked and read."""

    path = "models/{model}:generateContent"
    streams = False
    ours: ClassVar[frozenset[str]] = ChatCompletions.ours | {
        "contents", "systemInstruction", "responseMimeType", "responseJsonSchema", "responseSchema",
        "maxOutputTokens", "toolConfig", "candidateCount",
    }  # fmt: skip

    def write(self, request: Request, can: Capabilities) -> bytes:
        """Write the body of a request; raises `ConfigError` if it is for decision models."""
        system, turns, tail = self.parts(request, can)
        fields: dict[str, Any] = {
            "contents": [
                {"role": "model" if turn["role"] == "assistant" else "user", "parts": [{"text": turn["content"]}]}
                for turn in turns
            ]
        }
        if system:
            fields["systemInstruction"] = {"parts": [{"text": system}]}
        settings: dict[str, Any] = {"maxOutputTokens": request.max_tokens}
        seed = self.seed(request, can)
        if seed is not None:
            settings["seed"] = seed
        # The tail closes the settings, which come last.
        return compact_json({**fields, "generationConfig": settings})[:-2] + tail.encode()

    def _tail(self, form: Form, can: Capabilities) -> tuple[str, str]:
        words, tail = super()._tail(form, can)
        return words, ("" if tail == ",}" else tail[:-1]) + "}}"

    def _fields(self, sent: dict[str, Any], form: Form, can: Capabilities) -> dict[str, Any]:
        """Write the fields of `generationConfig` that all requests of a form share."""
        settings = {_NAMES.get(name, name): value for name, value in sent.items()}
        if effort := settings.pop("reasoning_effort", None):
            settings["thinkingConfig"] = {"thinkingLevel": effort}
        if not form.schema:
            return settings
        if can.mode in ("strict", "json_schema"):
            settings["responseJsonSchema"] = dict(form.schema)
        if can.mode in ("strict", "json_schema", "json_object"):
            settings["responseMimeType"] = "application/json"
        return settings

    def read(self, body: Mapping[str, Any], scrub: Scrubber) -> Completion | None:
        """Read a reply of `generateContent`; None if it has no candidate and was not blocked."""
        usage = body.get("usageMetadata")
        thoughts = count_of(usage, "thoughtsTokenCount")
        made = Usage(
            count_of(usage, "promptTokenCount"),
            count_of(usage, "candidatesTokenCount") + thoughts,
            count_of(usage, "cachedContentTokenCount"),
            thoughts,
        )
        model = model_of(body, scrub, "modelVersion")
        first = within(body, "candidates", 0)
        if not isinstance(first, dict):
            blocked = as_line(within(body, "promptFeedback", "blockReason"))
            if not blocked:
                return None
            return Completion(text=f"blocked: {scrub.reply(blocked)}", finish="filter", usage=made, model=model)
        parts = [part for part in dicts_in(within(first, "content", "parts")) if not part.get("thought")]
        texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
        text = "".join(texts)
        reason = as_line(first.get("finishReason"))
        finish: Finish = "length" if reason == "MAX_TOKENS" else "stop" if reason in _STOPPED else "filter"
        if finish == "filter" and not text:
            text = f"ended: {reason}"
        clean = scrub.reply(whole(text))
        return Completion(
            text=clean,
            finish=finish,
            usage=made,
            model=model,
            logprobs=_logprobs(first.get("logprobsResult")) if clean == text else (),
            request_id=scrub(as_line(body.get("responseId"))[:100]),
        )


def _logprobs(result: Any) -> tuple[TokenLogprob, ...]:
    chosen = within(result, "chosenCandidates")
    entries = enumerate(chosen if isinstance(chosen, list) else ())
    pairs = ((entry, within(result, "topCandidates", place, "candidates")) for place, entry in entries)
    return token_logprobs(pairs, "logProbability")


class Gemini(TextServer):
    """A server that speaks `generateContent`."""

    _wire = GenerateContent


create = Provider(Gemini, answers_questions=False, takes_batches=True)
"""Makes the backends of the table that speak `generateContent`."""
