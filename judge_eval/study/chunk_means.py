"""Labels of single chunks: how they correct a mean of a run together with the judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from judge_eval.data.labels import Labels
from judge_eval.errors import DataError
from judge_eval.metrics import GradeTable, Metric, parse_metric
from judge_eval.runs.scoring.aggregate import fill_clusters, limits_of
from judge_eval.schema import Scale
from judge_eval.stats import CorrectedMean
from judge_eval.stats._arrays import Floats, Ints, group_sums
from judge_eval.stats.chunk_correction import (
    ChunkLabels,
    RelevanceModel,
    beside_labels_alone,
    chunk_mean,
    chunk_weights,
    expected_by_verdict,
)
from judge_eval.stats.correction import LabelError
from judge_eval.study.matching import label_scale
from judge_eval.study.refusals import NotCorrectedError
from judge_eval.study.systems import JudgedRun

FAILED = -1
"""Stands for a failed verdict among the grades of the judge."""


def uses_chunks(metric: str) -> bool:
    """Tell whether labels of single chunks help to estimate the mean of a metric."""
    parsed = parse_metric(metric)
    return parsed.spec.additive or expected_metric(parsed) is not None


@dataclass(frozen=True, slots=True, eq=False)
class ChunkSample:
    """The chunks of a run that a metric reads, in the order of its results, and which are labelled."""

    trace: Ints
    """The place of each one's trace, shape (M,)."""
    rank: Ints
    """From 0."""
    grade: Ints
    """What the judge said; `FAILED` without a verdict."""
    verdict: Ints
    """The same, numbered from 0; a failed verdict has a number too."""
    labelled: Ints
    """The places of the labelled ones, shape (n,)."""
    label: Ints
    """Their labels."""
    weight: Floats
    """One over their chances to be labelled."""
    lengths: Ints
    """How many chunks each trace has, shape (N,)."""

    @classmethod
    def of(cls, run: JudgedRun, labels: Labels, depth: int | None) -> ChunkSample:
        """Collect the chunks down to a rank; every rank needs a label, and all chunks or none a chance.

        The labelled chunks of a sample that is labelled in part are a random part of it.
        """
        trace, rank, grades, label = [], [], [], []
        traces, chunks, drawn = [], [], []
        for place, (graded, ids, _) in enumerate(run.traces):
            for k, (chunk, grade) in enumerate(zip(ids[:depth], graded.grades, strict=False)):
                trace.append(place)
                rank.append(k)
                grades.append(FAILED if grade is None else grade)
                key = (graded.id, chunk)
                label.append(labels.grades.get(key, FAILED))
                if key in labels.chunk_chances:
                    drawn.append(k)
                if key in labels.grades:
                    traces.append(labels.chances.get(graded.id))
                    chunks.append(labels.chunk_chances.get(key))
        codes = np.unique(np.array(grades, dtype=np.int64), return_inverse=True)[1].reshape(-1)
        ranks, marks = np.array(rank, dtype=np.int64), np.array(label, dtype=np.int64)
        labelled = np.flatnonzero(marks >= 0)
        chances = _complete(chunks, "chunk_probability")
        if chances is None:
            weight = chunk_weights(ranks, labelled, _complete(traces, "probability"))
        elif ranks.max(initial=0) > (deepest := max(drawn)):  # no chunk below had a chance
            raise LabelError("rank without label", deepest + 2)
        else:
            weight = len(drawn) / chances / len(chances)
        lengths = np.array([len(each.chunks) for each in run.traces], dtype=np.int64)
        return cls(
            np.array(trace, dtype=np.int64),
            ranks,
            np.array(grades, dtype=np.int64),
            codes.astype(np.int64),
            labelled,
            marks[labelled],
            weight,
            lengths,
        )


def _complete(chances: Sequence[float | None], name: str) -> Floats | None:
    known = [chance for chance in chances if chance is not None]
    if not known:
        return None
    if len(known) < len(chances):
        raise NotCorrectedError("some chunk probabilities", name, len(known), len(chances))
    return np.array(known)


def mean_of_chunks(
    run: JudgedRun,
    labels: Labels,
    metric: str,
    judge: Mapping[str, float | None],
    human: Mapping[str, float],
    *,
    threshold: int | None = None,
    alone: bool = True,
) -> tuple[CorrectedMean, int]:
    """Estimate the mean of a metric (see `uses_chunks`) from labels of single chunks and all verdicts.

    Without a `chunk_probability` every chunk of a rank is taken to have had the same chance to be labelled, given its
    trace's. `judge` and `human` are the metric's values by trace; a failed verdict counts as one more thing that a
    judge can say. Returns also how many labelled chunks the mean rests on. `alone` tells also what the labels say
    without the judge, which doubles the time.

    Raises:
        DataError: There are too few labels.
    """
    parsed, scale = parse_metric(metric), label_scale(labels, run.scale, threshold)
    there = [value for value in judge.values() if value is not None]
    clusters = fill_clusters([trace.cluster for trace in run.traces])
    limits = limits_of(metric, there, list(human.values()))
    estimate = _additive if parsed.spec.additive else _modelled
    means = []
    try:
        sample = ChunkSample.of(run, labels, parsed.cutoff)
        for verdict in (sample.verdict, np.zeros_like(sample.verdict))[: 1 + alone]:
            base, chunks = estimate(sample, verdict, parsed, scale)
            means.append(chunk_mean(base, chunks, clusters=clusters, limits=limits))
        count = int(sample.labelled.size)
        if not alone:
            return means[0], count
        made = beside_labels_alone(means[0], means[1], count, sum(there) / max(len(there), 1))
    except LabelError as error:
        raise NotCorrectedError(error.kind, metric, error.count) from None
    except ValueError as error:
        raise DataError(f"{metric}: cannot correct: {error}") from None
    if len(set(labels.chunk_chances.values())) > 1:  # chances went by the verdicts: there is no choice without a judge
        made = replace(made, effective_n=None)
    return made, count


def _additive(sample: ChunkSample, verdict: Ints, metric: Metric, scale: Scale) -> tuple[Floats, ChunkLabels]:
    """Split a metric that is a sum over chunks: what the verdicts expect of each trace, and the labels."""
    parts = _parts(sample, metric, scale)  # (M, grades)
    grades = np.eye(parts.shape[1])[sample.label - scale.minimum]
    shares = expected_by_verdict(verdict, sample.labelled, grades, sample.weight)
    expected = (shares * parts).sum(axis=1)
    base = group_sums(expected, sample.trace, sample.lengths.size)
    here = sample.labelled
    own = parts[here, sample.label - scale.minimum]
    return base, ChunkLabels(sample.trace[here], np.ones(here.size), own, expected[here], sample.weight)


def _parts(sample: ChunkSample, metric: Metric, scale: Scale) -> Floats:
    """Return what each chunk adds to its trace's value with each grade, shape (M, grades)."""
    width = scale.maximum - scale.minimum + 1
    parts = np.zeros((sample.trace.size, width))
    lengths = sample.lengths[sample.trace]
    for length in np.unique(lengths).tolist():
        here = lengths == length
        depth = min(length, int(sample.rank[here].max()) + 1)
        grid = np.zeros((depth, width, length), dtype=np.int8)
        for rank in range(depth):
            grid[rank, :, rank] = np.arange(width)
        flat = grid.reshape(-1, length)
        offsets = np.arange(len(flat) + 1, dtype=np.int64) * length
        least, most = scale.relevant - scale.minimum, scale.maximum - scale.minimum
        table = GradeTable(flat.reshape(-1), offsets, relevant=least, maximum=most)
        parts[here] = metric.compute(table).reshape(depth, width)[sample.rank[here]]
    return parts


def expected_metric(metric: Metric) -> Metric | None:
    """Return the metric that is the mean of another one over chunks that are relevant by chance."""
    if metric.spec.expected_by is None or metric.params:
        return None
    return parse_metric(metric.spec.expected_by + ("" if metric.cutoff is None else f"@{metric.cutoff}"))


def relevance_model(sample: ChunkSample, verdict: Ints, scale: Scale) -> tuple[RelevanceModel, Floats]:
    """Fit how likely each chunk is relevant; return also the labels as 0 and 1."""
    cells = np.zeros((sample.lengths.size, int(sample.rank.max(initial=0)) + 1), dtype=np.int64)
    there = np.zeros(cells.shape)
    cells[sample.trace, sample.rank], there[sample.trace, sample.rank] = verdict, 1.0
    trace, rank = sample.trace[sample.labelled], sample.rank[sample.labelled]
    label = (sample.label >= scale.relevant).astype(np.float64)
    return RelevanceModel.fit(cells, there, trace, rank, label, sample.weight), label


def _modelled(sample: ChunkSample, verdict: Ints, metric: Metric, scale: Scale) -> tuple[Floats, ChunkLabels]:
    """Model which chunks are relevant, for a metric that is not a sum over chunks."""
    expecting = expected_metric(metric)
    assert expecting is not None
    width = int(sample.rank.max(initial=0)) + 1
    model, label = relevance_model(sample, verdict, scale)
    trace, rank = sample.trace[sample.labelled], sample.rank[sample.labelled]

    def expect(chances: Floats) -> Floats:
        # A chunk that is not there is never relevant.
        offsets = np.arange(len(chances) + 1, dtype=np.int64) * width
        grades = np.zeros(chances.size, dtype=np.int8)
        return expecting.compute(GradeTable(grades, offsets, maximum=1, probable=np.clip(chances.ravel(), 0, 1)))

    effect, expected = model.effect(expect, trace, rank), model.relevance[trace, rank]
    return model.expect(expect), ChunkLabels(trace, effect, label, expected, sample.weight)
