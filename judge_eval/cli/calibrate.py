"""`calibrate`: what a judge's grades and probabilities mean, learnt from human labels."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from judge_eval.cli.exit_codes import verb
from judge_eval.cli.flags.common import Json, LabellingFlags, OneRun, Seed
from judge_eval.cli.printing.output import print_record, say
from judge_eval.errors import ConfigError
from judge_eval.settings import setting

if TYPE_CHECKING:
    from judge_eval.runs.scoring.calibrating import JudgeCalibration


@verb
def calibrate(
    chosen: OneRun,
    labelling: LabellingFlags,
    probabilities: bool = setting(False, "Calibrate the judge's probabilities instead of its grades."),
    method: Literal["logistic", "isotonic"] | None = setting(
        None, "How probabilities are mapped. Default: the better method on held-out traces."
    ),
    objective: Literal["kappa", "f1", "youden"] = setting("kappa", "The figure that the threshold maximises."),
    held_out: float = setting(0.5, "The share of labelled traces to measure on."),
    output: Path | None = setting(None, "Write the calibration to this file (.json), for `score --calibration`."),
    seed: Seed = 0,
    json_: Json = False,
) -> None:
    """Choose the relevance threshold of a graded judge, and map its grades to relevance, on labels.

    Of a binary judge with probabilities: the least probability that counts as relevant.

    With --probabilities: map the judge's probabilities to the share that people call relevant. The file
    written with -o is valid only for this model and prompt; `score RUN --calibration FILE` rejects it for
    others. A plain number (`run --relevant N`) is not checked.

    Examples:
    judge-eval calibrate latest --labels to_label.csv -o threshold.json
    judge-eval calibrate latest --labels to_label.csv --probabilities -o calibration.json
    """
    from judge_eval.export.text import check_suffix
    from judge_eval.runs.scoring.calibrating import write_calibration
    from judge_eval.study.calibrate import calibrate as calibrate_run
    from judge_eval.study.calibrate import fit_probabilities, keep_threshold
    from judge_eval.views.calibration import calibration_view, probabilities_view

    if output is not None:
        check_suffix(output, (".json",))
    if method is not None and not probabilities:
        raise ConfigError("--method needs --probabilities; a threshold is chosen by --objective")
    run = chosen.loaded()
    labels, threshold = labelling.of(run), labelling.label_relevant
    if probabilities:
        mapped = fit_probabilities(run, labels, threshold=threshold, method=method, seed=seed)
        kept: JudgeCalibration | None = mapped.calibration
        print_record(mapped, json_, partial(probabilities_view, method=method))
    else:
        fit = calibrate_run(run, labels, threshold=threshold, objective=objective, held_out=held_out, seed=seed)
        kept = None if output is None else keep_threshold(fit)
        print_record(fit, json_, calibration_view)
    if output is not None and kept is not None:
        write_calibration(kept, output)
        if not json_:
            say(f"written to {output}: `judge-eval score RUN --calibration {output}` applies it to this judge")
