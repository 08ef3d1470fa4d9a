"""Other metrics, or another threshold, over the verdicts of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from judge_eval.errors import DataError, MetricError
from judge_eval.metrics import Metric
from judge_eval.runs.folder.index import Index
from judge_eval.runs.folder.records import Intervals, TraceResult
from judge_eval.runs.folder.run import AnyRun, Run
from judge_eval.runs.scoring.aggregate import aggregate_all
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.schema import BINARY, NoVerdict, Outcome, Scale

T = TypeVar("T")


def scale_of(run: Run) -> Scale:
    """Return the scale a run was judged on."""
    scale = run.manifest.judge.get("scale")
    return Scale.parse(scale) if scale is not None else BINARY


def rescore(
    run: AnyRun,
    metrics: Sequence[str | Metric],
    relevant: int | None = None,
    *,
    intervals: Intervals | None = None,
) -> AnyRun:
    """Compute metrics over the verdicts of a run, without a call.

    Args:
        run: A run, in a folder or in memory; it is not changed.
        metrics: Names or values of metrics.
        relevant: The least grade that counts as relevant, in place of the run's threshold.
        intervals: How intervals are made; as in the run where None.

    Returns:
        The run with these metrics, its results computed as they are read.

    Raises:
        UnknownNameError: There is no such metric.
        DataError: A metric needs what a trace does not have; the message names the trace.
    """
    scale = scale_of(run)
    if relevant is not None:
        scale = Scale.parse({**scale.model_dump(), "relevant": relevant})
    scorer = Scorer(metrics, scale)
    required = run.manifest.judge.get("evidence") == "required"
    results = _Rescored(run.results, scorer, scale.relevant != scale_of(run).relevant, required)
    chosen = intervals or run.manifest.intervals
    index = Index(scorer.names, chosen.cluster)
    bare, traces, whys, beyond = 0, 0, Counter[str](), list[str]()
    for result in results:
        index.add(result, 0, 0)
        bare += sum(o.kind == "verdict" and o.unsupported for o in result.outcomes)
        whys.update(o.why for o in result.outcomes if o.kind == "no_verdict")
        traces += bool(result.failed)
        if result.beyond_total:
            beyond.append(result.trace_id)
    aggregates = aggregate_all(index, scorer.metrics, chosen)
    judge = {**run.manifest.judge, "scale": scale.model_dump()}
    doubts = {"unsupported": bare, "beyond_total": len(beyond), "beyond": tuple(beyond[:5])}
    tally = run.manifest.tally.model_copy(update=doubts)
    if more := whys.total() - tally.failed_verdicts:  # verdicts that the new threshold wants evidence of
        counts = {"failed_verdicts": whys.total(), "failed_traces": traces, "failures": dict(whys)}
        tally = tally.model_copy(update={"verdicts": tally.verdicts - more, **counts})
    update = {"metrics": scorer.names, "aggregates": aggregates, "judge": judge, "intervals": chosen}
    update |= {"tally": tally}
    return run.but(run.manifest.model_copy(update=update), results)


def scored_again(results: Sequence[TraceResult], scorer: Scorer) -> list[TraceResult]:
    """Return results with the scores of these metrics in the place of their own.

    Raises:
        DataError: A metric needs what a trace does not have; the message names the trace.
    """
    for result in results:
        try:
            scorer.check(result.trace)
        except DataError as error:
            where = f"trace {result.trace_id!r}"
            raise DataError(error.message, file=where, field=error.field) from None
    scored = scorer.score([(result.trace, result.outcomes) for result in results])
    return [
        result.model_copy(update={"scores": scores, "bounds": bounds})
        for result, (scores, bounds) in zip(results, scored, strict=True)
    ]


class _Rescored(Sequence[TraceResult]):
    """Results with other scores, computed as they are read."""

    def __init__(self, results: Sequence[TraceResult], scorer: Scorer, moved: bool, required: bool) -> None:
        self._results, self._scorer = results, scorer
        self._moved, self._required = moved, required

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, index: int | slice) -> TraceResult | list[TraceResult]:  # type: ignore[override]
        if isinstance(index, slice):
            return self._score(self._results[index])
        return self._score([self._results[index]])[0]

    def __iter__(self) -> Iterator[TraceResult]:
        for block in blocks(self._results, 256):
            yield from self._score(block)

    def _score(self, results: Sequence[TraceResult]) -> list[TraceResult]:
        rows = [tuple(map(self._decide, result.outcomes)) for result in results]
        decided = [
            result.model_copy(update={"outcomes": row}) if self._moved else result
            for result, row in zip(results, rows, strict=True)
        ]
        return scored_again(decided, self._scorer)

    def _decide(self, outcome: Outcome) -> Outcome:
        """Apply the threshold; the probability of reaching another one is not known."""
        if outcome.kind == "no_verdict" or not self._moved:
            return outcome
        relevant = outcome.grade >= self._scorer.scale.relevant
        if relevant and self._required and not outcome.evidence_found:
            detail = "relevant under this threshold, but no quote of it was found in the chunk"
            return NoVerdict(chunk_id=outcome.chunk_id, why="unsupported", detail=detail)
        return outcome.model_copy(update={"relevant": relevant, "confidence": None})


def blocks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cut an iterable into lists of at most `size` items.

    Raises:
        MetricError: The size is below 1.
    """
    if size < 1:
        raise MetricError(f"a block of {size} items")
    rest = iter(items)
    while block := list(islice(rest, size)):
        yield block
