"""The flags that verbs share: what is read and printed, labels, runs and where they are kept, the numbers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from judge_eval.cli.flags import completion
from judge_eval.cli.flags.groups import only
from judge_eval.cli.printing.output import remark
from judge_eval.errors import ConfigError
from judge_eval.runs.options import PANEL, Keeping
from judge_eval.safe_text import listed_names, public_url, read_toml, web_address
from judge_eval.settings import Setting, setting
from judge_eval.spelling import option
from judge_eval.trust import check_owned

if TYPE_CHECKING:
    from judge_eval.data.labels import Labels
    from judge_eval.eval_run import EvalRun
    from judge_eval.runs.folder.records import Intervals, SliceBy
    from judge_eval.runs.folder.run import Run
    from judge_eval.runs.options import Selection
else:  # flags start without NumPy
    SliceBy = str


TracesFile: TypeAlias = Annotated[
    str, typer.Argument(help="Traces: a file, folder or URL of any known format; - reads standard input.")
]
Seed: TypeAlias = Annotated[int, typer.Option("--seed", help="The seed for random draws.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no remarks.")]
SafeCells: TypeAlias = Annotated[
    bool, typer.Option("--safe-cells", help="In CSV: a ' before what a spreadsheet would take for a formula.")
]
Floor: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--floor",
        metavar="MODEL",
        help="A model that any judge must beat, such as `local/FOLDER` of an embedding model, or `fake/overlap`.",
    ),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table."), Setting(common=True)]


def runs_argument(help: str) -> Any:
    """Make the argument of a verb that names a run, or several; the shell offers them."""
    return typer.Argument(help=help, autocompletion=completion.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabellingFlags:
    """The labels people gave."""

    labels: Path | None = setting(
        None, "Human labels: JSON Lines, a spreadsheet (CSV, .xlsx) or TREC qrels; else those of the dataset."
    )
    label_relevant: int | None = setting(None, "The least label that counts as relevant.")

    def of(self, run: Run) -> Labels | None:
        """Return the labels of a run's chunks in the file; None if none is named."""
        from judge_eval.study.matching import labels_of

        return None if self.labels is None else labels_of(run, self.labels, self.label_relevant)


FILES = ("judge_eval.toml", "pyproject.toml")
"""The names of configuration files."""


def nearest_config(start: Path | None = None) -> tuple[Path | None, dict[str, Any]]:
    """Return the nearest configuration file and what it holds."""
    folder = (start or Path.cwd()).resolve()
    for above in (folder, *folder.parents):
        for name in FILES:
            path = above / name
            if path.is_file():
                data = _read(path)
                if data is not None:
                    check_owned(path)
                    return path, data
    return None, {}


def _read(path: Path) -> dict[str, Any] | None:
    data: Any = read_toml(path)
    if path.name == "pyproject.toml":
        tool = data.get("tool")
        data = tool.get("judge_eval") if isinstance(tool, dict) else None
        if data is None:
            return None
        if not isinstance(data, dict):
            raise ConfigError(f"{path}: tool.judge_eval is not a table; write [tool.judge_eval]")
    table: dict[str, Any] = data
    return table


def configured_judges(start: Path | None = None) -> tuple[Path | None, dict[str, Any]]:
    """Return the tables `[judge.NAME]` of the nearest configuration by name, and its file."""
    path, data = nearest_config(start)
    judges = data.get("judge")
    return path, judges if isinstance(judges, dict) else {}


def check_claims(selection: Selection, by_claims: bool) -> None:
    """Check that a file of claims is given only with judging by claims."""
    if selection.claims is not None and not by_claims:
        raise ConfigError(f"{option('claims')} is for judging by claims ({option('mode', 'claims')}, or claims-list)")


@contextmanager
def readable(data: str) -> Iterator[tuple[Path | str, str]]:
    """Yield what can be read twice, with its name: standard input is copied to a temporary file."""
    from judge_eval.data.files.opening import copied
    from judge_eval.data.reading import is_url

    if is_url(data):
        yield data, public_url(data)
        return
    if data != "-":
        yield Path(data), data
        return
    with copied(sys.stdin.buffer, "standard input") as copy:
        yield copy, "standard input"


JUDGING = "Judging"
_number = partial(setting, env=True, file=True, panel="Numbers")


def _slices(texts: list[str]) -> tuple[str, ...]:
    known = ("tag", "language", "length", "source")
    for text in texts:
        if text not in known:
            raise ConfigError(f"{option('by')} {text!r}: write {', '.join(known[:-1])} or {known[-1]}")
    return tuple(texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumbersFlags:
    """What is computed from the verdicts."""

    metrics: list[str] | None = _number(
        None,
        "Metrics, separated by commas or repeated: AP@5,MRR,NDCG@5.",
        metavar="METRIC",
        panel=JUDGING,
        flags=("--metrics", "-k"),
        completion="metrics",
        common=True,
    )
    relevant: int | None = _number(
        None, "The least grade that counts as relevant, instead of the prompt's.", panel=JUDGING, changes_verdict=True
    )
    interval: Literal["auto", "t", "bca"] = _number(
        "auto",
        "How intervals of means are computed: as suits the values, or always by Student's t or the BCa bootstrap.",
    )
    cluster: str = _number(
        "cluster", "The key of a trace's metadata that says which traces belong together.", metavar="KEY"
    )

    by: tuple[SliceBy, ...] = setting(
        (),
        "Also show every figure by tag, language, length or source of the traces; repeatable.",
        "Numbers",
        metavar="tag|language|length|source",
        type=list[str] | None,
        read=_slices,
    )

    @property
    def names(self) -> list[str]:
        """The metrics by name: `AP@5,NDCG(gain=exp)@10` split at what stands outside parentheses."""
        return [name for text in self.metrics or () for name in listed_names(text)]

    @property
    def intervals(self) -> Intervals:
        """How intervals are made."""
        from judge_eval.runs.folder.records import Intervals

        return Intervals(method=self.interval, cluster=self.cluster, by=self.by)


_kept = partial(setting, env=True, file=True, panel=PANEL)


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

    def find(self, name: str, *, any_: bool = False) -> Path:
        """Return a run's folder; see `find_run`."""
        from judge_eval.runs.keeping.lookup import find_run

        return find_run(name, self.out, remark, any_=any_)

    def load(self, name: str) -> EvalRun:
        """Load a run; see `find`."""
        from judge_eval.eval_run import EvalRun

        return EvalRun.load(self.find(name))

    def written(self, *, quiet: bool = False) -> AbstractContextManager[None]:
        """Push what the block writes if the runs lie behind a URL; see `mirror.written`."""
        from judge_eval.runs.keeping.mirror import PUSH_GRACE, written

        say: Callable[[str], None] = (lambda _: None) if quiet else remark
        return written(self.out, say, getattr(self, "push_grace", PUSH_GRACE))


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun(Runs):
    """One run, by name."""

    run: Annotated[
        str,
        runs_argument(
            "A run's folder, its id or the start of it, label:NAME or latest (the newest that did not fail)."
        ),
    ]

    def loaded(self) -> EvalRun:
        """Load the run; see `find`."""
        return self.load(self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepingFlags(Runs, Keeping):
    """Where a new run is kept, and what people call it."""

    server: str | None = _kept(
        None, "The address of a `serve` of these runs, to print the address of the run's page.", metavar="URL"
    )

    def check(self) -> None:
        """Check the address of the server before the first call."""
        self.page()

    def page(self, run: Run | None = None) -> str | None:
        """Return the address of a run's page, or that of the server; None where no server is set."""
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
        from judge_eval.runs.judging.session import place_in_ci

        label, href = place_in_ci(os.environ)
        return replace(
            self,
            label=self.label or label,
            href=self.href or href,
            baseline=None if baseline is None else baseline.id,
            resume=self.resume if isinstance(self.resume, bool) else self.find(str(self.resume), any_=True),
        )


FinishedRun: TypeAlias = Annotated[str, runs_argument("A finished run: its folder, id, label:NAME or latest.")]
MADE = only("out", "label", "tags")
"""The part for a run that is made of others, or of replies."""
