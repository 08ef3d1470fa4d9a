"""Whether a run is good enough: limits on its means, and on how far they fell from a baseline's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from judge_eval.comparison.findings import Difference, TraceChange
from judge_eval.comparison.record import Comparison
from judge_eval.errors import ConfigError, RunError
from judge_eval.metrics import parse_metric
from judge_eval.record import Record
from judge_eval.runs.folder.run import Run

LimitKind: TypeAlias = Literal["fail-under", "max-drop", "non-inferior"]
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit, such as `fail-under AP@5=0.70`."""

    kind: LimitKind
    metric: str
    value: float
    """>= 0; for `non-inferior` > 0."""

    @classmethod
    def parse(cls, kind: LimitKind, text: str) -> Limit:
        """Read `METRIC=VALUE`.

        Raises:
            ConfigError: It is no such pair, or the value does not fit.
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
        highest = metric.limits[1]
        if highest is not None and value > highest:
            raise ConfigError(f"--{kind} {text!r}: the value must be at most {highest:g}, as {metric} is")
        return cls(kind, str(metric), value)


def read_limits(
    fail_under: Iterable[str] = (), max_drop: Iterable[str] = (), non_inferior: Iterable[str] = ()
) -> list[Limit]:
    """Read limits of every kind.

    Raises:
        ConfigError: One cannot be read.
    """
    given = zip(get_args(LimitKind), (fail_under, max_drop, non_inferior), strict=True)
    return [Limit.parse(kind, text) for kind, texts in given for text in texts]


class Check(Record):
    """What became of one limit."""

    kind: LimitKind
    metric: str
    run: str
    """The name of the run that was checked."""
    limit: float
    value: float | None
    """The mean under `fail-under`, else the drop (baseline minus candidate); None where there is none."""
    interval: tuple[float, float] | None = None
    passed: bool
    sentence: str
    """Which limit, and by how much it was missed or met."""
    movers: tuple[TraceChange, ...] = ()
    """The traces that lost most, where the check failed against a baseline."""


def check_under(run: Run, limits: Sequence[Limit]) -> list[Check]:
    """Check the limits on means.

    A run without a mean fails: that all verdicts failed is no success.

    Raises:
        UnknownNameError: The run was not scored by the metric.
    """
    return [_check_mean(run, limit) for limit in limits if limit.kind == "fail-under"]


def _check_mean(run: Run, limit: Limit) -> Check:
    a = run.aggregate(limit.metric)
    passed = a.mean is not None and a.mean >= limit.value - _ROUNDING
    if a.mean is None:
        sentence = f"{limit.metric} has no value; at least {limit.value:g} is wanted"
    elif passed:
        sentence = f"{limit.metric} is {a.mean:.4f}, at least {limit.value:g}"
    else:
        sentence = f"{limit.metric} is {a.mean:.4f}, {limit.value - a.mean:.4f} under {limit.value:g}"
    return Check(
        kind=limit.kind, metric=limit.metric, run=run.name, limit=limit.value, value=a.mean,
        interval=a.interval, passed=passed, sentence=sentence,
    )  # fmt: skip


def check_drops(comparison: Comparison, limits: Sequence[Limit], *, strict: bool = False) -> list[Check]:
    """Check the limits on what was lost against the baseline.

    `max-drop` fails where the whole 95% interval of the paired drop lies above the limit, that is, where
    the data leave no doubt; under `strict`, where the drop itself does. `non-inferior` fails unless the
    one-sided 95% bound shows that less than the margin was lost, so that too few traces fail.

    Raises:
        RunError: A limit is on a metric that was not compared.
    """
    out = []
    for limit in limits:
        for place in range(1, len(comparison.runs)) if limit.kind != "fail-under" else ():
            difference = next((d for d in comparison.of(place) if d.metric == limit.metric), None)
            if difference is None:
                raise RunError(f"--{limit.kind} {limit.metric}: no trace has a value in both runs")
            out.append(_check_drop(comparison, difference, limit, strict))
    return out


def _check_drop(comparison: Comparison, d: Difference, limit: Limit, strict: bool) -> Check:
    drop = 0.0 - d.difference
    interval = None if d.interval is None else (0.0 - d.interval[1], 0.0 - d.interval[0])
    span = "" if d.interval is None else f" [{d.interval[0]:+.4f}, {d.interval[1]:+.4f}]"
    fell = f"fell by {drop:.4f}" if drop > 0 else "did not fall"
    moved = f"{d.metric} {fell} (difference {d.difference:+.4f}{span})"
    if limit.kind == "max-drop":
        surely = drop if strict or interval is None else interval[0]
        passed = surely <= limit.value + _ROUNDING
        if passed and drop > limit.value:
            sentence = f"{moved}, but the interval leaves room for a drop within {limit.value:g}"
        elif passed:
            sentence = f"{moved}, within {limit.value:g}"
        else:
            sentence = f"{moved}, {drop - limit.value:.4f} more than {limit.value:g}"
    else:
        worst = None if d.lower is None else -d.lower
        passed = worst is not None and worst < limit.value
        if worst is None:
            sentence = f"{moved}: one trace cannot show non-inferiority"
        else:
            shown = "shows" if passed else "does not show"
            sentence = (
                f"{moved}, at worst by {max(worst, 0):.4f}: {shown} a loss of less than {limit.value:g}"
            )
    lost = [m for m in comparison.movers(d.metric, d.candidate) if m.differences[d.metric] < 0]
    return Check(
        kind=limit.kind, metric=d.metric, run=comparison.runs[d.candidate].name, limit=limit.value,
        value=drop, interval=interval, passed=passed, movers=() if passed else tuple(lost),
        sentence=f"{sentence} (against {comparison.baseline.name})",
    )  # fmt: skip
