"""From outcomes to scores: the grades of a block of traces as one table, every metric over it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from judge_eval.errors import DataError, MetricError
from judge_eval.metrics import GradeTable, Metric, parse_metric
from judge_eval.schema import Outcome, Scale, Trace

Scores: TypeAlias = tuple[dict[str, float | None], dict[str, tuple[float, float]]]
"""Scores by metric name, and the bounds of those that have none."""


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

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics' names in the order asked for."""
        return tuple(self.metrics)

    def check(self, trace: Trace) -> None:
        """See that a trace brings what the metrics need.

        Raises:
            DataError: A metric needs `relevant_total` and the trace has none.
        """
        if trace.relevant_total is None:
            for name, metric in self.metrics.items():
                if metric.needs_total:
                    raise DataError(
                        f"{name} needs to know how many relevant chunks exist; "
                        "give the trace `relevant_total`, or leave the metric out",
                        field="relevant_total",
                    )

    def score(self, judged: Sequence[tuple[Trace, Sequence[Outcome]]]) -> list[Scores]:
        """Score traces, one after the other as given."""
        rows = [[o.grade if o.kind == "verdict" else None for o in outcomes] for _, outcomes in judged]
        totals = [trace.relevant_total for trace, _ in judged]
        probable = expected = None
        if any(metric.spec.soft for metric in self.metrics.values()):
            verdicts = [[o if o.kind == "verdict" else None for o in outcomes] for _, outcomes in judged]
            probable = [[o.confidence if o else None for o in row] for row in verdicts]
            expected = [[o.expected_grade if o else None for o in row] for row in verdicts]
        table = GradeTable.from_rows(
            rows,
            probable=probable,
            expected=expected,
            totals=totals,
            ids=[trace.id for trace, _ in judged],
            relevant=self.scale.relevant,
            maximum=self.scale.maximum,
        )
        out: list[Scores] = [({}, {}) for _ in judged]
        for name, metric in self.metrics.items():
            values = metric.compute(table).tolist()
            for (scores, _), value in zip(out, values, strict=True):
                scores[name] = None if math.isnan(value) else value
            if table.has_missing:
                lows, highs = metric.compute(table, missing="bounds")
                for (scores, bounds), low, high in zip(out, lows.tolist(), highs.tolist(), strict=True):
                    if scores[name] is None:
                        bounds[name] = (low, high)
        return out
