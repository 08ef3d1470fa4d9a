"""Means over traces, with their intervals and what the failed verdicts could make of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judge_eval.errors import ConfigError, MetricError, UnknownNameError
from judge_eval.metrics import GradeTable, Metric, parse_metric
from judge_eval.metrics.filling import rank_counts
from judge_eval.metrics.spec import ROUNDING
from judge_eval.runs.columns.graded_trace import GradedTrace
from judge_eval.runs.columns.verdict_table import (
    Hashes,
    ScoreColumns,
    ScoredTraces,
    TraceTable,
    VerdictTable,
    cluster_codes,
)
from judge_eval.runs.folder import records
from judge_eval.runs.folder.records import Reranking
from judge_eval.runs.folder.run import Run, scale_of
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.settings import ValueLimits, ends
from judge_eval.stats import PairedComparison, breakdown, compare_paired, holm, imbens_manski
from judge_eval.stats.distributions import fisher_greater

DEFAULT_INTERVALS = records.Intervals()
MOST_TAGS = 500
"""Where there are more tags than this, only the most frequent are broken down."""
MOST_FAILED = 0.05
"""If a greater share of a run's verdicts failed, the bounds of a mean are its headline."""
_BLOCK = 4096


def fill_clusters(clusters: Sequence[str | None]) -> list[tuple[int, str]] | None:
    """Give every trace a cluster, its own if it has none; None if no two share one."""
    named = [cluster for cluster in clusters if cluster is not None]
    if len(set(named)) == len(named):
        return None
    return [(-1, c) if c is not None else (row, "") for row, c in enumerate(clusters)]


def figures(traces: ScoredTraces, scorer: Scorer, intervals: records.Intervals = DEFAULT_INTERVALS) -> dict[str, Any]:
    """Return the fields of a manifest that follow from the scores of its traces."""
    answered = traces.answered()
    return {
        "aggregates": aggregate_all(answered, scorer, intervals),
        "concentrations": concentrations(answered),
        "unanswerable": unanswerable(traces, scorer),
        "reranking": perfect_reranking(answered, scorer),
    }


def unanswerable(traces: ScoredTraces, scorer: Scorer) -> records.Unanswerable | None:
    """Return what was retrieved for the questions that nothing answers; None without such a question."""
    rows = np.flatnonzero(traces.unanswerable)
    if not rows.size:
        return None
    traces = traces.at(rows)
    accepted = int((traces.per_trace(traces.grades >= scorer.scale.relevant) > 0).sum())
    return records.Unanswerable(
        traces=len(traces),
        empty=int((traces.sizes == 0).sum()),
        chunks=len(traces.grades),
        accepted=accepted if (traces.grades >= 0).any() or not len(traces.grades) else None,
    )


def aggregate_all(
    traces: ScoredTraces, scorer: Scorer, intervals: records.Intervals = DEFAULT_INTERVALS
) -> dict[str, records.Aggregate]:
    """Aggregate every metric, by name, over the traces that are in means."""
    traces = traces.answered()
    share = float((traces.grades < 0).mean()) if traces.grades.size else 0.0
    columns, tags = filled_columns(traces, scorer), [traces.names[code] for code in traces.tags.tolist()]
    out = {}
    for name, metric in scorer.metrics.items():
        values, column = traces.column(name), columns[name]
        is_open = bool((np.isnan(values) & ~np.isnan(column.low)).any())
        out[name] = aggregate(
            values,
            column,
            clusters=traces.clusters,
            tags=tags,
            intervals=intervals,
            limits=_holding(metric.limits, values),
            partial=metric.spec.claims,
        ).replace(definition=metric.definition, headline="bounds" if share > MOST_FAILED and is_open else "mean")
    return out


def expected_scores(
    scorer: Scorer, traces: Mapping[int, GradedTrace], grades: NDArray[np.int8], starts: NDArray[np.int64]
) -> dict[int, dict[str, float]]:
    """Return by row the expected scores of traces with failed verdicts; see `Scorer.expected`."""
    # `grades` are of all chunks of the run, below 0 without a verdict; `starts` says where the chunks of each
    # row begin, and where the last ones end.
    if not traces or not (grades >= 0).any():
        return {}
    scale, out = scorer.scale, dict[int, dict[str, float]]()
    counted = np.where(grades < 0, -1, grades.astype(np.int64) - scale.minimum).astype(np.int8)
    counts = rank_counts(counted, starts, len(scale.grades))
    rows = iter(traces)
    while block := list(islice(rows, _BLOCK)):
        out |= zip(block, scorer.expected([traces[row] for row in block], counts), strict=True)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class FilledColumn:
    """Values of a metric, known or between bounds, NaN for none: shape (traces,); of several (traces, metrics)."""

    value: NDArray[np.float64]
    """What each trace counts with: its value, or the expected one."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        values: ArrayLike,
        low: ArrayLike,
        high: ArrayLike,
        expected: ArrayLike = math.nan,
        incomplete: NDArray[np.bool_] | None = None,
    ) -> FilledColumn:
        """Fill what failed verdicts leave open: `values` are NaN there, `low` and `high` bounds; NaN without any."""
        # Without an expected value a trace counts with one that lets all such traces together have the mean
        # of the traces without a failed verdict, as far as their bounds allow. So a mean is within its
        # bounds. `incomplete` says which traces have failed verdicts (None: those left open).
        value = np.array(values, dtype=np.float64)
        low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        is_open = np.isnan(value) & ~np.isnan(low)
        low, high = np.where(is_open, low, value), np.where(is_open, high, value)
        value = np.where(is_open, np.clip(expected, low, high), value)
        left = is_open & np.isnan(value)
        complete = ~np.isnan(value) & ~(is_open if incomplete is None else incomplete)
        if left.any() and complete.any():
            gap = float((high[left] - low[left]).sum())
            wanted = float(value[complete].mean()) * int(left.sum()) - float(low[left].sum())
            share = wanted / gap if gap else 0.0
            value[left] = low[left] + min(max(share, 0.0), 1.0) * (high[left] - low[left])
        return cls(value, low, high)

    def at(self, rows: NDArray[np.int64], column: int | None = None) -> FilledColumn:
        """Return the values of some rows, of several metrics those of one."""
        place = rows if column is None else (rows, column)
        return FilledColumn(self.value[place], self.low[place], self.high[place])

    def spread(self, rows: NDArray[np.int64], length: int) -> FilledColumn:
        """Put the values at some rows of a longer column, whose other rows have none."""
        made = [np.full(length, np.nan) for _ in range(3)]
        for column, values in zip(made, (self.value, self.low, self.high), strict=True):
            column[rows] = values
        return FilledColumn(*made)


def compare_columns(
    metric: str, before: FilledColumn, after: FilledColumn, clusters: Sequence[Hashable] | None, **options: Any
) -> PairedComparison:
    """Compare a metric on the same traces; the interval covers all values that failed verdicts could have.

    No value is NaN; `options` are those of `compare_paired`.
    """
    return compare_paired(
        before.value,
        after.value,
        ends=((before.low, before.high), (after.low, after.high)),
        clusters=clusters,
        limits=limits_of(metric, before.low, before.high, after.low, after.high),
        **options,
    )


def filled_columns(traces: ScoredTraces, scorer: Scorer) -> dict[str, FilledColumn]:
    """Fill what failed verdicts leave open of each metric, over the traces that are in means."""
    traces = traces.answered()
    columns = _filled(traces, traces.low, traces.high, traces.graded, traces.graded.astype(np.bool_), scorer)
    return dict(zip(traces.metrics, columns, strict=True))


def opened(run: Run, table: VerdictTable) -> FilledColumn:
    """Fill the scores of a run, shape (traces, metrics), as its means do; only traces without a score are read."""
    rows = np.flatnonzero(np.isnan(table.scores).any(axis=1))
    if not rows.size:
        return FilledColumn(table.scores, table.scores, table.scores)
    builder = ScoreColumns(table.metrics)
    for result in run.results_at(rows):
        builder.add(result)
    read = builder.done()
    low, high, graded = table.scores.copy(), table.scores.copy(), np.full(len(table), None, dtype=np.object_)
    low[rows], high[rows], graded[rows] = read.low, read.high, read.graded
    incomplete = table.per_trace(table.grades < 0) > 0
    incomplete[rows] = read.graded.astype(np.bool_)
    scorer = None
    with suppress(ConfigError, MetricError, UnknownNameError):  # a metric of a package that is not here
        scorer = Scorer(table.metrics, scale_of(run))
    made = _filled(table, low, high, graded, incomplete, scorer)
    return FilledColumn(*(np.column_stack([getattr(c, side) for c in made]) for side in ("value", "low", "high")))


def _filled(
    table: TraceTable,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    graded: NDArray[np.object_],
    incomplete: NDArray[np.bool_],
    scorer: Scorer | None,
) -> list[FilledColumn]:
    """Fill the columns of a table; without a scorer no value is expected."""
    expected = np.full(table.scores.shape, np.nan)
    if scorer is not None:
        traces = {row: graded[row] for row in np.flatnonzero(graded.astype(np.bool_)).tolist()}
        for row, values in expected_scores(scorer, traces, table.grades, table.starts).items():
            expected[row] = [values.get(name, np.nan) for name in table.metrics]
    columns = zip(table.scores.T, low.T, high.T, expected.T, strict=True)
    return [FilledColumn.of(scores, least, most, value, incomplete) for scores, least, most, value in columns]


def aggregate(
    values: ArrayLike,
    whole: FilledColumn,
    *,
    clusters: Hashes | None = None,
    tags: Sequence[Sequence[str]] | None = None,
    intervals: records.Intervals = DEFAULT_INTERVALS,
    limits: ValueLimits | None = None,
    partial: bool = False,
) -> records.Aggregate:
    """Aggregate one metric: `values` of shape (n,), NaN if a trace has no value, and what these count with."""
    # A trace without a value (failed verdicts) counts with its expected value; the interval covers all values
    # that it could have (`imbens_manski`). The bounds are the means over all traces with the least and with
    # the greatest value of each; if one such trace has none, the mean has none, and no interval. Traces with
    # nothing to measure are counted separately, and are in no mean or bound: of a `partial` metric those
    # without value and bounds. `clusters` group traces that belong together, and intervals end at `limits`.
    there = ~np.isnan(np.asarray(values, dtype=np.float64))
    measured = ~np.isnan(whole.low) if partial else np.ones_like(there)
    counted = ~np.isnan(whole.value)
    rows = np.flatnonzero(counted)
    kept = None if clusters is None else cluster_codes(clusters[rows])
    column = whole.at(rows)
    known = bool(measured.any() and counted[measured].all())
    estimate = imbens_manski(
        column.low,
        column.high,
        column.value,
        clusters=kept,
        method=intervals.method,
        limits=limits,
        seed=intervals.seed,
    )
    interval = estimate.interval if known else None
    low, high = whole.low[measured], whole.high[measured]
    bounded = len(low) > 0 and not (np.isnan(low).any() or np.isnan(high).any())
    quantiles = None
    if column.value.size:
        p20, p50, p90 = np.quantile(column.value, [0.2, 0.5, 0.9]).tolist()
        quantiles = records.Quantiles(p20=p20, p50=p50, p90=p90)
    return records.Aggregate(
        mean=estimate.value,
        n=int(there.sum()),
        n_failed=int((measured & ~there).sum()),
        n_expected=int((counted & ~there).sum()),
        n_undefined=int((~measured).sum()),
        interval=interval,
        method=None if interval is None else interval.method,
        clusters=estimate.traces,
        quantiles=quantiles,
        tags={} if tags is None else _by_tag(column, rows.tolist(), there, tags, kept, limits, measured),
        bounds=(float(low.mean()), float(high.mean())) if bounded else None,
    )


def limits_of(metric: str, *values: ArrayLike) -> ValueLimits | None:
    """Return the least and the greatest value of a metric; None if it is unknown."""
    # None too if a stored value (of another version of an installed package) is outside the limits stated today.
    try:
        return _holding(parse_metric(metric).limits, *values)
    except (ConfigError, UnknownNameError):
        return None


def _holding(limits: ValueLimits, *values: ArrayLike) -> ValueLimits | None:
    """Return limits if all these values (NaN for none) are within them, else None."""
    least, greatest = ends(limits)
    for column in map(np.asarray, values):
        with np.errstate(invalid="ignore"):
            if ((column < least - ROUNDING) | (column > greatest + ROUNDING)).any():
                return None
    return limits


def known_metric(name: str) -> Metric | None:
    """Return a metric by its name; None if it is unknown here."""
    with suppress(MetricError, UnknownNameError):
        return parse_metric(name)
    return None


def less_is_better(metric: str) -> bool:
    """Return whether a lower value of this metric is better; False if the metric is unknown."""
    return (known := known_metric(metric)) is not None and known.spec.less_is_better


def needs_total(metric: str) -> bool:
    """Return whether a metric rests on how many relevant chunks exist; False if it is unknown."""
    return (known := known_metric(metric)) is not None and known.needs_total


def is_partial(metric: str) -> bool:
    """Return whether a metric measures some traces only, those with claims; False if it is unknown."""
    return (known := known_metric(metric)) is not None and known.spec.claims


def is_without_claims(result: records.TraceResult, metric: str) -> bool:
    """Return whether a trace has no claim for a metric of claims: neither a value nor bounds."""
    return result.scores.get(metric) is None and metric not in result.bounds


def reaches(metric: str, value: float, limit: float) -> bool:
    """Return whether a value is as good as a limit: at least it, or at most if less is better."""
    return value <= limit if less_is_better(metric) else value >= limit


def main_metric(metrics: Sequence[str]) -> str | None:
    """Return the metric that is shown first: the first main one, else the first."""
    main = (name for name in metrics if (known := known_metric(name)) is not None and known.spec.main)
    return next(main, next(iter(metrics), None))


def cutoff_of(metric: str) -> int | None:
    """Return the last rank that a metric reads; None if it reads all, or is unknown."""
    return None if (known := known_metric(metric)) is None else known.cutoff


def _by_tag(
    column: FilledColumn,
    rows: Sequence[int],
    there: NDArray[np.bool_],
    tags: Sequence[Sequence[str]],
    clusters: Sequence[int] | None,
    limits: ValueLimits | None,
    measured: NDArray[np.bool_],
) -> dict[str, records.TagMean]:
    """Break a metric down by tag; `column` has the values of `rows`, `there` and `measured` are of all."""
    carriers, with_value = Counter[str](), Counter[str]()
    for row in np.flatnonzero(measured).tolist():
        carriers.update(set(tags[row]))
        if there[row]:
            with_value.update(set(tags[row]))
    shown = sorted(carriers, key=lambda name: (-carriers[name], name))[:MOST_TAGS]
    wanted = [[tag for tag in tags[row] if with_value[tag]] for row in rows]
    ends = column.low, column.high
    estimates = breakdown(column.value, wanted, ends=ends, clusters=clusters, limits=limits)
    out = {}
    for name in sorted(shown):
        estimate, n = estimates.get(name), with_value[name]
        out[name] = records.TagMean(
            mean=estimate.value if estimate else None,
            n=n,
            n_failed=carriers[name] - n,
            interval=estimate.interval if estimate else None,
        )
    return out


SIGNIFICANT = 0.05


def concentrations(table: ScoredTraces) -> tuple[records.Concentration, ...]:
    """Return the groups of traces in which verdicts fail more often than in the others, the surest first."""
    # Groups are the tags, and the quarters of the traces by the length of their chunks' texts. Each is tested
    # by Fisher's exact test (one-sided), traces being the units, and all are corrected by Holm.
    failed = table.per_trace(table.grades < 0) > 0
    n, bad = len(failed), int(failed.sum())
    if not bad:
        return ()
    groups: dict[tuple[str, str], tuple[int, int]] = {}
    traces, with_failures = Counter[str](), Counter[str]()
    for code, fails in zip(table.tags.tolist(), failed.tolist(), strict=True):
        tags = table.names[code]
        traces.update(set(tags))
        with_failures.update(set(tags) if fails else ())
    groups |= {("tag", tag): (with_failures[tag], count) for tag, count in traces.items() if count < n}
    letters = table.letters
    cuts = np.unique(np.quantile(letters, [0.25, 0.5, 0.75], method="lower"))
    quarters = np.searchsorted(cuts, letters, side="left")
    for quarter in np.unique(quarters).tolist() if len(np.unique(quarters)) > 1 else ():
        inside = quarters == quarter
        name = f"{letters[inside].min():,} to {letters[inside].max():,}"
        groups["length", name] = int(failed[inside].sum()), int(inside.sum())
    chances = [fisher_greater(k, size, bad, n) for k, size in groups.values()]
    made = [
        records.Concentration(kind=kind, name=name, failed=k, traces=size, others_failed=bad - k, others=n - size, p=p)
        for ((kind, name), (k, size)), p in zip(groups.items(), holm(chances), strict=True)
        if p <= SIGNIFICANT
    ]
    return tuple(sorted(made, key=lambda each: (each.p, each.kind, each.name)))


def best_order(table: GradeTable) -> GradeTable:
    """Return the table with each row's grades sorted, the highest first; failed verdicts come last."""
    rows = np.repeat(np.arange(len(table)), table.lengths)
    order = np.lexsort((-table.grades.astype(np.int64), rows))
    return replace(table, grades=table.grades[order], probable=None, expected=None, chances=None)


def perfect_reranking(traces: ScoredTraces, scorer: Scorer) -> Reranking | None:
    """Return what a perfect order of the retrieved chunks would make of a run's first metric that is 1 for one.

    Traces with failed verdicts are left out on both sides. None without such a metric or trace; a metric that
    needs to know what else exists is none.
    """
    failed = traces.per_trace(traces.grades < 0) > 0
    metric = next((each for each in scorer.metrics.values() if _reads_grades(each)), None)
    if metric is None or failed.all():
        return None
    scale, kept = scorer.scale, traces.at(np.flatnonzero(~failed)) if failed.any() else traces
    table = GradeTable(
        kept.grades - np.int8(scale.minimum),
        kept.starts,
        relevant=scale.relevant - scale.minimum,
        maximum=scale.maximum - scale.minimum,
        minimum=scale.minimum,
    )
    before, after = metric.compute(table), metric.compute(best_order(table))
    return Reranking(
        metric=str(metric),
        mean=float(before.mean()),
        perfect=float(after.mean()),
        traces=len(table),
        nothing_relevant=int((table.found_at(table.relevant) == 0).sum()),
    )


def _reads_grades(metric: Metric) -> bool:
    plain = metric.spec.perfect_is_one and not metric.needs_total
    return plain and ("dedup", "text") not in metric.params
