"""How the judge is called: the server, limits and budgets."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from judge_eval.errors import ConfigError
from judge_eval.safe_text import read_params
from judge_eval.settings import FieldValues, Range, check, check_params, setting, with_advice
from judge_eval.spelling import option

PANEL = "Calling the judge"
MOST_BYTES: Final = 16_000_000
"""The most bytes that are read of one reply, compressed or not; a verdict takes a few thousand."""

Otel: TypeAlias = Literal["off", "on", "content"]
"""What OpenTelemetry receives: nothing; spans and events without any text of a trace; the same with texts."""

_setting = partial(setting, panel=PANEL)
_kept = partial(_setting, env=True, file=True)
_MANY = 10**12
LOGPROBS: Final[Mapping[str, Any]] = {"logprobs": True, "top_logprobs": 5}
"""The parameters that ask a chat model for log-probabilities."""


def _fleet(urls: Sequence[str]) -> FieldValues:
    return FieldValues(base_url=urls[0], fleet=tuple(urls[1:])) if urls else FieldValues()


def _params(pairs: Sequence[str]) -> dict[str, Any]:
    return read_params(pairs, option("param", python="params"))


def _words(text: str | None) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text or ""))
    except ValueError as error:
        raise ConfigError(f"{option('key_command')}: {error}") from None
    if text is not None and not words:
        raise ConfigError(f"{option('key_command')} is empty; give a command that prints the key, or leave it out")
    return words


@with_advice
@dataclass(frozen=True, slots=True)
class Options:
    """How the judge is called. None of it changes a verdict but `params` and `base_url`.

    Raises:
        ConfigError: A number is out of its range, or a parameter cannot be sent.
    """

    base_url: str | None = setting(None, flag=False, changes_verdict=True, to_server="required")
    """Of an OpenAI-compatible server; None takes `OPENAI_BASE_URL`, else the provider's own."""
    fleet: tuple[str, ...] = _kept(
        (),
        "The URL of an OpenAI-compatible server; repeat it for several that serve the same model.",
        metavar="URL",
        name="base_url",
        env=("OPENAI_BASE_URL",),
        common=True,
        type=list[str] | None,
        read=_fleet,
    )
    key_env: str | None = setting(None, flag=False, to_server="required")
    """The environment variable that holds the server's key; the provider's own if None."""
    params: Mapping[str, Any] = _kept(
        {},
        "Sent with every request (value as JSON or text); repeatable.",
        metavar="NAME=VALUE",
        name="param",
        flags=("--param", "-p"),
        type=list[str] | None,
        read=_params,
        changes_verdict=True,
        to_server="required",
        common=True,
    )
    unsupported: tuple[str, ...] = _kept(
        (),
        "What the server does not accept (strict, temperature, max_completion_tokens, ...): it is "
        "never sent; repeatable.",
        metavar="NAME",
        type=list[str] | None,
        read=lambda names: tuple(names or ()),
        changes_verdict=True,
        to_server="required",
    )
    """What the server does not take, as `docs/providers.md` names it; what else it declines is negotiated."""
    key_command: tuple[str, ...] = _setting(
        (),
        "A command that prints the key or token, run without a shell; again when the server answers 401.",
        metavar="COMMAND",
        env=True,
        type=str | None,
        read=_words,
        to_server="required",
    )
    """The command, word by word, that prints the key: a line, or JSON with a token and its end."""
    concurrency: int = _kept(
        256, "The most calls at the same time.", range=Range(1, 10_000), common=True, to_server="optional"
    )
    timeout: float = _kept(
        120.0, "Seconds for one call.", range=Range(0.001, 86_400, whole=False), to_server="optional"
    )
    max_reply: int = _kept(
        MOST_BYTES,
        "The most megabytes that are read of one reply.",
        hidden=True,
        metavar="MB",
        type=float,
        unit=1_000_000,
        range=Range(0.000001, 10_000, whole=False),
        to_server="optional",
    )
    rpm: float | None = _kept(
        None, "Requests a minute, if the server states no limit.", range=Range(0.001, 10**9, whole=False)
    )
    tpm: float | None = _kept(
        None, "Tokens a minute, if the server states no limit.", range=Range(0.001, _MANY, whole=False)
    )
    attempts: int = _kept(8, "The most attempts at one call.", range=Range(1, 100), hidden=True)
    max_calls: int | None = _kept(None, "Budget: the most calls.", range=Range(0, _MANY))
    """A budget, as the next two; what does not fit becomes `NoVerdict(why="budget")`."""
    max_tokens: int | None = _kept(None, "Budget: the most tokens.", range=Range(0, 10**15))
    max_cost: float | None = _kept(
        None, "Budget: the most US dollars.", range=Range(0, 10**9, whole=False), common=True
    )
    offline: bool = _kept(False, "Make no call: a request that the cache does not answer is an error.")
    record: Path | None = _setting(None, "Write every reply to a cassette.", env=True)
    replay: Path | None = _setting(None, "Answer from a cassette instead of calling.", env=True)
    warm_prefix: bool = _kept(
        False, "Send a trace's first call before the others, for servers that bill a known prefix less."
    )
    otel: Otel = _kept("off", "Report calls and scores to OpenTelemetry; `content` adds their texts.")
    members: Mapping[str, Options] = field(default_factory=dict)
    """How single models of a panel are called, by route, where it differs: base URL, parameters."""

    def __post_init__(self) -> None:
        check(self)
        check_params(self.params)

    @property
    def server(self) -> str | None:
        """The base URL for what talks to one server, such as a batch."""
        if self.fleet:
            raise ConfigError(f"a batch has one server: give {option('base_url')} once")
        return self.base_url

    def with_logprobs(self, route: str) -> Options:
        """Return the same, with log-probabilities of a route's model (the only one if empty); set parameters stay."""
        if not route:
            return replace(self, params={**LOGPROBS, **self.params})
        own = self.members.get(route, self)
        own = replace(own, params={**LOGPROBS, **own.params}, members={})
        return replace(self, members={**self.members, route: own})
