"""From outcomes to scores: the grades of a block of traces as one table, every metric over it."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import DataError, MetricError
from judge_eval.metrics import ClaimTable, GradeTable, Metric, parse_metric
from judge_eval.metrics.metric import try_metric
from judge_eval.metrics.ragged import flatten_numbers
from judge_eval.metrics.words import EvidenceRead
from judge_eval.runs.columns.graded_trace import GradedTrace, abstentions
from judge_eval.runs.folder.judgedclaims import answers_on_claims, verdict_of
from judge_eval.runs.folder.lines import PoolLine
from judge_eval.runs.scoring.evidence import reading_of_judged
from judge_eval.safe_text import listed_names, type_of
from judge_eval.schema import Claim, ClaimsJudged, Outcome, Scale, Trace, TracePool
from judge_eval.spelling import option


def claims_of_judged(
    judged: Sequence[tuple[Trace, Sequence[Outcome]]], claims: Sequence[ClaimsJudged | None] | None
) -> ClaimTable:
    """Make the table of what chunks say of claims."""
    # A chunk without a verdict, or whose verdict says nothing of claims, has only failed cells. If no chunk
    # was judged, the claims are those of the trace, if it has any. A trace with verdicts that was not judged
    # by claims is a `MetricError`.
    rows: list[list[tuple[str | None, ...]]] = []
    vital: list[list[bool] | None] = []
    together: list[list[bool | str | None]] = []
    for place, (trace, outcomes) in enumerate(judged):
        known = None if claims is None else claims[place]
        if known is None and any(outcome.kind == "verdict" for outcome in outcomes):
            raise MetricError(f"trace {trace.id} was not judged by claims; judge it by them, or leave the metric out")
        of: tuple[Claim, ...] | None = trace.claims if known is None else known.claims
        rows.append([tuple(map(verdict_of, answers_on_claims(outcome, of or ()))) for outcome in outcomes])
        vital.append(None if of is None else [claim.vital for claim in of])
        together_of = {} if known is None else known.together
        together.append([together_of.get(claim.id, "unasked") for claim in of or ()])
    ids = [[chunk.id for chunk in trace.chunks] for trace, _ in judged]
    return ClaimTable.from_rows(rows, vital, together, ids)


Scores: TypeAlias = tuple[dict[str, float | None], dict[str, tuple[float, float]]]
"""Scores by metric name, and the bounds of those that have none."""

KINDS_KEPT = 10_000
"""Kinds of traces of which it is kept whether the metrics are defined for them."""


class Scorer:
    """Computes the metrics of a run; repeated ones count once.

    The scale's threshold says what is relevant. `by_claims`: whether the judge says of each chunk which
    claims of the reference it supports. A metric of an installed package that returns a value outside its
    stated limits is a `MetricError`.
    """

    def __init__(self, metrics: Sequence[str | Metric], scale: Scale, *, by_claims: bool = False) -> None:
        if isinstance(metrics, str):
            metrics = listed_names(metrics)
        if isinstance(metrics, Metric) or not isinstance(metrics, Iterable):
            raise MetricError(f"`metrics` must be a list of names such as ['AP@5', 'MRR'], not {type_of(metrics)}")
        parsed = [metric if isinstance(metric, Metric) else parse_metric(metric) for metric in metrics]
        self.metrics: dict[str, Metric] = {
            str(metric): Metric(metric.spec.by_claims, metric.cutoff) if by_claims and metric.spec.by_claims else metric
            for metric in parsed
        }
        if not self.metrics:
            raise MetricError("name at least one metric, such as AP@5")
        self.scale, self.by_claims = scale, by_claims
        for metric in self.metrics.values():
            try_metric(metric, scale.relevant - scale.minimum, scale.maximum - scale.minimum)
        self.evidence = [*{each: None for m in self.metrics.values() if (each := m.spec.evidence) is not None}]
        """What metrics with a cutoff in words ask of: the evidence of claims, or any of relevance."""
        self._reads_abstention = any(metric.spec.reader for metric in self.metrics.values())
        self._faults: dict[tuple[int, int | None, bool, bool, bool], tuple[str | None, str] | None] = {}
        self._by_pool: dict[tuple[str, bool], bool] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics' names in the order asked for."""
        return tuple(self.metrics)

    def check(self, trace: Trace, by_claims: bool | None = None) -> None:
        """Check that a trace has what the metrics need; `by_claims` None takes the scorer's own setting."""
        if trace.answerable is False:
            return
        abstains = self._reads_abstention and bool(abstentions(trace) or not trace.chunks)
        by_claims = self.by_claims if by_claims is None else by_claims
        self._check(len(trace.chunks), trace.relevant_total, trace.pool, by_claims, abstains)

    def check_graded(self, trace: GradedTrace) -> None:
        """Check that a judged trace has what the metrics need."""
        abstains = self._reads_abstention and bool(trace.abstains or not trace.grades)
        self._check(len(trace.grades), trace.total, trace.pool, self.by_claims, abstains)

    def _check(
        self, chunks: int, total: int | None, pool: TracePool | PoolLine | None, by_claims: bool, abstains: bool
    ) -> None:
        kind = chunks, total, self._on_scale(pool) is not None, by_claims, abstains
        if kind not in self._faults:
            if len(self._faults) >= KINDS_KEPT:
                self._faults.clear()
            self._faults[kind] = self._fault(*kind)
        if (fault := self._faults[kind]) is not None:
            field, message = fault
            if pool is not None and self._on_scale(pool) is None:
                lowest = min(pool.grades.values(), default=0) if self.scale.minimum else 0
                message += (
                    f"; the pool's grades go from {lowest} to {pool.maximum}, the judge's from "
                    f"{self.scale.minimum} to {self.scale.maximum}"
                )
                if field == "relevant_total" and self.scale.maximum < 2:
                    message += "; a prompt with grades of that range, such as support/graded, can use the pool"
                elif field == "relevant_total":
                    message += f"; {option('relevant', 2)} says that the pool's grades from 2 up count as relevant"
            raise DataError(message, field=field)

    def _on_scale(self, pool: TracePool | PoolLine | None) -> TracePool | PoolLine | None:
        scale = self.scale
        if pool is None or pool.maximum != scale.maximum:
            return None
        return pool if not scale.minimum or min(pool.grades.values(), default=0) >= scale.minimum else None

    def _fault(
        self, chunks: int, total: int | None, pool: bool, by_claims: bool, abstains: bool
    ) -> tuple[str | None, str] | None:
        """Return the field that a metric misses in such traces, with advice; None if none is missing."""
        # Each metric is computed on a list without a relevant chunk: only the metric itself knows what it needs.
        for name, metric in self.metrics.items():
            if metric.spec.reader and abstains:
                continue
            if metric.spec.claims:
                if by_claims:
                    continue
                error = self._undefined(metric, chunks, total)
                return None, f"{error}; or leave the metric out"
            if metric.spec.evidence is not None:
                continue
            if self._undefined(metric, chunks, total) is None:
                continue
            if pool and self._undefined(metric, chunks, None, rest=[[]]) is None:
                continue
            error = self._undefined(metric, chunks, total or 0)
            if error is None:
                return "relevant_total", (
                    f"{name} needs to know how many relevant chunks exist; "
                    "give the trace `relevant_total`, or leave the metric out"
                )
            served = self._undefined(metric, chunks, None, rest=[[]]) is None
            give = "give the trace a `pool` or the collection's judgments, " if served else ""
            return "pool" if served else None, f"{error}; {give}or leave the metric out"
        return None

    def _undefined(
        self, metric: Metric, chunks: int, total: int | None, rest: list[list[int]] | None = None
    ) -> MetricError | None:
        try:
            once = [[False] * chunks]
            metric.compute(self._table([[self.scale.minimum] * chunks], totals=[total], rest=rest, repeats=once))
        except MetricError as error:
            return error
        return None

    def _table(self, rows: Sequence[Sequence[int | None]], **more: Any) -> GradeTable:
        scale = self.scale
        return GradeTable.on_scale(rows, scale.grades, scale.relevant, **more)

    def score(
        self,
        judged: Sequence[tuple[Trace, Sequence[Outcome]]],
        failed: list[MetricError] | None = None,
        claims: Sequence[ClaimsJudged | None] | None = None,
    ) -> list[Scores]:
        """Score traces, in their order; `claims` are those each was judged by."""
        # A metric that the number of relevant chunks cannot serve uses the pool of a trace: the verdicts of what was
        # retrieved, and people's grades of the rest. `failed` collects the errors of metrics that cannot be computed,
        # which then have neither score nor bounds; if None, the first such error is raised.
        # Questions that nothing answers have neither.
        rows = [row for row, (trace, _) in enumerate(judged) if trace.answerable is not False]
        if len(rows) < len(judged):
            out: list[Scores] = [(dict.fromkeys(self.metrics), {}) for _ in judged]
            kept = None if claims is None else [claims[row] for row in rows]
            for row, scores in zip(rows, self.score([judged[row] for row in rows], failed, kept), strict=True):
                out[row] = scores
            return out
        graded = [GradedTrace.of(trace, outcomes) for trace, outcomes in judged]
        return self.score_graded(graded, failed, judged, claims)

    def score_graded(
        self,
        graded: Sequence[GradedTrace],
        failed: list[MetricError] | None = None,
        judged: Sequence[tuple[Trace, Sequence[Outcome]]] | None = None,
        claims: Sequence[ClaimsJudged | None] | None = None,
    ) -> list[Scores]:
        """Score judged traces; see `score`. A metric of claims, and one in words, needs them as they were `judged`."""
        out: list[Scores] = [({}, {}) for _ in graded]
        plain: dict[bool, GradeTable] = {}
        read = None
        if self.evidence and judged is not None:
            read = reading_of_judged(judged, claims, self.scale, self.evidence)
        for name, metric in self.metrics.items():
            try:
                if metric.spec.claims and True not in plain:
                    known = None if judged is None else claims_of_judged(judged, claims)
                    plain[True] = self._table_of(graded, claims=known, reading=read)
                for rows, table in self._tables(metric, graded, plain, read):
                    self._compute(name, metric, table, [out[row] for row in rows])
            except MetricError as error:
                if failed is None:
                    raise
                failed.append(error)
                for scores, bounds in out:
                    scores[name] = None
                    bounds.pop(name, None)
        return out

    def expected(self, graded: Sequence[GradedTrace], counts: NDArray[np.int64]) -> list[dict[str, float]]:
        """Return by metric the value of each trace, the expected one if failed verdicts leave it open."""
        # A metric of claims, and one that cannot be computed, has none. `counts` says how often each grade
        # stands at each rank of the run, as `rank_counts` returns.
        out: list[dict[str, float]] = [{} for _ in graded]
        plain: dict[bool, GradeTable] = {}
        for name, metric in self.metrics.items():
            with suppress(MetricError):
                grades_alone = not (metric.spec.claims or metric.spec.evidence)
                for rows, table in self._tables(metric, graded, plain) if grades_alone else ():
                    for row, value in zip(rows, metric.expected(table, counts).tolist(), strict=True):
                        if not math.isnan(value):
                            out[row][name] = value
        return out

    def _tables(
        self,
        metric: Metric,
        graded: Sequence[GradedTrace],
        plain: dict[bool, GradeTable],
        reading: EvidenceRead | None = None,
    ) -> Iterator[tuple[list[int], GradeTable]]:
        # Rows whose pool the metric takes are in a table of their own. `plain` keeps the table of all rows,
        # by whether it has claims.
        if metric.spec.reader:
            both = [trace.as_read(self.scale.relevant) for trace in graded]
            read = [trace for trace, _ in both]
            table = self._table_of(read)
            if all(trace.abstains or not trace.grades for trace in read):
                table = replace(
                    table,
                    abstains=flatten_numbers([trace.abstains for trace in read]),
                    abstains_relevant=flatten_numbers([numbers for _, numbers in both]),
                )
            yield list(range(len(read))), table
            return
        pooled = [
            row
            for row, trace in enumerate(graded)
            if not (metric.spec.claims or metric.spec.evidence)
            and self._on_scale(trace.pool) is not None
            and self._takes_pool(metric, trace.total is not None)
        ]
        if not pooled:
            if metric.spec.claims not in plain:
                plain[metric.spec.claims] = self._table_of(graded, reading=reading)
            yield list(range(len(graded))), plain[metric.spec.claims]
            return
        yield pooled, self._table_of([graded[row] for row in pooled], pooled=True)
        others = sorted(set(range(len(graded))) - set(pooled))
        if others:
            yield others, self._table_of([graded[row] for row in others])

    def _takes_pool(self, metric: Metric, total: bool) -> bool:
        key = str(metric), total
        if key not in self._by_pool:
            known = 0 if total else None
            self._by_pool[key] = self._undefined(metric, 1, known) is not None
        return self._by_pool[key]

    def _table_of(
        self,
        graded: Sequence[GradedTrace],
        pooled: bool = False,
        claims: ClaimTable | None = None,
        reading: EvidenceRead | None = None,
    ) -> GradeTable:
        more: dict[str, Any] = {}
        if any(metric.spec.probabilities for metric in self.metrics.values()):
            names = ("probable", "expected", *(() if self.scale.binary else ("chances",)))
            for name in names:
                more[name] = [getattr(t, name) or [None] * len(t.grades) for t in graded]
        if claims is not None or any(("dedup", "text") in each.params for each in self.metrics.values()):
            more["repeats"] = [trace.repeats for trace in graded]
        if pooled:
            more["rest"] = [trace.rest for trace in graded]
        totals, ids = [trace.total for trace in graded], [trace.id for trace in graded]
        table = self._table([t.grades for t in graded], totals=totals, ids=ids, claims=claims, **more)
        return table if reading is None else replace(table, reading=reading)

    @staticmethod
    def _compute(name: str, metric: Metric, table: GradeTable, out: Sequence[Scores]) -> None:
        if not metric.misses(table):
            for (scores, _), value in zip(out, metric.compute(table).tolist(), strict=True):
                scores[name] = None if math.isnan(value) else value
            return
        ends = metric.bounds(table)
        for (scores, bounds), low, high in zip(out, ends.low.tolist(), ends.high.tolist(), strict=True):
            scores[name] = low if low == high else None
            if low < high and math.isfinite(low) and math.isfinite(high):  # no file holds an infinite one
                bounds[name] = (low, high)
