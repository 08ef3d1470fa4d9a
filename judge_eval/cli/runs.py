"""`runs`: the folder of runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags.common import Json
from judge_eval.cli.flags.groups import only, without
from judge_eval.cli.flags.keeping import KeepingFlags, Runs
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.flags.reading import ChoosingFlags, ReadingFlags, readable
from judge_eval.cli.flags.running import RunningFlags
from judge_eval.cli.printing.door import BAD, give_json, remark, tell
from judge_eval.cli.printing.errors import INCOMPLETE, USAGE, verb

app = typer.Typer(help="The folder of runs.", no_args_is_help=True)


@app.command("list")
@verb
def list_runs(
    keeping: Runs,
    label: Annotated[str | None, typer.Option(help="Only runs of this label.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only runs with this tag; repeatable.")] = None,
    json_: Json = False,
) -> None:
    """List runs, newest first; at the end, with what is wrong, those that cannot be read.

    Examples:
    judge-eval runs list
    judge-eval runs list --tag nightly --json
    """
    from rich.text import Text

    from judge_eval.cli.printing.output import say_table, status_style
    from judge_eval.runs.folder.wording import interval, number
    from judge_eval.runs.keeping.finding import list_runs, listing, names_in
    from judge_eval.runs.keeping.mirroring import shown

    manifests = list_runs(keeping.out, label=label, tags=tag or ())
    unreadable = [] if label or tag else listing(keeping.out).unreadable
    if json_:
        for _, error in unreadable:
            remark(f"unreadable: {error.told(names_in(keeping.out))}")
        give_json(json.dumps([json.loads(manifest.model_dump_json()) for _, manifest in manifests], indent=2))
        return
    if not manifests and not unreadable:
        tell(f"no runs in {shown(keeping.out)}" + (" that fit" if label or tag else ""))
        return
    rows: list[list[str | Text]] = []
    for _, m in manifests:
        name, first = next(iter(m.aggregates.items()), ("", None))
        score = f"{name} {number(first.mean)} {interval(first.interval)}" if first else ""
        failed = str(m.tally.failed_verdicts or "")
        started = m.created.strftime("%Y-%m-%d %H:%M")
        status = Text(m.status, style=status_style(m.status))
        failures = Text(failed, style=BAD)
        figures: list[str | Text] = [m.id[:8], started, status, str(m.tally.traces), failures, score]
        rows.append([*figures, m.label or "", ", ".join(m.tags)])
    for folder, error in unreadable:
        what = error.told(names_in(keeping.out))
        rows.append([folder.name[:40], "", Text("unreadable", style=BAD), "", "", "", what, ""])
    columns = ["id", "started (UTC)", "status", "traces", "failed", "first metric", "label", "tags"]
    say_table(columns, rows, right=(3, 4))


@app.command("merge")
@verb
def merge_(
    run: Annotated[
        list[str], typer.Argument(help="Each shard's run: its folder, its id or the start of it.")
    ],
    keeping: KeepingFlags,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Merge what is there; the other shards are merged with it later."),
    ] = False,
    json_: Json = False,
) -> None:
    """Put the runs of all shards together into the run that one machine would have given.

    Example:
    judge-eval runs merge runs/20260101-* --out runs --label "PR #111"
    """
    from judge_eval.cli.printing.output import summary
    from judge_eval.runs.columns import parquet as parts
    from judge_eval.runs.judging.merge import merge
    from judge_eval.runs.keeping.mirroring import written

    if keeping.columnar:
        parts.load_arrow()
    keeping.page()
    with written(keeping.out, remark):
        folders = [keeping.find(name, remark) for name in run]
        merged = merge(
            folders, keeping.out, label=keeping.label, href=keeping.href, tags=keeping.tag, partial=partial
        )
        if keeping.columnar:
            parts.write_parts(merged)
    summary(merged, json_, keeping.page(merged))


@app.command("verify")
@verb
def verify_(
    run: Annotated[str, typer.Argument(help="A run's folder, its id or the start of it, or latest.")],
    keeping: Runs,
    json_: Json = False,
) -> None:
    """Say whether a run is what was written, and what was changed where it is not.

    Exit codes: 0 nothing was changed (or the run, of an older version, holds no digest and nothing in it
    contradicts itself: it is said to be unverified); 2 something was changed, or there is no run.

    Example:
    judge-eval runs verify latest
    """
    from judge_eval.cli.printing.verification import say_verification
    from judge_eval.runs.judging.verifying import verify

    found = verify(keeping.find(run, any_=True))
    if json_:
        give_json(found.model_dump_json(indent=2))
    else:
        say_verification(found)
    if found.condition == "changed":
        raise typer.Exit(USAGE)


@app.command("import")
@verb
def import_(
    verdicts: Annotated[
        Path,
        typer.Argument(
            help="Verdicts given elsewhere: JSON Lines, CSV, TREC qrels, a run's folder or its results."
        ),
    ],
    data: Annotated[
        str,
        typer.Option(help="The traces they are about: a file, folder or URL of any known format."),
    ],
    reading: ReadingFlags,
    choosing: Annotated[ChoosingFlags, without("claims")],
    numbers: NumbersFlags,
    keeping: KeepingFlags,
    running: Annotated[RunningFlags, only("max_failures")],
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="binary|graded|0-N",
            help="The scale of the grades: binary (0-1) unless told, graded (0-3, relevant from 2), or 0-N "
            "with --relevant.",
        ),
    ] = None,
    resume: Annotated[str | None, typer.Option("--resume", hidden=True)] = None,
    json_: Json = False,
) -> None:
    """Make a run of verdicts that another judge, another tool or people gave; nobody is asked.

    The run says where its verdicts come from. A chunk without one is counted as failed (`unjudged`).

    Examples:
    judge-eval runs import qrels.txt --data traces.jsonl --label people
    judge-eval runs import verdicts.csv --data traces.jsonl --scale 0-4 --relevant 3 --metrics NDCG@10
    """
    from judge_eval.cli.printing.output import summary
    from judge_eval.errors import ConfigError
    from judge_eval.evaluator import DEFAULT_METRICS
    from judge_eval.importing import import_verdicts
    from judge_eval.runs.columns import parquet as parts
    from judge_eval.runs.keeping.mirroring import written

    if resume is not None:
        raise ConfigError("an import asks nobody, so that there is nothing to resume; import the file again")
    if keeping.columnar:
        parts.load_arrow()
    label, href = keeping.named()
    keeping.page()
    with readable(data) as (path, name), written(keeping.out, remark):
        done = import_verdicts(
            verdicts,
            path,
            scale=scale,
            relevant=numbers.relevant,
            metrics=numbers.names or DEFAULT_METRICS,
            intervals=numbers.intervals,
            out=keeping.out,
            label=label,
            href=href,
            tags=keeping.tag or (),
            **choosing.selecting(name, reading.options(numbers.relevant)),
        )
        if keeping.columnar:
            parts.write_parts(done)
    summary(done, json_, keeping.page(done))
    if done.manifest.tally.failed_verdicts > running.max_failures:
        raise typer.Exit(INCOMPLETE)


@app.command("columnar")
@verb
def columnar_(
    run: Annotated[str, typer.Argument(help="A run's folder, its id or the start of it, or latest.")],
    keeping: Runs,
) -> None:
    """Write Parquet parts beside a run's results, as `run --columnar` does.

    Example:
    judge-eval runs columnar latest
    """
    from judge_eval.runs.columns.parquet import write_parts
    from judge_eval.runs.keeping.mirroring import written

    with written(keeping.out, remark):
        for path in write_parts(keeping.load(run, remark)):
            tell(path)


@app.command("push")
@verb
def push_(
    run: Annotated[str, typer.Argument(help="A run's folder, its id or the start of it, or latest.")],
    url: Annotated[str, typer.Argument(help="The folder of runs there, such as s3://bucket/runs.")],
    keeping: Runs,
) -> None:
    """Copy a run to object storage (any URL that fsspec knows).

    Example:
    judge-eval runs push latest s3://bucket/runs
    """
    from judge_eval.runs.keeping.moving import push

    tell(push(keeping.find(run, remark), url))


@app.command("pull")
@verb
def pull_(
    url: Annotated[str, typer.Argument(help="The run there, such as s3://bucket/runs/NAME.")],
    keeping: Runs,
) -> None:
    """Copy a run from object storage into the folder of runs.

    Example:
    judge-eval runs pull s3://bucket/runs/NAME
    """
    from judge_eval.runs.keeping.moving import pull

    tell(pull(url, keeping.out))


@app.command("schema")
@verb
def schema(
    name: Annotated[
        str | None, typer.Argument(help="manifest, result or trace; all of them where none is named.")
    ] = None,
) -> None:
    """Print the JSON schemas of a run's files and of a dataset's lines.

    Example:
    judge-eval runs schema trace
    """
    from judge_eval.errors import UnknownNameError
    from judge_eval.runs.folder.records import json_schemas

    schemas = json_schemas()
    if name is not None and name not in schemas:
        raise UnknownNameError("schema", name, schemas)
    give_json(json.dumps(schemas if name is None else schemas[name], indent=2))
