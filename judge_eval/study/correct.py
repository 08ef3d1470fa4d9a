"""Means of a run, corrected by human labels on a part of its traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from judge_eval.data.labels import DECIDE, Labels
from judge_eval.errors import DataError
from judge_eval.metrics import parse_metric
from judge_eval.note import Note, NoteKind
from judge_eval.record import Record
from judge_eval.runs.columns.verdict_table import VerdictTable, verdict_table
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import fill_clusters, limits_of
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.safe_text import counted
from judge_eval.settings import ends
from judge_eval.spelling import option
from judge_eval.stats import CorrectedMean, CorrectedRate, Sample, ppi_mean, ppi_mean_sampled, rogan_gladen
from judge_eval.stats.correction import LabelError
from judge_eval.stats.figure import Interval, named_fields
from judge_eval.stats.sequential import sequential_mean
from judge_eval.study.chunk_means import mean_of_chunks, uses_chunks
from judge_eval.study.matching import match_labels
from judge_eval.study.refusals import NotCorrectedError
from judge_eval.study.systems import JudgedRun, metric_both_ways


@dataclass(frozen=True, kw_only=True)
class Corrected(CorrectedMean):
    """One metric of a run, corrected; the interval is of 95%, within the metric's range.

    Where it uses single chunks, `effective_n` counts chunks, and is None of chunks that were chosen with unlike
    chances: these went by the judge's verdicts.
    """

    metric: str
    chunks: int = 0
    """How many labelled chunks it rests on, where it uses single chunks; else 0, and whole traces count."""
    method: str = ""
    """How the interval was made."""


class Correction(Record):
    """What a run's means are, by the judge and by people together."""

    run: str
    labels: str
    means: dict[str, Corrected]
    rate: CorrectedRate | None = None
    """Rogan and Gladen's estimate of the share of relevant chunks; None without labels of both kinds."""
    notes: tuple[Note, ...] = ()


def correct(
    run: Run,
    labels: Labels,
    metrics: Sequence[str] | None = None,
    *,
    threshold: int | None = None,
    sequential: bool = False,
) -> Correction:
    """Correct the means of a run by prediction-powered inference (PPI++) on traces that people labelled.

    A chunk on which people are split was chosen, and its label depends on what it is worth: it is not left out. Each
    mean is made twice, with all these chunks irrelevant and with all relevant; the value lies halfway, and the interval
    holds both intervals.

    Where only some chunks of a trace are labelled, P, DCG, AP and RR are estimated from single chunks
    (`judge_eval.stats.chunk_correction`), other metrics from traces that are labelled in full. A trace without chunks
    has a known value and counts so too. Traces that belong together (the run's `intervals.cluster`) are not taken for
    independent. Where the labels say which chance each trace had to be chosen, and the chances differ, traces are
    weighted by their inverse. The judge's value of a trace with failed verdicts is the expected one, and a note counts
    these; among single chunks a failed verdict is one more thing that the judge can say.

    Args:
        run: The run.
        labels: Human labels of a random choice of its traces.
        metrics: Names of metrics; where None those of the run that labels can tell.
        threshold: The least label that counts as relevant.
        sequential: Give intervals that hold at every look while labelling goes on (`sequential_mean`). The labels are
            of whole traces, in the order in which they were drawn, all with the same chance; the mean is that of the
            run's traces.

    Raises:
        DataError: Too little is labelled for every metric (for one of those that were named), or nothing is
            left unlabelled.
    """
    if not labels.ties:
        return _correct_settled(run, labels, metrics, threshold, sequential)
    if sequential:
        chunks = counted(len(labels.ties), "chunk")
        raise DataError(f"people are split on {chunks}; {option('sequential')} needs one label of each: {DECIDE}")
    ends = zip(*labels.ties.values(), strict=True)
    sides = [replace(labels, grades=labels.grades | dict(zip(labels.ties, side, strict=True))) for side in ends]
    low, high = (_correct_settled(run, side, metrics, threshold, sequential) for side in sides)
    both = [name for name in low.means if name in high.means]
    rate = None if low.rate is None or high.rate is None else _rate_between(low.rate, high.rate)
    notes = (Note(kind="split labels", count=len(labels.ties)), *dict.fromkeys((*low.notes, *high.notes)))
    means = {name: _mean_between(low.means[name], high.means[name]) for name in both}
    return low.replace(means=means, rate=rate, notes=notes)


def _mean_between(low: Corrected, high: Corrected) -> Corrected:
    worths = [mean.effective_n for mean in (low, high)]
    worth = None if None in worths else min(filter(None, worths), default=None)
    error = max(low.standard_error, high.standard_error)
    return replace(low, **_between(low, high, "value", "power", "labels_only"), effective_n=worth, standard_error=error)


def _rate_between(low: CorrectedRate, high: CorrectedRate) -> CorrectedRate | None:
    if low.value is None or high.value is None:
        return None
    return replace(low, **_between(low, high, "value", "sensitivity", "specificity"))


def _between(low: CorrectedMean | CorrectedRate, high: CorrectedMean | CorrectedRate, *names: str) -> dict[str, Any]:
    """Return what lies between two estimates: figures halfway, an interval that holds both, and all warnings."""
    middles = {name: (getattr(low, name) + getattr(high, name)) / 2 for name in names}
    warnings = tuple(dict.fromkeys((*low.warnings, *high.warnings)))
    first, other = low.interval, high.interval
    both = None
    if first is not None and other is not None:
        both = Interval(min(first.low, other.low), max(first.high, other.high), first.level, first.method)
    return {**middles, "interval": both, "warnings": warnings}


def _correct_settled(
    run: Run, labels: Labels, metrics: Sequence[str] | None, threshold: int | None, sequential: bool
) -> Correction:
    """Correct with labels that settle each chunk."""
    means: dict[str, Corrected] = {}
    notes: list[Note] = []
    refused: list[NotCorrectedError] = []
    table = verdict_table(run)  # checks the file as it reads it
    judged = JudgedRun.of(run)
    if empty := sum(not trace.chunks for trace in judged.traces):
        notes.append(Note(kind="empty traces", count=empty))
    if failed := sum(None in trace.graded.grades for trace in judged.traces):
        notes.append(Note(kind="failed traces", count=failed))
    if sequential:
        notes.append(Note(kind="every look"))
    if left := len(labels.chunk_chances.keys() - labels.grades.keys()):
        notes.append(Note(kind="unlabelled chunks", count=left, other=len(labels.chunk_chances)))
    by_name = bool(metrics)
    partly = sum(None in row and any(each is not None for each in row) for row in judged.labels(labels))
    if not metrics:
        every = run.manifest.metrics
        metrics = [name for name in every if not ((spec := parse_metric(name).spec).claims or spec.evidence)]
        if len(metrics) < len(every):
            notes.append(Note(kind="metrics of claims", count=len(every) - len(metrics)))
    for metric in metrics:
        judge, human = metric_both_ways(judged, labels, metric, threshold)
        chunks = left_out = 0
        try:
            if partly and uses_chunks(metric) and not sequential:
                corrected, chunks = mean_of_chunks(judged, labels, metric, judge, human, threshold=threshold)
            else:
                corrected, left_out = mean_by_traces(judged, judge, human, labels, metric)
                if sequential:
                    corrected = replace(corrected, interval=_at_every_look(judge, human, labels, metric))
        except NotCorrectedError as refusal:
            if by_name or not partly:
                raise
            refused.append(refusal)
            notes.append(refusal.note)
            continue
        span = corrected.interval
        method = "" if span is None else span.method
        means[metric] = Corrected(metric=metric, method=method, chunks=chunks, **named_fields(corrected))
        if left_out:
            notes.append(Note(kind="no expected value", count=left_out, names=(metric,)))
    if refused and not means:
        raise refused[0]
    whole = [name for name, mean in means.items() if not mean.chunks]
    if partly and whole:
        notes.append(Note(kind="partly labelled", count=partly, names=tuple(whole)))
    return Correction(
        run=run.name,
        labels=", ".join(labels.sources),
        means=means,
        rate=None if sequential else _rate(run, table, labels, threshold),  # its interval holds at one look
        notes=tuple(notes),
    )


def mean_by_traces(
    run: JudgedRun, judge: dict[str, float | None], human: dict[str, float], labels: Labels, metric: str
) -> tuple[CorrectedMean, int]:
    """Correct a mean by traces that are labelled in full, and count those without a value by the judge."""
    clusters = {trace.graded.id: trace.cluster for trace in run.traces}
    empty = {trace.graded.id for trace in run.traces if not trace.chunks}
    there = {trace: value for trace, value in judge.items() if value is not None}
    # Labelled traces first: `ppi_mean` takes them so.
    order = sorted(there, key=lambda trace: trace not in human)
    labelled = [trace for trace in order if trace in human and trace not in empty]
    full = len(there) - len(empty)
    if len(labelled) < 3 or len(labelled) == full:
        kind: NoteKind = "too few whole traces" if uses_chunks(metric) else "only whole traces"
        raise NotCorrectedError(kind, metric, len(labelled), full)
    chances = [labels.chances[trace] for trace in labelled if trace in labels.chances]
    if chances and len(chances) < len(labelled):
        raise NotCorrectedError("some probabilities", metric, len(chances), len(labelled))
    groups = fill_clusters([clusters[trace] for trace in order])
    left_out, limits = len(judge) - len(there), limits_of(metric, list(there.values()), list(human.values()))
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
    except LabelError as error:
        raise NotCorrectedError(error.kind, metric, error.count) from None
    except ValueError as error:
        raise DataError(f"{metric}: cannot correct: {error}") from None


def _at_every_look(judge: dict[str, float | None], human: dict[str, float], labels: Labels, metric: str) -> Interval:
    """Return the last of the intervals that hold at every look, on the metric's own range."""
    if len(set(labels.chances.values())) > 1 or labels.chunk_chances:
        raise NotCorrectedError("unequal chances", metric)
    least, greatest = ends(parse_metric(metric).limits)
    if not np.isfinite(span := greatest - least):
        raise NotCorrectedError("no limits", metric)
    names = [trace for trace in dict.fromkeys(trace for trace, _ in labels.grades) if trace in human]
    every = {trace: (value - least) / span for trace, value in judge.items() if value is not None}
    names = [trace for trace in names if trace in every]
    y = [(human[trace] - least) / span for trace in names]
    last = sequential_mean(y, [every[trace] for trace in names], list(every.values()))[-1]
    return Interval(least + span * last.low, least + span * last.high, last.level, last.method)


def _rate(run: Run, table: VerdictTable, labels: Labels, threshold: int | None) -> CorrectedRate | None:
    """Estimate the share of relevant chunks; unequal chances to be labelled would bias it."""
    if len({*labels.chances.values(), *labels.chunk_chances.values()}) > 1:
        return None
    pairs, cut = match_labels(run, labels, threshold), scale_of(run).relevant
    there = table.grades >= 0
    judged, traces = (table.grades[there] >= cut).astype(int).tolist(), table.rows[there].tolist()
    human = (pairs.human >= pairs.scale.relevant).astype(int).tolist()
    if len(set(human)) < 2:
        return None
    # The judge's own threshold holds for its grades, whatever the labels' is.
    own = cut if pairs.scale.grades == scale_of(run).grades else pairs.scale.relevant
    mine = (pairs.judge >= own).astype(int).tolist()
    return rogan_gladen(judged, mine, human, traces=(traces, pairs.rows.tolist()))
