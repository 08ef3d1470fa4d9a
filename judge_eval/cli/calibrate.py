"""`calibrate`: what a judge's grades and probabilities mean, learnt from human labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from judge_eval.cli.flags.common import Json, LabellingFlags, Seed, output_flag
from judge_eval.cli.flags.keeping import OneRun
from judge_eval.cli.printing.door import give_json, remark
from judge_eval.cli.printing.errors import verb
from judge_eval.errors import ConfigError

if TYPE_CHECKING:
    from judge_eval.alignment.calibrate import Calibration
    from judge_eval.alignment.fitting import FittedProbabilities
    from judge_eval.runs.scoring.calibrating import JudgeCalibration


@verb
def calibrate(
    chosen: OneRun,
    labelling: LabellingFlags,
    probabilities: Annotated[
        bool,
        typer.Option("--probabilities", help="Calibrate the judge's probabilities instead of its grades."),
    ] = False,
    method: Annotated[
        Literal["logistic", "isotonic"] | None,
        typer.Option(help="How probabilities are mapped; else what does better on held-out traces."),
    ] = None,
    objective: Annotated[
        Literal["kappa", "f1", "youden"], typer.Option(help="What the threshold is chosen by.")
    ] = "kappa",
    held_out: Annotated[float, typer.Option(help="The share of labelled traces to measure on.")] = 0.5,
    output: Annotated[
        Path | None, output_flag("Write what was learnt here, for `score --calibration`: .json.")
    ] = None,
    seed: Seed = 0,
    json_: Json = False,
) -> None:
    """Choose the relevance threshold of a graded judge, and map its grades to relevance, on labels.

    With --probabilities: map the judge's probabilities to the share that people call relevant. What is
    written with -o holds for this model and prompt alone; `score RUN --calibration FILE` refuses it for
    others. A bare number (`run --relevant N`) is checked by nobody.

    Examples:
    judge-eval calibrate latest --labels to_label.csv -o threshold.json
    judge-eval calibrate latest --labels to_label.csv --probabilities -o calibration.json
    """
    from judge_eval.alignment.calibrate import calibrate as calibrate_run
    from judge_eval.alignment.fitting import fit_probabilities, keep_threshold
    from judge_eval.alignment.matching import labels_of
    from judge_eval.cli.printing.output import say
    from judge_eval.export.text import check_suffix
    from judge_eval.runs.scoring.calibrating import write_calibration

    if output is not None:
        check_suffix(output, (".json",))
    if method is not None and not probabilities:
        raise ConfigError("--method is of --probabilities; a threshold is chosen by --objective")
    run = chosen.loaded(remark)
    labels = labels_of(run, labelling.labels)
    if probabilities:
        mapped = fit_probabilities(run, labels, threshold=labelling.label_relevant, method=method, seed=seed)
        kept: JudgeCalibration | None = mapped.calibration
        if json_:
            give_json(mapped.model_dump_json(indent=2))
        else:
            _show_map(mapped, method)
    else:
        fit = calibrate_run(
            run,
            labels,
            threshold=labelling.label_relevant,
            objective=objective,
            held_out=held_out,
            seed=seed,
        )
        kept = None if output is None else keep_threshold(fit)
        if json_:
            give_json(fit.model_dump_json(indent=2))
        else:
            _show_threshold(fit)
    if output is not None and kept is not None:
        write_calibration(kept, output)
        if not json_:
            say(
                f"written to {output}: `judge-eval score RUN --calibration {output}` applies it to this judge"
            )


def _show_threshold(fit: Calibration) -> None:
    from judge_eval.cli.printing.output import figure, say, say_table

    say(f"{fit.run} against {fit.labels}")
    say(f"for verdicts {fit.judged_by}, and no others" if fit.made_for else fit.judged_by)
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


def _show_map(fit: FittedProbabilities, method: str | None) -> None:
    from judge_eval.cli.printing.output import figure, say, say_table

    kept = fit.calibration
    assert kept.probabilities is not None
    say(f"{kept.run} against {kept.labels}")
    say(f"for verdicts {fit.judged_by}, and no others")
    how = f"{kept.probabilities.method} map of probabilities"
    if method is None:
        losses = ", ".join(f"{name} {loss:.4f}" for name, loss in fit.log_losses.items())
        how += f", chosen by the log loss on held-out traces ({losses})"
    say(f"{how}; fitted on {kept.chunks} chunks of {kept.traces} traces")
    say()
    rows = [
        [name, figure(before), figure(fit.after.figures[name])] for name, before in fit.before.figures.items()
    ]
    say_table(["held out", "before", "after"], rows)
    say(f"the log loss falls by {figure(kept.probabilities.gain)}")
    say()
    say_table(["probability", "becomes"], [[f"{p:.2f}", f"{q:.4f}"] for p, q in fit.curve], right=(0, 1))
    for note in fit.notes:
        say(f"note: {note}")
