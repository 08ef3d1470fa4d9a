"""Checks runs and comparisons against limits, and foresees what the limits will see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import nlargest

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
from judge_eval.compare.gate_limit import Limit, decide_drop, gate_limits, interval_lost, lets_pass, seen_drop
from judge_eval.compare.options import Gates, Undecided
from judge_eval.compare.slice_limits import check_slices
from judge_eval.errors import ConfigError, RunError
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.safe_text import shortened
from judge_eval.spelling import option
from judge_eval.stats.figure import Interval

_ROUNDING = 1e-12


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
