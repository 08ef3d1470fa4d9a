"""`run`: judge a dataset."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge_eval.cli.flags import options as o
from judge_eval.cli.flags import values
from judge_eval.cli.printing.errors import GATE, INCOMPLETE, advise_resume, remark, verb

if TYPE_CHECKING:
    from judge_eval.data.reading import ReadOptions
    from judge_eval.evaluator import Evaluator
    from judge_eval.runs.judging.calling import Driver


@verb
def run(
    data: Annotated[
        str, typer.Argument(help="Traces: a file, folder or URL of any known format; - reads standard input.")
    ],
    format: o.Format = None,
    map: o.Map = None,
    corpus: o.CorpusOption = None,
    list_sep: o.ListSep = None,
    depth: o.Depth = None,
    model: o.Model = None,
    prompt: o.Prompt = "support/binary",
    mode: o.ModeOption = o.Mode.pointwise,
    members: o.Members = None,
    panel: o.PanelFile = None,
    repeat: o.Repeat = 1,
    vote: o.VoteOption = o.Vote.majority,
    confidence: o.Confidence = False,
    judge_name: o.JudgeOption = None,
    metrics: o.Metrics = None,
    relevant: o.Relevant = None,
    interval: o.Interval = o.IntervalMethod.t,
    cluster: o.Cluster = "cluster",
    out: o.Out = Path("runs"),
    label: o.Label = None,
    href: o.Href = None,
    tag: o.Tag = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Judge at most so many traces.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="With --limit: a random sample instead of the first traces.")
    ] = None,
    shard: o.Shard = None,
    columnar: o.Columnar = False,
    engine: Annotated[
        str,
        typer.Option(help="Where to judge: `local`, or on a cluster: `ray`.", rich_help_panel=o.CALLING),
    ] = "local",
    ray_address: Annotated[
        str | None,
        typer.Option(help="With --engine ray: the cluster's address.", rich_help_panel=o.CALLING),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="With --engine ray: how many workers.", rich_help_panel=o.CALLING),
    ] = None,
    on_invalid: Annotated[
        o.OnInvalid, typer.Option(envvar="JUDGE_EVAL_ON_INVALID", help="What an invalid record does.")
    ] = o.OnInvalid.error,
    resume: Annotated[
        str | None,
        typer.Option(
            help="Go on with a run; alone: the newest unfinished run of the same data.",
            metavar="[RUN]",
            rich_help_panel=o.KEEPING,
        ),
    ] = None,
    max_failures: Annotated[
        int, typer.Option(envvar="JUDGE_EVAL_MAX_FAILURES", min=0, help="Failed verdicts that are borne.")
    ] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show calls, cache hits and tokens; ask nobody.")
    ] = False,
    cache: o.Cache = None,
    no_cache: o.NoCache = False,
    offline: o.Offline = False,
    base_url: o.BaseUrls = None,
    param: o.Param = None,
    concurrency: o.Concurrency = 256,
    timeout: o.Timeout = 120.0,
    rpm: o.Rpm = None,
    tpm: o.Tpm = None,
    attempts: o.Attempts = 8,
    max_calls: o.MaxCalls = None,
    max_tokens: o.MaxTokens = None,
    max_cost: o.MaxCost = None,
    record: o.Record = None,
    replay: o.Replay = None,
    lead: o.Lead = False,
    hedge: o.Hedge = None,
    baseline: o.Baseline = None,
    fail_under: o.FailUnder = None,
    max_drop: o.MaxDrop = None,
    non_inferior: o.NonInferior = None,
    strict: o.Strict = False,
    otel: o.OtelOption = o.Otel.off,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the run here too: .json, .csv, .md or .xml (JUnit)."),
    ] = None,
    json_: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Judge every chunk of a dataset; print the metrics, keep the run.

    Examples:
    judge-eval run traces.jsonl --model openai/NAME --metrics AP@5,NDCG@5 --label main
    judge-eval run traces.jsonl --model fake/overlap --dry-run
    """
    from judge_eval.cli import gating as gate
    from judge_eval.cli.flags.session import evaluator, make_options
    from judge_eval.cli.printing.members import show_members
    from judge_eval.cli.printing.output import summary
    from judge_eval.cli.printing.progress import watching
    from judge_eval.export import text as export
    from judge_eval.runs.columns import parquet as parts
    from judge_eval.runs.keeping.finding import find_run
    from judge_eval.runs.keeping.mirroring import written

    if output is not None:
        export.check_suffix(output, gate.SUFFIXES)
    if columnar:
        parts.load_arrow()
    gated = gate.Gate.of(fail_under, max_drop, non_inferior, strict, baseline=baseline, out=out)
    label, href = gate.place(label, href)
    reader = values.read_options(format, map, corpus, list_sep, depth, relevant)
    part = values.split_shard(shard)
    options = make_options(
        base_url=base_url,
        param=[*(param or ()), *(o.LOGPROBS if confidence else ())],
        timeout=timeout,
        concurrency=concurrency,
        rpm=rpm,
        tpm=tpm,
        attempts=attempts,
        max_calls=max_calls,
        max_tokens=max_tokens,
        max_cost=max_cost,
        offline=offline,
        record=record,
        replay=replay,
        lead=lead,
        hedge=hedge,
        otel=otel,
    )
    with (
        readable(data) as (path, name),
        evaluator(
            model,
            prompt,
            mode,
            gated.metrics(metrics),
            relevant,
            cache,
            no_cache,
            options,
            interval,
            cluster,
            members=members,
            panel=panel,
            repeat=repeat,
            vote=vote,
            judge_name=judge_name,
        ) as made,
    ):
        if dry_run:
            _tell_plan(made, path, name, on_invalid, limit, seed, part, reader)
            return
        chosen: Path | bool = resume == "newest"
        if resume is not None and resume != "newest":
            chosen = find_run(resume, out)
        with written(out, remark), watching(quiet) as watch:
            done = made.evaluate(
                path,
                name=name,
                reader=reader,
                out=out,
                label=label,
                href=href,
                tags=tag or (),
                resume=chosen,
                on_invalid=on_invalid.value,
                limit=limit,
                seed=seed,
                shard=part,
                watch=watch,
                driver=_driver(made, engine, ray_address, workers),
            )
            if columnar:
                parts.write_parts(done)
    if json_:
        print(done.manifest.model_dump_json(indent=2))
    else:
        summary(done)
        show_members(done)
    passed = gated.check(done, output, quiet=json_)
    failed = done.manifest.tally.failed_verdicts
    if failed > max_failures:
        if not quiet and done.folder is not None:
            advise_resume(str(done.folder))
        raise typer.Exit(INCOMPLETE)
    if not passed:
        raise typer.Exit(GATE)


@contextmanager
def readable(data: str) -> Iterator[tuple[Path | str, str]]:
    """Yield what can be read twice: standard input is laid down in a temporary one."""
    from judge_eval.data.remote import is_url, public

    if is_url(data):
        yield data, public(data)
        return
    if data != "-":
        yield Path(data), data
        return
    with tempfile.NamedTemporaryFile(prefix="judge_eval-", suffix=".jsonl") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        yield Path(file.name), "standard input"


def _driver(made: Evaluator, engine: str, address: str | None, workers: int | None) -> Driver | None:
    if engine == "local":
        return None
    if engine != "ray":
        raise typer.BadParameter(f"--engine {engine!r}: write local or ray")
    from judge_eval.distributed.cluster import RayDriver

    return RayDriver(made, address=address, workers=workers)


def _tell_plan(
    made: Evaluator,
    path: Path | str,
    name: str,
    on_invalid: o.OnInvalid,
    limit: int | None,
    seed: int | None,
    shard: tuple[int, int] | None,
    reader: ReadOptions,
) -> None:
    dataset, plan = made.plan(
        path, name=name, on_invalid=on_invalid.value, limit=limit, seed=seed, shard=shard, reader=reader
    )
    cost = made.stack.cost_of(plan.input_tokens, plan.output_tokens)
    print(f"{name}: {plan.traces} traces, {plan.chunks} chunks")
    if dataset.skipped:
        print(f"{dataset.skipped} invalid records would be skipped")
    print(f"{plan.calls} calls, {plan.hits} answered without one")
    print(f"about {plan.input_tokens:,} input tokens, at most {plan.output_tokens:,} output tokens")
    print(f"at most ${cost:.2f}" if cost is not None else "cost: unknown for this model")
    remark("nobody was asked")
