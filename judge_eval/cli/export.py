"""`export`: a run in the format of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli import completion
from judge_eval.cli import options as o
from judge_eval.cli.errors import verb


@verb
def export(
    run: Annotated[
        str,
        typer.Argument(
            help="A run's folder, its id or the start of it, label:NAME or latest.",
            autocompletion=completion.runs,
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="trec-run, trec-qrels, jsonl, csv, parquet, json, markdown, phoenix or inspect; "
            "by default what the suffix names.",
        ),
    ] = None,
    out: o.Out = Path("runs"),
    quiet: o.Quiet = False,
) -> None:
    """Write a run for another tool: TREC files, tables, Phoenix annotations, an Inspect log.

    Examples:
    judge-eval export latest -o main.qrels
    judge-eval export label:main -o logs/ --format inspect
    """
    from judge_eval.runs.run import EvalRun
    from judge_eval.runs.store import find_run
    from judge_eval.runs.writers import write_as

    found = EvalRun.load(find_run(run, out))
    written = write_as(found, output, format)
    if not quiet:
        print(f"{found.label or found.id[:8]} as {written} in {output}")
