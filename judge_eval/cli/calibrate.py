"""`calibrate`: what a judge's grades mean, learnt from human labels."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from judge_eval.cli.flags.common import Json, LabellingFlags, Seed
from judge_eval.cli.flags.keeping import OneRun
from judge_eval.cli.printing.door import give_json
from judge_eval.cli.printing.errors import verb


@verb
def calibrate(
    chosen: OneRun,
    labelling: LabellingFlags,
    objective: Annotated[
        Literal["kappa", "f1", "youden"], typer.Option(help="What the threshold is chosen by.")
    ] = "kappa",
    held_out: Annotated[float, typer.Option(help="The share of labelled traces to measure on.")] = 0.5,
    seed: Seed = 0,
    json_: Json = False,
) -> None:
    """Choose the relevance threshold of a graded judge, and map its grades to relevance, on labels.

    The threshold is used with `score RUN --relevant N` and `run --relevant N`.
    """
    from judge_eval.alignment.calibrate import calibrate as calibrate_run
    from judge_eval.alignment.matching import labels_of
    from judge_eval.cli.printing.output import figure, say, say_table

    run = chosen.loaded()
    fit = calibrate_run(
        run,
        labels_of(run, labelling.labels),
        threshold=labelling.label_relevant,
        objective=objective,
        held_out=held_out,
        seed=seed,
    )
    if json_:
        give_json(fit.model_dump_json(indent=2))
        return
    say(f"{fit.run} against {fit.labels}")
    say(
        f"relevant from grade {fit.threshold:g} (now {fit.current}), chosen by {fit.objective} on "
        f"{fit.fitted_traces} traces; measured on {fit.held_out_traces} others:"
    )
    say()
    rows = [[name, figure(f)] for name, f in fit.figures.items()]
    say_table(["figure", "held out"], rows)
    say()
    say_table(["grade", "relevance"], [[g, f"{r:.4f}"] for g, r in fit.relevance.items()], right=(1,))
    say(f"Brier score {figure(fit.brier)}, of a constant {figure(fit.brier_constant)}")
    for note in fit.notes:
        say(f"note: {note}")
