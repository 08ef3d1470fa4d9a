"""What a server takes: the ladder of forms that are tried on its objections, without I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from judge_eval.digest import canonical_json
from judge_eval.errors import UnknownNameError

OutputMode = Literal["strict", "json_schema", "json_object", "prompt"]
"""How the reply's form is requested, from the surest way to the words of the prompt alone."""

_MODES: tuple[OutputMode, ...] = ("strict", "json_schema", "json_object", "prompt")
Cap = Literal["max_completion_tokens", "max_tokens"]
"""The field that caps the tokens of a reply; one of them is always sent."""
STREAM = "stream"
ROUTE = "chat_completions"
"""What a server lacks that answers a model by Responses alone."""
BOUNDS = "maxLength"
_DROPPABLE = ("temperature", "top_p", "top_logprobs", "logprobs", "seed", STREAM, BOUNDS)
LONGEST = {"evidence": 600, "reason": 300}
"""Characters of a field of a reply; the prompts ask for 40 and 25 words."""
SAMPLING = ("temperature", "top_p", "seed")
"""Parameters without which a model answers otherwise."""
ONLY_1 = "temperature_except_1"
"""What a server lacks that takes no temperature but 1."""
_UNSUPPORTED = re.compile(
    r"unsupported|not\s+(currently\s+|yet\s+)?(be\s+)?(support|permit|allow|implement|available|accept|enabled"
    r"|recogni[sz])|unrecogni[sz]ed|unknown|unexpected|extra[_ ](inputs|fields|forbidden)|only the default"
    r"|does not accept|must be one of|invalid parameter|no such (field|parameter)|deprecated|unavailable"
    r"|enabled only|disabled|cannot find field|failed to (parse|compile) (the )?(grammar|schema)",
    re.IGNORECASE,
)
_ONLY_1 = re.compile(r"\bonly (be set to |be )?1\b|must be (set to |exactly )?1\b(?!\.)", re.IGNORECASE)
_OUTPUT = re.compile(
    r"response_?format|json_?schema|json_object|structured output|guided|grammar|json mode|[\"'`.]strict\b",
    re.IGNORECASE,
)
_CALLERS = re.compile(
    r"must be (at most|at least|between|less|greater|below|above|[<>])|out of range|is too \w+|at least one"
    r"|(above|below) (the )?(max|min)imum|expected a value",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Capabilities:
    """What may be sent. Each step down leaves out one field more; none is ever put back."""

    mode: OutputMode = "strict"
    cap: Cap = "max_completion_tokens"
    """The field that caps the reply's tokens."""
    without: frozenset[str] = frozenset()
    """Parameters that are left out; with `temperature_except_1` another temperature is sent as 1."""

    @cached_property
    def dropped(self) -> tuple[str, ...]:
        """What is left out, sorted, in the words of the API."""
        names = set(self.without) | set(_MODES[: _MODES.index(self.mode)])
        if self.cap != "max_completion_tokens":
            names.add("max_completion_tokens")
        return tuple(sorted(names))

    @classmethod
    def except_for(cls, names: Sequence[str]) -> Capabilities:
        """Return the capabilities without these names, which are those of `dropped`."""
        for name in names:
            if name not in LEFT_OUT:
                raise UnknownNameError("field to leave out", name, LEFT_OUT)
        rank = max((_MODES.index(name) + 1 for name in _MODES[:-1] if name in names), default=0)
        cap: Cap = "max_tokens" if "max_completion_tokens" in names else "max_completion_tokens"
        return cls(_MODES[rank], cap, frozenset(name for name in names if name in (*_DROPPABLE, ONLY_1, ROUTE)))

    def sampled(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters as they shape answers: those that are left out are not among them."""
        kept = {name: value for name, value in params.items() if name not in {*SAMPLING} & self.without}
        return {**kept, "temperature": 1} if ONLY_1 in self.without and "temperature" in kept else kept

    def after(self, objection: Objection, sent: Sequence[str]) -> Capabilities | None:
        """Leave out what a server's words object to, of the parameters sent; None if they do not say it."""
        words = objection.words
        if objection.param == ROUTE:
            return self._without(ROUTE) if self._has(ROUTE, sent) else None
        if self._has("temperature", sent) and _name("temperature").search(words) and _ONLY_1.search(words):
            return self._without(ONLY_1 if ONLY_1 not in self.without else "temperature")
        if not _UNSUPPORTED.search(words):
            return None
        blamed = objection.param.split(".")[0] or None
        candidates = [name for name in _DROPPABLE if self._has(name, sent)]
        if self.cap == "max_completion_tokens":
            candidates.append(self.cap)
        if blamed in candidates and blamed:
            return self._without(blamed)
        if "response_format" in objection.param or _OUTPUT.search(words):
            return self._without(BOUNDS) if self._has(BOUNDS, sent) else self._weaker()
        # The first name in the sentence is the culprit; a later one is usually the advice.
        places = [(match.start(), name) for name in candidates if (match := _name(name).search(words))]
        return self._without(min(places)[1]) if places else None

    def rungs(self, sent: Sequence[str]) -> Iterator[Capabilities]:
        """Yield what is tried in turn where the server's words do not help; the last is the least."""
        if self._has("temperature", sent):
            yield self._without("temperature")
        if self._has("logprobs", sent):
            yield self._without("logprobs")
        if self.cap == "max_completion_tokens":
            yield replace(self, cap="max_tokens")
        for mode in _MODES[_MODES.index(self.mode) + 1 :]:
            yield replace(self, mode=mode, cap="max_tokens")
        names = {name for name in _DROPPABLE if name in sent}
        yield Capabilities("prompt", "max_tokens", self.without - {ONLY_1} | names)

    def _weaker(self) -> Capabilities | None:
        """Request the reply's form in the next weaker way; None if there is none."""
        rank = _MODES.index(self.mode) + 1
        return replace(self, mode=_MODES[rank]) if rank < len(_MODES) else None

    def _has(self, name: str, sent: Sequence[str]) -> bool:
        return name in sent and name not in self.without

    def _without(self, name: str) -> Capabilities:
        if name == "max_completion_tokens":
            return replace(self, cap="max_tokens")
        before = self.without - {ONLY_1} if name == "temperature" else self.without
        return replace(self, without=before | {name})


LEFT_OUT = (*_MODES[:-1], "max_completion_tokens", *_DROPPABLE, ONLY_1, ROUTE)
"""What can be left out, by name."""


def _name(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w]){name}(?![\w])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a server declined the form of a request (HTTP 400 or 422, or 403 for log-probabilities)."""

    message: str
    code: str = ""
    param: str = ""

    @property
    def words(self) -> str:
        """All of it as one text to search in."""
        return f"{self.code} {self.param} {self.message}"

    @property
    def of_caller(self) -> bool:
        """Whether it is about a value that the caller chose, such as one out of range."""
        return not _UNSUPPORTED.search(self.words) and _CALLERS.search(self.words) is not None


def response_format(mode: OutputMode, name: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Write the field `response_format`; None if it is left out, as without a schema."""
    if not schema:
        return None
    if mode == "strict":
        return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": dict(schema)}}
    if mode == "json_schema":
        return {"type": "json_schema", "json_schema": {"name": name, "schema": dict(schema)}}
    return {"type": "json_object"} if mode == "json_object" else None


def bounded(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema whose texts end: a small model in a grammar repeats itself in a string until its cap."""
    made = dict(schema)
    if "properties" in made:
        made["properties"] = {
            name: {**field, BOUNDS: LONGEST[name]} if name in LONGEST else bounded(field)
            for name, field in made["properties"].items()
        }
    if "items" in made:
        made["items"] = bounded(made["items"])
    return made


def contract(schema: Mapping[str, Any]) -> str:
    """Describe the schema in words, for servers that do not take one."""
    return (
        "\n\nAnswer with one JSON object and nothing else: no code fence, no comment. "
        f"It must fit this JSON schema:\n{canonical_json(schema)}"
    )
