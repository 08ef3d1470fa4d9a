"""`serve`: the pages and the REST API over the folder of runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags import options as o
from judge_eval.cli.printing.errors import verb


@verb
def serve(
    out: o.Out = Path("runs"),
    host: Annotated[
        str,
        typer.Option(
            envvar="JUDGE_EVAL_HOST",
            help="The address to listen on; any but this machine's own needs JUDGE_EVAL_SERVER_TOKEN.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="JUDGE_EVAL_PORT", min=0, max=65535, help="0 takes a free one.")
    ] = 8642,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name people reach the server under; repeatable.")
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(help="METRIC>=NUMBER: runs below it are shown as failing; repeatable."),
    ] = None,
    max_body: Annotated[int, typer.Option(min=1, help="Limit: megabytes of a request.")] = 64,
    max_traces: Annotated[int, typer.Option(min=1, help="Limit: traces of a submission.")] = 10_000,
    max_chunks: Annotated[int, typer.Option(min=1, help="Limit: chunks of a trace.")] = 200,
    max_queued: Annotated[int, typer.Option(min=1, help="Limit: submitted runs that wait.")] = 20,
    max_runs: Annotated[int, typer.Option(min=1, help="Limit: submitted runs judged at once.")] = 1,
    model: o.Model = None,
    prompt: o.Prompt = "support/binary",
    mode: o.ModeOption = o.Mode.pointwise,
    metrics: o.Metrics = None,
    relevant: o.Relevant = None,
    cache: o.Cache = None,
    no_cache: o.NoCache = False,
    base_url: o.BaseUrl = None,
    param: o.Param = None,
    concurrency: o.Concurrency = 256,
    timeout: o.Timeout = 120.0,
    rpm: o.Rpm = None,
    tpm: o.Tpm = None,
    attempts: o.Attempts = 8,
    max_calls: o.MaxCalls = None,
    max_tokens: o.MaxTokens = None,
    max_cost: o.MaxCost = None,
) -> None:
    """Serve pages and a REST API over the folder of runs; with --model it judges submitted traces too.

    Examples:
    judge-eval serve
    judge-eval serve --model openai/NAME --threshold "AP@5>=0.8"
    """
    from contextlib import nullcontext

    from judge_eval.cli.flags.session import evaluator, make_options
    from judge_eval.errors import ConfigError
    from judge_eval.evaluator import default_cache
    from judge_eval.runs.keeping.mirroring import is_mirror, shown
    from judge_eval.server.serving import serve as run_server
    from judge_eval.server.settings import TOKEN, ServerLimits, ServerSettings, read_thresholds

    if is_mirror(out):
        raise ConfigError(f"{shown(out)}: a server reads a folder; bring the runs with `runs pull` first")
    settings = ServerSettings(
        root=out,
        host=host,
        port=port,
        token=os.environ.get(TOKEN) or None,
        allowed_hosts=tuple(allow_host or ()),
        thresholds=read_thresholds(threshold or ()),
        cache=None if no_cache else cache or default_cache(),
        limits=ServerLimits(max_body * 2**20, max_traces, max_chunks, max_queued, max_runs),
    )
    options = make_options(
        base_url=base_url,
        param=param,
        timeout=timeout,
        concurrency=concurrency,
        rpm=rpm,
        tpm=tpm,
        attempts=attempts,
        max_calls=max_calls,
        max_tokens=max_tokens,
        max_cost=max_cost,
    )
    judging = evaluator(model, prompt, mode, metrics, relevant, cache, no_cache, options)
    with judging if model else nullcontext() as made:
        run_server(settings, made, ready=lambda url: print(f"judge_eval serves {out} on {url}", flush=True))
