"""`sample`: traces chosen for people to label."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags import options as o
from judge_eval.cli.printing.errors import remark, verb


class Strata(StrEnum):
    """How traces to label are chosen."""

    none = "none"
    grade = "grade"


@verb
def sample(
    run: o.RunName,
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many traces.")] = 50,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write them here: .jsonl or .csv, labels to be filled in.")
    ] = Path("to_label.jsonl"),
    by: Annotated[
        Strata, typer.Option(help="grade: as many of each highest judged grade, weighted later.")
    ] = Strata.none,
    without: Annotated[
        Path | None, typer.Option("--without", help="A file of labels: its traces are not chosen again.")
    ] = None,
    seed: o.Seed = 0,
    out: o.Out = Path("runs"),
) -> None:
    """Choose traces for people to label, shown blind: without verdicts, scores or ranks."""
    from judge_eval.alignment.sample import blind_csv, blind_jsonl, choose_traces
    from judge_eval.data.labels import read_labels
    from judge_eval.eval_run import EvalRun
    from judge_eval.export import text as export
    from judge_eval.runs.keeping.finding import find_run

    export.check_suffix(output, (".jsonl", ".csv"))
    found = EvalRun.load(find_run(run, out))
    done = sorted({trace for trace, _ in read_labels(without).grades}) if without is not None else []
    chosen = choose_traces(found, n, strata=by.value, seed=seed, without=done)
    text = blind_csv(chosen, seed) if output.suffix.lower() == ".csv" else blind_jsonl(chosen, found, seed)
    export.write_text(output, text)
    chunks = sum(len(one.result.outcomes) for one in chosen)
    remark(f"{len(chosen)} traces with {chunks} chunks to label in {output}")
