"""What labels taught of a judge, made into the file that scoring takes."""

from __future__ import annotations

import math

from judge_eval.alignment.calibrate import Calibration, labelled_verdicts
from judge_eval.alignment.reliability import Reliability
from judge_eval.data.labels import Labels
from judge_eval.errors import DataError
from judge_eval.record import Record
from judge_eval.runs.folder.describing import judged_by
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.calibrating import (
    FittedMap,
    FittedThreshold,
    JudgeCalibration,
    MadeFor,
)
from judge_eval.runs.scoring.figure import Figure
from judge_eval.stats.probability_maps import MapMethod, calibrate_probabilities


class FittedProbabilities(Record):
    """A map of a judge's probabilities with everything that is known of it."""

    calibration: JudgeCalibration
    judged_by: str
    """The model and the prompt that it holds for, and no others."""
    before: Reliability
    """The judge's own probabilities."""
    after: Reliability
    """Mapped ones, each mapped by what was fitted without its trace."""
    log_losses: dict[str, float]
    """By method the log loss on held-out traces that the choice was made by."""
    curve: tuple[tuple[float, float], ...]
    """What becomes of some probabilities: each with the calibrated one."""
    notes: tuple[str, ...] = ()


_SHOWN = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


def fit_probabilities(
    run: Run,
    labels: Labels,
    *,
    threshold: int | None = None,
    method: MapMethod | None = None,
    seed: int = 0,
) -> FittedProbabilities:
    """Fit a map from a run's probabilities to the share of chunks that people call relevant.

    The map is fitted on all labelled traces; its figures are of maps that were fitted without the trace, or
    the cluster, that they are of (see `judge_eval.stats.probability_maps`). Verdicts without a probability
    are left out and counted.

    Args:
        run: The run, judged with probabilities.
        labels: Human labels.
        threshold: The least label that counts as relevant.
        method: `logistic` or `isotonic`; None takes the one with the lesser log loss on held-out traces.
        seed: Of the folds, and of the draws behind intervals.

    Raises:
        DataError: No verdict has a probability, there are too few labelled traces, labels of one kind only,
            or the verdicts were imported.
    """
    told = labelled_verdicts(run, labels, threshold)
    made_for = MadeFor.by(run.manifest, told.answered)
    pairs = [
        (value, label, unit)
        for value, label, unit in zip(told.probabilities, told.human, told.units, strict=True)
        if value is not None
    ]
    if not pairs:
        raise DataError(
            f"no labelled chunk of run {run.name} has a verdict with a probability; judge with --confidence, "
            "where the server tells them"
        )
    sure, human, units = map(list, zip(*pairs, strict=True))
    try:
        found = calibrate_probabilities(sure, human, units, method=method, seed=seed)
    except ValueError as error:
        raise DataError(f"cannot calibrate: {error}") from None
    before, after = Reliability.of(found.before), Reliability.of(found.after)
    gain = Figure.of(found.gain)
    notes = list(told.notes)
    if without := len(told.grades) - len(pairs):
        notes.append(f"{without} verdicts on labelled chunks have no probability; they were left out")
    if gain.interval is None or gain.interval[0] <= 0:
        notes.append("nothing shows yet that the map does better than the judge's own probabilities")
    fitted = FittedMap(
        method=found.map.method,
        knots=found.map.knots,
        heights=found.map.heights,
        slope=found.map.slope,
        intercept=found.map.intercept,
        before=before.figures,
        after=after.figures,
        gain=gain,
    )
    return FittedProbabilities(
        calibration=JudgeCalibration(
            made_for=made_for,
            run=run.name,
            labels=", ".join(labels.sources),
            label_relevant=told.least,
            traces=len(set(units)),
            chunks=len(pairs),
            probabilities=fitted,
        ),
        judged_by=judged_by(run.manifest),
        before=before,
        after=after,
        log_losses=dict(found.log_losses),
        curve=tuple(zip(_SHOWN, found.map.apply(_SHOWN).tolist(), strict=True)),
        notes=tuple(notes),
    )


def keep_threshold(fit: Calibration) -> JudgeCalibration:
    """Make a chosen threshold into what scoring takes.

    Raises:
        DataError: The verdicts were imported, or every grade would count as relevant.
    """
    if fit.made_for is None:
        raise DataError(
            f"the verdicts of run {fit.run} were imported, and nobody knows which model and prompt gave "
            "them; a threshold holds for one model and prompt alone"
        )
    grade = math.ceil(fit.threshold)
    if grade < 1:
        raise DataError(
            "the threshold that does best calls every grade relevant; there is nothing to keep of that"
        )
    return JudgeCalibration(
        made_for=fit.made_for,
        run=fit.run,
        labels=fit.labels,
        label_relevant=fit.label_relevant,
        traces=fit.fitted_traces + fit.held_out_traces,
        chunks=fit.chunks,
        threshold=FittedThreshold(grade=grade, objective=fit.objective, held_out=fit.figures),
    )
