"""Other metrics, another threshold or calibrated probabilities over the verdicts of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from pydantic import JsonValue

from judge_eval.errors import ConfigError, DataError, MetricError
from judge_eval.metrics import Metric
from judge_eval.runs.folder.index import Index
from judge_eval.runs.folder.records import Intervals, TraceResult
from judge_eval.runs.folder.run import AnyRun, Run
from judge_eval.runs.scoring.aggregate import aggregate_all
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.schema import BINARY, NoVerdict, Outcome, Scale, Stage

if TYPE_CHECKING:
    from judge_eval.runs.scoring.calibrating import JudgeCalibration
    from judge_eval.stats.probability_maps import ProbabilityMap

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
    calibration: JudgeCalibration | None = None,
) -> AnyRun:
    """Compute metrics over the verdicts of a run, without a call.

    Args:
        run: A run, in a folder or in memory; it is not changed.
        metrics: Names or values of metrics.
        relevant: The least grade that counts as relevant, in place of the run's threshold.
        intervals: How intervals are made; as in the run where None.
        calibration: What labels taught of this very judge: its threshold takes the place of the run's, its
            map turns the judge's probabilities into calibrated ones before any metric sees them. On a scale
            of more than two grades expected grades stay the judge's own.

    Returns:
        The run with these metrics, its results computed as they are read.

    Raises:
        UnknownNameError: There is no such metric.
        DataError: A metric needs what a trace does not have; the message names the trace. Or the calibration
            was made for another model or prompt, or has a map and no verdict a probability.
        ConfigError: Both a threshold and a calibration with another one are given.
    """
    scale = scale_of(run)
    mapping = None
    if calibration is not None:
        calibration.check(run.manifest)
        relevant = _agreed(calibration, relevant, scale.relevant)
        mapping = None if calibration.probabilities is None else calibration.probabilities.map
    if relevant is not None:
        scale = Scale.parse({**scale.model_dump(), "relevant": relevant})
    scorer = Scorer(metrics, scale)
    required = _wants_evidence(run.manifest.judge)
    results = _Rescored(run.results, scorer, scale.relevant != scale_of(run).relevant, required, mapping)
    chosen = intervals or run.manifest.intervals
    index = Index(scorer.names, chosen.cluster)
    bare, traces, whys, beyond = 0, 0, Counter[str](), list[str]()
    likely, answered = False, set[str]()
    stages = Counter[Stage]()
    for result in results:
        index.add(result, 0, 0)
        bare += result.unsupported(run.manifest.imported)
        whys.update(o.why for o in result.outcomes if o.kind == "no_verdict")
        traces += bool(result.failed)
        stages.update(result.stages)
        if result.beyond_total:
            beyond.append(result.trace_id)
        likely = likely or any(o.kind == "verdict" and o.confidence is not None for o in result.outcomes)
        answered |= {call.model for call in result.calls if call.model}
    if calibration is not None:
        calibration.check_answers(answered)
    if mapping is not None and not likely:
        raise DataError(
            f"no verdict of run {run.name} has a probability to calibrate; judge with --confidence, "
            "where the server tells them"
        )
    aggregates = aggregate_all(index, scorer.metrics, chosen)
    judge = {**run.manifest.judge, "scale": scale.model_dump()}
    if calibration is not None:
        judge["calibration"] = calibration.in_manifest()
    doubts: dict[str, object] = {"stages": dict(sorted(stages.items())), "unsupported": bare}
    doubts |= {"beyond_total": len(beyond), "beyond": tuple(beyond[:5])}
    tally = run.manifest.tally.model_copy(update=doubts)
    if more := whys.total() - tally.failed_verdicts:  # verdicts that the new threshold wants evidence of
        counts = {"failed_verdicts": whys.total(), "failed_traces": traces, "failures": dict(whys)}
        tally = tally.model_copy(update={"verdicts": tally.verdicts - more, **counts})
    update = {"metrics": scorer.names, "aggregates": aggregates, "judge": judge, "intervals": chosen}
    update |= {"tally": tally}
    return run.but(run.manifest.model_copy(update=update), results)


def _wants_evidence(judge: Mapping[str, JsonValue]) -> bool:
    """Tell whether relevant verdicts need evidence: those of a cascade as those of its strong judge."""
    strong = judge.get("strong") if judge.get("mode") == "cascade" else None
    return (strong if isinstance(strong, dict) else judge).get("evidence") == "required"


def scored_again(results: Sequence[TraceResult], scorer: Scorer) -> list[TraceResult]:
    """Return results with the scores of these metrics in the place of their own.

    Raises:
        DataError: A metric needs what a trace does not have; the message names the trace.
    """
    for result in results:
        try:
            scorer.check(result.trace, judged_by_claims(result))
        except DataError as error:
            where = f"trace {result.trace_id!r}"
            raise DataError(error.message, file=where, field=error.field) from None
    scored = scorer.score(
        [(result.trace, result.outcomes) for result in results], claims=[result.claims for result in results]
    )
    return [
        result.model_copy(update={"scores": scores, "bounds": bounds})
        for result, (scores, bounds) in zip(results, scored, strict=True)
    ]


def judged_by_claims(result: TraceResult) -> bool:
    """Tell whether a trace was judged by claims, or has no verdict that could show it was not."""
    return result.claims is not None or all(outcome.kind == "no_verdict" for outcome in result.outcomes)


class _Rescored(Sequence[TraceResult]):
    """Results with other scores, computed as they are read."""

    def __init__(
        self,
        results: Sequence[TraceResult],
        scorer: Scorer,
        moved: bool,
        required: bool,
        mapping: ProbabilityMap | None,
    ) -> None:
        self._results, self._scorer = results, scorer
        self._moved, self._required, self._mapping = moved, required, mapping

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
        if not self._moved and self._mapping is None:
            return scored_again(results, self._scorer)
        mapped = iter(self._mapped(results))
        decided = [
            result.model_copy(
                update={"outcomes": tuple(self._decide(outcome, mapped) for outcome in result.outcomes)}
            )
            for result in results
        ]
        return scored_again(decided, self._scorer)

    def _mapped(self, results: Sequence[TraceResult]) -> list[float]:
        """Return the calibrated probabilities of all verdicts that have one, in order."""
        told = [
            outcome.confidence
            for result in results
            for outcome in result.outcomes
            if outcome.kind == "verdict" and outcome.confidence is not None
        ]
        values: list[float] = [] if self._mapping is None else self._mapping.apply(told).tolist()
        return values

    def _decide(self, outcome: Outcome, mapped: Iterator[float]) -> Outcome:
        """Apply calibration and threshold; uncalibrated, the probability of reaching another is not known."""
        if outcome.kind == "no_verdict":
            return outcome
        update: dict[str, object] = {}
        if self._mapping is not None and outcome.confidence is not None:
            update["confidence"] = sure = next(mapped)
            if self._scorer.scale.maximum == 1 and outcome.expected_grade is not None:
                update["expected_grade"] = sure
        if not self._moved:
            return outcome.model_copy(update=update) if update else outcome
        relevant = outcome.grade >= self._scorer.scale.relevant
        if relevant and self._required and not outcome.evidence_found:
            detail = "relevant under this threshold, but no quote of it was found in the chunk"
            return NoVerdict(chunk_id=outcome.chunk_id, why="unsupported", detail=detail)
        return outcome.model_copy(update={"relevant": relevant, "confidence": None, **update})


def _agreed(calibration: JudgeCalibration, relevant: int | None, current: int) -> int | None:
    """Return the threshold that a calibration and its user agree on.

    Raises:
        ConfigError: They do not.
    """
    learnt = calibration.threshold.grade if calibration.threshold is not None else current
    if relevant is not None and relevant != learnt:
        raise ConfigError(
            f"the calibration holds for relevant from {learnt}, not from {relevant}; give one of the two"
        )
    return learnt


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
