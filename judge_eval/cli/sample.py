"""`sample`: traces chosen for people to label."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from judge_eval.cli.flags.common import SafeCells, Seed, output_flag
from judge_eval.cli.flags.keeping import OneRun
from judge_eval.cli.printing.door import remark
from judge_eval.cli.printing.errors import verb


@verb
def sample(
    chosen: OneRun,
    n: Annotated[int, typer.Option("--n", "-n", help="How many traces.")] = 50,
    output: Annotated[Path, output_flag("Write them here: .jsonl or .csv, labels to be filled in.")] = Path(
        "to_label.jsonl"
    ),
    by: Annotated[
        Literal["none", "grade", "cluster"],
        typer.Option(
            help="grade: as many of each highest judged grade, weighted later; cluster: whole clusters."
        ),
    ] = "none",
    without: Annotated[
        Path | None, typer.Option("--without", help="A file of labels: its traces are not chosen again.")
    ] = None,
    seed: Seed = 0,
    safe_cells: SafeCells = False,
) -> None:
    """Choose traces for people to label, shown blind: without verdicts, scores or ranks."""
    from judge_eval.alignment.sample import blind_csv, blind_jsonl, choose_traces
    from judge_eval.data.labels import read_labels
    from judge_eval.export import text as export

    export.check_suffix(output, (".jsonl", ".csv"))
    run = chosen.loaded()
    done = sorted({trace for trace, _ in read_labels(without).grades}) if without is not None else []
    picked = choose_traces(run, n, by=by, seed=seed, without=done)
    if output.suffix.lower() == ".csv":
        text = blind_csv(picked, seed, safe_cells=safe_cells)
    else:
        text = blind_jsonl(picked, run, seed)
    export.write_text(output, text)
    chunks = sum(len(one.result.outcomes) for one in picked)
    remark(f"{len(picked)} traces with {chunks} chunks to label in {output}")
