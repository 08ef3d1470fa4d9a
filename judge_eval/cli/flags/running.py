"""The flags on how a run goes: where it is judged, what it goes on with, how many failures end it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from judge_eval.cli.flags.calling import PANEL as CALLING
from judge_eval.cli.flags.groups import SET
from judge_eval.cli.flags.keeping import PANEL as KEEPING

if TYPE_CHECKING:
    from judge_eval.evaluator import Evaluator
    from judge_eval.runs.judging.calling import Driver

_flag = partial(typer.Option, rich_help_panel=CALLING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningFlags:
    """How a run goes."""

    engine: Annotated[str, _flag(help="Where to judge: `local`, or on a cluster: `ray`.")] = "local"
    ray_address: Annotated[str | None, _flag(help="With --engine ray: the cluster's address.")] = None
    workers: Annotated[int | None, _flag(help="With --engine ray: how many workers.")] = None
    resume: Annotated[
        str | None,
        typer.Option(
            help="Go on with a run; alone: the newest unfinished run of the same data.",
            metavar="[RUN]",
            rich_help_panel=KEEPING,
        ),
    ] = None
    or_new: Annotated[
        bool,
        typer.Option(
            "--or-new",
            help="With --resume alone: begin a run where the newest of the same data is done.",
            rich_help_panel=KEEPING,
        ),
    ] = False
    push_every: Annotated[
        float,
        typer.Option(
            help="Where --out is a URL: seconds between pushes of what is judged; 0 pushes at the end alone.",
            rich_help_panel=KEEPING,
        ),
        SET,
    ] = 20
    max_failures: Annotated[
        int, typer.Option(help="How many failed verdicts are allowed before the exit code is 3."), SET
    ] = 0
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show calls, cache hits and tokens; make no call.")
    ] = False

    def driver(self, evaluator: Evaluator) -> Driver | None:
        """Return what judges on a cluster; None where this machine does."""
        if self.engine == "local":
            return None
        if self.engine != "ray":
            raise typer.BadParameter(f"--engine {self.engine!r}: write local or ray")
        from judge_eval.distributed.cluster import RayDriver

        return RayDriver(evaluator, address=self.ray_address, workers=self.workers)
