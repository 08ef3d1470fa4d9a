"""Means over traces, with their intervals and what the failed verdicts could make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judge_eval.errors import MetricError, UnknownNameError
from judge_eval.metrics import Metric, parse_metric
from judge_eval.runs.folder.index import Index
from judge_eval.runs.folder.records import Aggregate, Intervals, Quantiles, TagMean, TraceResult
from judge_eval.stats import breakdown, mean_interval
from judge_eval.stats.estimate import ends_of

DEFAULT_INTERVALS = Intervals()
MOST_TAGS = 500
"""Where there are more tags than this, only the most frequent are broken down."""


def fill_clusters(clusters: Sequence[str | None]) -> list[tuple[int, str]] | None:
    """Give every trace a cluster; None where no trace carries one, and each stands for itself.

    A trace without an id, among others with one, is a cluster of its own.
    """
    if all(cluster is None for cluster in clusters):
        return None
    return [(-1, c) if c is not None else (row, "") for row, c in enumerate(clusters)]


def aggregate_all(
    index: Index, metrics: Mapping[str, Metric], intervals: Intervals = DEFAULT_INTERVALS
) -> dict[str, Aggregate]:
    """Aggregate every metric of an index, by name.

    Args:
        index: The scores, clusters and tags of the traces.
        metrics: The metrics by name, for their definitions.
        intervals: How intervals are made.
    """
    return {
        name: aggregate(
            index.scores[name],
            index.bounds[name],
            clusters=index.clusters,
            tags=index.tags,
            intervals=intervals,
            definition=metric.definition,
            limits=getattr(metric, "limits", None),
            partial=metric.spec.claims,
        )
        for name, metric in metrics.items()
    }


def aggregate(
    values: ArrayLike,
    bounds: Mapping[int, tuple[float, float]],
    *,
    clusters: Sequence[str | None] | None = None,
    tags: Sequence[Sequence[str]] | None = None,
    intervals: Intervals = DEFAULT_INTERVALS,
    definition: str = "",
    limits: tuple[float, float | None] | None = None,
    partial: bool = False,
) -> Aggregate:
    """Aggregate one metric.

    Traces without a value (failed verdicts) are left out of the mean and its interval, and counted; the
    bounds say where the mean over all traces would lie with every missing verdict irrelevant, and with
    every one relevant. Traces with nothing to measure are counted for themselves and in no mean or bound.

    Args:
        values: One number a trace, shape (n,); NaN where the trace has no value.
        bounds: By index into `values`, for the traces without a value; where one of these has none, the mean
            has none.
        clusters: One id a trace where traces belong together (the same document or conversation).
        tags: The tags of each trace.
        intervals: How intervals are made.
        definition: The metric's definition, recorded with its mean.
        limits: The values the metric can take; its intervals end there.
        partial: Whether the metric measures some traces only: one without value and bounds is none of them.
    """
    column = np.asarray(values, dtype=np.float64)
    there = ~np.isnan(column)
    measured = there.copy()
    measured[list(bounds)] = True
    if not partial:
        measured[:] = True
    rows = np.flatnonzero(there).tolist()
    kept = fill_clusters([clusters[row] for row in rows]) if clusters is not None else None
    present = column[there]
    estimate = mean_interval(
        present, clusters=kept, method=intervals.method, limits=limits, seed=intervals.seed
    )
    interval = estimate.interval
    low, high = column.copy(), column.copy()
    for row, (least, most) in bounds.items():
        if not there[row]:
            low[row], high[row] = least, most
    low, high = low[measured], high[measured]
    known = len(low) > 0 and not (np.isnan(low).any() or np.isnan(high).any())
    return Aggregate(
        mean=estimate.value,
        n=int(there.sum()),
        n_failed=int((measured & ~there).sum()),
        n_undefined=int((~measured).sum()),
        interval=ends_of(interval),
        method=None if interval is None else interval.method,
        clusters=estimate.clusters,
        quantiles=_quantiles(present),
        tags=_by_tag(present, rows, tags, kept, limits, np.flatnonzero(measured).tolist())
        if tags is not None
        else {},
        bounds=(float(low.mean()), float(high.mean())) if known else None,
        definition=definition,
    )


def _quantiles(values: NDArray[np.float64]) -> Quantiles | None:
    if not values.size:
        return None
    p20, p50, p90 = np.quantile(values, [0.2, 0.5, 0.9]).tolist()
    return Quantiles(p20=p20, p50=p50, p90=p90)


def limits_of(metric: str) -> tuple[float, float | None] | None:
    """Return the values a metric can take; None where another package's metric does not say."""
    try:
        return parse_metric(metric).limits
    except UnknownNameError:
        return None


def less_is_better(metric: str) -> bool:
    """Tell whether a list is the worse the higher this metric; False where nobody here knows it."""
    with suppress(MetricError, UnknownNameError):
        return parse_metric(metric).spec.less_is_better
    return False


def is_partial(metric: str) -> bool:
    """Tell whether a metric measures some traces only, those with claims; False where nobody knows it."""
    with suppress(MetricError, UnknownNameError):
        return parse_metric(metric).spec.claims
    return False


def is_without_claims(result: TraceResult, metric: str) -> bool:
    """Tell whether a trace has no claim for a metric that measures some traces only.

    It has neither a value nor, as it would where a verdict failed, bounds.
    """
    return result.scores.get(metric) is None and metric not in result.bounds


def reaches(metric: str, value: float, limit: float) -> bool:
    """Tell whether a value is as good as a limit: at least it, or at most where less is better."""
    return value <= limit if less_is_better(metric) else value >= limit


def main_metric(metrics: Sequence[str]) -> str | None:
    """Return the metric that is looked at first: the first average precision, else the first there is."""
    return next((name for name in metrics if name.startswith("AP")), next(iter(metrics), None))


def cutoff_of(metric: str) -> int | None:
    """Return the last rank that a metric looks at; None where it looks at all, or nobody here knows it."""
    with suppress(MetricError, UnknownNameError):
        return parse_metric(metric).cutoff
    return None


def _by_tag(
    present: ArrayLike,
    rows: Sequence[int],
    tags: Sequence[Sequence[str]],
    clusters: Sequence[tuple[int, str]] | None,
    limits: tuple[float, float | None] | None,
    measured: Sequence[int],
) -> dict[str, TagMean]:
    """Break a metric down by tag; a tag all of whose traces failed is there too, without a mean."""
    carriers: dict[str, int] = {}
    for row in measured:
        for name in set(tags[row]):
            carriers[name] = carriers.get(name, 0) + 1
    if not carriers:
        return {}
    estimates = breakdown(present, [tags[row] for row in rows], clusters=clusters, limits=limits)
    out = {}
    shown = sorted(carriers, key=lambda name: (-carriers[name], name))[:MOST_TAGS]
    for name in sorted(shown):
        estimate = estimates.get(name)
        n = estimate.n if estimate else 0
        out[name] = TagMean(
            mean=estimate.value if estimate else None,
            n=n,
            n_failed=carriers[name] - n,
            interval=ends_of(estimate.interval) if estimate else None,
        )
    return out
