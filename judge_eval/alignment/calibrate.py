"""Choosing what a judge's grades mean, on one half of the labelled traces, measured on the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from judge_eval.alignment.matching import label_scale
from judge_eval.data.labels import Labels
from judge_eval.errors import DataError
from judge_eval.record import Record
from judge_eval.runs.folder.describing import judged_by
from judge_eval.runs.folder.index import cluster_of
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.calibrating import MadeFor
from judge_eval.runs.scoring.figure import Figure
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.stats import calibrate_isotonic, calibrate_threshold


class Calibration(Record):
    """A threshold and a map of grades to relevance, fitted on some traces and measured on others."""

    run: str
    labels: str
    label_relevant: int
    """The least label that counts as relevant."""
    judged_by: str = ""
    """The model and the prompt that the threshold holds for, and no others."""
    made_for: MadeFor | None = None
    """The same in full; None of imported verdicts, whose judge nobody knows."""
    chunks: int
    fitted_traces: int
    held_out_traces: int
    objective: str
    current: int
    """The threshold of the run."""
    threshold: float
    """The least grade that should count as relevant."""
    figures: dict[str, Figure]
    """Of the threshold on the held-out traces: `kappa`, `precision`, `recall`, `accuracy`."""
    relevance: dict[str, float]
    """The chance of relevance at each grade, never falling."""
    brier: Figure
    """Mean squared error of that map on the held-out traces."""
    brier_constant: Figure
    """The same for a constant, which the map must beat."""
    notes: tuple[str, ...] = ()


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
    notes: tuple[str, ...]


def labelled_verdicts(run: Run, labels: Labels, threshold: int | None = None) -> LabelledVerdicts:
    """Collect the verdicts that have labels.

    Args:
        run: The run.
        labels: Human labels.
        threshold: The least label that counts as relevant.

    Raises:
        DataError: A label is off any scale, or the run is calibrated already.
    """
    if "calibration" in run.manifest.judge:
        raise DataError(f"run {run.name} is calibrated already; calibrate on the run itself")
    _, least = label_scale(labels, scale_of(run), threshold)
    grades: list[int] = []
    expected: list[float] = []
    probabilities: list[float | None] = []
    human: list[int] = []
    units: list[tuple[bool, str]] = []
    answered: set[str] = set()
    key = run.manifest.intervals.cluster
    for result in run.results:
        before = len(grades)
        for outcome in result.outcomes:
            label = labels.grades.get((result.trace_id, outcome.chunk_id))
            if outcome.kind == "verdict" and label is not None:
                grades.append(outcome.grade)
                if outcome.expected_grade is not None:
                    expected.append(outcome.expected_grade)
                probabilities.append(outcome.confidence)
                human.append(int(label >= least))
                cluster = cluster_of(result.trace, key)
                units.append((cluster is not None, cluster or result.trace_id))
        if len(grades) > before:
            answered |= {call.model for call in result.calls if call.model}
    clustered = any(cluster for cluster, _ in units)
    notes = ("traces of one cluster are not split; what is counted as traces are clusters",)
    whole = expected if expected and len(expected) == len(grades) else None
    return LabelledVerdicts(
        grades, whole, probabilities, human, units, least, answered, notes if clustered else ()
    )


def calibrate(
    run: Run,
    labels: Labels,
    *,
    threshold: int | None = None,
    objective: Literal["kappa", "f1", "youden"] = "kappa",
    held_out: float = 0.5,
    seed: int = 0,
) -> Calibration:
    """Choose the relevance threshold of a run's grades and map grades to relevance, on labelled traces.

    Whole traces, or whole clusters of them (the run's `intervals.cluster`), are split at random; nothing is
    ever measured on what it was fitted to. Where the server told probabilities, the map is of the expected
    grade, which is finer.

    Args:
        run: The run, best of a graded judge.
        labels: Human labels.
        threshold: The least label that counts as relevant.
        objective: What the threshold is chosen by.
        held_out: The share of labelled traces to measure on.
        seed: Of the split and of the bootstrap.

    Raises:
        DataError: There are too few labelled traces, or labels of one kind only.
    """
    scale = scale_of(run)
    told = labelled_verdicts(run, labels, threshold)
    notes = list(told.notes)
    if scale.maximum == 1:
        notes.insert(
            0, "the judge is binary: its threshold is what it is; a graded prompt has more to choose"
        )
    finer = told.expected
    if finer is not None:
        notes.append("the map is of expected grades, by the server's probabilities")
    split: dict[str, Any] = {"held_out": held_out, "seed": seed}
    try:
        chosen = calibrate_threshold(told.grades, told.human, told.units, objective=objective, **split)
        scores = told.grades if finer is None else finer
        fitted = calibrate_isotonic(scores, told.human, told.units, **split)
    except ValueError as error:
        raise DataError(f"cannot calibrate: {error}") from None
    names: tuple[Literal["kappa", "precision", "recall", "accuracy"], ...] = (
        "kappa", "precision", "recall", "accuracy",
    )  # fmt: skip
    return Calibration(
        run=run.name,
        labels=", ".join(labels.sources),
        label_relevant=told.least,
        judged_by=judged_by(run.manifest),
        made_for=None if run.manifest.imported else MadeFor.by(run.manifest, told.answered),
        chunks=len(told.grades),
        fitted_traces=chosen.fitted_traces,
        held_out_traces=len(set(told.units)) - chosen.fitted_traces,
        objective=objective,
        current=scale.relevant,
        threshold=chosen.threshold,
        figures={name: Figure.of(getattr(chosen, name)) for name in names},
        relevance={str(grade): float(fitted.apply([float(grade)])[0]) for grade in range(scale.maximum + 1)},
        brier=Figure.of(fitted.brier),
        brier_constant=Figure.of(fitted.brier_constant),
        notes=tuple(notes),
    )
