"""Limits on what was lost in slices of the traces: one of them, or each of a kind."""

import math

from judge_eval.compare.comparison import MOST_MOVERS, Check, Comparison, Difference, GateOutcome, LimitedSlices
from judge_eval.compare.gate_limit import ONE_SIDED, Limit, decide_drop, interval_lost, lets_pass, seen_at
from judge_eval.compare.options import Undecided
from judge_eval.errors import RunError
from judge_eval.metrics import parse_metric
from judge_eval.metrics.spec import ends
from judge_eval.stats import holm
from judge_eval.stats.distributions import normal_ppf


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
    passed, warns = lets_pass(outcome, limit, undecided)
    movers = [m for d in failed or [worst] for m in d.movers]
    return Check(
        kind=limit.kind, metric=limit.metric, part=limit.part, run=comparison.runs[place].name, limit=limit.value,
        value=worst.lost[0], interval=interval_lost(worst), outcome=outcome, passed=passed, warns=warns,
        movers=() if passed else tuple(movers[:MOST_MOVERS]), baseline=comparison.baseline.name, basis=basis,
    )  # fmt: skip


def seen_in_slice(d: Difference, limit: float, slices: int) -> float | None:
    """Return the least drop that is seen as `seen_drop`, in one of so many slices that a gate limits.

    The first p of Holm's method must be at most .05 divided by their number, so the bound is farther from the mean. The
    square of its distance has two parts: one grows by quantiles, one as where traces are equal.
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
