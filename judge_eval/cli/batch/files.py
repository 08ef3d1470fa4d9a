"""The two ends of a batch: what is asked goes into files, what was answered makes the run."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal

import typer

from judge_eval.cli.flags.batched import absolute_prompt, kept_flags, two_judges
from judge_eval.cli.flags.calling import CallingFlags
from judge_eval.cli.flags.common import Json, Quiet
from judge_eval.cli.flags.groups import only, without
from judge_eval.cli.flags.judging import ServingJudge
from judge_eval.cli.flags.keeping import KeepingFlags
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.flags.reading import ChoosingFlags, ReadingFlags
from judge_eval.cli.flags.running import RunningFlags
from judge_eval.cli.printing.batches import show_imported, show_round
from judge_eval.cli.printing.door import remark, tell
from judge_eval.cli.printing.errors import INCOMPLETE, verb


@verb
def export_(
    data: Annotated[str, typer.Argument(help="Traces: a file, folder or URL of any known format.")],
    folder: Annotated[Path, typer.Option("--out", help="The batch's folder.")],
    reading: ReadingFlags,
    judging: ServingJudge,
    numbers: Annotated[NumbersFlags, only("metrics", "relevant")],
    choosing: ChoosingFlags,
    calling: Annotated[
        CallingFlags,
        only("cache", "base_url", "param", "concurrency", "timeout", "rpm", "tpm", "attempts"),
    ],
    lacking: Annotated[
        list[str] | None,
        typer.Option(
            "--lacking",
            help="What the server does not take (strict, json_schema, max_completion_tokens, temperature, "
            "...); left out of every request; repeatable.",
        ),
    ] = None,
    max_requests: Annotated[int, typer.Option(help="The most requests in a file.")] = 50_000,
    max_bytes: Annotated[int, typer.Option(help="The most bytes in a file.")] = 190_000_000,
    quiet: Quiet = False,
) -> None:
    """Write the requests that the cache does not answer into files for a server's batches.

    Of a cascade the cheap judge is asked at once: its answers say what the files ask the strong one.

    Examples:
    judge-eval batch export traces.jsonl --model openai/NAME --out batch/
    judge-eval batch export traces.jsonl --cascade-file cascade.json --out batch/
    """
    from judge_eval.batch import flow
    from judge_eval.batch.judging import Session, storable_cache, storable_data, storable_url
    from judge_eval.batch.state import BatchSettings, Folder
    from judge_eval.cli.printing.progress import watching
    from judge_eval.errors import ConfigError
    from judge_eval.judges.choose import mode_for

    cascade = kept_flags(judging)
    model = (judging.then or judging.model or "") if cascade else judging.needed_model
    mode = mode_for(model, judging.mode)
    choosing.check_claims(judging.by_claims)
    if mode in ("decision", "claims-decision"):
        raise ConfigError(
            "decision models take no batches; judge with `run`, which asks many at a time, or put one before "
            "a model that takes them (--cascade)"
        )
    reader = reading.options()
    given = {
        "data": storable_data(data),
        "format": reader.format,
        "map": dict(reader.map),
        "corpus": None if reader.corpus is None else str(reader.corpus.absolute()),
        "list_sep": reader.list_sep,
        "depth": reader.depth,
        "records": reader.records,
        "group_by": reader.group_by,
        "model": model,
        "prompt": absolute_prompt(judging.asked),
        "mode": mode,
        "relevant": numbers.relevant,
        "evidence": judging.evidence,
        "cascade": cascade,
        "metrics": tuple(numbers.names),
        "params": calling.params,
        "base_url": calling.base_url,
        "cache": calling.cache or None,
        "lacking": tuple(lacking or ()),
        "limit": choosing.limit,
        "seed": choosing.seed,
        "shard": choosing.part,
        "on_invalid": choosing.on_invalid,
        "claims": None if choosing.claims is None else str(choosing.claims.absolute()),
        "max_requests": max_requests,
        "max_bytes": max_bytes,
    }
    settings = BatchSettings.parse(given, file="batch export")
    with Folder(folder, make=True) as held:
        session = Session(
            settings,
            calling.options(),
            files=held.replies(),
            begun=held.state,
            cascade=two_judges(settings),
        )
        with closing(session), watching(quiet) as watch:
            kept = {"base_url": storable_url(session.base_url), "cache": storable_cache(settings.cache)}
            session.settings = session.settings.model_copy(update=kept)
            done, imported = flow.export(held, session, watch)
        if (cheap := session.cheap) is not None:
            tell(f"the cheap judge's verdict stands for {cheap.kept:,} of {cheap.chunks:,} chunks")
        show_imported(imported)
        if done is None:
            tell("nothing is open: the cache holds every answer; `batch import` makes the run")
            return
        show_round(held, done)
        remark(f"next: judge-eval batch submit {folder}  (or run the files on a server of your own)")


@verb
def import_(
    folder: Annotated[Path, typer.Argument(help="The batch's folder.")],
    numbers: Annotated[NumbersFlags, only("metrics")],
    keeping: Annotated[KeepingFlags, without("columnar")],
    calling: Annotated[
        CallingFlags, only("cache", "base_url", "concurrency", "timeout", "rpm", "tpm", "attempts")
    ],
    running: Annotated[RunningFlags, only("max_failures", "push_every")],
    replies: Annotated[
        list[Path] | None, typer.Argument(help="Files of replies, from a server of your own.")
    ] = None,
    finish: Annotated[
        Literal["online", "batch", "later"],
        typer.Option(
            help="What becomes of requests without a reply: asked `online`, exported as the next `batch`, or "
            "left for `later`."
        ),
    ] = "online",
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Put the replies into the cache, and make the run once every trace is judged.

    Replies may come in any order, in part, with errors, twice.

    Examples:
    judge-eval batch import batch/
    judge-eval batch import batch/ replies.jsonl
    """
    from judge_eval.batch import flow
    from judge_eval.batch.judging import Session
    from judge_eval.batch.state import Folder
    from judge_eval.cli.printing.output import summary
    from judge_eval.cli.printing.progress import watching
    from judge_eval.errors import ConfigError
    from judge_eval.runs.keeping.mirroring import written

    keeping.page()  # an address that is none is told before anything is made
    with Folder(folder) as held:
        if replies:
            flow.give(held, replies)
        settings = held.known.settings
        if calling.cache is not None:
            settings = settings.model_copy(update={"cache": calling.cache})
        session = Session(
            settings,
            calling.options(),
            files=held.replies(),
            metrics=numbers.names,
            online=finish == "online",
            begun=held.state,
            cascade=two_judges(settings),
        )
        with closing(session):
            with watching(quiet) as watch:
                imported = flow.bring_in(held, session, watch)
            show_imported(imported)
            if waiting := flow.under_way(held):
                remark(f"{len(waiting)} files are under way: `batch fetch` brings their replies")
                raise typer.Exit(INCOMPLETE)
            if imported.open and finish == "later":
                raise typer.Exit(INCOMPLETE)
            if imported.open and finish == "batch":
                session.settings = held.known.settings
                with watching(quiet) as watch:
                    done, _ = flow.export(held, session, watch)
                assert done is not None
                show_round(held, done)
                remark(f"next: judge-eval batch submit {folder}")
                raise typer.Exit(INCOMPLETE)
            if imported.open and finish == "online" and (left := flow.unsubmitted(held)):
                why = f" ({left[0].message})" if left[0].message else ""
                raise ConfigError(
                    f"{left[0].name} was not submitted{why}; "
                    f"`batch submit {folder}` submits it, `run` judges online what is open"
                )
            with written(keeping.out, remark), watching(quiet) as watch:
                done_run = session.evaluator.evaluate(
                    settings.data,
                    out=keeping.out,
                    label=keeping.label,
                    href=keeping.href,
                    tags=keeping.tag or (),
                    on_invalid=settings.on_invalid,
                    limit=settings.limit,
                    seed=settings.seed,
                    shard=settings.shard,
                    reader=settings.reader,
                    claims=settings.claims,
                    watch=watch,
                    push_every=running.push_every,
                )
    summary(done_run, json_, keeping.page(done_run))
    if done_run.manifest.tally.failed_verdicts > running.max_failures:
        raise typer.Exit(INCOMPLETE)
