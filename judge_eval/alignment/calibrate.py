"""Choosing what a judge's grades mean, on one half of the labelled traces, measured on the other."""

from __future__ import annotations

from typing import Literal

from judge_eval.alignment.agree import Figure
from judge_eval.alignment.matching import label_scale
from judge_eval.data.labels import Labels
from judge_eval.errors import DataError
from judge_eval.record import Record
from judge_eval.runs.folder.index import cluster_of
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.stats import calibrate_isotonic, calibrate_threshold


class Calibration(Record):
    """A threshold and a map of grades to relevance, fitted on some traces and measured on others."""

    run: str
    labels: str
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
    _, least = label_scale(labels, scale, threshold)
    grades: list[float] = []
    expected: list[float | None] = []
    human: list[int] = []
    units: list[tuple[bool, str]] = []
    key = run.manifest.intervals.cluster
    for result in run.results:
        for outcome in result.outcomes:
            label = labels.grades.get((result.trace_id, outcome.chunk_id))
            if outcome.kind == "verdict" and label is not None:
                grades.append(outcome.grade)
                expected.append(outcome.expected_grade)
                human.append(int(label >= least))
                cluster = cluster_of(result.trace, key)
                units.append((cluster is not None, cluster or result.trace_id))
    finer = [value for value in expected if value is not None]
    notes = []
    if scale.maximum == 1:
        notes.append("the judge is binary: its threshold is what it is; a graded prompt has more to choose")
    if any(clustered for clustered, _ in units):
        notes.append("traces of one cluster are not split; what is counted as traces are clusters")
    use_finer = bool(finer) and len(finer) == len(grades)
    if use_finer:
        notes.append("the map is of expected grades, by the server's probabilities")
    try:
        chosen = calibrate_threshold(grades, human, units, objective=objective, held_out=held_out, seed=seed)
        fitted = calibrate_isotonic(
            finer if use_finer else grades, human, units, held_out=held_out, seed=seed
        )
    except ValueError as error:
        raise DataError(f"cannot calibrate: {error}") from None
    names: tuple[Literal["kappa", "precision", "recall", "accuracy"], ...] = (
        "kappa", "precision", "recall", "accuracy",
    )  # fmt: skip
    return Calibration(
        run=run.name,
        labels=", ".join(labels.sources),
        fitted_traces=chosen.fitted_traces,
        held_out_traces=len(set(units)) - chosen.fitted_traces,
        objective=objective,
        current=scale.relevant,
        threshold=chosen.threshold,
        figures={name: Figure.of(getattr(chosen, name)) for name in names},
        relevance={str(grade): float(fitted.apply([float(grade)])[0]) for grade in range(scale.maximum + 1)},
        brier=Figure.of(fitted.brier),
        brier_constant=Figure.of(fitted.brier_constant),
        notes=tuple(notes),
    )
