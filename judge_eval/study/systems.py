"""A metric under the judge's verdicts and under labels, and how either ranks systems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from sys import intern
from typing import NamedTuple

import numpy as np

from judge_eval.data.labels import Labels
from judge_eval.errors import DataError
from judge_eval.metrics.ragged import offsets_of
from judge_eval.record import Record
from judge_eval.runs.columns.graded_trace import GradedTrace, cluster_of
from judge_eval.runs.columns.verdict_table import light_results
from judge_eval.runs.folder.records import Manifest
from judge_eval.runs.folder.run import Run, blocks
from judge_eval.runs.scoring.aggregate import expected_scores, less_is_better
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.schema import Scale
from judge_eval.stats import ranking_figures
from judge_eval.stats.figure import Figure
from judge_eval.study.matching import count_ties, label_scale, labels_of

_BLOCK = 500
"""Traces that are scored together."""


class Rankings(Record):
    """Whether a judge ranks systems as labels do."""

    metric: str
    systems: tuple[str, ...]
    judge: tuple[float, ...]
    """Each system's mean under the judge's verdicts."""
    human: tuple[float, ...]
    """Each system's mean under the labels."""
    traces: int
    """Traces that every system has, fully labelled; one with failed verdicts counts with its expected value."""
    figures: dict[str, Figure]
    """`tau_b`, `tau_ap`, `spearman`, `rbo`: n is the number of systems; there are no intervals."""
    ties: int = 0
    """Chunks without a label because as many people find them relevant as not; their traces are left out."""


def rank_systems(runs: Sequence[Run], labels: Labels | None, metric: str, *, threshold: int | None = None) -> Rankings:
    """Compare the ranking of systems (a run each, on the same traces) by a judge with that by labels."""
    if len(runs) < 2:
        raise DataError("a ranking needs the runs of at least two systems")
    judged: list[dict[str, float]] = []
    human: list[dict[str, float]] = []
    for run in runs:
        mine, theirs = metric_both_ways(JudgedRun.of(run), labels or labels_of(run), metric, threshold)
        judged.append({t: v for t, v in mine.items() if v is not None})
        human.append(theirs)
    common = sorted(set.intersection(*(set(a) & set(b) for a, b in zip(judged, human, strict=True))))
    if not common:
        raise DataError("no trace is fully labelled and judged in all these runs")
    by_judge = np.array([[table[t] for table in judged] for t in common])
    by_human = np.array([[table[t] for table in human] for t in common])
    best_first = -1.0 if less_is_better(metric) else 1.0
    figures = ranking_figures(best_first * by_judge, best_first * by_human)
    return Rankings(
        metric=metric,
        systems=tuple(run.name for run in runs),
        judge=tuple(by_judge.mean(axis=0).tolist()),
        human=tuple(by_human.mean(axis=0).tolist()),
        traces=len(common),
        ties=sum(count_ties(run, labels, threshold) for run in (runs if labels is None else runs[:1])),
        figures={name: replace(estimate, n=len(runs), traces=len(common)) for name, estimate in figures.items()},
    )


class JudgedTrace(NamedTuple):
    """A trace of a run without its texts."""

    graded: GradedTrace
    chunks: tuple[str, ...]
    """The ids of its chunks."""
    cluster: str | None


@dataclass(frozen=True, slots=True, eq=False)
class JudgedRun:
    """What correcting the means of a run by labels reads of it, read once: some hundred bytes a trace."""

    manifest: Manifest
    scale: Scale
    traces: tuple[JudgedTrace, ...]

    @classmethod
    def of(cls, run: Run) -> JudgedRun:
        """Read a run."""
        key = run.manifest.intervals.cluster
        traces = tuple(
            JudgedTrace(
                GradedTrace.of(result.trace, result.outcomes),
                tuple([intern(chunk.id) for chunk in result.trace.chunks]),
                cluster_of(result.trace, key),
            )
            for result in light_results(run)
            if result.trace.answerable is not False
        )
        return cls(run.manifest, scale_of(run), traces)

    def labels(self, labels: Labels) -> Iterator[list[int | None]]:
        """Yield the labels of each trace in rank order; None where a chunk has none."""
        for trace in self.traces:
            yield [labels.grades.get((trace.graded.id, chunk)) for chunk in trace.chunks]


def metric_both_ways(
    run: JudgedRun, labels: Labels, metric: str, threshold: int | None = None
) -> tuple[dict[str, float | None], dict[str, float]]:
    """Score every trace under the judge's verdicts, and every fully labelled one under its labels."""
    # By trace id. The value under the verdicts is the expected one if failed verdicts leave it open, None if
    # there is none. What a retriever that returned nothing is worth needs no label: such a trace has all it can have.
    theirs = label_scale(labels, run.scale, threshold)
    own, other = Scorer([metric], run.scale), Scorer([metric], theirs)
    (name,) = own.names
    if (spec := own.metrics[name].spec).claims or spec.evidence:
        raise DataError(f"{name} uses {'claims' if spec.claims else 'quotes'}, but labels grade chunks")
    judge: dict[str, float | None] = {}
    human: dict[str, float] = {}
    open_ = dict[int, GradedTrace]()
    for block in blocks(enumerate(zip(run.traces, run.labels(labels), strict=True)), _BLOCK):
        graded = [trace.graded for _, (trace, _) in block]
        for trace in graded:
            own.check_graded(trace)
        for (row, _), trace, (values, _) in zip(block, graded, own.score_graded(graded), strict=True):
            judge[trace.id] = values[name]
            if values[name] is None:
                open_[row] = trace
        labelled = [
            trace.graded._replace(grades=tuple(given), probable=(), expected=(), chances=())
            for _, (trace, given) in block
            if None not in given
        ]
        for trace, (values, _) in zip(labelled, other.score_graded(labelled), strict=True):
            value = values[name]
            assert value is not None
            human[trace.id] = value
    verdicts = [-1 if grade is None else grade for trace in run.traces for grade in trace.graded.grades]
    starts = offsets_of([len(trace.chunks) for trace in run.traces])
    expected = expected_scores(own, open_, np.array(verdicts, dtype=np.int8), starts)
    judge |= {open_[row].id: values.get(name) for row, values in expected.items()}
    return judge, human
