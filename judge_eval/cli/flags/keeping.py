"""The flags on runs: where they are kept, and what people call them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge_eval.cli.flags import completion
from judge_eval.cli.flags.groups import SET, Setting

if TYPE_CHECKING:
    from judge_eval.eval_run import EvalRun
    from judge_eval.runs.folder.run import Run

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

    def find(self, name: str, say: Callable[[str], None] | None = None, *, any_: bool = False) -> Path:
        """Return a run's folder.

        Args:
            name: Which run.
            say: Told which was taken, and why, where `latest` or a label pass over newer ones.
            any_: Whether `latest` and labels take the newest run whatever became of it.

        Raises:
            RunError: There is no such run.
        """
        from judge_eval.runs.keeping.finding import find_run

        return find_run(name, self.out, say, any_=any_)

    def load(self, name: str, say: Callable[[str], None] | None = None) -> EvalRun:
        """Load a run; see `find`.

        Raises:
            RunError: There is no such run, or it cannot be read.
        """
        from judge_eval.eval_run import EvalRun

        return EvalRun.load(self.find(name, say))


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun(Runs):
    """One run, by name."""

    run: Annotated[
        str,
        typer.Argument(
            help="A run's folder, its id or the start of it, label:NAME or latest (the newest that did not "
            "fail).",
            autocompletion=completion.runs,
        ),
    ]

    def loaded(self, say: Callable[[str], None] | None = None) -> EvalRun:
        """Load the run; see `find`.

        Raises:
            RunError: There is no such run, or it cannot be read.
        """
        return self.load(self.run, say)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepingFlags(Runs):
    """Where a new run is kept, and what people call it."""

    label: Annotated[str | None, _flag(help="What people call the run."), SET] = None
    href: Annotated[str | None, _flag(help="Where the run belongs: a pull request, a job."), SET] = None
    tag: Annotated[list[str] | None, _flag(help="A word to filter by; repeatable."), Setting("tags")] = None
    server: Annotated[
        str | None,
        _flag(
            metavar="URL",
            help="The address of a `serve` over these runs: the address of the run's page is printed.",
        ),
        SET,
    ] = None
    columnar: Annotated[
        bool,
        _flag(
            "--columnar",
            help="Write Parquet parts beside the results, from which large runs are compared and reported "
            "fast.",
        ),
        SET,
    ] = False

    def page(self, run: Run | None = None) -> str | None:
        """Return the address of a run's page, or that of the server; None where no server is set.

        Raises:
            ConfigError: The server's address is none.
        """
        from judge_eval.errors import ConfigError
        from judge_eval.shown import web_address
        from judge_eval.urls import public_url

        if not self.server:
            return None
        if web_address(self.server) is None or "?" in self.server or "#" in self.server:
            raise ConfigError(
                f"--server {public_url(self.server)}: write the address that `judge-eval serve` prints, such "
                "as http://127.0.0.1:8642"
            )
        top = public_url(self.server).rstrip("/")
        return top if run is None else f"{top}/runs/{run.id}"

    def named(self) -> tuple[str | None, str | None]:
        """Return label and address, from the CI server where they are not given."""
        from judge_eval.runs.judging.provenance import place_in_ci

        label, href = place_in_ci(os.environ)
        return self.label or label, self.href or href
