"""The flags that belong to no group of verbs: labels by people, a seed, how much is printed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from judge_eval.errors import ConfigError
from judge_eval.settings import Setting
from judge_eval.spelling import option
from judge_eval.trust import check_owned
from judge_eval.user_text import read_toml

if TYPE_CHECKING:
    from judge_eval.runs.options import Selection


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


def output_flag(help: str) -> Any:
    """Make the flag `--output`, `-o` of a verb; `help` says what is written there."""
    return typer.Option("--output", "-o", help=help)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabellingFlags:
    """The labels people gave."""

    labels: Annotated[
        Path | None,
        Setting("Human labels: JSON Lines, a spreadsheet (CSV, .xlsx) or TREC qrels; else those of the dataset."),
    ] = None
    label_relevant: Annotated[int | None, Setting("The least label that counts as relevant.")] = None


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
    from judge_eval.safe_text import public_url

    if is_url(data):
        yield data, public_url(data)
        return
    if data != "-":
        yield Path(data), data
        return
    with copied(sys.stdin.buffer, "standard input") as copy:
        yield copy, "standard input"
