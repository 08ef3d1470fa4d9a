"""The flags on runs: where they are kept, and what people call them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from judge_eval.cli.flags import completion
from judge_eval.cli.flags.groups import only
from judge_eval.runs.options import PANEL, Keeping
from judge_eval.settings import Setting

if TYPE_CHECKING:
    from judge_eval.eval_run import EvalRun
    from judge_eval.runs.folder.run import Run

_setting = partial(Setting, env=True, file=True, panel=PANEL)


def _folder(place: str | Path) -> Path:
    from judge_eval.data.reading import is_url

    if not is_url(place):
        return Path(place)
    from judge_eval.runs.keeping.mirror import place_of_runs

    return place_of_runs(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Where runs are kept."""

    out: Annotated[
        Path,
        typer.Option(
            parser=_folder, metavar="PATH", help="The folder of runs, or its URL (s3://...).", rich_help_panel=PANEL
        ),
        Setting(env=True, file=True, common=True),
    ] = Path("runs")

    def find(self, name: str, say: Callable[[str], None] | None = None, *, any_: bool = False) -> Path:
        """Return a run's folder; see `find_run`."""
        from judge_eval.runs.keeping.lookup import find_run

        return find_run(name, self.out, say, any_=any_)

    def load(self, name: str, say: Callable[[str], None] | None = None) -> EvalRun:
        """Load a run; see `find`."""
        from judge_eval.eval_run import EvalRun

        return EvalRun.load(self.find(name, say))


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun(Runs):
    """One run, by name."""

    run: Annotated[
        str,
        typer.Argument(
            help="A run's folder, its id or the start of it, label:NAME or latest (the newest that did not fail).",
            autocompletion=completion.runs,
        ),
    ]

    def loaded(self, say: Callable[[str], None] | None = None) -> EvalRun:
        """Load the run; see `find`."""
        return self.load(self.run, say)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepingFlags(Runs, Keeping):
    """Where a new run is kept, and what people call it."""

    server: Annotated[
        str | None,
        _setting("The address of a `serve` of these runs, to print the address of the run's page.", metavar="URL"),
    ] = None
    columnar: Annotated[
        bool, _setting("Write Parquet parts beside the results, from which large runs are compared and reported fast.")
    ] = False

    def check(self) -> None:
        """Check, before the first call, the address of the server and that Parquet parts can be written."""
        self.page()
        if self.columnar:
            from judge_eval.runs.columns.parquet import load_arrow

            load_arrow()

    def write_parts(self, run: Run) -> None:
        """Write Parquet parts beside the results of a run if they are asked for."""
        if self.columnar:
            from judge_eval.runs.columns.parquet import write_parts

            write_parts(run)

    def page(self, run: Run | None = None) -> str | None:
        """Return the address of a run's page, or that of the server; None where no server is set."""
        from judge_eval.errors import ConfigError
        from judge_eval.safe_text import public_url, web_address

        if not self.server:
            return None
        if web_address(self.server) is None or "?" in self.server or "#" in self.server:
            raise ConfigError(
                f"--server {public_url(self.server)}: write the address that `judge-eval serve` prints, such "
                "as http://127.0.0.1:8642"
            )
        top = public_url(self.server).rstrip("/")
        return top if run is None else f"{top}/runs/{run.id}"

    def resolved(self, baseline: EvalRun | None = None) -> Keeping:
        """Return the options with the run to resume found, and the label and address of a CI server."""
        from judge_eval.runs.judging.start import place_in_ci

        label, href = place_in_ci(os.environ)
        return Keeping(
            out=self.out,
            label=self.label or label,
            href=self.href or href,
            tags=self.tags,
            baseline=None if baseline is None else baseline.id,
            resume=self.resume if isinstance(self.resume, bool) else self.find(str(self.resume), any_=True),
            new_if_done=self.new_if_done,
            push_every=self.push_every,
            push_grace=self.push_grace,
        )


FinishedRun: TypeAlias = Annotated[
    str, typer.Argument(help="A finished run: its folder, id, label:NAME or latest.", autocompletion=completion.runs)
]
MADE = only("out", "label", "tags")
"""The part for a run that is made of others, or of replies."""
