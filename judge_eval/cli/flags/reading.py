"""The flags on the data: how they are read, and which traces are taken."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from judge_eval.cli.flags.groups import FILE, SET
from judge_eval.cli.flags.keeping import PANEL as KEEPING
from judge_eval.errors import ConfigError
from judge_eval.ranges import check_ranges

if TYPE_CHECKING:
    from judge_eval.data.options import ReadOptions
    from judge_eval.runs.judging.selection import Selecting

_flag = partial(typer.Option, rich_help_panel="Reading the data")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingFlags:
    """How the data are read."""

    format: Annotated[
        str | None,
        _flag(help="The data's format, where their keys do not tell it (an unknown name lists them all)."),
        SET,
    ] = None
    map: Annotated[
        list[str] | None,
        _flag(
            help="OURS=THEIRS: what a field is called in the data (chunks.text inside chunks); repeatable."
        ),
        FILE,
    ] = None
    corpus: Annotated[
        Path | None, _flag(help="Where the texts of retrieved ids are: a file or folder."), FILE
    ] = None
    list_sep: Annotated[
        str | None,
        _flag(help="What stands between the items of a list in a cell; none takes a cell for one item."),
        FILE,
    ] = None
    depth: Annotated[int | None, _flag(help="Take at most this many chunks of a trace."), FILE] = None
    records: Annotated[
        str | None,
        _flag(help="Where the records stand: a list in a JSON file (run.cases), or a worksheet."),
        FILE,
    ] = None
    group_by: Annotated[
        str | None, _flag(help="The key that all rows of a trace share, where a row is a chunk."), FILE
    ] = None

    def options(self, relevant: int | None = None) -> ReadOptions:
        """Say how the data are read.

        Args:
            relevant: The least grade of a collection's judgments that counts as relevant.

        Raises:
            ConfigError: A pair has no `=`, or names a field that does not exist.
        """
        from judge_eval.data.options import ReadOptions

        pairs = {}
        for pair in self.map or ():
            ours, equals, theirs = pair.partition("=")
            if not equals or not ours or not theirs:
                raise ConfigError(f"--map {pair!r}: write OURS=THEIRS, such as reference=gold_answer")
            pairs[ours.strip()] = theirs.strip()
        return ReadOptions(
            format=self.format,
            map=pairs,
            corpus=self.corpus,
            list_sep=self.list_sep,
            depth=self.depth,
            relevant=relevant,
            records=self.records,
            group_by=self.group_by,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoosingFlags:
    """Which traces of the data are judged."""

    limit: Annotated[int | None, typer.Option(help="Judge at most this many traces.")] = None
    seed: Annotated[
        int | None, typer.Option(help="With --limit: a random sample instead of the first traces.")
    ] = None
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Judge part I of N, by trace id; `runs merge` joins the runs.",
            rich_help_panel=KEEPING,
        ),
    ] = None
    on_invalid: Annotated[
        Literal["error", "skip"], typer.Option(help="What an invalid record does."), SET
    ] = "error"
    claims: Annotated[
        Path | None,
        typer.Option(
            help="With --mode claims: a file with the claims of the references (`judge-eval claims` writes "
            "one); else they are split by the judge."
        ),
        FILE,
    ] = None

    @property
    def part(self) -> tuple[int, int] | None:
        """The shard `2/8` as the second of eight parts; None where all traces are taken.

        Raises:
            ConfigError: It is not two whole numbers, the first from 1 to the second.
        """
        if self.shard is None:
            return None
        index, slash, count = self.shard.partition("/")
        if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
            raise ConfigError(f"--shard {self.shard!r}: write I/N with I from 1 to N, such as 2/8")
        check_ranges({"shard": int(count)})
        return int(index), int(count)

    def check_claims(self, by_claims: bool) -> None:
        """See that a file of claims goes with judging by claims.

        Raises:
            ConfigError: There is one, and judging does not go by claims.
        """
        if self.claims is not None and not by_claims:
            raise ConfigError("--claims is for judging by claims (--mode claims, or claims-list)")

    def selecting(self, name: str, reader: ReadOptions) -> Selecting:
        """Return what an evaluator is told of the traces to judge."""
        return {
            "limit": self.limit,
            "seed": self.seed,
            "shard": self.part,
            "on_invalid": self.on_invalid,
            "name": name,
            "reader": reader,
            "claims": self.claims,
        }


@contextmanager
def readable(data: str) -> Iterator[tuple[Path | str, str]]:
    """Yield what can be read twice, with its name: standard input is copied to a temporary file."""
    from judge_eval.data.files.opening import copied
    from judge_eval.data.remote import is_url
    from judge_eval.urls import public_url

    if is_url(data):
        yield data, public_url(data)
        return
    if data != "-":
        yield Path(data), data
        return
    with copied(sys.stdin.buffer, "standard input") as copy:
        yield copy, "standard input"
