"""When a run is not good enough: the limits it must keep."""

from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from judge_eval.settings import check, setting

Undecided: TypeAlias = Literal["fail", "warn", "pass"]
GateOn: TypeAlias = Literal["retrieval", "total"]
_setting = partial(setting, panel="Gate", env=True, file=True)
_limits = partial(_setting, metavar="METRIC=VALUE", type=list[str] | None, read=tuple)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """Limits on a run's means, and on how much worse they may be than a baseline's.

    A limit is `METRIC=VALUE`; on which side it keeps a metric follows from the metric.
    """

    baseline: str | None = _setting(
        None,
        "Compare with this run: its folder, its id or the start of it, label:NAME or latest.",
        metavar="RUN",
        common=True,
    )
    fail_under: tuple[str, ...] = _limits(
        (), "Fail if the mean is below, or above for a metric of which less is better; repeatable.", common=True
    )
    max_drop: tuple[str, ...] = _limits(
        (),
        "Fail if the mean is shown to have become worse by more than this; of one slice `AP@5[tag=NAME]=0.1`, of "
        "each slice of a kind `AP@5[tag]=0.1`; repeatable.",
        common=True,
    )
    non_inferior: tuple[str, ...] = _limits(
        (), "Fail unless the mean is shown to have become worse by less than this; repeatable.", metavar="METRIC=MARGIN"
    )
    undecided: Undecided = _setting(
        "warn",
        "Result of a limit if the data are inconclusive: it fails, passes with a warning, or passes; "
        "--non-inferior never passes.",
    )
    gate_on: GateOn = _setting(
        "retrieval",
        "What --max-drop and --non-inferior limit if another judge judged the baseline: the part of the change "
        "that is `retrieval`'s, or the `total`.",
    )

    def __post_init__(self) -> None:
        check(self)

    @property
    def has_limits(self) -> bool:
        """Whether there is a limit to keep."""
        return any((self.fail_under, self.max_drop, self.non_inferior))
