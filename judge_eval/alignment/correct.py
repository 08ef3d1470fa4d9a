"""Means of a run, corrected by human labels on a part of its traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from judge_eval.alignment.matching import match_labels
from judge_eval.alignment.systems import metric_both_ways
from judge_eval.data.labels import Labels
from judge_eval.errors import DataError
from judge_eval.metrics import parse_metric
from judge_eval.record import Record
from judge_eval.runs.folder.index import cluster_of
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import fill_clusters, limits_of
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.stats import CorrectedMean, Sample, ppi_mean, ppi_mean_sampled, rogan_gladen
from judge_eval.stats.estimate import ends_of


class Corrected(Record):
    """One metric of a run, corrected."""

    metric: str
    value: float
    interval: tuple[float, float] | None
    """95%, within the metric's range; None where labels that are all equal allow none."""
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

    A trace counts as labelled where all of its chunks are; one without chunks has a known value and counts
    so too. Traces that belong together (the run's `intervals.cluster`) are not taken for independent. Where
    the labels say which chance each trace had to be chosen, and the chances differ, traces are weighted by
    their inverse. Traces with failed verdicts are left out and counted in a note.

    Args:
        run: The run.
        labels: Human labels of a random choice of its traces.
        metrics: Names of metrics; where None those of the run that labels can tell.
        threshold: The least label that counts as relevant.

    Raises:
        DataError: Fewer than two traces are labelled, or none is left unlabelled.
    """
    means: dict[str, Corrected] = {}
    notes: list[str] = []
    key = run.manifest.intervals.cluster
    clusters = {result.trace_id: cluster_of(result.trace, key) for result in run.results}
    empty = {result.trace_id for result in run.results if not result.trace.chunks}
    if empty:
        notes.append(f"{len(empty)} traces without chunks are counted with their value, which needs no label")
    if not metrics:
        every, metrics = run.manifest.metrics, _over_grades(run.manifest.metrics)
        if len(metrics) < len(every):
            notes.append(f"{len(every) - len(metrics)} metrics over claims are left out: labels grade chunks")
    for metric in metrics:
        judge, human = metric_both_ways(run, labels, metric, threshold)
        corrected, left_out = _mean(judge, human, labels, metric, clusters, empty)
        span = corrected.interval
        method = "" if span is None else span.method
        means[metric] = Corrected.model_validate(
            {**asdict(corrected), "metric": metric, "interval": ends_of(span), "method": method}
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


def _over_grades(metrics: Sequence[str]) -> list[str]:
    return [name for name in metrics if not parse_metric(name).spec.claims]


def _mean(
    judge: dict[str, float | None],
    human: dict[str, float],
    labels: Labels,
    metric: str,
    clusters: dict[str, str | None],
    empty: set[str],
) -> tuple[CorrectedMean, int]:
    there = {trace: value for trace, value in judge.items() if value is not None}
    # Labelled traces first: `ppi_mean` takes them so.
    order = sorted(there, key=lambda trace: trace not in human)
    labelled = [trace for trace in order if trace in human and trace not in empty]
    full = len(there) - len(empty)
    if len(labelled) < 3 or len(labelled) == full:
        raise DataError(
            f"{metric}: {len(labelled)} of {full} judged traces are labelled in full; a correction needs "
            "three or more, and others without labels (where all are labelled, take the labels themselves)"
        )
    chances = [labels.chances[trace] for trace in labelled if trace in labels.chances]
    if chances and len(chances) < len(labelled):
        raise DataError("some labelled traces say their chance to be chosen and others do not; mend the file")
    groups = fill_clusters([clusters[trace] for trace in order])
    left_out, limits = len(judge) - len(there), limits_of(metric)
    try:
        if len(set(chances)) > 1 or empty:
            chance = dict(zip(labelled, chances or [len(labelled) / full] * len(labelled), strict=True))
            chosen = [place for place, trace in enumerate(order) if trace in human]
            sample = Sample(tuple(chosen), tuple(chance.get(trace, 1.0) for trace in order))
            y, p = [human[order[place]] for place in chosen], [there[trace] for trace in order]
            known = len(chosen) - len(labelled)
            return ppi_mean_sampled(y, p, sample, clusters=groups, known=known, limits=limits), left_out
        n = len(labelled)
        p = [there[trace] for trace in order]
        y = [human[trace] for trace in labelled]
        return ppi_mean(y, p[:n], p[n:], clusters=groups, limits=limits), left_out
    except ValueError as error:
        raise DataError(f"{metric}: cannot correct: {error}") from None


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
