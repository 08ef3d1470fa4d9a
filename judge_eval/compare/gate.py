"""What a paired difference says about a limit on the drop: kept, broken, or that it cannot be told."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import nlargest
from typing import Final

from judge_eval.compare.comparison import (
    MOST_MOVERS,
    Attribution,
    Check,
    Checks,
    Comparison,
    Difference,
    GateOutcome,
    LimitKind,
    TraceValue,
)
from judge_eval.compare.options import Gates, OnUndecided
from judge_eval.errors import ConfigError, RunError
from judge_eval.metrics import parse_metric
from judge_eval.metrics.metric import beyond
from judge_eval.metrics.spec import ends
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.safe_text import counted, shortened
from judge_eval.spelling import option
from judge_eval.stats.figure import Interval
from judge_eval.stats.intervals import FEW_TRIALS

LEAST_TRACES = 10
"""With fewer pairs no limit is shown to be kept."""
MOST_WITHOUT = 0.1
"""Where a greater share of the pairs has no value, no limit is shown to be kept: the rest may be others."""
_ONE_SIDED, _POWER = 1.6449, 0.8416
"""Quantiles of the normal distribution: of a one-sided 95% bound, and of 80% power."""
UNSEEN = 3.0
"""That many expected losers are all unseen in 5 of 100 samples: exp(-3)."""
_MOST_NAMED = 1_000_000


def decide_drop(d: Difference, limit: float) -> tuple[GateOutcome, str]:
    """Say whether a mean fell by less than a limit >= 0, by the one-sided 95% bounds of the difference."""
    # `passed` where a drop of the limit or more is ruled out, `failed` where one of the limit or less is;
    # each is wrong in at most about 5 of 100. Else `undecided`, which says what would decide. Where less is
    # better all of this is about a rise. No number of traces shows that nothing at all was lost: a limit of 0
    # is about the traces at hand. The text is the rest of a sentence that says why.
    lost, least, _ = d.lost
    worst = _worst(d, limit)
    if least is not None and least > limit:
        return "failed", f"by at least {least:.4f}, which is more than {limit:g}"
    pairs = d.n + d.n_excluded
    if limit == 0 and lost <= 0 and not d.n_excluded and not d.n_open:
        return "passed", "on these traces"
    if d.n < LEAST_TRACES:
        why = f"{counted(d.n, 'trace')} with a value are too few; at least {LEAST_TRACES} are needed"
    elif d.n_excluded > MOST_WITHOUT * pairs:
        why = (
            f"{d.n_excluded} of {pairs} traces have no value in one of the runs; "
            f"the result can be decided if at most {MOST_WITHOUT:.0%} have none"
        )
    elif worst is None:
        why = f"all {d.n} traces have the same difference, and the range of {d.metric} is not bounded"
    elif worst < limit:
        return "passed", f"at worst by {max(worst, 0.0):.4f}, which is less than {limit:g}"
    elif d.n_open:
        why = (
            f"failed verdicts leave {d.n_open} of {d.n} traces open, so that it could be {worst:.4f}; "
            "resume the runs to ask for them again"
        )
    else:
        why = _what_would_decide(d, worst, limit)
    return "undecided", why


def _what_would_decide(d: Difference, worst: float, limit: float) -> str:
    lost, what = d.lost[0], "rise" if d.less_is_better else "drop"
    traces = counted(d.n, "trace")
    unseen = f"with {traces} a {what} under {worst - lost:.2g} cannot be distinguished from no change"
    least, planned = planned_traces(d, limit)
    which = f"whether it is {'less' if lost < limit else 'more'} than {limit:g}"
    if least is None:
        return f"{unseen}, and the {what} is too close to {limit:g} to decide with more traces like these"
    if planned is None:
        return f"{unseen}; it takes {least} traces like these or more to show {which}"
    as_measured = "" if planned == least else f" ({least} if the {what} is as it is here)"
    return f"{unseen}; about {planned} traces like these would show {which}{as_measured}"


def _worst(d: Difference, limit: float) -> float | None:
    """Return what was lost at most: by Gaffke's bound, or Student's where no great loss can be unseen."""
    # A trace can lose no more than the baseline has there. If the drop were the limit because a few traces
    # lose that much, their number among the traces would be n * limit / (the most that one has) on average.
    worst, by_student = d.lost[2], d.most_lost_by_student
    if worst is None or by_student is None or d.baseline_range is None:
        return worst
    least, greatest = ends(parse_metric(d.metric).limits)
    loss = greatest - d.baseline_range[0] if d.less_is_better else d.baseline_range[1] - least
    return worst if (d.clusters or d.n) * limit < UNSEEN * loss else min(worst, by_student)


def planned_traces(d: Difference, limit: float) -> tuple[int | None, int | None]:
    """Return how many traces would decide a limit that these leave undecided, with 80% power."""
    # First if the mean difference is that of these traces. The second number allows for what they do not show: the
    # difference is nearer to the limit by its standard error, or by .3 of what the bound adds to it, and few traces
    # near the limit (under 30, within three standard errors) ask for ten times as many. `python -m benchmarks
    # stats_calibration` measures how often it is enough. None: more than a million, or the traces cannot tell.
    lost, least, worst = d.lost
    if worst is None or least is None:
        return None, None
    reach, gap, error = worst - lost if lost < limit else lost - least, abs(limit - lost), d.standard_error
    first = _planned(d, reach, gap)
    second = _planned(d, reach, gap - max(error, 0.3 * reach)) if error else None
    if second is not None and error and d.n < FEW_TRIALS and gap < 3 * error:
        second = max(second, 10 * d.n)
    return first, second


def _planned(d: Difference, reach: float, gap: float) -> int | None:
    """Return about how many traces (None: over a million) bring a bound within the gap with 80% power."""
    # A bound lies z * s / sqrt(n) from the mean for the spread s, and farther by a part that falls with 1 / n.
    scale = (d.standard_error or 0.0) * math.sqrt(d.n)
    rest = max(reach * d.n - _ONE_SIDED * scale * math.sqrt(d.n), 0.0)
    spread = (_ONE_SIDED + _POWER) * scale
    if gap <= 0:
        return None
    root = (spread + math.sqrt(spread**2 + 4 * rest * gap)) / (2 * gap)
    wanted = math.ceil(root**2)
    step = 10 ** max(len(str(wanted)) - 2, 0)  # two digits, since it is no more than an estimate
    wanted = math.ceil(wanted / step) * step
    return wanted if wanted <= _MOST_NAMED else None


_ROUNDING = 1e-12
_OTHER: Final[dict[LimitKind, LimitKind]] = {
    "fail-under": "fail-over",
    "max-drop": "max-rise",
    "fail-over": "fail-under",
    "max-rise": "max-drop",
}
"""The same limit on a metric's other side; `non-inferior` keeps any on its good one."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit, such as `fail-under AP@5=0.70`."""

    kind: LimitKind
    metric: str
    value: float
    """A value that the metric can have; of a change >= 0, for `non-inferior` > 0."""

    @property
    def of_mean(self) -> bool:
        """Whether it is on the mean itself, and needs no baseline."""
        return self.kind in ("fail-under", "fail-over")

    def broken_by(self, mean: float) -> float:
        """Return how far a mean is on the wrong side of a limit on means; 0 or less where it is not."""
        return mean - self.value if self.kind == "fail-over" else self.value - mean

    @classmethod
    def parse(cls, kind: LimitKind, text: str) -> Limit:
        """Read `METRIC=VALUE`; a limit on the worse side of the metric means the one on its good side."""
        name, equals, number = text.rpartition("=")
        where, value = f"{option(kind.replace('-', '_'))} {text!r}", math.nan
        with suppress(ValueError):
            value = float(number)
        if not equals or not name or not math.isfinite(value):
            raise ConfigError(f"{where}: write METRIC=VALUE, such as AP@5=0.7")
        metric = parse_metric(name.strip())
        if kind in _OTHER and metric.spec.less_is_better != (kind in ("fail-over", "max-rise")):
            kind = _OTHER[kind]
        limit = cls(kind, str(metric), value)
        if limit.of_mean:
            problem = beyond(metric, value)
        elif value < 0 or (kind == "non-inferior" and value == 0):
            problem = f"the value must be {'above' if value == 0 else 'at least'} 0"
        else:
            least, greatest = ends(metric.limits)
            span = greatest - least
            problem = f"the value must be at most {span:g}, as {metric} is" if value > span else None
        if problem is not None:
            raise ConfigError(f"{where}: {problem}")
        return limit


def read_limits(
    fail_under: Iterable[str] = (), max_drop: Iterable[str] = (), non_inferior: Iterable[str] = ()
) -> list[Limit]:
    """Read limits; of a metric of which less is better, `fail_under` and `max_drop` are limits from above."""
    return [
        *(Limit.parse("fail-under", text) for text in fail_under),
        *(Limit.parse("max-drop", text) for text in max_drop),
        *(Limit.parse("non-inferior", text) for text in non_inferior),
    ]


def gate_limits(gates: Gates) -> list[Limit]:
    """Read the limits of all kinds."""
    return read_limits(gates.fail_under, gates.max_drop, gates.non_inferior)


def gated_metrics(names: Iterable[str], gates: Gates) -> tuple[str, ...]:
    """Return these metrics and then those of the limits, each once."""
    return tuple(dict.fromkeys([*names, *(limit.metric for limit in gate_limits(gates))]))


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
    undecided = gates.on_undecided or ("fail" if gates.strict else "pass")
    metrics = dict.fromkeys(limit.metric for limit in limits if limit.of_mean)
    checks = Checks()
    for run in runs if metrics else ():
        scored = run if metrics.keys() <= set(run.manifest.metrics) else rescore(run, list(metrics))
        checks += check_under(scored, limits, on_undecided=undecided)
    if comparison is not None:
        total = gates.gate_on == "total"
        checks += check_drops(comparison, limits, strict=gates.strict, on_undecided=undecided, total=total)
    checks.sort(key=lambda check: check.passed)  # what failed stands first wherever it is read
    return checks


def check_under(run: Run, limits: Sequence[Limit], *, on_undecided: OnUndecided = "pass") -> list[Check]:
    """Check the limits on means: of the traces of the run, not of all that could be asked."""
    # A run without a mean fails: failed verdicts alone are not a success. A mean that keeps the limit is
    # undecided where the traces without a value could bring it under, or over where less is better.
    return [_check_mean(run, limit, on_undecided) for limit in limits if limit.of_mean]


def _check_mean(run: Run, limit: Limit, on_undecided: OnUndecided) -> Check:
    a = run.aggregate(limit.metric)
    outcome: GateOutcome = "failed"
    over = limit.kind == "fail-over"
    most, side, to = ("at most", "over", "up") if over else ("at least", "under", "down")
    worst = None if a.bounds is None else a.bounds[1 if over else 0]
    if a.mean is None:
        sentence = f"{limit.metric} has no value; it must be {most} {limit.value:g}"
    elif (by := limit.broken_by(a.mean)) > _ROUNDING:
        sentence = f"{limit.metric} is {a.mean:.4f}, {by:.4f} {side} {limit.value:g}"
    elif a.n_failed and (worst is None or limit.broken_by(worst) > _ROUNDING):
        outcome = "undecided"
        reach = "to any value" if worst is None else f"{to} to {worst:.4f}"
        sentence = (
            f"{limit.metric} is {a.mean:.4f}, but {a.n_failed} of {a.n + a.n_failed} traces have no value "
            f"and could bring it {reach}; resume the run to ask for them again"
        )
    else:
        outcome = "passed"
        sentence = f"{limit.metric} is {a.mean:.4f}, {most} {limit.value:g}"
    passed = outcome == "passed" or (outcome == "undecided" and on_undecided == "pass")
    return Check(
        kind=limit.kind, metric=limit.metric, run=run.name, limit=limit.value, value=a.mean,
        interval=a.interval, outcome=outcome, sentence=sentence, passed=passed,
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
    retrieval, half = part.retrieval, None
    span = None if retrieval.interval is None else Interval(*retrieval.interval)
    if retrieval.lower is not None and retrieval.upper is not None:
        half = (retrieval.upper - retrieval.lower) / 2
    return replace(
        d, difference=retrieval.value, interval=span, method=None,
        lower=retrieval.lower, upper=retrieval.upper, t_lower=None, t_upper=None,
        standard_error=None if half is None else half / _ONE_SIDED,
    )  # fmt: skip


def check_drops(
    comparison: Comparison,
    limits: Sequence[Limit],
    *,
    strict: bool = False,
    on_undecided: OnUndecided | None = None,
    total: bool = False,
) -> list[Check]:
    """Check the limits on what was lost against the baseline."""
    # All kinds ask whether less than the limit was lost (`decide_drop`). `max-drop`, and `max-rise` where less is
    # better, fail where more is shown; under `strict` also where the drop itself is more. `non-inferior` does not pass
    # unless less is shown. `on_undecided` None fails undecided ones under `strict`, else passes. Across two judges
    # a limit is on retrieval's part of the change, unless `total`.
    undecided = on_undecided or ("fail" if strict else "pass")
    out = []
    for limit in limits:
        for place in range(1, len(comparison.runs)) if not limit.of_mean else ():
            difference = next((d for d in comparison.of(place) if d.metric == limit.metric), None)
            if difference is None:
                raise RunError(f"{limit.kind} {limit.metric}: no trace has a value in both runs")
            part = None if total else comparison.attribution(limit.metric, place)
            if part is not None:
                difference = by_retrieval(difference, part)
            out.append(_check_drop(comparison, difference, limit, strict, undecided, part))
    return out


def _check_drop(
    comparison: Comparison,
    d: Difference,
    limit: Limit,
    strict: bool,
    on_undecided: OnUndecided,
    part: Attribution | None,
) -> Check:
    drop, sign = d.lost[0], 1.0 if d.less_is_better else -1.0
    interval = d.interval
    if interval is not None and not d.less_is_better:
        interval = Interval(0.0 - interval[1], 0.0 - interval[0])
    span = "" if d.interval is None else f" [{d.interval[0]:+.4f}, {d.interval[1]:+.4f}]"
    span += "" if d.clear or not d.difference else ", so none is shown"
    fell, fall = ("rose", "rise") if d.less_is_better else ("fell", "fall")
    movement = f"{fell} by {drop:.4f}" if drop > 0 else f"did not {fall}"
    if part is not None:
        movement += " by retrieval"
        span += f"; the judge's part is left out, {part.shared:.0%} of the chunks have both verdicts"
    outcome, why = decide_drop(d, limit.value)
    proven = limit.kind == "non-inferior"
    if not proven and strict and drop > limit.value + _ROUNDING:
        outcome, why = "failed", f"{drop - limit.value:.4f} more than {limit.value:g}"
    passed = outcome == "passed"
    if outcome == "undecided" and not proven:
        passed = on_undecided == "pass"
    lost = [m for m in comparison.movers(d.metric, d.candidate) if sign * m.differences[d.metric] > 0]
    return Check(
        kind=limit.kind, metric=d.metric, run=comparison.runs[d.candidate].name, limit=limit.value,
        value=drop, interval=interval, outcome=outcome, passed=passed, movers=() if passed else tuple(lost),
        sentence=f"{d.metric} {movement} (difference {d.difference:+.4f}{span}), {why} "
        f"(against {comparison.baseline.name})",
    )  # fmt: skip
