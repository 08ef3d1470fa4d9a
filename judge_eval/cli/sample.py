"""`sample`: traces chosen for people to label."""

from __future__ import annotations

import shlex
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
    """Choose traces for people to label, shown blind: without verdicts, scores or ranks.

    The file says which labels there are, and the command to type when it is filled in.

    Examples:
    judge-eval sample latest -n 100 -o to_label.csv
    judge-eval sample latest -n 50 --without to_label.csv -o more.csv
    """
    from judge_eval.alignment.sample import blind_csv, blind_jsonl, choose_traces, scale_words
    from judge_eval.data.labels import read_labels
    from judge_eval.data.spreadsheets import changed_by_spreadsheets
    from judge_eval.export import text as export
    from judge_eval.runs.scoring.rescore import scale_of

    export.check_suffix(output, (".jsonl", ".csv"))
    run = chosen.loaded(remark)
    done = sorted({trace for trace, _ in read_labels(without).grades}) if without is not None else []
    picked = choose_traces(run, n, by=by, seed=seed, without=done)
    scale, then = scale_words(scale_of(run)), _next(chosen, run.id, output)
    if output.suffix.lower() == ".csv":
        # Excel reads UTF-8, and writes it back, where a mark begins the file.
        text = "\ufeff" + blind_csv(picked, seed, scale=scale, then=then, safe_cells=safe_cells)
        ids = {
            id_ for one in picked for id_ in (one.result.trace_id, *(c.id for c in one.result.trace.chunks))
        }
        changed = sorted(filter(changed_by_spreadsheets, ids))
    else:
        text, changed = blind_jsonl(picked, run, seed, then=then), []
    export.write_text(output, text)
    chunks = sum(len(one.result.outcomes) for one in picked)
    remark(f"{len(picked)} traces with {chunks} chunks to label in {output}")
    if changed:
        remark(
            f"warning: a spreadsheet takes ids such as {changed[0]} for numbers or dates; import the columns "
            "trace_id and chunk_id as text, or write .jsonl"
        )
    remark(f"fill in `label`: {scale}")
    remark(f"then: {then}")


def _next(chosen: OneRun, run_id: str, output: Path) -> str:
    """Return the command to type when the labels are there."""
    words = ["judge-eval", "agree", run_id[:8], str(output)]
    if chosen.out != Path("runs"):
        words += ["--out", str(chosen.out)]
    return shlex.join(words)
