"""Writes the JSON of a chat request, and reads that of its reply."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from judge_eval.digest import canonical_json, compact_json, texts_json
from judge_eval.errors import ConfigError
from judge_eval.foreign import dicts_in, within
from judge_eval.llm.http import capabilities
from judge_eval.llm.http.failures import FILTERED, as_line, spelled, whole
from judge_eval.llm.http.secrets import Scrubber
from judge_eval.safe_text import refuse_credentials
from judge_eval.spelling import option
from judge_eval.wire import MOST_TOKENS, Completion, Finish, Form, Request, TokenLogprob, Usage

_FINISHES: Mapping[str, Finish] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "filter",
    "refusal": "refusal",
}


class ChatCompletions:
    """How Chat Completions are asked and read, and what the other wires change of it.

    All of a body but the messages, the cap and the sample is written once for each form.
    """

    path: ClassVar[str] = "chat/completions"
    """Under the base URL; `{model}` is the model."""
    streams: ClassVar[bool] = True
    """Whether a server may stream its reply unless the body says no; in a batch none does."""
    ours: ClassVar[frozenset[str]] = frozenset({
        "model", "messages", "response_format", "max_tokens", "max_completion_tokens", "stream", "n", "tools",
        "tool_choice",
    })  # fmt: skip
    """Fields of a body that no parameter may set."""

    def __init__(self, model: str, params: Mapping[str, Any], bounds: bool = False) -> None:
        self.model, self.params = model, params
        self.bounds = bounds
        """Whether the schema says how long texts may be."""
        self._tails: dict[tuple[bytes, capabilities.Capabilities], tuple[str, str]] = {}

    def write(self, request: Request, can: capabilities.Capabilities) -> bytes:
        """Write the body of a request; raises `ConfigError` if it is for decision models."""
        system, turns, tail = self.parts(request, can)
        if system:  # some servers want exactly one
            turns.insert(0, {"role": "system", "content": system})
        more = f',"{can.cap}":{request.max_tokens}'
        seed = self.seed(request, can)
        if seed is not None:
            more += f',"seed":{seed}'
        return b'{"messages":' + texts_json(turns) + (more + tail).encode()

    def parts(self, request: Request, can: capabilities.Capabilities) -> tuple[str, list[dict[str, str]], str]:
        """Return the system text, the other messages, and as the end of the JSON what all requests of a form share."""
        parts = self._tails.get((request.form.digest, can))
        if parts is None:
            parts = self._tails[request.form.digest, can] = self._tail(request.form, can)
        words, tail = parts
        messages = request.messages
        system = [each.content for each in messages if each.role == "system"]
        turns = [{"role": each.role, "content": each.content} for each in messages if each.role != "system"]
        return "\n\n".join(system) + words, turns, tail

    def _tail(self, form: Form, can: capabilities.Capabilities) -> tuple[str, str]:
        if hasattr(form, "ask"):
            raise ConfigError(
                f"{self.model} writes texts and is not a decision model; judge in another mode "
                f"({option('mode', 'pointwise')}), or name a decision model "
                f"({option('model', 'decisions/NAME')})"
            )
        fields = self._fields(self._sent(can), form, can)
        words = capabilities.contract(form.schema) if form.schema and can.mode in ("json_object", "prompt") else ""
        return words, "," + compact_json(fields).decode()[1:]

    def _sent(self, can: capabilities.Capabilities) -> dict[str, Any]:
        """Return the parameters that are sent; the seed, which counts the samples, is not among them."""
        absent = {*can.without, "seed", *(("top_logprobs",) if "logprobs" in can.without else ())}
        sent = {name: value for name, value in self.params.items() if name not in absent}
        if capabilities.ONLY_1 in can.without and "temperature" in sent:
            sent["temperature"] = 1
        return sent

    def _fields(self, sent: dict[str, Any], form: Form, can: capabilities.Capabilities) -> dict[str, Any]:
        """Write the fields of a body but messages, cap and seed."""
        fields = {"model": self.model, **sent}
        if (wanted := self.response_format(form, can)) is not None:
            fields["response_format"] = wanted
        return fields

    def response_format(self, form: Form, can: capabilities.Capabilities) -> dict[str, Any] | None:
        """Write how the form of the reply is requested; None if the prompt alone does it."""
        bounds = self.bounds and capabilities.BOUNDS not in can.without
        schema = capabilities.bounded(form.schema) if bounds else form.schema
        return capabilities.response_format(can.mode, form.schema_name, schema)

    def seed(self, request: Request, can: capabilities.Capabilities) -> int | None:
        """Return the seed of a request, another one for each sample; None if none is sent."""
        if "seed" not in self.params or "seed" in can.without:
            return None
        seed: int = self.params["seed"]
        return seed + request.sample

    def read(self, body: Mapping[str, Any], scrub: Scrubber) -> Completion | None:
        """Read the JSON of a reply; None if it holds no answer."""
        choice = within(body, "choices", 0)
        message = within(choice, "message")
        if not isinstance(message, dict):
            return None
        text = _text(message.get("content"))
        finish: Finish = _FINISHES.get(as_line(choice.get("finish_reason")), "stop")
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal and finish == "stop":
            finish, text = "refusal", text or whole(refusal)
        clean = scrub.reply(text)
        beside = (message.get("reasoning_content"), message.get("reasoning"))
        thoughts = [each for each in beside if isinstance(each, str) and each.strip()]
        # Tokens do not spell a text that held a key.
        spelled_out = choice.get("logprobs") and clean == text
        return Completion(
            text=clean,
            finish=finish,
            usage=usage_of(body.get("usage"), "prompt_tokens", "completion_tokens"),
            model=model_of(body, scrub),
            logprobs=read_logprobs(within(choice, "logprobs", "content")) if spelled_out else (),
            reasoned=bool(thoughts),
            reasoned_object=not text.strip() and any("{" in each for each in thoughts),
        )


def plain_params(params: Mapping[str, Any], ours: frozenset[str]) -> dict[str, Any]:
    """Return the parameters that are set; the package's own (`ours`) and credentials are refused."""
    taken = {name: value for name, value in params.items() if value is not None}
    refuse_credentials(taken)
    for name, value in taken.items():
        if name in ours:
            raise ConfigError(f"the parameter {name!r} is set by the package; remove it from params")
        try:
            canonical_json(value)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"the parameter {name!r} is not JSON: {error}") from None
    if not isinstance(taken.get("seed", 0), int):
        raise ConfigError(f"the parameter 'seed' must be a whole number, not {taken['seed']!r}")
    return taken


_LOWEST = 9999.0  # how OpenAI writes a logarithm of minus infinity, without its sign
_LONGEST = 300  # characters of a model's name
_STATUS = re.compile(r"[45][0-9]{2}")


def model_of(body: Mapping[str, Any], scrub: Scrubber, field: str = "model") -> str:
    """Read the name of the model that answered."""
    return scrub.reply(as_line(body.get(field)))[:_LONGEST]


def status_of(failure: Any) -> int:
    """Return the HTTP status of an error inside a 200; without a clue it may pass."""
    code = within(failure, "code")
    if isinstance(code, str) and _STATUS.fullmatch(code):
        code = int(code)
    if isinstance(code, int) and 400 <= code <= 599:
        return code
    words = spelled(failure)[:2000]
    if any(word in words for word in ("invalid_request", *FILTERED)):
        return 400
    return 429 if "rate_limit" in words else 502


def _text(content: Any) -> str:
    """Join the text of a message's content; thoughts among its parts are not text."""
    if isinstance(content, str):
        return whole(content)
    parts = [part.get("text") for part in dicts_in(content) if part.get("type") == "text"]
    return whole("".join(part for part in parts if isinstance(part, str)))


def usage_of(usage: Any, fresh: str, written: str) -> Usage:
    """Read the tokens of a call by their names in OpenAI's manner."""
    return Usage(
        count_of(usage, fresh),
        count_of(usage, written),
        count_of(usage, f"{fresh}_details", "cached_tokens"),
        count_of(usage, f"{written}_details", "reasoning_tokens"),
    )


def count_of(record: Any, *path: str) -> int:
    """Read a number of tokens; 0 if there is none."""
    value = within(record, *path)
    return value if isinstance(value, int) and 0 <= value < MOST_TOKENS else 0


def token_logprobs(entries: Iterable[tuple[Any, Any]], name: str) -> tuple[TokenLogprob, ...]:
    """Read tokens, each with its alternatives and the logarithm under a name; none if one cannot be read."""
    tokens = []
    for entry, others in entries:
        if not isinstance(within(entry, "token"), str):
            return ()
        known = [other for other in dicts_in(others) if isinstance(other.get("token"), str)]
        top = tuple((whole(other["token"]), finite(other.get(name))) for other in known)
        tokens.append(TokenLogprob(whole(entry["token"]), finite(entry.get(name)), top))
    return tuple(tokens)


def read_logprobs(tokens: Any) -> tuple[TokenLogprob, ...]:
    """Read OpenAI's list of tokens; none if one cannot be read."""
    entries = tokens if isinstance(tokens, list) else ()
    return token_logprobs(((entry, within(entry, "top_logprobs")) for entry in entries), "logprob")


def finite(value: Any) -> float:
    """Read a logarithm; some servers write -Infinity where OpenAI writes -9999."""
    if isinstance(value, int | float) and abs(value) <= _LOWEST:
        return float(value)
    return -_LOWEST
