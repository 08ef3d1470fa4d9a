"""The flags on runs: where they are kept, and what people call them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge_eval.cli.flags import completion
from judge_eval.cli.flags.groups import SET, Setting

if TYPE_CHECKING:
    from judge_eval.eval_run import EvalRun

PANEL = "The run"
_flag = partial(typer.Option, rich_help_panel=PANEL)


def _folder(given: str | Path) -> Path:
    from judge_eval.data.remote import is_url

    if not is_url(given):
        return Path(given)
    from judge_eval.runs.keeping.mirroring import place_of_runs

    return place_of_runs(given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Where runs are kept."""

    out: Annotated[
        Path, _flag(parser=_folder, metavar="PATH", help="The folder of runs, or its URL (s3://...)."), SET
    ] = Path("runs")

    def find(self, name: str) -> Path:
        """Return a run's folder.

        Raises:
            RunError: There is no such run.
        """
        from judge_eval.runs.keeping.finding import find_run

        return find_run(name, self.out)

    def load(self, name: str) -> EvalRun:
        """Load a run.

        Raises:
            RunError: There is no such run, or it cannot be read.
        """
        from judge_eval.eval_run import EvalRun

        return EvalRun.load(self.find(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun(Runs):
    """One run, by name."""

    run: Annotated[
        str,
        typer.Argument(
            help="A run's folder, its id or the start of it, label:NAME or latest.",
            autocompletion=completion.runs,
        ),
    ]

    def loaded(self) -> EvalRun:
        """Load the run.

        Raises:
            RunError: There is no such run, or it cannot be read.
        """
        return self.load(self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepingFlags(Runs):
    """Where a new run is kept, and what people call it."""

    label: Annotated[str | None, _flag(help="What people call the run."), SET] = None
    href: Annotated[str | None, _flag(help="Where the run belongs: a pull request, a job."), SET] = None
    tag: Annotated[list[str] | None, _flag(help="A word to filter by; repeatable."), Setting("tags")] = None
    columnar: Annotated[
        bool,
        _flag(
            "--columnar",
            help="Write Parquet parts beside the results, from which large runs are compared and reported "
            "fast.",
        ),
        SET,
    ] = False

    def named(self) -> tuple[str | None, str | None]:
        """Return label and address, from the CI server where they are not given."""
        from judge_eval.runs.judging.provenance import place_in_ci

        label, href = place_in_ci(os.environ)
        return self.label or label, self.href or href
