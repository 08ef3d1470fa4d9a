"""From outcomes to scores: the grades of a block of traces as one table, every metric over it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from judge_eval.errors import DataError, MetricError
from judge_eval.metrics import ClaimTable, GradeTable, Metric, parse_metric
from judge_eval.runs.scoring.claims import claims_of_judged
from judge_eval.schema import ClaimsJudged, Outcome, Pool, Scale, Trace, repeats_of

Scores: TypeAlias = tuple[dict[str, float | None], dict[str, tuple[float, float]]]
"""Scores by metric name, and the bounds of those that have none."""

KINDS_KEPT = 10_000
"""Kinds of traces of which it is kept whether the metrics are defined for them."""


class Scorer:
    """Computes the metrics of a run.

    Args:
        metrics: Names or values of metrics; repeated ones count once.
        scale: The judge's scale, whose threshold says what is relevant.
        by_claims: Whether the judge tells of each chunk which claims of the reference it supports.

    Raises:
        UnknownNameError: There is no such metric.
        MetricError: A metric's parameters do not fit.
    """

    def __init__(self, metrics: Sequence[str | Metric], scale: Scale, *, by_claims: bool = False) -> None:
        parsed = [metric if isinstance(metric, Metric) else parse_metric(metric) for metric in metrics]
        self.metrics: dict[str, Metric] = {str(metric): metric for metric in parsed}
        if not self.metrics:
            raise MetricError("no metric was asked for; name at least one, such as AP@5")
        self.scale, self.by_claims = scale, by_claims
        self._faults: dict[tuple[int, int | None, bool, bool], tuple[str | None, str] | None] = {}
        self._by_pool: dict[tuple[str, bool], bool] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics' names in the order asked for."""
        return tuple(self.metrics)

    def check(self, trace: Trace, by_claims: bool | None = None) -> None:
        """See that the metrics can be computed of what a trace brings, whatever the judge will say.

        Args:
            trace: The trace.
            by_claims: Whether this trace is, or was, judged by claims; as the scorer was told where None.

        Raises:
            DataError: A metric needs what the trace, or its judge, does not bring; the message names both.
        """
        by_claims = self.by_claims if by_claims is None else by_claims
        kind = len(trace.chunks), trace.relevant_total, self._pool(trace) is not None, by_claims
        if kind not in self._faults:
            if len(self._faults) >= KINDS_KEPT:
                self._faults.clear()
            self._faults[kind] = self._fault(*kind)
        if (fault := self._faults[kind]) is not None:
            field, message = fault
            if trace.pool is not None and self._pool(trace) is None:
                message += (
                    f"; the pool's grades go up to {trace.pool.maximum}, the judge's to {self.scale.maximum}"
                )
            raise DataError(message, field=field)

    def _pool(self, trace: Trace) -> Pool | None:
        """Return a trace's pool where it is on the judge's scale."""
        return trace.pool if trace.pool is not None and trace.pool.maximum == self.scale.maximum else None

    def _fault(
        self, chunks: int, total: int | None, pool: bool, by_claims: bool
    ) -> tuple[str | None, str] | None:
        """Name the field that a metric misses in such traces, with what to do; None where none misses any.

        Each metric is asked itself, on a list without a relevant chunk: what it needs is said nowhere else.
        """
        for name, metric in self.metrics.items():
            if metric.spec.claims:
                if by_claims:
                    continue
                error = self._undefined(metric, chunks, total)
                return None, f"{error}; or leave the metric out"
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
            metric.compute(self._table([[0] * chunks], totals=[total], rest=rest, repeats=once))
        except MetricError as error:
            return error
        return None

    def _table(self, rows: Sequence[Sequence[int | None]], **more: Any) -> GradeTable:
        scale = self.scale
        return GradeTable.from_rows(rows, relevant=scale.relevant, maximum=scale.maximum, **more)

    def score(
        self,
        judged: Sequence[tuple[Trace, Sequence[Outcome]]],
        failed: list[MetricError] | None = None,
        claims: Sequence[ClaimsJudged | None] | None = None,
    ) -> list[Scores]:
        """Score traces, one after the other as given.

        A metric that the number of relevant chunks does not serve takes the pool where a trace brings it: the
        verdicts of what was retrieved, and people's grades of the rest.

        Args:
            judged: The traces with their outcomes.
            failed: Takes the errors of metrics that cannot be computed, which then have neither score nor
                bounds; where None, the first such error is raised.
            claims: The claims that each trace was judged by; None where none was judged by claims.

        Raises:
            MetricError: A metric cannot be computed.
        """
        out: list[Scores] = [({}, {}) for _ in judged]
        pools = [self._pool(trace) for trace, _ in judged]
        tables: dict[bool, GradeTable] = {}
        for metric in self.metrics.values():
            try:
                if metric.spec.claims not in tables:
                    kept = claims_of_judged(judged, claims) if metric.spec.claims else None
                    tables[metric.spec.claims] = self._table_of(judged, claims=kept)
                plain = tables[metric.spec.claims]
                pooled = [
                    row
                    for row, ((trace, _), pool) in enumerate(zip(judged, pools, strict=True))
                    if pool is not None
                    and not metric.spec.claims
                    and self._takes_pool(metric, trace.relevant_total is not None)
                ]
                if not pooled:
                    self._compute(metric, plain, out)
                    continue
                self._compute(
                    metric,
                    self._table_of([judged[row] for row in pooled], pooled=True),
                    [out[r] for r in pooled],
                )
                others = [row for row in range(len(judged)) if row not in set(pooled)]
                if others:
                    self._compute(
                        metric, self._table_of([judged[r] for r in others]), [out[r] for r in others]
                    )
            except MetricError as error:
                if failed is None:
                    raise
                failed.append(error)
                for scores, bounds in out:
                    scores[str(metric)] = None
                    bounds.pop(str(metric), None)
        return out

    def _takes_pool(self, metric: Metric, total: bool) -> bool:
        key = str(metric), total
        if key not in self._by_pool:
            known = 0 if total else None
            self._by_pool[key] = self._undefined(metric, 1, known) is not None
        return self._by_pool[key]

    def _table_of(
        self,
        judged: Sequence[tuple[Trace, Sequence[Outcome]]],
        pooled: bool = False,
        claims: ClaimTable | None = None,
    ) -> GradeTable:
        """Make the table of some traces; `pooled` where each brings a pool and it is to be used."""
        rows = [[o.grade if o.kind == "verdict" else None for o in outcomes] for _, outcomes in judged]
        totals = [trace.relevant_total for trace, _ in judged]
        more: dict[str, Any] = {}
        if any(metric.spec.soft for metric in self.metrics.values()):
            verdicts = [[o if o.kind == "verdict" else None for o in outcomes] for _, outcomes in judged]
            more["probable"] = [[o.confidence if o else None for o in row] for row in verdicts]
            more["expected"] = [[o.expected_grade if o else None for o in row] for row in verdicts]
            if self.scale.maximum > 1:
                more["chances"] = [[o.grade_probabilities if o else None for o in row] for row in verdicts]
        if claims is not None or any(("dedup", "text") in each.params for each in self.metrics.values()):
            more["repeats"] = [repeats_of(trace.chunks) for trace, _ in judged]
        if pooled:
            more["rest"] = [_not_retrieved(trace) for trace, _ in judged]
        ids = [trace.id for trace, _ in judged]
        return self._table(rows, totals=totals, ids=ids, claims=claims, **more)

    @staticmethod
    def _compute(metric: Metric, table: GradeTable, out: Sequence[Scores]) -> None:
        """Put a metric's value of each row, or its bounds, where they belong."""
        name = str(metric)
        if not metric.misses(table):
            for (scores, _), value in zip(out, metric.compute(table).tolist(), strict=True):
                scores[name] = None if math.isnan(value) else value
            return
        found = metric.bounds(table)
        for (scores, bounds), low, high in zip(out, found.low.tolist(), found.high.tolist(), strict=True):
            scores[name] = low if low == high else None
            if low < high:
                bounds[name] = (low, high)


def _not_retrieved(trace: Trace) -> list[int]:
    """Return the grades of the pool's chunks that are not in the list."""
    retrieved = {chunk.id for chunk in trace.chunks}
    grades = trace.pool.grades if trace.pool is not None else {}
    return [grade for chunk_id, grade in grades.items() if chunk_id not in retrieved]
