"""A metric under the judge's verdicts and under labels, and how either ranks systems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from judge_eval.alignment.matching import label_scale, labels_of
from judge_eval.data.labels import Labels
from judge_eval.errors import DataError
from judge_eval.record import Record
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import less_is_better
from judge_eval.runs.scoring.figure import Figure
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.schema import Scale, Verdict
from judge_eval.stats import ranking_figures

NO_INTERVAL = (
    "these correlations are of the means over these traces: chance lowers them, the more the closer the "
    "systems are, and more traces would raise them; no interval is given, since none that was tried holds"
)


class Rankings(Record):
    """Whether a judge ranks systems as labels do."""

    metric: str
    systems: tuple[str, ...]
    judge: tuple[float, ...]
    """Each system's mean under the judge's verdicts."""
    human: tuple[float, ...]
    """Each system's mean under the labels."""
    traces: int
    """Traces that every system has, fully labelled and without a failed verdict."""
    figures: dict[str, Figure]
    """`tau_b`, `tau_ap`, `spearman`, `rbo`, of these traces and without intervals."""
    note: str = NO_INTERVAL


def rank_systems(
    runs: Sequence[Run],
    labels: Labels | None,
    metric: str,
    *,
    threshold: int | None = None,
) -> Rankings:
    """Compare the ranking of systems (one run each) by a judge with their ranking by labels.

    Args:
        runs: One run for each system, on the same traces.
        labels: Labels; None takes those in each run's dataset.
        metric: The metric to rank by.
        threshold: The least label that counts as relevant.

    Raises:
        DataError: No trace is fully labelled in all runs.
    """
    if len(runs) < 2:
        raise DataError("a ranking needs the runs of two systems or more")
    judged: list[dict[str, float]] = []
    human: list[dict[str, float]] = []
    for run in runs:
        mine, theirs = metric_both_ways(run, labels or labels_of(run), metric, threshold)
        judged.append({t: v for t, v in mine.items() if v is not None})
        human.append(theirs)
    common = sorted(set.intersection(*(set(a) & set(b) for a, b in zip(judged, human, strict=True))))
    if not common:
        raise DataError("no trace is fully labelled and judged in all of these runs")
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
        figures={name: Figure.of(estimate) for name, estimate in figures.items()},
    )


def metric_both_ways(
    run: Run, labels: Labels, metric: str, threshold: int | None = None
) -> tuple[dict[str, float | None], dict[str, float]]:
    """Score every trace under the judge's verdicts, and every fully labelled one under its labels.

    Returns:
        By trace id: the value under the verdicts (None where failed verdicts leave none), and the value
        under the labels of those traces all of whose chunks are labelled.

    Raises:
        DataError: The metric needs what a trace does not have.
    """
    scale = scale_of(run)
    highest, least = label_scale(labels, scale, threshold)
    own = Scorer([metric], scale)
    other = Scorer(
        [metric], Scale(name="graded" if highest > 1 else "binary", maximum=highest, relevant=least)
    )
    (name,) = own.names
    if own.metrics[name].spec.claims:
        raise DataError(f"{name} is over claims, of which labels say nothing: they grade chunks")
    judge: dict[str, float | None] = {}
    human: dict[str, float] = {}
    for result, grades in _fully_labelled(run, labels):
        own.check(result.trace)
        ((scores, _),) = own.score([(result.trace, result.outcomes)])
        judge[result.trace_id] = scores[name]
        if grades is not None:
            outcomes = [
                Verdict(chunk_id=chunk.id, grade=grade, relevant=grade >= least)
                for chunk, grade in zip(result.trace.chunks, grades, strict=True)
            ]
            ((scores, _),) = other.score([(result.trace, outcomes)])
            value = scores[name]
            assert value is not None
            human[result.trace_id] = value
    return judge, human


def _fully_labelled(run: Run, labels: Labels) -> Iterator[tuple[TraceResult, list[int] | None]]:
    """Yield every trace with its labels in rank order; None where a chunk has none.

    What a retriever that returned nothing is worth needs no label: such a trace has all it can have.
    """
    for result in run.results:
        row = [labels.grades.get((result.trace_id, chunk.id)) for chunk in result.trace.chunks]
        complete = [label for label in row if label is not None]
        yield result, complete if len(complete) == len(row) else None
