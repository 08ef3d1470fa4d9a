"""Checks runs and comparisons against limits, and foresees what the limits will see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import nlargest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from judge_eval.compare.comparison import (
    MOST_MOVERS,
    Attribution,
    Check,
    Checks,
    Comparison,
    CutsFound,
    Difference,
    GateOutcome,
    LimitedDrop,
    TraceValue,
)
from judge_eval.compare.gate_limit import (
    LEAST_SLICE,
    Limit,
    decide_drop,
    gate_limits,
    interval_lost,
    lets_pass,
    seen_before,
    seen_drop,
)
from judge_eval.compare.options import Gates, Undecided
from judge_eval.compare.slice_limits import check_slices
from judge_eval.errors import ConfigError, RunError
from judge_eval.metrics import parse_metric
from judge_eval.metrics.spec import ends
from judge_eval.runs.columns.table_reader import verdict_table
from judge_eval.runs.columns.verdict_table import VerdictTable
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.runs.scoring.slices import slices_of
from judge_eval.safe_text import shortened
from judge_eval.spelling import option
from judge_eval.stats.figure import Interval

_ROUNDING = 1e-12


class Foresight(NamedTuple):
    """What a limit will see, before anything is judged."""

    limit: Limit
    part: str
    """The slice: `tag ids`; empty for all traces."""
    traces: int
    few: tuple[float | None, int | None]
    """The least drop that is seen and how many traces show that nothing changed, if few traces change."""
    many: tuple[float | None, int | None]
    """And if many do."""


def foresights(baseline: Run, gates: Gates, traces: int) -> Iterator[Foresight]:
    """Yield each limit on a change with `seen_before`, if few and if many of so many traces change.

    Few: differences are half as spread as the baseline's values; many: as spread, like runs whose values correlate .5.
    Of a limit on each slice of a kind, the largest slice and the smallest one that is tested.
    """
    limits = [limit for limit in gate_limits(gates) if not limit.of_mean]
    wanted = [limit.metric for limit in limits]
    table = verdict_table(rescore(baseline, list(dict.fromkeys(wanted))) if wanted else baseline, wanted)
    parts = [_limited_parts(table, limit) for limit in limits]
    slices = sum(len(part) for limit, part in zip(limits, parts, strict=True) if limit.by is not None)
    for limit, part in zip(limits, parts, strict=True):
        low, high = ends(parse_metric(limit.metric).limits)
        for name, values in dict([part[0], part[-1]] if part else []).items():
            spread, n = float(values.std(ddof=1)), min(traces, len(values))
            among = 1 if limit.by is None else max(1, slices)
            few, many = (seen_before(limit.value, share * spread, n, high - low, among) for share in (0.5, 1.0))
            yield Foresight(limit, name, n, few, many)


def _limited_parts(table: VerdictTable, limit: Limit) -> list[tuple[str, NDArray[np.float64]]]:
    """Return the values of a metric in what a limit is on, by name, the largest part first."""
    values = table.scores[:, table.metrics.index(limit.metric)]
    if limit.by is None:
        parts = [("", values)]
    else:
        made = slices_of(table, limit.by)
        names = [name for name in made.names if limit.name in (None, name)]
        parts = [(f"{limit.by} {name}", values[made.inside(name)]) for name in names]
    known = [(name, part[~np.isnan(part)]) for name, part in parts]
    least = 2 if limit.by is None or limit.name is not None else LEAST_SLICE
    return sorted([(name, part) for name, part in known if len(part) >= least], key=lambda part: -len(part[1]))


def check_gates(runs: Iterable[Run], gates: Gates, comparison: Comparison | None = None) -> Checks:
    """Check the limits on means of each run, and those on changes in a comparison.

    Args:
        runs: The runs; a metric that a run was not scored by is computed from its verdicts.
        gates: The limits, and what becomes of an undecided one.
        comparison: Runs compared with their baseline.

    Raises:
        ConfigError: A limit cannot be read, or needs a comparison and there is none.
        RunError: A limit is on a metric that was not compared.
    """
    limits = gate_limits(gates)
    changes = [limit for limit in limits if not limit.of_mean]
    if changes and comparison is None:
        raise ConfigError(
            f"{option(changes[0].kind.replace('-', '_'))} needs something to compare with; give "
            f"{option('baseline', 'RUN')}"
        )
    metrics = dict.fromkeys(limit.metric for limit in limits if limit.of_mean)
    checks = Checks()
    for run in runs if metrics else ():
        scored = run if metrics.keys() <= set(run.manifest.metrics) else rescore(run, list(metrics))
        checks += check_under(scored, limits, undecided=gates.undecided)
    if comparison is not None:
        checks += check_drops(comparison, limits, undecided=gates.undecided, total=gates.gate_on == "total")
    # What failed stands first wherever it is read, then what warns.
    checks.sort(key=lambda check: (check.passed, not check.warns))
    return checks


def check_under(run: Run, limits: Sequence[Limit], *, undecided: Undecided = "warn") -> list[Check]:
    """Check the limits on means: of the traces of the run, not of all that could be asked."""
    # A run without a mean fails: failed verdicts alone are not a success. A mean that keeps the limit is
    # undecided where the traces without a value could bring it under, or over where less is better.
    return [_check_mean(run, limit, undecided) for limit in limits if limit.of_mean]


def _check_mean(run: Run, limit: Limit, undecided: Undecided) -> Check:
    a = run.aggregate(limit.metric)
    outcome: GateOutcome = "failed"
    worst = None if a.bounds is None else a.bounds[1 if limit.kind == "fail-over" else 0]
    if a.mean is not None and limit.broken_by(a.mean) <= _ROUNDING:
        could_break = a.n_failed and (worst is None or limit.broken_by(worst) > _ROUNDING)
        outcome = "undecided" if could_break else "passed"
    passed, warns = lets_pass(outcome, limit, undecided)
    return Check(
        kind=limit.kind, metric=limit.metric, run=run.name, limit=limit.value, value=a.headline_mean,
        interval=a.interval, outcome=outcome, passed=passed, warns=warns, basis=a,
        worst=() if passed else _worst_traces(run, limit, valued=outcome == "failed" and a.mean is not None),
    )  # fmt: skip


def _worst_traces(run: Run, limit: Limit, *, valued: bool) -> tuple[TraceValue, ...]:
    """Return the traces with the worst values of those on the wrong side, or, not `valued`, the first without one."""

    def distance(pair: tuple[float | None, TraceResult]) -> float:
        return 0.0 if pair[0] is None else limit.broken_by(pair[0])

    scored = ((result.scores.get(limit.metric), result) for result in run.results)
    some = (pair for pair in scored if (distance(pair) > 0 if valued else pair[0] is None))
    worst = nlargest(MOST_MOVERS, some, key=distance)
    return tuple(
        TraceValue(
            trace_id=result.trace_id, query=shortened(result.trace.query, 120), value=value,
            verdicts="".join(outcome.sign for outcome in result.outcomes),
        )
        for value, result in worst
    )  # fmt: skip


def by_retrieval(d: Difference, part: Attribution) -> Difference:
    """Return the part of a difference that is retrieval's, with its own bounds."""
    retrieval = part.retrieval
    span = None if retrieval.interval is None else Interval(*retrieval.interval)
    return replace(
        d, difference=retrieval.value, interval=span, method=None, standard_error=retrieval.standard_error,
        lower=retrieval.lower, upper=retrieval.upper, t_lower=retrieval.t_lower, t_upper=retrieval.t_upper,
    )  # fmt: skip


def check_drops(
    comparison: Comparison, limits: Sequence[Limit], *, undecided: Undecided = "warn", total: bool = False
) -> list[Check]:
    """Check the limits on what was lost against the baseline."""
    # All kinds ask whether less than the limit was lost (`decide_drop`). `max-drop`, and `max-rise` where less is
    # better, fail where more is shown. `non-inferior` does not pass unless less is shown. Across two judges a limit is
    # on retrieval's part of the change, unless `total`.
    out = []
    for limit in limits:
        for place in range(1, len(comparison.runs)) if not limit.of_mean else ():
            cuts = comparison.cuts_of(place)
            if cuts is not None and limit.metric in cuts.by_chunks:
                out.append(_not_compared(comparison, cuts, limit, undecided))
                continue
            if limit.by is not None:
                out.append(check_slices(comparison, place, limit, undecided))
                continue
            difference = next((d for d in comparison.of(place) if d.metric == limit.metric), None)
            if difference is None:
                raise RunError(f"{limit.kind} {limit.metric}: no trace has a value in both runs")
            part = None if total else comparison.attribution(limit.metric, place)
            if part is not None:
                difference = by_retrieval(difference, part)
            out.append(_check_drop(comparison, difference, limit, undecided, part))
    return out


def _not_compared(comparison: Comparison, cuts: CutsFound, limit: Limit, undecided: Undecided) -> Check:
    """Leave a limit on a metric that counts chunks undecided, since the documents are cut differently."""
    passed, warns = lets_pass("undecided", limit, undecided)
    return Check(
        kind=limit.kind, metric=limit.metric, part=limit.part, run=comparison.runs[cuts.candidate].name,
        limit=limit.value, value=None, outcome="undecided", passed=passed, warns=warns,
        baseline=comparison.baseline.name, basis=cuts,
    )  # fmt: skip


def _check_drop(
    comparison: Comparison, d: Difference, limit: Limit, undecided: Undecided, part: Attribution | None
) -> Check:
    outcome, _ = decide_drop(d, limit.value)
    passed, warns = lets_pass(outcome, limit, undecided)
    sign = 1.0 if d.less_is_better else -1.0
    lost = [m for m in comparison.movers(d.metric, d.candidate) if sign * m.differences[d.metric] > 0]
    return Check(
        kind=limit.kind, metric=d.metric, run=comparison.runs[d.candidate].name, limit=limit.value,
        value=d.lost[0], interval=interval_lost(d), outcome=outcome, passed=passed, warns=warns,
        sees=seen_drop(d, limit.value), movers=() if passed else tuple(lost), baseline=comparison.baseline.name,
        basis=LimitedDrop(difference=d, shared=None if part is None else part.shared),
    )  # fmt: skip
