"""The flags of the server: where it listens, and how much it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from judge_eval.cli.flags.groups import ENV, Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingFlags:
    """Where the server listens, and what it shows as failing."""

    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on; any but this machine's own needs JUDGE_EVAL_SERVER_TOKEN, "
            "of at least 16 characters."
        ),
        ENV,
    ] = "127.0.0.1"
    port: Annotated[int, typer.Option(help="0 takes a free one."), ENV] = 8642
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name people reach the server under; repeatable.")
    ] = None
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            help="METRIC>=NUMBER: runs below it are shown as failing; METRIC<=NUMBER where less is better; "
            "repeatable."
        ),
        Setting("thresholds", env=False),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakingFlags:
    """How much the server takes."""

    max_body: Annotated[int, typer.Option(help="Limit: megabytes of a request.")] = 64
    max_traces: Annotated[int, typer.Option(help="Limit: traces of a submission.")] = 10_000
    max_chunks: Annotated[int, typer.Option(help="Limit: chunks of a trace.")] = 200
    max_queued: Annotated[int, typer.Option(help="Limit: submitted runs that wait.")] = 20
    max_runs: Annotated[int, typer.Option(help="Limit: submitted runs judged at once.")] = 1
