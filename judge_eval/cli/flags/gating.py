"""The flags of the gate: the limits a run must keep, and the run it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from judge_eval.cli.flags.groups import SET

if TYPE_CHECKING:
    from judge_eval.comparison.gate import Limit

_flag = partial(typer.Option, rich_help_panel="Gate")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatingFlags:
    """When a run is not good enough."""

    baseline: Annotated[
        str | None,
        _flag(help="Compare with this run: its folder, its id or the start of it, label:NAME or latest."),
        SET,
    ] = None
    fail_under: Annotated[
        list[str] | None, _flag(metavar="METRIC=VALUE", help="Fail where the mean is below; repeatable."), SET
    ] = None
    fail_over: Annotated[
        list[str] | None,
        _flag(
            metavar="METRIC=VALUE",
            help="Fail where the mean is above, of a metric of which less is better; repeatable.",
        ),
        SET,
    ] = None
    max_drop: Annotated[
        list[str] | None,
        _flag(
            metavar="METRIC=VALUE",
            help="Fail where the mean is shown to have dropped by more than this; repeatable.",
        ),
        SET,
    ] = None
    max_rise: Annotated[
        list[str] | None,
        _flag(
            metavar="METRIC=VALUE",
            help="The same for a rise, of a metric of which less is better; repeatable.",
        ),
        SET,
    ] = None
    non_inferior: Annotated[
        list[str] | None,
        _flag(
            metavar="METRIC=MARGIN",
            help="Fail unless the mean is shown to have become worse by less than this; repeatable.",
        ),
        SET,
    ] = None
    strict: Annotated[
        bool,
        _flag(
            "--strict",
            help="Let --max-drop and --max-rise fail by the change itself, and by what is undecided.",
        ),
    ] = False
    on_undecided: Annotated[
        Literal["pass", "fail"] | None,
        _flag(
            help="What a limit does that the traces can neither show kept nor broken; fail under --strict, "
            "else pass with a warning. --non-inferior never passes by it."
        ),
        SET,
    ] = None

    def limits(self) -> list[Limit]:
        """Read the limits.

        Raises:
            ConfigError: One cannot be read.
        """
        given = (self.fail_under, self.max_drop, self.non_inferior, self.fail_over, self.max_rise)
        if not any(given):
            return []
        from judge_eval.comparison.gate import read_limits

        return read_limits(*(texts or () for texts in given))
