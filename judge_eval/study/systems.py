"""A metric under the judge's verdicts and under labels, and how either ranks systems."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from judge_eval.data.labels import Labels
from judge_eval.errors import DataError
from judge_eval.metrics.ragged import offsets_of
from judge_eval.record import Record
from judge_eval.runs.folder.graded import GradedTrace
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import expected_scores, less_is_better
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.schema import Scale, Trace, Verdict
from judge_eval.stats import ranking_figures
from judge_eval.stats.figure import Figure
from judge_eval.study.matching import label_scale, labels_of

NO_INTERVAL = (
    "these correlations are of the means over these traces: they are biased downwards by chance, more if the "
    "systems are close; more traces raise them; there is no interval, because no tested method is valid"
)
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
    note: str = NO_INTERVAL


def rank_systems(runs: Sequence[Run], labels: Labels | None, metric: str, *, threshold: int | None = None) -> Rankings:
    """Compare the ranking of systems (a run each, on the same traces) by a judge with that by labels."""
    if len(runs) < 2:
        raise DataError("a ranking needs the runs of at least two systems")
    judged: list[dict[str, float]] = []
    human: list[dict[str, float]] = []
    for run in runs:
        mine, theirs = metric_both_ways(run, labels or labels_of(run), metric, threshold)
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
        figures={name: replace(estimate, n=len(runs), traces=len(common)) for name, estimate in figures.items()},
    )


def metric_both_ways(
    run: Run, labels: Labels, metric: str, threshold: int | None = None
) -> tuple[dict[str, float | None], dict[str, float]]:
    """Score every trace under the judge's verdicts, and every fully labelled one under its labels."""
    # By trace id. The value under the verdicts is the expected one if failed verdicts leave it open, None if
    # there is none.
    scale = scale_of(run)
    theirs = label_scale(labels, scale, threshold)
    own, other = Scorer([metric], scale), Scorer([metric], theirs)
    (name,) = own.names
    if own.metrics[name].spec.claims:
        raise DataError(f"{name} uses claims, but labels grade chunks")
    judge: dict[str, float | None] = {}
    human: dict[str, float] = {}
    open_, verdicts, sizes = dict[int, GradedTrace](), array("b"), array("l")
    rows = enumerate(_fully_labelled(run, labels))
    while block := list(islice(rows, _BLOCK)):
        for _, (result, _) in block:
            own.check(result.trace)
        scores = own.score([(result.trace, result.outcomes) for _, (result, _) in block])
        for (row, (result, _)), (values, _) in zip(block, scores, strict=True):
            judge[result.trace_id] = values[name]
            verdicts.extend(o.grade if o.kind == "verdict" else -1 for o in result.outcomes)
            sizes.append(len(result.outcomes))
            if values[name] is None:
                open_[row] = GradedTrace.of(result.trace, result.outcomes)
        labelled = [(result, grades) for _, (result, grades) in block if grades is not None]
        judged = [(result.trace, _outcomes(result.trace, grades, theirs)) for result, grades in labelled]
        for (result, _), (values, _) in zip(labelled, other.score(judged), strict=True):
            value = values[name]
            assert value is not None
            human[result.trace_id] = value
    expected = expected_scores(own, open_, np.array(verdicts, dtype=np.int8), offsets_of(sizes))
    judge |= {open_[row].id: values.get(name) for row, values in expected.items()}
    return judge, human


def _outcomes(trace: Trace, grades: Sequence[int], scale: Scale) -> list[Verdict]:
    rows = zip(trace.chunks, grades, strict=True)
    return [Verdict(chunk_id=chunk.id, grade=grade, relevant=grade >= scale.relevant) for chunk, grade in rows]


def _fully_labelled(run: Run, labels: Labels) -> Iterator[tuple[TraceResult, list[int] | None]]:
    """Yield every trace with its labels in rank order; None where a chunk has none."""
    # What a retriever that returned nothing is worth needs no label: such a trace has all it can have.
    for result in run.results:
        row = [labels.grades.get((result.trace_id, chunk.id)) for chunk in result.trace.chunks]
        complete = [label for label in row if label is not None]
        yield result, complete if len(complete) == len(row) else None
