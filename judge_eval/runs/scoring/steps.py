"""What a reranker made of the chunks that it was given, by one judgment of both lists."""

from itertools import islice

import numpy as np

from judge_eval.metrics import GradeTable, parse_metric
from judge_eval.record import Record
from judge_eval.runs.folder.journal import cluster_of
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import fill_clusters
from judge_eval.runs.scoring.figure import Figure
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.stats import mean_interval

FIRST = 20
"""If none of so many traces was reranked, the others are not read."""
MOST_DROPPED = 20
"""How many dropped chunks are named."""


class RerankedMetric(Record):
    """A metric before and after reranking."""

    metric: str
    before: float
    after: float
    difference: Figure
    """Paired, after minus before."""


class RerankerGain(Record):
    """What reranking changed, on traces that say how their chunks were reranked and whose verdicts are complete."""

    traces: int
    metrics: tuple[RerankedMetric, ...]
    relevant: int
    """Relevant chunks that the reranker was given."""
    n_dropped: int
    """Those of them that it did not return."""
    dropped: tuple[tuple[str, str], ...]
    """Trace and chunk of the first of them."""


def ranks_after(result: TraceResult) -> list[int] | None:
    """Return the rank of each chunk after reranking, 0 if it was dropped; None if the trace does not say."""
    ranks = [chunk.metadata.get("reranked") for chunk in result.trace.chunks]
    known = [rank for rank in ranks if isinstance(rank, int)]
    return known if known and len(known) == len(ranks) else None


def reranker_gain(run: Run) -> RerankerGain | None:
    """Compare the retrieved lists with the reranked ones, without a call; None if no trace has both."""
    scale, cluster = scale_of(run), run.manifest.intervals.cluster
    before, after, clusters = [], [], []
    dropped: list[tuple[str, str]] = []
    relevant = 0
    if not any(ranks_after(result) for result in islice(run.results, FIRST)):
        return None
    for result in run.results:
        ranks = ranks_after(result)
        grades = [outcome.grade for outcome in result.outcomes if outcome.kind == "verdict"]
        if ranks is None or len(grades) < len(ranks):
            continue
        before.append(grades)
        after.append([grade for rank, grade in sorted(zip(ranks, grades, strict=True)) if rank])
        clusters.append(cluster_of(result.trace, cluster))
        for chunk, rank, grade in zip(result.trace.chunks, ranks, grades, strict=True):
            relevant += grade >= scale.relevant
            if grade >= scale.relevant and not rank:
                dropped.append((result.trace_id, chunk.id))
    if not before:
        return None
    tables = [GradeTable.on_scale(rows, scale.grades, scale.relevant) for rows in (before, after)]
    moved = []
    for name in run.manifest.metrics:
        metric = parse_metric(name)
        if metric.family != "rag" or metric.needs_total or metric.spec.claims or metric.spec.soft or metric.params:
            continue
        if metric.name == "UDCG":
            continue
        old, new = (metric.compute(table) for table in tables)
        least, most = metric.spec.limits
        limits = None if least is None or most is None else (least - most, most - least)
        figure = Figure.of(mean_interval(new - old, clusters=fill_clusters(clusters), limits=limits))
        moved.append(RerankedMetric(metric=name, before=float(old.mean()), after=float(new.mean()), difference=figure))
    return RerankerGain(
        traces=len(before),
        metrics=tuple(moved),
        relevant=int(np.sum(relevant)),
        n_dropped=len(dropped),
        dropped=tuple(dropped[:MOST_DROPPED]),
    )
