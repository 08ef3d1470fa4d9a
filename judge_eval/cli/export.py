"""`export`: a run in the format of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags import completion
from judge_eval.cli.flags import options as o
from judge_eval.cli.printing.errors import verb


@verb
def export(
    run: Annotated[
        str,
        typer.Argument(
            help="A run's folder, its id or the start of it, label:NAME or latest.",
            autocompletion=completion.runs,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file to write; none for mlflow."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="trec-run, trec-qrels, jsonl, csv, parquet, json, markdown, phoenix, inspect or mlflow; "
            "by default what the suffix names.",
        ),
    ] = None,
    tracking_uri: Annotated[
        str | None,
        typer.Option(help="mlflow: where MLflow keeps its runs; by default MLFLOW_TRACKING_URI."),
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Option(help="mlflow: the experiment's name; by default MLFLOW_EXPERIMENT_NAME."),
    ] = None,
    out: o.Out = Path("runs"),
    quiet: o.Quiet = False,
) -> None:
    """Write a run for another tool: TREC files, tables, Phoenix annotations, an Inspect log, an MLflow run.

    Examples:
    judge-eval export latest -o main.qrels
    judge-eval export label:main -o logs/ --format inspect
    judge-eval export latest --format mlflow --tracking-uri http://localhost:5000 --experiment retrieval
    """
    from judge_eval.errors import ConfigError
    from judge_eval.eval_run import EvalRun
    from judge_eval.export.formats import MLFLOW, write_as
    from judge_eval.runs.keeping.finding import find_run

    if format == MLFLOW:
        if output is not None:
            raise ConfigError("an MLflow run is no file; leave --output out and give --tracking-uri")
        from judge_eval.export.mlflow import log_run

        found = EvalRun.load(find_run(run, out))
        run_id = log_run(found, tracking_uri=tracking_uri, experiment=experiment)
        if not quiet:
            print(f"{found.name} as MLflow run {run_id}")
        return
    if tracking_uri is not None or experiment is not None:
        raise ConfigError("--tracking-uri and --experiment go with --format mlflow")
    if output is None:
        raise ConfigError("say where to write: --output FILE")
    found = EvalRun.load(find_run(run, out))
    written = write_as(found, output, format)
    if not quiet:
        print(f"{found.name} as {written} in {output}")
