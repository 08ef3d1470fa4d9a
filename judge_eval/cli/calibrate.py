"""`calibrate`: what a judge's grades mean, learnt from human labels."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags import options as o
from judge_eval.cli.printing.errors import verb
from judge_eval.cli.printing.figures import figure


class Objective(StrEnum):
    """What a threshold is chosen by."""

    kappa = "kappa"
    f1 = "f1"
    youden = "youden"


@verb
def calibrate(
    run: o.RunName,
    labels: o.LabelFile = None,
    label_relevant: o.LabelThreshold = None,
    objective: Annotated[Objective, typer.Option(help="What the threshold is chosen by.")] = Objective.kappa,
    held_out: Annotated[float, typer.Option(help="The share of labelled traces to measure on.")] = 0.5,
    seed: o.Seed = 0,
    out: o.Out = Path("runs"),
    json_: o.Json = False,
) -> None:
    """Choose the relevance threshold of a graded judge, and map its grades to relevance, on labels.

    The threshold is used with `score RUN --relevant N` and `run --relevant N`.
    """
    from rich.text import Text

    from judge_eval.alignment.calibrate import calibrate as calibrate_run
    from judge_eval.alignment.matching import labels_of
    from judge_eval.cli.printing.output import console, table
    from judge_eval.eval_run import EvalRun
    from judge_eval.runs.folder.wording import printable
    from judge_eval.runs.keeping.finding import find_run

    found = EvalRun.load(find_run(run, out))
    told = calibrate_run(
        found,
        labels_of(found, labels),
        threshold=label_relevant,
        objective=objective.value,
        held_out=held_out,
        seed=seed,
    )
    if json_:
        print(told.model_dump_json(indent=2))
        return
    screen = console()
    screen.print(Text(printable(f"{told.run} against {told.labels}")))
    screen.print(
        f"relevant from grade {told.threshold:g} (now {told.current}), chosen by {told.objective} on "
        f"{told.fitted_traces} traces; measured on {told.held_out_traces} others:"
    )
    screen.print()
    rows = [[name, figure(f)] for name, f in told.figures.items()]
    screen.print(table(["figure", "held out"], rows))
    screen.print()
    screen.print(
        table(["grade", "relevance"], [[g, f"{r:.4f}"] for g, r in told.relevance.items()], right=(1,))
    )
    screen.print(f"Brier score {figure(told.brier)}, of a constant {figure(told.brier_constant)}")
    for note in told.notes:
        screen.print(Text(printable(f"note: {note}")))
