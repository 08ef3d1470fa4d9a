"""The verdicts of a run scored again: other metrics, another threshold, probabilities, what failures leave open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from judge_eval.confidence import WITH_CONFIDENCE
from judge_eval.digest import digest_parts, with_history
from judge_eval.errors import ConfigError, DataError, MetricError
from judge_eval.metrics import Metric
from judge_eval.registry import stages_of
from judge_eval.runs.columns.graded_trace import ABSTAINS
from judge_eval.runs.columns.verdict_table import ScoreColumns, keep_table, verdict_table
from judge_eval.runs.folder.records import Intervals, TraceResult
from judge_eval.runs.folder.run import AnyRun, ChangedResults, Run
from judge_eval.runs.folder.run import scale_of as scale_of
from judge_eval.runs.scoring.aggregate import figures
from judge_eval.runs.scoring.counting import OutcomeCounts
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.schema import Chunk, NoVerdict, Outcome, Scale, Trace, Verdict
from judge_eval.spelling import option

if TYPE_CHECKING:
    from judge_eval.runs.scoring.calibrating import JudgeCalibration
    from judge_eval.stats.probabilities import ProbabilityMap


def rescore(
    run: AnyRun,
    metrics: Sequence[str | Metric],
    relevant: int | None = None,
    *,
    intervals: Intervals | None = None,
    calibration: JudgeCalibration | None = None,
    reader: Run | None = None,
) -> AnyRun:
    """Compute metrics over the verdicts of a run, without a call.

    Args:
        run: A run, in a folder or in memory; it is not changed.
        metrics: Names or values of metrics.
        relevant: The least grade that counts as relevant, in place of the run's threshold. The probability of
            being relevant is then that of all grades from it on.
        intervals: How intervals are made; as in the run where None.
        calibration: What labels taught of this very judge: its threshold takes the place of the run's, its
            map turns the judge's probabilities into calibrated ones before any metric sees them. On a scale
            of more than two grades expected grades stay the judge's own.
        reader: A run that asked a reader by the prompt `reader/binary`, with token probabilities: `UDCG` takes
            from it with which probability the reader abstains, by question and chunk.

    Returns:
        The run with these metrics, its results computed as they are read.

    Raises:
        UnknownNameError: There is no such metric.
        DataError: A metric needs what a trace does not have; the message names the trace. Or the calibration
            was made for another model or prompt, or has a map and no verdict a probability.
        MetricError: A metric is over probabilities, and a verdict has none for another threshold.
        ConfigError: Both a threshold and a calibration with another one are given.
    """
    scale = scale_of(run)
    mapping = least = None
    if calibration is not None:
        calibration.check(run.manifest)
        learnt = calibration.threshold.grade if calibration.threshold is not None else scale.relevant
        if relevant not in (None, learnt):
            fault = f"the calibration holds for relevant from {learnt}, not from {relevant}; give one of the two"
            raise ConfigError(fault)
        relevant = learnt
        mapping = calibration.probabilities
        least = None if calibration.threshold is None else calibration.threshold.probability
    if relevant is not None:
        scale = scale.relevant_from(relevant)
    scorer = Scorer(metrics, scale)
    if any(metric.spec.by_claims for metric in scorer.metrics.values()) and any(r.claims for r in run.results):
        scorer = Scorer(metrics, scale, by_claims=True)
    chances = None if reader is None else chances_to_abstain(reader)
    threshold = Threshold.moved(run, scorer, least)
    results = ChangedResults(run.results, lambda plain: _rescored(plain, scorer, threshold, mapping, chances))
    chosen = intervals or run.manifest.intervals
    table = verdict_table(run, (), chosen.cluster) if threshold is None and mapping is None else None
    columns = ScoreColumns(scorer.names, chosen.cluster)
    counts = OutcomeCounts(run.manifest.imported)
    likely = False
    for result in results:
        columns.add(result)
        counts.add(result)
        likely = likely or any(o.kind == "verdict" and o.confidence is not None for o in result.outcomes)
    if calibration is not None:
        calibration.check_answers(counts.served)
    if (mapping is not None or least is not None) and not likely:
        raise DataError(
            f"no verdict of run {run.name} has a probability to calibrate; judge with {WITH_CONFIDENCE}, "
            "if the server returns token probabilities"
        )
    judge = {**run.manifest.judge, "scale": scale.model_dump()}
    if calibration is not None:
        judge["calibration"] = calibration.in_manifest()
    if reader is not None:
        judge["reader"] = {"run": str(reader.manifest.id), "backend": reader.manifest.backend}
    tally = run.manifest.tally.replace(**counts.tally())
    scored = columns.done()
    computed = figures(scored, scorer, chosen)
    if table is not None:
        keep_table(results, chosen.cluster, replace(table, metrics=scorer.names, scores=scored.scores))
    return run.replace(
        run.manifest.replace(metrics=scorer.names, judge=judge, intervals=chosen, tally=tally, **computed), results
    )


@dataclass(frozen=True, slots=True)
class Threshold:
    """What makes verdicts relevant in place of the least grade that they were given for."""

    scale: Scale
    """With the threshold that takes the other's place."""
    before: int
    """The least relevant grade before."""
    required: bool
    """Whether relevant verdicts need evidence; of several stages the last judge decides."""
    metrics: tuple[str, ...]
    """Those over the probability of being relevant."""
    least: float | None
    """The least probability that makes a verdict of two grades relevant, whatever its grade; None: grades decide."""

    @classmethod
    def moved(cls, run: Run, scorer: Scorer, least: float | None = None) -> Threshold | None:
        """Return the threshold of a scorer, or of probabilities; None if it is the run's."""
        before, scale = scale_of(run).relevant, scorer.scale
        if before == scale.relevant and least is None:
            return None
        deciding = [run.manifest.judge, *stages_of(run.manifest.judge).values()][-1]
        specs = {name: metric.spec for name, metric in scorer.metrics.items()}
        metrics = tuple(name for name, spec in specs.items() if spec.probabilities and not spec.any_threshold)
        return cls(scale, before, deciding.get("evidence") == "required", metrics, least)

    def decide(self, verdict: Verdict, calibrated: float | None = None) -> Outcome:
        """Apply the threshold to a verdict, by the calibrated probability of relevance if there is one."""
        least = self.scale.relevant
        if self.least is None:
            relevant = verdict.grade >= least
        elif verdict.confidence is None:
            return verdict
        else:
            relevant = verdict.confidence >= self.least
        if relevant and self.required and not verdict.evidence_found:
            detail = "relevant under this threshold, but no quote of it was found in the chunk"
            return NoVerdict(chunk_id=verdict.chunk_id, why="unsupported", detail=detail)
        if self.least is not None:
            return verdict.replace(grade=int(relevant), relevant=relevant)
        sure = calibrated
        if sure is None and verdict.grade_probabilities is not None:
            sure = min(1.0, sum(verdict.grade_probabilities[least - self.scale.minimum :]))
        if sure is None and verdict.confidence is not None and self.metrics:
            names = ", ".join(self.metrics)
            raise MetricError(
                f"{names}: another threshold needs the probability of each grade, and the verdict of chunk "
                f"{verdict.chunk_id!r} has only that of the grades from {self.before} on; leave {names} "
                f"out, or judge again with {option('relevant', least)}"
            )
        return verdict.replace(relevant=relevant, confidence=sure)


def scored_again(results: Sequence[TraceResult], scorer: Scorer) -> list[TraceResult]:
    """Return results with the scores of these metrics instead of their own."""
    for result in results:
        try:  # a trace without a verdict may have been judged by claims too
            scorer.check(result.trace, result.claims is not None or result.failed == len(result.outcomes))
        except DataError as error:
            raise error.at(file=f"trace {result.trace_id!r}") from None
    scored = scorer.score(
        [(result.trace, result.outcomes) for result in results], claims=[result.claims for result in results]
    )
    return [
        result.replace(scores=scores, bounds=bounds) for result, (scores, bounds) in zip(results, scored, strict=True)
    ]


def _rescored(
    results: Sequence[TraceResult],
    scorer: Scorer,
    threshold: Threshold | None,
    mapping: ProbabilityMap | None,
    chances: Mapping[bytes, float] | None,
) -> list[TraceResult]:
    """Return results with other scores; the verdicts are others under another threshold, or with a mapping."""
    if chances is not None:
        results = [result.replace(trace=read_by(result.trace, chances)) for result in results]
    if threshold is None and mapping is None:
        return scored_again(results, scorer)
    known = [o.confidence for r in results for o in r.outcomes if o.kind == "verdict" and o.confidence is not None]
    mapped: Iterator[float] | None = None if mapping is None else iter(mapping.apply(known).tolist())

    def decide(outcome: Outcome) -> Outcome:
        if outcome.kind == "no_verdict":
            return outcome
        sure = None
        if mapped is not None and outcome.confidence is not None:
            sure = next(mapped)
            update: dict[str, object] = {"confidence": sure}
            if scorer.scale.binary and outcome.expected_grade is not None:
                update["expected_grade"] = sure
            outcome = outcome.replace(**update)
        return outcome if threshold is None else threshold.decide(outcome, sure)

    # The parts are of the scale, or the probabilities, that they were judged by.
    decided = [result.replace(outcomes=tuple(map(decide, result.outcomes)), parts={}) for result in results]
    return scored_again(decided, scorer)


def chances_to_abstain(reader: Run) -> dict[bytes, float]:
    """Return 1 - the probability that the reader answers, by question and chunk.

    Raises:
        DataError: The run asked something else, or no verdict has a probability.
    """
    prompt = reader.manifest.judge.get("prompt")
    name = str(prompt.get("id")) if isinstance(prompt, dict) else "no prompt"
    if not name.startswith("reader/"):
        raise DataError(f"run {reader.name} asked by {name}; a reader is asked by reader/binary")
    chances = {
        _key(result.trace, chunk): 1 - outcome.confidence
        for result in reader.results
        for chunk, outcome in zip(result.trace.chunks, result.outcomes, strict=True)
        if outcome.kind == "verdict" and outcome.confidence is not None
    }
    if not chances:
        raise DataError(f"no verdict of run {reader.name} has a probability; ask the reader with {WITH_CONFIDENCE}")
    return chances


def read_by(trace: Trace, chances: Mapping[bytes, float]) -> Trace:
    """Return the trace with these probabilities in its chunks' metadata, None where the reader gave none."""
    chunks = (
        chunk.replace(metadata={**chunk.metadata, ABSTAINS: chances.get(_key(trace, chunk))}) for chunk in trace.chunks
    )
    return trace.replace(chunks=tuple(chunks))


def _key(trace: Trace, chunk: Chunk) -> bytes:
    return with_history(digest_parts([trace.query, chunk.title or "", chunk.text]), trace.history)
