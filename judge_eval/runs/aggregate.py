"""Means over traces, with their intervals and what the failed verdicts could make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from judge_eval.runs.records import Aggregate
from judge_eval.stats import mean_interval


def aggregate(
    values: ArrayLike,
    bounds: Mapping[int, tuple[float, float]],
    *,
    clusters: Sequence[str] | None = None,
    definition: str = "",
) -> Aggregate:
    """Aggregate one metric.

    Traces without a value (failed verdicts) are left out of the mean and its interval, and counted; the
    bounds say where the mean over all traces would lie with every missing verdict irrelevant, and with
    every one relevant.

    Args:
        values: One number a trace, shape (n,); NaN where the trace has no value.
        bounds: By index into `values`, for the traces without a value.
        clusters: One id a trace where traces belong together (the same document or conversation).
        definition: The metric's definition, recorded with its mean.
    """
    column = np.asarray(values, dtype=np.float64)
    there = ~np.isnan(column)
    kept = None if clusters is None else [c for c, ok in zip(clusters, there.tolist(), strict=True) if ok]
    estimate = mean_interval(column[there], clusters=kept)
    interval = estimate.interval
    low, high = column.copy(), column.copy()
    for row, (least, most) in bounds.items():
        if not there[row]:
            low[row], high[row] = least, most
    return Aggregate(
        mean=estimate.value,
        n=int(there.sum()),
        n_failed=int(column.size - there.sum()),
        interval=None if interval is None else (interval.low, interval.high),
        bounds=(float(low.mean()), float(high.mean())) if column.size else None,
        definition=definition,
    )
