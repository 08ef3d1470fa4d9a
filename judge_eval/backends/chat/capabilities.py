"""What a server was found not to take: a ladder walked down on its objections, without I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from judge_eval.digest import canonical_json
from judge_eval.errors import UnknownNameError

OutputMode = Literal["strict", "json_schema", "json_object", "prompt"]
"""How the reply's form is asked for, from the surest to none but the words of the prompt."""

_MODES: tuple[OutputMode, ...] = ("strict", "json_schema", "json_object", "prompt")
_DROPPABLE = ("temperature", "top_p", "top_logprobs", "logprobs", "seed")
_UNSUPPORTED = re.compile(
    r"unsupported|not\s+(currently\s+|yet\s+)?(be\s+)?(support|permit|allow|implement|available|accept|recogni[sz])"
    r"|unrecogni[sz]ed|unknown|unexpected|extra[_ ](inputs|fields|forbidden)|only the default|does not accept"
    r"|must be one of|invalid parameter|no such (field|parameter)"
    r"|failed to (parse|compile) (the )?(grammar|schema)",
    re.IGNORECASE,
)
_OUTPUT = re.compile(
    r"response_?format|json_?schema|json_object|structured output|guided|grammar|json mode|[\"'`.]strict\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What may be sent. Each step down leaves out one thing more; nothing is ever put back."""

    mode: OutputMode = "strict"
    cap: Literal["max_completion_tokens", "max_tokens", ""] = "max_completion_tokens"
    """The field that caps the reply's tokens; empty where the server takes neither."""
    without: frozenset[str] = frozenset()
    """Parameters that are left out."""

    @property
    def dropped(self) -> tuple[str, ...]:
        """What is left out, sorted, in the words of the API."""
        names = set(self.without) | set(_MODES[: _MODES.index(self.mode)])
        if self.cap != "max_completion_tokens":
            names.add("max_completion_tokens")
        if not self.cap:
            names.add("max_tokens")
        return tuple(sorted(names))

    @classmethod
    def lacking(cls, names: Sequence[str]) -> Capabilities:
        """Make what a server takes that lacks these: `lacking(names).dropped` names them all.

        Args:
            names: In the words of `dropped`: `strict`, `json_schema`, `json_object`,
                `max_completion_tokens`, `max_tokens`, `temperature`, ...

        Raises:
            UnknownNameError: A name is none of what can be left out.
        """
        caps = ("max_completion_tokens", "max_tokens")
        for name in names:
            if name not in (*_MODES[:-1], *caps, *_DROPPABLE):
                raise UnknownNameError("field to leave out", name, [*_MODES[:-1], *caps, *_DROPPABLE])
        rank = max((_MODES.index(name) + 1 for name in _MODES[:-1] if name in names), default=0)
        cap: Literal["max_completion_tokens", "max_tokens", ""] = "max_completion_tokens"
        if "max_completion_tokens" in names or "max_tokens" in names:
            cap = "" if "max_tokens" in names else "max_tokens"
        return cls(_MODES[rank], cap, frozenset(name for name in names if name in _DROPPABLE))

    def lower_mode(self) -> Capabilities | None:
        """Ask for the reply's form in the next weaker way; None where there is none."""
        rank = _MODES.index(self.mode) + 1
        return replace(self, mode=_MODES[rank]) if rank < len(_MODES) else None

    def after(self, objection: Objection, sent: Sequence[str]) -> Capabilities | None:
        """Leave out what a server objected to.

        Args:
            objection: The server's words.
            sent: The names of the parameters in the request.

        Returns:
            Something less than this; None where the objection is to nothing that can be left out.
        """
        words = objection.words
        if not _UNSUPPORTED.search(words):
            return None
        blamed = objection.param.split(".")[0] or None
        candidates = (*(name for name in _DROPPABLE if name in sent and name not in self.without), self.cap)
        if blamed in candidates and blamed:
            return self._without(blamed)
        if "response_format" in objection.param or _OUTPUT.search(words):
            return self.lower_mode()
        # The first name in the sentence is the culprit; a later one is usually the advice.
        places = [
            (match.start(), name) for name in candidates if name and (match := _name(name).search(words))
        ]
        return self._without(min(places)[1]) if places else None

    def _without(self, name: str) -> Capabilities:
        if name == "max_completion_tokens":
            return replace(self, cap="max_tokens")
        if name == "max_tokens":
            return replace(self, cap="")
        return replace(self, without=self.without | {name})


def _name(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w]){name}(?![\w])")


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
    def vague(self) -> bool:
        """Whether it does not say what was wrong."""
        return not self.param and not re.search(
            r"\w+_\w+|'\w+'|`\w+`|token|length|schema|role|model", self.words
        )


def response_format(mode: OutputMode, name: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Write the field `response_format`, None where it is left out."""
    if mode == "strict":
        return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": dict(schema)}}
    if mode == "json_schema":
        return {"type": "json_schema", "json_schema": {"name": name, "schema": dict(schema)}}
    return {"type": "json_object"} if mode == "json_object" else None


def contract(schema: Mapping[str, Any]) -> str:
    """Say in words what the schema says, for servers that take none; the same text for the same schema."""
    return (
        "\n\nAnswer with one JSON object and nothing else: no code fence, no comment. "
        f"It must fit this JSON schema:\n{canonical_json(schema)}"
    )
