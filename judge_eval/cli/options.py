"""The flags that several verbs share, and what becomes of them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from judge_eval.cli import completion
from judge_eval.errors import ConfigError

JUDGING, CALLING, KEEPING = "Judging", "Calling the judge", "The run"


class Mode(StrEnum):
    """How chunks are put to the judge."""

    pointwise = "pointwise"
    listwise = "listwise"


class OnInvalid(StrEnum):
    """What an invalid record does."""

    error = "error"
    skip = "skip"


class Otel(StrEnum):
    """What OpenTelemetry is told."""

    off = "off"
    on = "on"
    content = "content"


def _env(name: str) -> str:
    return f"JUDGE_EVAL_{name}"


Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        envvar=_env("MODEL"),
        help="Who judges: provider/model, such as openai/NAME or fake/overlap (offline).",
        autocompletion=completion.models,
        rich_help_panel=JUDGING,
    ),
]
Prompt = Annotated[
    str,
    typer.Option(
        envvar=_env("PROMPT"),
        help="A prompt's id (see `prompts list`), or file:PATH for one of your own.",
        autocompletion=completion.prompts,
        rich_help_panel=JUDGING,
    ),
]
ModeOption = Annotated[
    Mode,
    typer.Option(
        "--mode", envvar=_env("MODE"), help="One chunk a call, or all of a trace.", rich_help_panel=JUDGING
    ),
]
JudgeOption = Annotated[
    str | None,
    typer.Option(
        "--judge",
        envvar=_env("JUDGE"),
        help="A judge of an installed package, in place of --mode.",
        autocompletion=completion.judges,
        rich_help_panel=JUDGING,
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metrics",
        "-k",
        envvar=_env("METRICS"),
        help="Metrics, with commas between or repeated: AP@5,MRR,NDCG@5.",
        autocompletion=completion.metrics,
        rich_help_panel=JUDGING,
    ),
]
Relevant = Annotated[
    int | None,
    typer.Option(
        envvar=_env("RELEVANT"),
        help="The least grade that counts as relevant, in place of the prompt's.",
        rich_help_panel=JUDGING,
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(
        envvar=_env("CACHE"), help="The folder of the cache (see `cache path`).", rich_help_panel=CALLING
    ),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Neither read nor write the cache.", rich_help_panel=CALLING)
]
Offline = Annotated[
    bool, typer.Option("--offline", help="A cache miss is an error, not a call.", rich_help_panel=CALLING)
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        envvar=[_env("BASE_URL"), "OPENAI_BASE_URL"],
        help="Of an OpenAI-compatible server.",
        rich_help_panel=CALLING,
    ),
]
Param = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "-p",
        envvar=_env("PARAM"),
        help="NAME=VALUE sent with every request (value as JSON or text); repeatable.",
        rich_help_panel=CALLING,
    ),
]
Concurrency = Annotated[
    int,
    typer.Option(
        envvar=_env("CONCURRENCY"), min=1, help="The most calls under way.", rich_help_panel=CALLING
    ),
]
Timeout = Annotated[
    float,
    typer.Option(envvar=_env("TIMEOUT"), min=0.001, help="Seconds for one call.", rich_help_panel=CALLING),
]
Rpm = Annotated[
    float | None,
    typer.Option(
        envvar=_env("RPM"), help="Requests a minute, if the server tells none.", rich_help_panel=CALLING
    ),
]
Tpm = Annotated[
    float | None,
    typer.Option(
        envvar=_env("TPM"), help="Tokens a minute, if the server tells none.", rich_help_panel=CALLING
    ),
]
Attempts = Annotated[
    int,
    typer.Option(
        envvar=_env("ATTEMPTS"), min=1, help="The most attempts at one call.", rich_help_panel=CALLING
    ),
]
MaxCalls = Annotated[
    int | None, typer.Option(envvar=_env("MAX_CALLS"), min=0, help="Budget: calls.", rich_help_panel=CALLING)
]
MaxTokens = Annotated[
    int | None,
    typer.Option(envvar=_env("MAX_TOKENS"), min=0, help="Budget: tokens.", rich_help_panel=CALLING),
]
MaxCost = Annotated[
    float | None,
    typer.Option(envvar=_env("MAX_COST"), min=0, help="Budget: US dollars.", rich_help_panel=CALLING),
]
Record = Annotated[
    Path | None, typer.Option(help="Write every reply to a cassette.", rich_help_panel=CALLING)
]
Replay = Annotated[
    Path | None, typer.Option(help="Answer from a cassette instead of calling.", rich_help_panel=CALLING)
]
OtelOption = Annotated[
    Otel,
    typer.Option(
        "--otel",
        envvar=_env("OTEL"),
        help="Tell OpenTelemetry of calls and scores; `content` with their texts.",
        rich_help_panel=CALLING,
    ),
]
Out = Annotated[
    Path,
    typer.Option("--out", envvar=_env("OUT"), help="The folder of runs.", rich_help_panel=KEEPING),
]
Label = Annotated[
    str | None, typer.Option(envvar=_env("LABEL"), help="What people call the run.", rich_help_panel=KEEPING)
]
Href = Annotated[
    str | None,
    typer.Option(
        envvar=_env("HREF"), help="Where the run belongs: a pull request, a job.", rich_help_panel=KEEPING
    ),
]
Tag = Annotated[
    list[str] | None,
    typer.Option(
        "--tag", envvar=_env("TAGS"), help="A word to filter by; repeatable.", rich_help_panel=KEEPING
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no remarks.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def prompt_name(given: str) -> str | Path:
    """Tell a prompt's id from a file: `file:PATH` is a file, everything else an id."""
    return Path(given[5:]) if given.startswith("file:") else given


def split_metrics(given: Sequence[str] | None) -> list[str]:
    """Split `AP@5,NDCG(gain=exp)@10` at the commas and spaces outside parentheses."""
    parts = (part for text in given or () for part in re.split(r"[,\s]+(?![^()]*\))", text))
    return [part for part in parts if part]


def split_params(given: Sequence[str] | None) -> dict[str, Any]:
    """Read NAME=VALUE pairs; a value is JSON where it reads as JSON, else text.

    Raises:
        ConfigError: A pair has no `=`.
    """
    out: dict[str, Any] = {}
    for pair in given or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"--param {pair!r}: write NAME=VALUE, such as temperature=0")
        try:
            out[name.strip()] = json.loads(value)
        except ValueError:
            out[name.strip()] = value
    return out


def need_model(model: str | None) -> str:
    """Return the model, or say how to name one.

    Raises:
        ConfigError: None was named.
    """
    if not model:
        raise ConfigError(
            "no model was named; give --model openai/NAME (or fake/overlap to try it offline), "
            "set JUDGE_EVAL_MODEL, or write `model = ...` under [tool.judge_eval] in pyproject.toml"
        )
    return model
