"""`export`: a run in the format of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from judge_eval.cli.exit_codes import INCOMPLETE, OK, verb
from judge_eval.cli.flags.common import OneRun, Quiet, SafeCells
from judge_eval.cli.printing.output import complain, remark, tell
from judge_eval.errors import ConfigError
from judge_eval.safe_text import counted
from judge_eval.settings import setting

if TYPE_CHECKING:
    from judge_eval.export.scores import Service
    from judge_eval.runs.folder.run import Run


@verb
def export(
    chosen: OneRun,
    output: Path | None = setting(None, "The file to write; a folder for inspect; leave it out for mlflow."),
    format: str | None = setting(
        None,
        "trec-run, trec-qrels, jsonl, csv, parquet, json, markdown, phoenix, langfuse, langsmith, inspect or "
        "mlflow; by default the format of the suffix.",
        flags=("--format", "-f"),
    ),
    push: bool = setting(
        False,
        "langfuse, langsmith: send the scores to the traces that were judged. LANGFUSE_BASE_URL, LANGFUSE_PUBLIC_KEY "
        "and LANGFUSE_SECRET_KEY, or LANGSMITH_ENDPOINT and LANGSMITH_API_KEY, say where and with which key.",
    ),
    table: str | None = setting(
        None,
        "Write this table, with csv, parquet, json or jsonl; claims: one row per claim and trace.",
        metavar="verdicts|traces|claims",
    ),
    tracking_uri: str | None = setting(None, "mlflow: where MLflow keeps its runs; by default MLFLOW_TRACKING_URI."),
    experiment: str | None = setting(None, "mlflow: the experiment's name; by default MLFLOW_EXPERIMENT_NAME."),
    safe_cells: SafeCells = False,
    quiet: Quiet = False,
) -> int:
    """Write a run for another tool: TREC files, tables, an Inspect log, an MLflow run, scores of traces.

    Phoenix, Langfuse and LangSmith take scores of traces that were exported from there. A score that failed verdicts
    leave open is left out. Exit codes: 0 all is written or sent; 2 nothing can be; 3 some scores were refused.

    Examples:
    judge-eval export latest -o main.qrels
    judge-eval export latest --table claims -o claims.csv
    judge-eval export label:main -o logs/ --format inspect
    judge-eval export latest --format langfuse --push
    judge-eval export latest --format mlflow --tracking-uri http://localhost:5000 --experiment retrieval
    """
    from judge_eval.export.formats import FORMATS, MLFLOW, write_as

    if format == MLFLOW:
        if output is not None:
            raise ConfigError("export to MLflow does not write a file; leave out --output and give --tracking-uri")
        if push:
            raise ConfigError("export to MLflow always sends; leave out --push")
        if table is not None:
            raise ConfigError("export to MLflow includes every table; leave out --table")
        from judge_eval.export.mlflow import log_run

        run = chosen.loaded()
        run_id = log_run(run, tracking_uri=tracking_uri, experiment=experiment)
        if not quiet:
            tell(f"{run.name} as MLflow run {run_id}")
        return OK
    if tracking_uri is not None or experiment is not None:
        raise ConfigError("--tracking-uri and --experiment need --format mlflow")
    service = FORMATS[format].service if format and format in FORMATS else None
    if push and service is None:
        names = " or ".join(name for name, known in FORMATS.items() if known.service is not None)
        raise ConfigError(f"--push needs --format {names}")
    if output is None and not push:
        raise ConfigError("no output file is named; add --output FILE" + (", or --push" if service else ""))
    run = chosen.loaded()
    if output is not None:
        written = write_as(run, output, format, safe_cells=safe_cells, table=table)
        if not quiet:
            _tell_written(run, written, output)
    if service is not None:
        for sentence in service.scores(run).left_out():
            remark(sentence)
        if push:
            return _push(run, service, quiet=quiet)
    return OK


def _tell_written(run: Run, written: str, output: Path) -> None:
    if written == "inspect":
        from judge_eval.export.inspect_log import inspect_file

        file = inspect_file(run, output)
        tell(f"{run.name} as {written} in {file}")
        tell(f"`inspect view --log-dir {file.parent}` shows it")
    else:
        tell(f"{run.name} as {written} in {output}")


def _push(run: Run, service: Service, *, quiet: bool) -> int:
    from judge_eval.export.push import push_scores

    watch = None if quiet else lambda sent: remark(f"{counted(sent, 'score')} sent so far")
    pushed = push_scores(run, service, watch)
    if not quiet:
        tell(f"{run.name}: {counted(pushed.sent, 'score')} sent to {service.name} at {pushed.place}")
        if pushed.before:
            remark(f"{counted(pushed.before, 'score')} sent before; remove {pushed.note} to send all again")
    for refusal in pushed.refused[:_SHOWN]:
        complain(f"refused: {refusal}")
    if pushed.refused:
        complain(f"{counted(len(pushed.refused), 'score')} refused; the same command sends them again")
    return INCOMPLETE if pushed.refused else OK


_SHOWN = 3  # refusals that are printed
