"""From outcomes to scores: the grades of a block of traces as one table, every metric over it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from judge_eval.errors import DataError, MetricError
from judge_eval.metrics import GradeTable, Metric, parse_metric
from judge_eval.schema import Outcome, Scale, Trace

Scores: TypeAlias = tuple[dict[str, float | None], dict[str, tuple[float, float]]]
"""Scores by metric name, and the bounds of those that have none."""

KINDS_KEPT = 10_000
"""Kinds of traces of which it is kept whether the metrics are defined for them."""


class Scorer:
    """Computes the metrics of a run.

    Args:
        metrics: Names or values of metrics; repeated ones count once.
        scale: The judge's scale, whose threshold says what is relevant.

    Raises:
        UnknownNameError: There is no such metric.
        MetricError: A metric's parameters do not fit.
    """

    def __init__(self, metrics: Sequence[str | Metric], scale: Scale) -> None:
        parsed = [metric if isinstance(metric, Metric) else parse_metric(metric) for metric in metrics]
        self.metrics: dict[str, Metric] = {str(metric): metric for metric in parsed}
        if not self.metrics:
            raise MetricError("no metric was asked for; name at least one, such as AP@5")
        self.scale = scale
        self._faults: dict[tuple[int, int | None], tuple[str | None, str] | None] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics' names in the order asked for."""
        return tuple(self.metrics)

    def check(self, trace: Trace) -> None:
        """See that the metrics can be computed of what a trace brings, whatever the judge will say.

        Raises:
            DataError: A metric needs what the trace does not bring; the message names both.
        """
        kind = len(trace.chunks), trace.relevant_total
        if kind not in self._faults:
            if len(self._faults) >= KINDS_KEPT:
                self._faults.clear()
            self._faults[kind] = self._fault(*kind)
        if (fault := self._faults[kind]) is not None:
            raise DataError(fault[1], field=fault[0])

    def _fault(self, chunks: int, total: int | None) -> tuple[str | None, str] | None:
        """Name the field that a metric misses in such traces, with what to do; None where none misses any.

        Each metric is asked itself, on a list without a relevant chunk: what it needs is said nowhere else.
        """
        for name, metric in self.metrics.items():
            if self._undefined(metric, chunks, total) is None:
                continue
            error = self._undefined(metric, chunks, total or 0)
            if error is None:
                return "relevant_total", (
                    f"{name} needs to know how many relevant chunks exist; "
                    "give the trace `relevant_total`, or leave the metric out"
                )
            return None, f"{error}; or leave the metric out"
        return None

    def _undefined(self, metric: Metric, chunks: int, total: int | None) -> MetricError | None:
        try:
            metric.compute(self._table([[0] * chunks], totals=[total]))
        except MetricError as error:
            return error
        return None

    def _table(self, rows: Sequence[Sequence[int | None]], **more: Any) -> GradeTable:
        scale = self.scale
        return GradeTable.from_rows(rows, relevant=scale.relevant, maximum=scale.maximum, **more)

    def score(
        self, judged: Sequence[tuple[Trace, Sequence[Outcome]]], failed: list[MetricError] | None = None
    ) -> list[Scores]:
        """Score traces, one after the other as given.

        Args:
            judged: The traces with their outcomes.
            failed: Takes the errors of metrics that cannot be computed, which then have neither score nor
                bounds; where None, the first such error is raised.

        Raises:
            MetricError: A metric cannot be computed.
        """
        rows = [[o.grade if o.kind == "verdict" else None for o in outcomes] for _, outcomes in judged]
        totals = [trace.relevant_total for trace, _ in judged]
        probable = expected = None
        if any(metric.spec.soft for metric in self.metrics.values()):
            verdicts = [[o if o.kind == "verdict" else None for o in outcomes] for _, outcomes in judged]
            probable = [[o.confidence if o else None for o in row] for row in verdicts]
            expected = [[o.expected_grade if o else None for o in row] for row in verdicts]
        ids = [trace.id for trace, _ in judged]
        table = self._table(rows, totals=totals, ids=ids, probable=probable, expected=expected)
        out: list[Scores] = [({}, {}) for _ in judged]
        for name, metric in self.metrics.items():
            try:
                self._compute(metric, table, out)
            except MetricError as error:
                if failed is None:
                    raise
                failed.append(error)
                for scores, bounds in out:
                    scores[name] = None
                    bounds.pop(name, None)
        return out

    @staticmethod
    def _compute(metric: Metric, table: GradeTable, out: Sequence[Scores]) -> None:
        """Put a metric's value of each row, or its bounds, where they belong."""
        name, values = str(metric), metric.compute(table).tolist()
        for (scores, _), value in zip(out, values, strict=True):
            scores[name] = None if math.isnan(value) else value
        if table.has_missing:
            lows, highs = metric.compute(table, missing="bounds")
            for (scores, bounds), low, high in zip(out, lows.tolist(), highs.tolist(), strict=True):
                if scores[name] is None:
                    bounds[name] = (low, high)
