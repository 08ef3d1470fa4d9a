"""Limits on metrics: reading them, checking runs and comparisons against them, and what a gate can see."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import nlargest
from typing import Any, Final, Literal, TypeAlias, get_args

from judge_eval.compare.comparison import (
    MOST_MOVERS,
    Attribution,
    Check,
    Checks,
    Comparison,
    Difference,
    GateOutcome,
    LimitedDrop,
    LimitedSlices,
    LimitKind,
    TraceChange,
    TraceValue,
)
from judge_eval.compare.options import Gates, Undecided
from judge_eval.errors import ConfigError, RunError
from judge_eval.metrics import parse_metric
from judge_eval.metrics.metric import beyond
from judge_eval.runs.folder.records import SliceBy, TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.safe_text import shortened
from judge_eval.settings import ends
from judge_eval.spelling import option
from judge_eval.stats import holm
from judge_eval.stats.distributions import normal_ppf
from judge_eval.stats.figure import Interval
from judge_eval.stats.intervals import FEW_TRIALS, STUDENT_UNITS

LEAST_SLICE = 5
"""A slice of fewer traces or clusters is not tested against a limit on each slice."""
LEAST_TRACES = 10
"""With fewer pairs no limit is shown to be kept."""
MOST_WITHOUT = 0.1
"""Where a greater share of the pairs has no value, no limit is shown to be kept: the rest may be others."""
ONE_SIDED, _POWER = 1.6449, 0.8416
"""Quantiles of the normal distribution: of a one-sided 95% bound, and of 80% power."""
UNSEEN = 3.0
"""That many expected losers are all unseen in 5 of 100 samples: exp(-3)."""
_MOST_NAMED = 1_000_000

DropReason: TypeAlias = Literal["more", "less", "none", "few", "without", "alike", "open", "near"]
"""Why a limit on what was lost has its outcome: more or less than the limit is shown, or nothing was lost on these
traces; too few traces, too many without a value, all alike, left open by failed verdicts, or too near the limit."""
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
    by: SliceBy | None = None
    """The kind of slices that it is on; None: all traces."""
    name: str | None = None
    """Which slice; None with a kind: each of them."""

    @property
    def part(self) -> str:
        """What it is on, as `Check.part`."""
        return "" if self.by is None else self.by if self.name is None else f"{self.by}={self.name}"

    @property
    def of_mean(self) -> bool:
        """Whether it is on the mean itself, and needs no baseline."""
        return self.kind in ("fail-under", "fail-over")

    def broken_by(self, mean: float) -> float:
        """Return how far a mean is on the wrong side of a limit on means; 0 or less where it is not."""
        return mean - self.value if self.kind == "fail-over" else self.value - mean

    @classmethod
    def parse(cls, kind: LimitKind, text: str) -> Limit:
        """Read `METRIC=VALUE`; a limit on the worse side of the metric means the one on its good side.

        A limit on a change may name a slice, `AP@5[tag=ids]=0.1`, or each slice of a kind, `AP@5[tag]=0.1`.
        """
        written, equals, number = text.rpartition("=")
        name, by, which = _sliced(written.strip())
        where, value = f"{option(kind.replace('-', '_'))} {text!r}", math.nan
        with suppress(ValueError):
            value = float(number)
        if not equals or not name or not math.isfinite(value):
            raise ConfigError(f"{where}: write METRIC=VALUE, such as AP@5=0.7")
        metric = parse_metric(name.strip())
        if kind in _OTHER and metric.spec.less_is_better != (kind in ("fail-over", "max-rise")):
            kind = _OTHER[kind]
        limit = cls(kind, str(metric), value, by, which)
        problem: str | None
        if limit.of_mean and by is not None:
            problem = "only a limit on a change can be on a slice; use --max-drop or --non-inferior"
        elif limit.of_mean:
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


def _sliced(name: str) -> tuple[str, SliceBy | None, str | None]:
    """Read `AP@5[tag=ids]`: the metric, the kind of slices, and the slice."""
    metric, bracket, rest = name.partition("[")
    if not bracket or not rest.endswith("]"):
        return name, None, None
    kind, equals, part = rest[:-1].partition("=")
    by = next((each for each in get_args(SliceBy) if each == kind.strip()), None)
    if by is None:
        raise ConfigError(f"{name}: no slices by {kind.strip()!r}; there are {', '.join(get_args(SliceBy))}")
    return metric.strip(), by, part.strip() if equals else None


def gate_limits(gates: Gates) -> list[Limit]:
    """Read the limits of all kinds; if less is better, `fail_under` and `max_drop` are limits from above."""
    return [
        *(Limit.parse("fail-under", text) for text in gates.fail_under),
        *(Limit.parse("max-drop", text) for text in gates.max_drop),
        *(Limit.parse("non-inferior", text) for text in gates.non_inferior),
    ]


def gated_metrics(names: Iterable[str], gates: Gates) -> tuple[str, ...]:
    """Return these metrics and then those of the limits, each once."""
    return tuple(dict.fromkeys([*names, *(limit.metric for limit in gate_limits(gates))]))


def decide_drop(d: Difference, limit: float) -> tuple[GateOutcome, DropReason]:
    """Say whether a mean fell by less than a limit >= 0, by the one-sided 95% bounds of the difference, and why."""
    # `passed` where a drop of the limit or more is ruled out, `failed` where one of the limit or less is;
    # each is wrong in at most about 5 of 100. Where less is better all of this is about a rise. No number of traces
    # shows that nothing at all was lost: a limit of 0 is about the traces at hand.
    lost, least, _ = d.lost
    worst = most_lost(d, limit)
    if least is not None and least > limit:
        return "failed", "more"
    if limit == 0 and lost <= 0 and not d.n_excluded and not d.n_open:
        return "passed", "none"
    if d.n < LEAST_TRACES:
        return "undecided", "few"
    if d.n_excluded > MOST_WITHOUT * (d.n + d.n_excluded):
        return "undecided", "without"
    if worst is None:
        return "undecided", "alike"
    if worst < limit:
        return "passed", "less"
    return "undecided", "open" if d.n_open else "near"


def seen_drop(d: Difference, limit: float) -> float | None:
    """Return the least true drop for which a limit fails in 80 of 100 samples; None if no possible drop is.

    It fails if the lower bound of what was lost is above the limit. The bound is as far from the mean as here, and
    farther the more is lost: Gaffke's weighs a trace that could have gained the whole range.
    """
    lost, least, _ = d.lost
    if least is None:
        return None
    low, high = ends(parse_metric(d.metric).limits)
    return seen_at(limit, lost - least, d.standard_error or 0.0, high - low, lost)


def seen_at(limit: float, gap: float, error: float, span: float, lost: float = 0.0) -> float | None:
    """Return the least drop that is seen, as `seen_drop`; `gap` is from the mean to the bound where `lost` was lost."""
    share = 0.0 if math.isinf(span) else gap / (span + lost)
    if share >= 1:
        return None
    seen = (limit + (gap if math.isinf(span) else share * span) + _POWER * error) / (1 - share)
    return None if seen > span else seen


def seen_before(
    limit: float, spread: float, traces: int, span: float, slices: int = 1
) -> tuple[float | None, int | None]:
    """Return the least drop that a limit will see, and from how many traces on an unchanged run is shown to keep it.

    Both are with 80% power, before anything is judged. No possible drop is seen if the first is None; the second is
    None if it is more than a million. `spread` is the standard deviation of the differences between two runs; the level
    of the bound is .05 divided by the number of slices that the gate limits.
    """
    gap = _gap_before(spread, traces, span, 0.05 / slices)
    return seen_at(limit, gap, spread / math.sqrt(traces), span), _kept_from(limit, spread, span)


def _gap_before(spread: float, traces: int, span: float, level: float) -> float:
    """Return how far the bound will be from the mean.

    The distance of Gaffke's bound is, about, the root of the squares of that of a normal bound and of that of Gaffke's
    where all traces stay equal (simulated: at most .007 off, for 20 to 500 traces).
    """
    equal = 0.0 if math.isinf(span) else span * (1 - level ** (1 / traces))
    return math.hypot(normal_ppf(1 - level) * spread / math.sqrt(traces), equal)


def _kept_from(limit: float, spread: float, span: float) -> int | None:
    """Return from how many traces on an unchanged run is shown to keep a limit; None: from more than a million."""
    # As in `most_lost`: of few traces by Gaffke's bound, of more by Student's if no great loss can be unseen.
    for n in range(LEAST_TRACES, STUDENT_UNITS):
        if _gap_before(spread, n, span, 0.05) + _POWER * spread / math.sqrt(n) <= limit:
            return n
    if limit == 0:
        return None
    unseen = 0.0 if math.isinf(span) else UNSEEN * span / limit
    wanted = max(STUDENT_UNITS, unseen, ((ONE_SIDED + _POWER) * spread / limit) ** 2)
    return None if wanted > _MOST_NAMED else _rounded(wanted)


def most_lost(d: Difference, limit: float) -> float | None:
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
    rest = max(reach * d.n - ONE_SIDED * scale * math.sqrt(d.n), 0.0)
    spread = (ONE_SIDED + _POWER) * scale
    if gap <= 0:
        return None
    root = (spread + math.sqrt(spread**2 + 4 * rest * gap)) / (2 * gap)
    wanted = _rounded(root**2)
    return wanted if wanted <= _MOST_NAMED else None


def _rounded(wanted: float) -> int:
    """Round up to two digits, since it is no more than an estimate."""
    step: int = 10 ** max(len(str(math.ceil(wanted))) - 2, 0)
    return math.ceil(wanted / step) * step


def _check(
    limit: Limit,
    run: str,
    outcome: GateOutcome,
    undecided: Undecided,
    *,
    movers: Sequence[TraceChange] = (),
    **fields: Any,
) -> Check:
    """Make the record of a limit: with an outcome that lets the gate pass it names no traces."""
    allowed = outcome == "undecided" and undecided != "fail" and limit.kind != "non-inferior"
    passed = outcome == "passed" or allowed
    return Check(
        kind=limit.kind, metric=limit.metric, part=limit.part, run=run, limit=limit.value, outcome=outcome,
        passed=passed, warns=allowed and undecided == "warn", movers=() if passed else tuple(movers), **fields,
    )  # fmt: skip


def interval_lost(d: Difference) -> Interval | None:
    """Return the interval of what was lost."""
    if d.interval is None or d.less_is_better:
        return d.interval
    return Interval(0.0 - d.interval[1], 0.0 - d.interval[0])


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
    check = _check(limit, run.name, outcome, undecided, value=a.headline_mean, interval=a.interval, basis=a)
    if check.passed:
        return check
    return check.replace(worst=_worst_traces(run, limit, valued=outcome == "failed" and a.mean is not None))


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
    # on retrieval's part of the change, unless `total`. On a metric that counts chunks it is undecided if the documents
    # are cut differently.
    out = []
    for limit in limits:
        for place in range(1, len(comparison.runs)) if not limit.of_mean else ():
            cuts = comparison.cuts_of(place)
            if cuts is not None and limit.metric in cuts.by_chunks:
                run, baseline = comparison.runs[place].name, comparison.baseline.name
                out.append(_check(limit, run, "undecided", undecided, value=None, baseline=baseline, basis=cuts))
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


def _check_drop(
    comparison: Comparison, d: Difference, limit: Limit, undecided: Undecided, part: Attribution | None
) -> Check:
    outcome, _ = decide_drop(d, limit.value)
    sign = 1.0 if d.less_is_better else -1.0
    lost = [m for m in comparison.movers(d.metric, d.candidate) if sign * m.differences[d.metric] > 0]
    return _check(
        limit, comparison.runs[d.candidate].name, outcome, undecided, value=d.lost[0], interval=interval_lost(d),
        sees=seen_drop(d, limit.value), movers=lost, baseline=comparison.baseline.name,
        basis=LimitedDrop(difference=d, shared=None if part is None else part.shared),
    )  # fmt: skip


def check_slices(comparison: Comparison, place: int, limit: Limit, undecided: Undecided) -> Check:
    """Check a limit on one slice, or on each slice of a kind."""
    # More than the limit is shown to be lost in a slice where the p of it, corrected by Holm's method for all slices
    # that the gate limits in this candidate, is at most .05. Less is shown in each slice where it is shown in every
    # one of them at .05: then no correction is needed (intersection-union test).
    family = [d for d in comparison.limited if d.candidate == place and d.p_lost is not None]
    adjusted = holm([d.p_lost for d in family if d.p_lost is not None])
    broken = [d for d, p in zip(family, adjusted, strict=True) if p <= 0.05]
    key = place, limit.metric, limit.by, limit.value
    slices = [d for d in comparison.limited if (d.candidate, d.metric, d.by, d.limit) == key]
    slices = [d for d in slices if limit.name in (None, d.name)]
    if not slices:
        raise RunError(f"{limit.kind} {limit.metric}[{limit.part}]: no trace of the slice has a value in both runs")
    failed = sorted((d for d in slices if d in broken), key=lambda d: -d.lost[0])
    tested = [d for d in slices if d.p_lost is not None or limit.name is not None]
    open_ = [d for d in tested if decide_drop(d, limit.value)[0] != "passed"]
    worst = failed[0] if failed else max(open_ or tested or slices, key=lambda d: d.lost[0])
    outcome: GateOutcome = "failed" if failed else "undecided" if open_ or not tested else "passed"
    by_size = [] if failed else sorted(tested, key=lambda d: -d.n)
    extremes = {d.name: d for d in (*by_size[:1], *by_size[-1:])}
    basis = LimitedSlices(
        worst=worst,
        tested=len(tested),
        too_few=len(slices) - len(tested),
        failed=tuple(failed),
        undecided=len(open_),
        limited=len(family),
        sees=tuple((d, seen_in_slice(d, limit.value, max(1, len(family)))) for d in extremes.values()),
        another_judge=comparison.attribution(limit.metric, place) is not None,
    )
    movers = [m for d in failed or [worst] for m in d.movers][:MOST_MOVERS]
    return _check(
        limit, comparison.runs[place].name, outcome, undecided, value=worst.lost[0], interval=interval_lost(worst),
        movers=movers, baseline=comparison.baseline.name, basis=basis,
    )  # fmt: skip


def seen_in_slice(d: Difference, limit: float, slices: int) -> float | None:
    """Return the least drop that is seen as `seen_drop`, in one of so many slices that a gate limits.

    The first p of Holm's method must be at most .05 divided by their number, so the bound is farther from the mean. Its
    distance is, about, the root of the squares of that of a normal bound and of that of Gaffke's bound where all traces
    stay equal (simulated: at most .007 off, for 20 to 500 traces); each part grows in its own way.
    """
    lost, least, _ = d.lost
    if least is None:
        return None
    n, low_high = d.clusters or d.n, ends(parse_metric(d.metric).limits)
    error, level = d.standard_error or 0.0, 0.05 / slices
    normal = min(lost - least, ONE_SIDED * error)
    equal = math.sqrt((lost - least) ** 2 - normal**2)
    wider = normal_ppf(1 - level) / ONE_SIDED, (1 - level ** (1 / n)) / (1 - 0.05 ** (1 / n))
    gap = math.hypot(normal * wider[0], equal * wider[1])
    return seen_at(limit, gap, error, low_high[1] - low_high[0], lost)
