"""The flags on calls: the cache, the server, limits and budgets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from judge_eval.cli.flags.groups import SET, Setting, only
from judge_eval.errors import ConfigError
from judge_eval.given import read_params

if TYPE_CHECKING:
    from judge_eval.backends.around.hedge import Hedge
    from judge_eval.backends.stack import Options

PANEL = "Calling the judge"
_flag = partial(typer.Option, rich_help_panel=PANEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class CachingFlags:
    """Where replies are cached."""

    cache: Annotated[
        str | None,
        _flag(
            metavar="PATH|project",
            help="The folder of the cache (see `cache path`), `project` for this project's own "
            "(.judge_eval/cache), or a database as postgresql://...",
        ),
        SET,
    ] = None
    no_cache: Annotated[bool, _flag("--no-cache", help="Neither read nor write the cache.")] = False

    @property
    def location(self) -> str | Path:
        """The folder or the database of the cache; the user's own where none is given."""
        from judge_eval.backends.storing.places import cache_place
        from judge_eval.evaluator import default_cache

        return cache_place(self.cache) if self.cache else default_cache()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallingFlags(CachingFlags):
    """How the judge is called."""

    offline: Annotated[bool, _flag("--offline", help="A cache miss is an error, not a call.")] = False
    base_url: Annotated[
        str | None, _flag(help="The URL of an OpenAI-compatible server."), Setting(also=("OPENAI_BASE_URL",))
    ] = None
    base_urls: Annotated[
        list[str] | None,
        _flag(
            "--base-url",
            help="The URL of an OpenAI-compatible server; repeat it for a fleet that serves the same model.",
        ),
        Setting("base_url", also=("OPENAI_BASE_URL",)),
    ] = None
    param: Annotated[
        list[str] | None,
        _flag(
            "--param", "-p", help="NAME=VALUE sent with every request (value as JSON or text); repeatable."
        ),
        SET,
    ] = None
    concurrency: Annotated[int, _flag(help="The most calls at the same time."), SET] = 256
    timeout: Annotated[float, _flag(help="Seconds for one call."), SET] = 120.0
    max_reply: Annotated[
        float, _flag(metavar="MB", help="The most megabytes that are read of one reply."), SET
    ] = 16.0
    rpm: Annotated[float | None, _flag(help="Requests a minute, if the server states no limit."), SET] = None
    tpm: Annotated[float | None, _flag(help="Tokens a minute, if the server states no limit."), SET] = None
    attempts: Annotated[int, _flag(help="The most attempts at one call."), SET] = 8
    max_calls: Annotated[int | None, _flag(help="Budget: calls."), SET] = None
    max_tokens: Annotated[int | None, _flag(help="Budget: tokens."), SET] = None
    max_cost: Annotated[float | None, _flag(help="Budget: US dollars."), SET] = None
    record: Annotated[Path | None, _flag(help="Write every reply to a cassette.")] = None
    replay: Annotated[Path | None, _flag(help="Answer from a cassette instead of calling.")] = None
    lead: Annotated[
        bool,
        _flag("--lead", help="A trace's first call goes ahead, where the server bills a seen prefix less."),
    ] = False
    hedge: Annotated[
        str | None,
        _flag(
            metavar="SECONDS|auto",
            help="Repeat a call without an answer for this long; both may be billed. `auto`: three times "
            "what 99% of calls take, at most a twentieth of all calls.",
        ),
        SET,
    ] = None
    otel: Annotated[
        Literal["off", "on", "content"],
        _flag(help="Report calls and scores to OpenTelemetry; `content` adds their texts."),
        SET,
    ] = "off"

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of every request; a value is JSON where it reads as JSON, else text.

        Raises:
            ConfigError: A pair has no `=`.
        """
        return read_params(self.param or (), "--param")

    def options(self) -> Options:
        """Say how the judge is called.

        Raises:
            ConfigError: A parameter has no `=`.
        """
        from judge_eval.backends.stack import Options

        urls = self.base_urls or ([self.base_url] if self.base_url is not None else [])
        return Options(
            base_url=urls[0] if urls else None,
            fleet=tuple(urls[1:]),
            params=self.params,
            timeout=self.timeout,
            concurrency=self.concurrency,
            rpm=self.rpm,
            tpm=self.tpm,
            attempts=self.attempts,
            max_calls=self.max_calls,
            max_tokens=self.max_tokens,
            max_cost=self.max_cost,
            offline=self.offline,
            record=self.record,
            replay=self.replay,
            lead=self.lead,
            hedge=_hedge(self.hedge),
            otel=self.otel,
            max_reply=int(self.max_reply * 1_000_000),
        )


def _hedge(given: str | None) -> Hedge | None:
    """Read the seconds, or `auto`.

    Raises:
        ConfigError: It is neither.
    """
    if given is None:
        return None
    if given == "auto":
        return "auto"
    from judge_eval.backends.around.hedge import check_hedge

    try:
        seconds = float(given)
    except ValueError:
        raise ConfigError(f"--hedge {given}: write the seconds to wait, such as 30, or auto") from None
    check_hedge(seconds, "--hedge")
    return seconds


Server: TypeAlias = Annotated[CallingFlags, only("base_url")]
"""The server alone."""
