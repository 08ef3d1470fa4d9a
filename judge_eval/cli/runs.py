"""`runs`: the folder of runs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.exit_codes import INCOMPLETE, OK, USAGE, VerbGroup
from judge_eval.cli.flags.common import MADE, Json, KeepingFlags, NumbersFlags, OneRun, Quiet, Runs, Yes, readable
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.judging import RunningFlags
from judge_eval.cli.printing.output import give_json, print_record, remark, show, summary, tell
from judge_eval.data.options import ReadOptions
from judge_eval.errors import ConfigError, RunError, UnknownNameError
from judge_eval.runs.options import Selection
from judge_eval.safe_text import counted
from judge_eval.settings import setting

app = VerbGroup("The folder of runs.")


@app.verb("list")
def list_runs(
    keeping: Runs,
    label: str | None = setting(None, "Only runs of this label."),
    tag: list[str] | None = setting(None, "Only runs with this tag; repeatable."),
    json_: Json = False,
) -> None:
    """List runs, newest first; unreadable runs come last, with the reason.

    Examples:
    judge-eval runs list
    judge-eval runs list --tag nightly --json
    """
    from judge_eval.runs.keeping.lookup import list_runs, listing, names_in
    from judge_eval.runs.keeping.mirror import shown
    from judge_eval.views.run import runs_view

    manifests = list_runs(keeping.out, label=label, tags=tag or ())
    unreadable = [] if label or tag else listing(keeping.out).unreadable
    if json_:
        for _, error in unreadable:
            remark(f"unreadable: {error.message_for(names_in(keeping.out))}")
        give_json(json.dumps([json.loads(manifest.model_dump_json()) for _, manifest in manifests], indent=2))
        return
    if not manifests and not unreadable:
        tell(f"no runs in {shown(keeping.out)}" + (" with this label or tag" if label or tag else ""))
        return
    reasons = [(folder.name, error.message_for(names_in(keeping.out))) for folder, error in unreadable]
    show(runs_view([manifest for _, manifest in manifests], reasons))


@app.verb("merge")
def merge_(
    run: Annotated[list[str], typer.Argument(help="Each shard's run: its folder, its id or the start of it.")],
    keeping: Annotated[KeepingFlags, MADE],
    partial: bool = setting(False, "Merge the shards that exist; the others can be merged with the result later."),
    json_: Json = False,
) -> None:
    """Merge the runs of all shards into the run that one machine would have made.

    Example:
    judge-eval runs merge runs/20260101-* --out runs --label "PR #111"
    """
    from judge_eval.runs.judging.merge import merge

    keeping.check()
    with keeping.written():
        folders = [keeping.find(name) for name in run]
        merged = merge(folders, keeping.out, label=keeping.label, href=keeping.href, tags=keeping.tags, partial=partial)
    summary(merged, json_, keeping.page(merged))


@app.verb("verify")
def verify_(chosen: OneRun, json_: Json = False) -> int:
    """Check whether a run was changed after it was written, and show what was changed.

    Exit codes: 0 nothing was changed; 2 something was changed, or there is no run.

    Example:
    judge-eval runs verify latest
    """
    from judge_eval.runs.judging.verify import verify
    from judge_eval.views.verification import verification_view

    verification = verify(chosen.find(chosen.run, any_=True))
    print_record(verification, json_, verification_view)
    return USAGE if verification.condition == "changed" else OK


@app.verb("import")
def import_(
    verdicts: Annotated[
        Path,
        typer.Argument(help="Verdicts from elsewhere: JSON Lines, CSV, TREC qrels, a run's folder or its results."),
    ],
    data: Annotated[
        str, typer.Option("--data", help="The traces that were judged: a file, folder or URL of any known format.")
    ],
    reading: ReadOptions,
    selection: Annotated[Selection, only("on_invalid")],
    numbers: Annotated[NumbersFlags, only("metrics", "relevant")],
    keeping: Annotated[KeepingFlags, MADE],
    running: Annotated[RunningFlags, only("max_failures")],
    scale: str | None = setting(
        None,
        "The scale of the grades: binary (0-1, the default), graded (0-3, relevant from 2), or its "
        "lowest and highest grade with --relevant.",
        metavar="binary|graded|0-4|1-5|...",
    ),
    resume: str | None = setting(None, "", hidden=True),
    json_: Json = False,
    quiet: Quiet = False,
) -> int:
    """Make a run from verdicts of another judge, another tool or people, without asking a judge.

    The run records where its verdicts come from. A chunk without a verdict counts as failed (`unjudged`).

    Examples:
    judge-eval runs import qrels.txt --data traces.jsonl --label people
    judge-eval runs import verdicts.csv --data traces.jsonl --scale 0-4 --relevant 3 --metrics NDCG@10
    """
    from judge_eval.evaluator import DEFAULT_METRICS
    from judge_eval.importing import import_verdicts

    if resume is not None:
        raise ConfigError("an import makes no calls, so there is nothing to resume; import the file again")
    kept = keeping.resolved()
    keeping.check()
    with readable(data) as (path, name), keeping.written(quiet=quiet):
        done = import_verdicts(
            verdicts,
            path,
            scale=scale,
            relevant=numbers.relevant,
            metrics=numbers.names or DEFAULT_METRICS,
            intervals=numbers.intervals,
            out=keeping.out,
            label=kept.label,
            href=kept.href,
            tags=kept.tags,
            **replace(selection, name=name, reader=replace(reading, relevant=numbers.relevant)).keywords(),
        )
    fault = running.show_fault(done)
    summary(done, json_, keeping.page(done))
    return INCOMPLETE if fault is not None else OK


@app.verb("delete")
def delete_(
    run: Annotated[str, typer.Argument(help="A run's folder, its id or the start of it, or label:NAME.")],
    keeping: Runs,
    yes: Yes = False,
) -> None:
    """Remove a run with everything in its folder; its verdicts stay in the cache.

    Example:
    judge-eval runs delete label:trial --yes
    """
    from judge_eval.runs.keeping.lookup import delete_run

    folder = keeping.find(run, any_=True)
    if not yes:
        typer.confirm(f"remove the run {folder} with everything in it?", abort=True)
    try:
        delete_run(folder)
    except FileNotFoundError:
        raise RunError(f"{folder} is gone") from None
    tell(f"{folder}: removed")


@app.verb("labels")
def labels_(
    chosen: OneRun,
    output: Path | None = setting(None, "The file to write (.jsonl or .csv); else JSON Lines are printed."),
    add: Path | None = setting(None, "Add the labels of this file to the run."),
    by: str = setting("", "Who gave the labels in --add that have no name."),
) -> None:
    """Write the labels that people gave on a run's page, with their names and comments, or add those of a file.

    Examples:
    judge-eval runs labels latest -o labels.csv
    judge-eval runs labels latest --add labels_of_anna.csv --by Anna
    """
    from judge_eval.export import text as export
    from judge_eval.runs.folder.labels import add_label, people_labels
    from judge_eval.study.people import labels_for, labels_text

    if output is not None:
        export.check_suffix(output, (".jsonl", ".csv"))
    folder = chosen.find(chosen.run)
    if add is not None:
        new = list(labels_for(chosen.load(str(folder)), add, by))
        for label in new:
            add_label(folder, label)
        remark(f"{counted(len(new), 'label')} added to {folder}")
        if output is None:
            return
    labels = [label for each in people_labels(folder).values() for label in each]
    if output is None:
        for line in labels_text(labels, csv=False).splitlines():
            give_json(line)
    else:
        export.write_text(output, labels_text(labels, csv=output.suffix.lower() == ".csv"))
        remark(f"{counted(len(labels), 'label')} in {output}")


@app.verb("push")
def push_(
    chosen: OneRun, url: Annotated[str, typer.Argument(help="The remote folder of runs, such as s3://bucket/runs.")]
) -> None:
    """Copy a run to object storage (any URL that fsspec knows).

    Example:
    judge-eval runs push latest s3://bucket/runs
    """
    from judge_eval.runs.keeping.transfer import push

    tell(push(chosen.find(chosen.run), url))


@app.verb("pull")
def pull_(
    url: Annotated[str, typer.Argument(help="The remote run, such as s3://bucket/runs/NAME.")], keeping: Runs
) -> None:
    """Copy a run from object storage into the folder of runs.

    Example:
    judge-eval runs pull s3://bucket/runs/NAME
    """
    from judge_eval.runs.keeping.transfer import pull

    tell(pull(url, keeping.out))


@app.verb("schema")
def schema(
    name: Annotated[str | None, typer.Argument(help="manifest, result or trace; all of them by default.")] = None,
) -> None:
    """Print the JSON schemas of a run's files and of a dataset's lines.

    Example:
    judge-eval runs schema trace
    """
    from judge_eval.runs.folder.records import json_schemas

    schemas = json_schemas()
    if name is not None and name not in schemas:
        raise UnknownNameError("schema", name, schemas)
    give_json(json.dumps(schemas if name is None else schemas[name], indent=2))
