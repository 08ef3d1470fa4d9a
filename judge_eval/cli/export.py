"""`export`: a run in the format of another tool."""

from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags.common import Quiet, SafeCells, output_flag
from judge_eval.cli.flags.keeping import OneRun
from judge_eval.cli.printing.error_messages import verb
from judge_eval.cli.printing.safe_output import remark, tell


@verb
def export(
    chosen: OneRun,
    output: Annotated[
        Path | None, output_flag("The file to write; a folder for inspect; leave it out for mlflow.")
    ] = None,
    format: Annotated[
        str | None,
        "trec-run, trec-qrels, jsonl, csv, parquet, json, markdown, phoenix, inspect or mlflow; "
        "by default the format of the suffix.",
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            metavar="verdicts|traces|claims",
            help="Write this table, with csv, parquet, json or jsonl; claims: one row per claim and trace.",
        ),
    ] = None,
    tracking_uri: Annotated[str | None, "mlflow: where MLflow keeps its runs; by default MLFLOW_TRACKING_URI."] = None,
    experiment: Annotated[str | None, "mlflow: the experiment's name; by default MLFLOW_EXPERIMENT_NAME."] = None,
    safe_cells: SafeCells = False,
    quiet: Quiet = False,
) -> None:
    """Write a run for another tool: TREC files, tables, Phoenix annotations, an Inspect log, an MLflow run.

    Examples:
    judge-eval export latest -o main.qrels
    judge-eval export latest --table claims -o claims.csv
    judge-eval export label:main -o logs/ --format inspect
    judge-eval export latest --format mlflow --tracking-uri http://localhost:5000 --experiment retrieval
    """
    from judge_eval.errors import ConfigError
    from judge_eval.export.formats import MLFLOW, write_as

    if format == MLFLOW:
        if output is not None:
            raise ConfigError("export to MLflow does not write a file; leave out --output and give --tracking-uri")
        if table is not None:
            raise ConfigError("export to MLflow includes every table; leave out --table")
        from judge_eval.export.mlflow import log_run

        run = chosen.loaded(remark)
        run_id = log_run(run, tracking_uri=tracking_uri, experiment=experiment)
        if not quiet:
            tell(f"{run.name} as MLflow run {run_id}")
        return
    if tracking_uri is not None or experiment is not None:
        raise ConfigError("--tracking-uri and --experiment need --format mlflow")
    if output is None:
        raise ConfigError("no output file is named; add --output FILE")
    run = chosen.loaded(remark)
    written = write_as(run, output, format, safe_cells=safe_cells, table=table)
    if quiet:
        return
    if written == "inspect":
        from judge_eval.export.inspect_log import inspect_file

        file = inspect_file(run, output)
        tell(f"{run.name} as {written} in {file}")
        tell(f"`inspect view --log-dir {file.parent}` shows it")
    else:
        tell(f"{run.name} as {written} in {output}")
