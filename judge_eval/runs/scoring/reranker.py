"""What a reranker made of the chunks that it was given, by one judgment of both lists."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from judge_eval.metrics import Metric, parse_metric
from judge_eval.record import Record
from judge_eval.runs.columns.verdict_table import ScoreColumns, ScoredTraces, cluster_codes
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run, blocks
from judge_eval.runs.scoring.aggregate import compare_columns, filled_columns
from judge_eval.runs.scoring.rescore import scale_of, scored_again
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.stats.figure import Figure

FIRST = 20
"""If none of so many traces was reranked, the others are not read."""
MOST_DROPPED = 20
"""How many dropped chunks are named."""
_BLOCK = 4096


class RerankedMetric(Record):
    """A metric before and after reranking; failed verdicts count as in every mean."""

    metric: str
    before: float
    after: float
    difference: Figure
    """Paired, after minus before; the interval covers all values that failed verdicts could have."""


class RerankerGain(Record):
    """What reranking changed, on traces that say how their chunks were reranked."""

    traces: int
    failed: int = 0
    """Those of them with failed verdicts."""
    metrics: tuple[RerankedMetric, ...]
    relevant: int
    """Relevant chunks that the reranker was given."""
    n_dropped: int
    """Those of them that it did not return."""
    open: int = 0
    """Chunks without a verdict that it did not return."""
    dropped: tuple[tuple[str, str], ...]
    """Trace and chunk of the first of `n_dropped`."""


def ranks_after(result: TraceResult) -> list[int] | None:
    """Return the rank of each chunk after reranking, 0 if it was dropped; None if the trace does not say."""
    ranks = [chunk.metadata.get("reranked") for chunk in result.trace.chunks]
    known = [rank for rank in ranks if isinstance(rank, int)]
    return known if known and len(known) == len(ranks) else None


def _compared(metric: Metric) -> bool:
    """Tell whether a metric can be computed for both lists from grades alone."""
    return metric.family == "rag" and metric.spec.grades_alone and not (metric.needs_total or metric.params)


def reranker_gain(run: Run) -> RerankerGain | None:
    """Compare the retrieved lists with the reranked ones, without a call; None if no trace has both.

    A failed verdict counts as in a comparison of two runs: with its expected value, and the interval covers all others.
    """
    if not any(ranks_after(result) for result in islice(run.results, FIRST)):
        return None
    scale, cluster = scale_of(run), run.manifest.intervals.cluster
    names = [name for name in run.manifest.metrics if _compared(parse_metric(name))]
    scorer = Scorer(names, scale) if names else None
    before, after = ScoreColumns(names, cluster), ScoreColumns(names, cluster)
    dropped: list[tuple[str, str]] = []
    relevant = unknown = failed = 0
    answered = (result for result in run.results if result.trace.answerable is not False)
    both = ((result, ranks) for result in answered if (ranks := ranks_after(result)) is not None)
    for block in blocks(both, _BLOCK):
        for result, ranks in block:
            before.add(result)
            failed += result.failed > 0
            for rank, outcome in zip(ranks, result.outcomes, strict=True):
                is_relevant = outcome.kind == "verdict" and outcome.grade >= scale.relevant
                relevant += is_relevant
                unknown += not rank and outcome.kind != "verdict"
                if is_relevant and not rank:
                    dropped.append((result.trace_id, outcome.chunk_id))
        for result in scored_again([_reordered(*pair) for pair in block], scorer) if scorer else ():
            after.add(result)
    if not len(before):
        return None
    return RerankerGain(
        traces=len(before),
        failed=failed,
        metrics=tuple(_moved(before.done(), after.done(), scorer)) if scorer else (),
        relevant=relevant,
        n_dropped=len(dropped),
        open=unknown,
        dropped=tuple(dropped[:MOST_DROPPED]),
    )


def _reordered(result: TraceResult, ranks: list[int]) -> TraceResult:
    places = [place for _, place in sorted((rank, place) for place, rank in enumerate(ranks) if rank)]
    chunks, outcomes = (tuple(each[place] for place in places) for each in (result.trace.chunks, result.outcomes))
    return result.replace(trace=result.trace.replace(chunks=chunks), outcomes=outcomes)


def _moved(before: ScoredTraces, after: ScoredTraces, scorer: Scorer) -> Iterator[RerankedMetric]:
    columns = filled_columns(before, scorer), filled_columns(after, scorer)
    for name in scorer.names:
        old, new = (column[name] for column in columns)
        counted = np.flatnonzero(~np.isnan(old.value + new.value))
        if not counted.size:
            continue
        old, new = old.at(counted), new.at(counted)
        clusters = cluster_codes(before.clusters[counted])
        compared = compare_columns(name, old, new, clusters, planning=False)
        yield RerankedMetric(
            metric=name,
            before=compared.baseline_mean,
            after=compared.candidate_mean,
            difference=Figure(
                value=compared.difference, interval=compared.interval, n=compared.n, traces=compared.clusters
            ),
        )
