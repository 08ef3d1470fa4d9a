"""Choosing what a judge's grades mean, on one half of the labelled traces, measured on the other."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from judge_eval.confidence import WITH_CONFIDENCE
from judge_eval.data.labels import Labels, scale_of_labels
from judge_eval.errors import DataError
from judge_eval.note import Note
from judge_eval.record import Record
from judge_eval.runs.columns.graded_trace import cluster_of
from judge_eval.runs.columns.verdict_table import light_results
from judge_eval.runs.folder.describing import judged_by
from judge_eval.runs.folder.lines import ChunkLine
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring import calibrating
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.schema import Chunk
from judge_eval.settings import check_ranges
from judge_eval.stats import calibrate_isotonic, calibrate_threshold
from judge_eval.stats.figure import Figure, named_fields
from judge_eval.stats.probabilities import MapMethod, calibrate_probabilities
from judge_eval.study.agree import Reliability
from judge_eval.study.matching import count_ties, label_lookup, no_labels, source_of


class Calibration(Record):
    """A threshold and a map of grades to relevance, fitted on some traces and measured on others."""

    run: str
    labels: str
    label_relevant: int
    """The least label that counts as relevant."""
    judged_by: str = ""
    """The model and the prompt that the threshold holds for, and no others."""
    made_for: calibrating.MadeFor | None = None
    """The same in full; None of imported verdicts, whose judge nobody knows."""
    chunks: int
    fitted_traces: int
    held_out_traces: int
    objective: str
    current: int
    """The threshold of the run."""
    threshold: float
    """The least grade that should count as relevant; or the least probability, see `of`."""
    of: Literal["grade", "probability"] = "grade"
    """What the threshold is of: of two grades with probabilities it is of these."""
    figures: dict[str, Figure]
    """Of the threshold on the held-out traces: `kappa`, `precision`, `recall`, `accuracy`."""
    relevance: dict[str, float] = Field(default_factory=dict)
    """The chance of relevance at each grade, never falling; empty if the threshold is of probabilities."""
    brier: Figure | None = None
    """Mean squared error of that map on the held-out traces."""
    brier_constant: Figure | None = None
    """The same for a constant, which the map must beat."""
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelledVerdicts:
    """Verdicts with labels, as calibrating needs them."""

    grades: list[int]
    expected: list[float] | None
    """Expected grades; None unless every verdict has one."""
    probabilities: list[float | None]
    human: list[int]
    """1 where the label is relevant, else 0."""
    units: list[tuple[bool, str]]
    """What is never split: the trace, or the cluster it belongs to."""
    least: int
    """The least label that counts as relevant."""
    answered: set[str]
    """The names that servers gave of the models that answered."""
    notes: tuple[Note, ...]


def labelled_verdicts(run: Run, labels: Labels | None, threshold: int | None = None) -> LabelledVerdicts:
    """Collect the verdicts that have labels; None takes those of the dataset and later ones."""
    if "calibration" in run.manifest.judge:
        raise DataError(f"run {run.name} is already calibrated; calibrate the original run")
    label_of = label_lookup(run, labels, threshold)
    grades: list[int] = []
    expected: list[float] = []
    probabilities: list[float | None] = []
    given: list[int] = []
    units: list[tuple[bool, str]] = []
    answered: set[str] = set()
    key = run.manifest.intervals.cluster
    for result in light_results(run):
        before = len(grades)
        chunks: Sequence[Chunk | ChunkLine] = result.trace.chunks
        for chunk, outcome in zip(chunks, result.outcomes, strict=True):
            label = label_of(result.trace_id, chunk)
            if outcome.kind == "verdict" and label is not None:
                grades.append(outcome.grade)
                if outcome.expected_grade is not None:
                    expected.append(outcome.expected_grade)
                probabilities.append(outcome.confidence)
                given.append(label)
                cluster = cluster_of(result.trace, key)
                units.append((cluster is not None, cluster or result.trace_id))
        if len(grades) > before:
            answered |= {call.model for call in result.calls if call.model}
    if labels is None and not given:
        raise no_labels()
    ends = (min(given), max(given)) if labels is None else labels.ends
    least = scale_of_labels(ends, source_of(labels), scale_of(run), threshold).relevant
    human = [int(label >= least) for label in given]
    clustered = any(cluster for cluster, _ in units)
    notes = [Note(kind="clusters")] if clustered else []
    if ties := count_ties(run, labels, threshold):
        notes.append(Note(kind="ties", count=ties))
    whole = expected if expected and len(expected) == len(grades) else None
    return LabelledVerdicts(grades, whole, probabilities, human, units, least, answered, tuple(notes))


def calibrate(
    run: Run,
    labels: Labels | None = None,
    *,
    threshold: int | None = None,
    objective: Literal["kappa", "f1", "youden"] = "kappa",
    held_out: float = 0.5,
    seed: int = 0,
) -> Calibration:
    """Choose the relevance threshold of a run's grades and map grades to relevance, on labelled traces.

    The threshold of a binary judge whose verdicts all have a probability is one of these, and nothing is mapped. Whole
    traces, or whole clusters of them (the run's `intervals.cluster`), are split at random; nothing is
    ever measured on what it was fitted to. Where the server told probabilities, the map is of the expected
    grade, which is finer.

    Args:
        run: The run, best of a graded judge.
        labels: Human labels; None takes those of the dataset and later ones.
        threshold: The least label that counts as relevant.
        objective: What the threshold is chosen by.
        held_out: The share of labelled traces to measure on.
        seed: Of the split and of the bootstrap.

    Raises:
        DataError: There are too few labelled traces, or labels of one kind only.
        ConfigError: `held_out` is out of its range.
    """
    check_ranges({"held_out": held_out})
    scale = scale_of(run)
    sample = labelled_verdicts(run, labels, threshold)
    notes = list(sample.notes)
    sure = [each for each in sample.probabilities if each is not None]
    by_probability = scale.binary and len(sure) == len(sample.grades) > 0
    if scale.binary and not by_probability:
        notes.insert(0, Note(kind="binary judge"))
    finer = sample.expected
    if by_probability:
        notes.append(Note(kind="by probability"))
    elif finer is not None:
        notes.append(Note(kind="expected grades"))
    split: dict[str, Any] = {"held_out": held_out, "seed": seed}
    graded = sure if by_probability else sample.grades
    mapped: dict[str, Any] = {}
    choice: dict[str, Any] = {"objective": objective, "between": by_probability}
    try:
        chosen = calibrate_threshold(graded, sample.human, sample.units, **choice, **split)
        if not by_probability:
            fitted = calibrate_isotonic(finer or sample.grades, sample.human, sample.units, **split)
            mapped = {
                "relevance": {str(grade): float(fitted.apply([float(grade)])[0]) for grade in scale.grades},
                "brier": fitted.brier,
                "brier_constant": fitted.brier_constant,
            }
    except ValueError as error:
        raise DataError(f"cannot calibrate: {error}") from None
    return Calibration(
        run=run.name,
        labels=source_of(labels),
        label_relevant=sample.least,
        judged_by=judged_by(run.manifest),
        made_for=None if run.manifest.imported else calibrating.MadeFor.by(run.manifest, sample.answered),
        chunks=len(sample.grades),
        fitted_traces=chosen.fitted_traces,
        held_out_traces=len(set(sample.units)) - chosen.fitted_traces,
        objective=objective,
        current=scale.relevant,
        threshold=chosen.threshold,
        of="probability" if by_probability else "grade",
        figures={name: getattr(chosen, name) for name in ("kappa", "precision", "recall", "accuracy")},
        notes=tuple(notes),
        **mapped,
    )


class FittedProbabilities(Record):
    """A map of a judge's probabilities with everything that is known of it."""

    calibration: calibrating.JudgeCalibration
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
    notes: tuple[Note, ...] = ()


_SHOWN = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


def fit_probabilities(
    run: Run,
    labels: Labels | None = None,
    *,
    threshold: int | None = None,
    method: MapMethod | None = None,
    seed: int = 0,
) -> FittedProbabilities:
    """Fit a map from a run's probabilities to the share of chunks that people call relevant.

    The map is fitted on all labelled traces; its figures are of maps that were fitted without the trace, or
    the cluster, that they are of (see `judge_eval.stats.probabilities`). Verdicts without a probability
    are left out and counted.

    Args:
        run: The run, judged with probabilities.
        labels: Human labels; None takes those of the dataset and later ones.
        threshold: The least label that counts as relevant.
        method: `logistic` or `isotonic`; None takes the one with the lesser log loss on held-out traces.
        seed: Of the folds, and of the draws behind intervals.

    Raises:
        DataError: No verdict has a probability, there are too few labelled traces, labels of one kind only,
            or the verdicts were imported.
    """
    sample = labelled_verdicts(run, labels, threshold)
    made_for = calibrating.MadeFor.by(run.manifest, sample.answered)
    pairs = [
        (value, label, unit)
        for value, label, unit in zip(sample.probabilities, sample.human, sample.units, strict=True)
        if value is not None
    ]
    if not pairs:
        raise DataError(
            f"no labelled chunk of run {run.name} has a verdict with a probability; judge with "
            f"{WITH_CONFIDENCE}, if the server returns token probabilities"
        )
    sure, human, units = map(list, zip(*pairs, strict=True))
    try:
        fitted_map = calibrate_probabilities(sure, human, units, method=method, seed=seed)
    except ValueError as error:
        raise DataError(f"cannot calibrate: {error}") from None
    before, after = Reliability.of(fitted_map.before), Reliability.of(fitted_map.after)
    gain = fitted_map.gain
    notes = list(sample.notes)
    if without := len(sample.grades) - len(pairs):
        notes.append(Note(kind="no probability", count=without))
    if gain.interval is None or gain.interval[0] <= 0:
        notes.append(Note(kind="no gain"))
    fitted = calibrating.FittedMap(
        before=before.figures, after=after.figures, gain=gain, **named_fields(fitted_map.map)
    )
    return FittedProbabilities(
        calibration=calibrating.JudgeCalibration(
            made_for=made_for,
            run=run.name,
            labels=source_of(labels),
            label_relevant=sample.least,
            traces=len(set(units)),
            chunks=len(pairs),
            probabilities=fitted,
        ),
        judged_by=judged_by(run.manifest),
        before=before,
        after=after,
        log_losses=dict(fitted_map.log_losses),
        curve=tuple(zip(_SHOWN, fitted_map.map.apply(_SHOWN).tolist(), strict=True)),
        notes=tuple(notes),
    )


def keep_threshold(fit: Calibration) -> calibrating.JudgeCalibration:
    """Make a chosen threshold into what scoring takes."""
    if fit.made_for is None:
        raise calibrating.unknown_judge(fit.run)
    probability = fit.threshold if fit.of == "probability" else None
    grade = math.ceil(fit.threshold) if probability is None else 1
    if grade < 1:
        raise DataError("the best threshold calls every grade relevant, so there is no threshold to save")
    return calibrating.JudgeCalibration(
        made_for=fit.made_for,
        run=fit.run,
        labels=fit.labels,
        label_relevant=fit.label_relevant,
        traces=fit.fitted_traces + fit.held_out_traces,
        chunks=fit.chunks,
        threshold=calibrating.FittedThreshold(
            grade=grade, probability=probability, objective=fit.objective, held_out=fit.figures
        ),
    )
