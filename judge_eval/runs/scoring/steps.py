"""What a reranker made of the chunks that it was given, by one judgment of both lists."""

from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from judge_eval.metrics import Metric, parse_metric
from judge_eval.metrics.ragged import offsets_of
from judge_eval.record import Record
from judge_eval.runs.folder.graded import GradedTrace
from judge_eval.runs.folder.journal import cluster_of
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import FilledColumn, expected_scores, fill_clusters, limits_of
from judge_eval.runs.scoring.figure import Figure
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.runs.scoring.scorer import Scorer, Scores
from judge_eval.schema import Outcome, Trace
from judge_eval.stats import compare_paired
from judge_eval.stats.estimate import ends_of

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


class _Lists:
    """Scores of one list of each trace, gathered trace by trace."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.scores: list[Scores] = []
        self.open: dict[int, GradedTrace] = {}
        self._grades: list[int] = []
        self._sizes: list[int] = []

    def add(self, judged: list[tuple[Trace, list[Outcome]]]) -> None:
        for place, (trace, outcomes) in enumerate(judged, len(self.scores)):
            grades = [o.grade if o.kind == "verdict" else self.scorer.scale.minimum - 1 for o in outcomes]
            if any(outcome.kind != "verdict" for outcome in outcomes):
                self.open[place] = GradedTrace.of(trace, outcomes)
            self._grades += grades
            self._sizes.append(len(grades))
        self.scores += self.scorer.score(judged)

    def expected(self) -> Mapping[int, dict[str, float]]:
        least = self.scorer.scale.minimum  # below 0 stands for a failed verdict
        grades = np.array(self._grades, dtype=np.int64)
        coded: NDArray[np.int8] = np.where(grades < least, -1, grades).astype(np.int8)
        return expected_scores(self.scorer, self.open, coded, offsets_of(np.array(self._sizes, dtype=np.int64)))

    def column(self, name: str, expected: Mapping[int, dict[str, float]]) -> FilledColumn:
        values = [np.nan if scores.get(name) is None else scores[name] for scores, _ in self.scores]
        bounds = {row: ends[name] for row, (_, ends) in enumerate(self.scores) if name in ends}
        means = {row: scores[name] for row, scores in expected.items() if name in scores}
        return FilledColumn.of(np.array(values, dtype=np.float64), bounds, means, self.open)


def _compared(metric: Metric) -> bool:
    """Tell whether a metric can be computed for both lists from grades alone."""
    beside = metric.needs_total or metric.spec.claims or metric.spec.soft or metric.params
    return metric.family == "rag" and not beside and metric.name != "UDCG"


def reranker_gain(run: Run) -> RerankerGain | None:
    """Compare the retrieved lists with the reranked ones, without a call; None if no trace has both.

    A failed verdict counts as in a comparison of two runs: with its expected value, and the interval covers all others.
    """
    if not any(ranks_after(result) for result in islice(run.results, FIRST)):
        return None
    scale, cluster = scale_of(run), run.manifest.intervals.cluster
    names = [name for name in run.manifest.metrics if _compared(parse_metric(name))]
    before, after = (None if not names else _Lists(Scorer(names, scale)) for _ in range(2))
    clusters: list[str | None] = []
    dropped: list[tuple[str, str]] = []
    relevant = unknown = failed = 0
    for block in _blocks(run):
        for result, ranks in block:
            clusters.append(cluster_of(result.trace, cluster))
            failed += any(outcome.kind != "verdict" for outcome in result.outcomes)
            for rank, outcome in zip(ranks, result.outcomes, strict=True):
                found = outcome.kind == "verdict" and outcome.grade >= scale.relevant
                relevant += found
                unknown += not rank and outcome.kind != "verdict"
                if found and not rank:
                    dropped.append((result.trace_id, outcome.chunk_id))
        if before is not None and after is not None:
            before.add([(result.trace, list(result.outcomes)) for result, _ in block])
            after.add([_reordered(result, ranks) for result, ranks in block])
    if not clusters:
        return None
    return RerankerGain(
        traces=len(clusters),
        failed=failed,
        metrics=() if before is None or after is None else tuple(_moved(before, after, clusters)),
        relevant=relevant,
        n_dropped=len(dropped),
        open=unknown,
        dropped=tuple(dropped[:MOST_DROPPED]),
    )


def _blocks(run: Run) -> Iterator[list[tuple[TraceResult, list[int]]]]:
    both = ((result, ranks) for result in run.results if (ranks := ranks_after(result)) is not None)
    while block := list(islice(both, _BLOCK)):
        yield block


def _reordered(result: TraceResult, ranks: list[int]) -> tuple[Trace, list[Outcome]]:
    places = sorted((rank, place) for place, rank in enumerate(ranks) if rank)
    chunks = tuple(result.trace.chunks[place] for _, place in places)
    return result.trace.but(chunks=chunks), [result.outcomes[place] for _, place in places]


def _moved(before: _Lists, after: _Lists, clusters: list[str | None]) -> Iterator[RerankedMetric]:
    means = before.expected(), after.expected()
    for name in before.scorer.metrics:
        old, new = (lists.column(name, mean) for lists, mean in zip((before, after), means, strict=True))
        counted = np.flatnonzero(~np.isnan(old.value + new.value))
        if not counted.size:
            continue
        old, new = old.at(counted), new.at(counted)
        compared = compare_paired(
            old.value,
            new.value,
            ends=((old.low, old.high), (new.low, new.high)),
            clusters=fill_clusters([clusters[row] for row in counted.tolist()]),
            limits=limits_of(name, old.low, old.high, new.low, new.high),
            permutations=1,
            planning=False,
        )
        yield RerankedMetric(
            metric=name,
            before=compared.baseline_mean,
            after=compared.candidate_mean,
            difference=Figure(
                value=compared.difference, interval=ends_of(compared.interval), n=compared.n, traces=compared.clusters
            ),
        )
