"""A limit on a metric, and what a paired difference says about it: kept, broken, or that it cannot be told."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from judge_eval.compare.comparison import Difference, GateOutcome, LimitKind
from judge_eval.compare.options import Gates, Undecided
from judge_eval.errors import ConfigError
from judge_eval.metrics import parse_metric
from judge_eval.metrics.metric import beyond
from judge_eval.metrics.spec import ends
from judge_eval.runs.folder.records import SliceBy
from judge_eval.spelling import option
from judge_eval.stats.figure import Interval
from judge_eval.stats.intervals import FEW_TRIALS

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
    wanted = math.ceil(root**2)
    wanted = _rounded(wanted)
    return wanted if wanted <= _MOST_NAMED else None


def _rounded(wanted: float) -> int:
    """Round up to two digits, since it is no more than an estimate."""
    step: int = 10 ** max(len(str(math.ceil(wanted))) - 2, 0)
    return math.ceil(wanted / step) * step


def lets_pass(outcome: GateOutcome, limit: Limit, undecided: Undecided) -> tuple[bool, bool]:
    """Say whether an outcome lets the gate pass, and whether with a warning."""
    allowed = outcome == "undecided" and undecided != "fail" and limit.kind != "non-inferior"
    return outcome == "passed" or allowed, allowed and undecided == "warn"


def interval_lost(d: Difference) -> Interval | None:
    """Return the interval of what was lost."""
    if d.interval is None or d.less_is_better:
        return d.interval
    return Interval(0.0 - d.interval[1], 0.0 - d.interval[0])
