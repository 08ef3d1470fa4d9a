"""Means of a run, corrected by human labels on a part of its traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from judge_eval.alignment.matching import match_labels
from judge_eval.alignment.systems import metric_both_ways
from judge_eval.data.labels import Labels
from judge_eval.errors import DataError
from judge_eval.record import Record
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.stats import CorrectedMean, Sample, ppi_mean, ppi_mean_sampled, rogan_gladen
from judge_eval.stats.estimate import ends_of


class Corrected(Record):
    """One metric of a run, corrected."""

    metric: str
    value: float
    interval: tuple[float, float]
    """95%."""
    standard_error: float
    power: float
    """The weight given to the judge, in [0, 1]; 0 leaves the labels alone."""
    n_labelled: int
    n_unlabelled: int
    effective_n: float | None
    """How many labels alone would give the same standard error."""
    judge_only: float
    labels_only: float
    method: str
    warnings: tuple[str, ...] = ()


class Rate(Record):
    """The share of chunks that are relevant, corrected for the judge's errors."""

    value: float | None
    """None where the judge is no better than chance."""
    interval: tuple[float, float] | None
    judge_only: float
    sensitivity: float
    specificity: float
    warnings: tuple[str, ...] = ()


class Correction(Record):
    """What a run's means are, by the judge and by people together."""

    run: str
    labels: str
    means: dict[str, Corrected]
    rate: Rate | None = None
    """Rogan and Gladen's estimate of the share of relevant chunks; None without labels of both kinds."""
    notes: tuple[str, ...] = ()


def correct(
    run: Run,
    labels: Labels,
    metrics: Sequence[str] | None = None,
    *,
    threshold: int | None = None,
) -> Correction:
    """Correct the means of a run by prediction-powered inference (PPI++) on traces that people labelled.

    A trace counts as labelled where all of its chunks are. Where the labels say which chance each trace
    had to be chosen, and the chances differ, traces are weighted by their inverse. Traces with failed
    verdicts are left out and counted in a note.

    Args:
        run: The run.
        labels: Human labels of a random choice of its traces.
        metrics: Names of metrics; those of the run where None.
        threshold: The least label that counts as relevant.

    Raises:
        DataError: Fewer than two traces are labelled, or none is left unlabelled.
    """
    means: dict[str, Corrected] = {}
    notes: list[str] = []
    for metric in metrics or run.manifest.metrics:
        judge, human = metric_both_ways(run, labels, metric, threshold)
        corrected, left_out = _mean(judge, human, labels, metric)
        span = corrected.interval
        means[metric] = Corrected.model_validate(
            {**asdict(corrected), "metric": metric, "interval": (span.low, span.high), "method": span.method}
        )
        if left_out:
            notes.append(f"{metric}: {left_out} traces with failed verdicts are left out")
    partly = {trace for trace, _ in labels.grades} - set(human)
    here = {result.trace_id for result in run.results}
    if partly & here:
        notes.append(f"{len(partly & here)} traces are labelled in part only, and count as unlabelled")
    return Correction(
        run=run.name,
        labels=", ".join(labels.sources),
        means=means,
        rate=_rate(run, labels, threshold),
        notes=tuple(notes),
    )


def _mean(
    judge: dict[str, float | None], human: dict[str, float], labels: Labels, metric: str
) -> tuple[CorrectedMean, int]:
    there = {trace: value for trace, value in judge.items() if value is not None}
    order = list(there)
    chosen = [place for place, trace in enumerate(order) if trace in human]
    if len(chosen) < 2 or len(chosen) == len(order):
        raise DataError(
            f"{metric}: {len(chosen)} of {len(order)} judged traces are labelled in full; a correction needs "
            "two or more, and others without labels (where all are labelled, take the labels themselves)"
        )
    y = [human[order[place]] for place in chosen]
    chances = [labels.chances.get(order[place]) for place in chosen]
    known = [chance for chance in chances if chance is not None]
    if known and len(known) < len(chosen):
        raise DataError("some labelled traces say their chance to be chosen and others do not; mend the file")
    if len(set(known)) > 1:
        everyone = np.ones(len(order))
        everyone[chosen] = known
        sample = Sample(tuple(chosen), tuple(everyone.tolist()))
        return ppi_mean_sampled(y, list(there.values()), sample), len(judge) - len(there)
    p = [there[order[place]] for place in chosen]
    picked = set(chosen)
    rest = [there[trace] for place, trace in enumerate(order) if place not in picked]
    return ppi_mean(y, p, rest), len(judge) - len(there)


def _rate(run: Run, labels: Labels, threshold: int | None) -> Rate | None:
    """Estimate the share of relevant chunks; unequal chances to be labelled would bias it."""
    if len(set(labels.chances.values())) > 1:
        return None
    pairs, cut = match_labels(run, labels, threshold), scale_of(run).relevant
    judged, traces = [], []
    for row, result in enumerate(run.results):
        for outcome in result.outcomes:
            if outcome.kind == "verdict":
                judged.append(int(outcome.grade >= cut))
                traces.append(row)
    human = (pairs.human >= pairs.relevant).astype(int).tolist()
    if len(set(human)) < 2:
        return None
    # The judge's own threshold holds for its grades, whatever the labels' is.
    own = cut if pairs.maximum == scale_of(run).maximum else pairs.relevant
    mine = (pairs.judge >= own).astype(int).tolist()
    rate = rogan_gladen(judged, mine, human, traces=(traces, pairs.rows.tolist()))
    return Rate.model_validate({**asdict(rate), "interval": ends_of(rate.interval)})
