"""Whether a run is good enough: limits on its means, and on how far they fell from a baseline's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from judge_eval.comparison.deciding import decide_drop
from judge_eval.comparison.findings import Check, Difference, LimitKind, Outcome
from judge_eval.comparison.record import Comparison
from judge_eval.errors import ConfigError, RunError
from judge_eval.metrics import parse_metric
from judge_eval.runs.folder.run import Run

OnUndecided: TypeAlias = Literal["pass", "fail"]
_ROUNDING = 1e-12
_OTHER: Final[dict[LimitKind, LimitKind]] = {
    "fail-under": "fail-over",
    "max-drop": "max-rise",
    "fail-over": "fail-under",
    "max-rise": "max-drop",
}
"""What keeps a metric on its other side; `non-inferior` keeps any on its good one."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit, such as `fail-under AP@5=0.70`."""

    kind: LimitKind
    metric: str
    value: float
    """>= 0; for `non-inferior` > 0."""

    @property
    def of_mean(self) -> bool:
        """Whether it is on the mean itself, and needs no baseline."""
        return self.kind in ("fail-under", "fail-over")

    def broken_by(self, mean: float) -> float:
        """Return how far a mean is on the wrong side of a limit on means; 0 or less where it is not."""
        return mean - self.value if self.kind == "fail-over" else self.value - mean

    @classmethod
    def parse(cls, kind: LimitKind, text: str) -> Limit:
        """Read `METRIC=VALUE`.

        Raises:
            ConfigError: It is no such pair, the value does not fit, or the limit would keep the metric on its
                worse side.
            UnknownNameError: There is no such metric.
        """
        name, equals, number = text.rpartition("=")
        value = math.nan
        with suppress(ValueError):
            value = float(number)
        if not equals or not name or not math.isfinite(value):
            raise ConfigError(f"--{kind} {text!r}: write METRIC=VALUE, such as AP@5=0.7")
        if value < 0 or (kind == "non-inferior" and value == 0):
            raise ConfigError(
                f"--{kind} {text!r}: the value must be {'above' if value == 0 else 'at least'} 0"
            )
        metric = parse_metric(name.strip())
        fewer = metric.spec.less_is_better
        if kind in _OTHER and fewer != (kind in ("fail-over", "max-rise")):
            raise ConfigError(
                f"--{kind} {text!r}: {metric} is the better the {'less' if fewer else 'more'} it is; "
                f"write --{_OTHER[kind]} {metric}={number}"
            )
        highest = metric.limits[1]
        if highest is not None and value > highest:
            raise ConfigError(f"--{kind} {text!r}: the value must be at most {highest:g}, as {metric} is")
        return cls(kind, str(metric), value)


def read_limits(
    fail_under: Iterable[str] = (),
    max_drop: Iterable[str] = (),
    non_inferior: Iterable[str] = (),
    fail_over: Iterable[str] = (),
    max_rise: Iterable[str] = (),
) -> list[Limit]:
    """Read limits of every kind.

    Raises:
        ConfigError: One cannot be read.
    """
    texts = (fail_under, max_drop, non_inferior, fail_over, max_rise)
    given = zip(get_args(LimitKind), texts, strict=True)
    return [Limit.parse(kind, text) for kind, texts in given for text in texts]


def check_under(run: Run, limits: Sequence[Limit], *, on_undecided: OnUndecided = "pass") -> list[Check]:
    """Check the limits on means: of the traces of the run, not of all that could be asked.

    A run without a mean fails: that all verdicts failed is no success. A mean that keeps the limit is
    undecided where the traces without a value could bring it under, or over where less is better.

    Raises:
        UnknownNameError: The run was not scored by the metric.
    """
    return [_check_mean(run, limit, on_undecided) for limit in limits if limit.of_mean]


def _check_mean(run: Run, limit: Limit, on_undecided: OnUndecided) -> Check:
    a = run.aggregate(limit.metric)
    outcome: Outcome = "failed"
    over = limit.kind == "fail-over"
    most, side, to = ("at most", "over", "up") if over else ("at least", "under", "down")
    worst = None if a.bounds is None else a.bounds[1 if over else 0]
    if a.mean is None:
        sentence = f"{limit.metric} has no value; {most} {limit.value:g} is wanted"
    elif (by := limit.broken_by(a.mean)) > _ROUNDING:
        sentence = f"{limit.metric} is {a.mean:.4f}, {by:.4f} {side} {limit.value:g}"
    elif a.n_failed and worst is not None and limit.broken_by(worst) > _ROUNDING:
        outcome = "undecided"
        sentence = (
            f"{limit.metric} is {a.mean:.4f}, but {a.n_failed} of {a.n + a.n_failed} traces have no value "
            f"and could bring it {to} to {worst:.4f}; --resume asks for them again"
        )
    else:
        outcome = "passed"
        sentence = f"{limit.metric} is {a.mean:.4f}, {most} {limit.value:g}"
    return Check(
        kind=limit.kind, metric=limit.metric, run=run.name, limit=limit.value, value=a.mean,
        interval=a.interval, outcome=outcome, sentence=sentence,
        passed=outcome == "passed" or (outcome == "undecided" and on_undecided == "pass"),
    )  # fmt: skip


def check_drops(
    comparison: Comparison,
    limits: Sequence[Limit],
    *,
    strict: bool = False,
    on_undecided: OnUndecided | None = None,
) -> list[Check]:
    """Check the limits on what was lost against the baseline.

    All kinds ask whether less than the limit was lost (`decide_drop`). `max-drop`, and `max-rise` where less
    is better, fail where more is shown; under `strict` also where the drop itself is more. `non-inferior`
    does not pass unless less is shown.

    Args:
        comparison: The runs compared, the baseline first.
        limits: Limits of all kinds; those on means are passed over.
        strict: Let `max-drop` and `max-rise` fail by the drop or rise itself too.
        on_undecided: What these do where it is undecided; None: fail under `strict`, else pass.

    Raises:
        RunError: A limit is on a metric that was not compared.
    """
    undecided = on_undecided or ("fail" if strict else "pass")
    out = []
    for limit in limits:
        for place in range(1, len(comparison.runs)) if not limit.of_mean else ():
            difference = next((d for d in comparison.of(place) if d.metric == limit.metric), None)
            if difference is None:
                raise RunError(f"--{limit.kind} {limit.metric}: no trace has a value in both runs")
            out.append(_check_drop(comparison, difference, limit, strict, undecided))
    return out


def _check_drop(
    comparison: Comparison, d: Difference, limit: Limit, strict: bool, on_undecided: OnUndecided
) -> Check:
    drop, sign = d.lost[0], 1.0 if d.less_is_better else -1.0
    interval = d.interval
    if interval is not None and not d.less_is_better:
        interval = 0.0 - interval[1], 0.0 - interval[0]
    span = "" if d.interval is None else f" [{d.interval[0]:+.4f}, {d.interval[1]:+.4f}]"
    fell, fall = ("rose", "rise") if d.less_is_better else ("fell", "fall")
    told = f"{fell} by {drop:.4f}" if drop > 0 else f"did not {fall}"
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
        sentence=f"{d.metric} {told} (difference {d.difference:+.4f}{span}), {why} "
        f"(against {comparison.baseline.name})",
    )  # fmt: skip
