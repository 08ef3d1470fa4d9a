"""The blocks that a view is made of; writers for the terminal, Markdown, HTML and JSON draw them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Final, Literal, TypeAlias

from judge_eval.stats.figure import Figure
from judge_eval.views.tones import Tone

JSON: TypeAlias = dict[str, Any]
"""What pages and other programs get as JSON."""
ColumnKind = Literal[
    "text", "number", "share", "signed", "effect", "p", "count", "counts", "interval", "signed interval", "strip"
]
"""What a column holds: `number` and `share` have four decimals (without a value `none`, or nothing), `signed`
also its sign, as `effect` with two, `p` three significant digits; `counts` is `1/3/0`."""
_FORMATS: Final[dict[ColumnKind, str]] = {
    "number": ".4f",
    "share": ".4f",
    "signed": "+.4f",
    "effect": "+.2f",
    "p": ".3g",
}
NUMERIC: Final[frozenset[ColumnKind]] = frozenset({"number", "share", "signed", "effect", "p", "count", "counts"})
"""The kinds of columns that are set to the right."""


@dataclass(frozen=True, slots=True)
class Link:
    """A piece of a line, linked if it has an address."""

    text: str
    href: str | None = None


@dataclass(frozen=True, slots=True)
class Headline:
    """The title of a view."""

    parts: tuple[Link, ...]
    """Its pieces, which follow each other without a space between."""
    prefix: str = ""
    """How Markdown begins it: `## `."""
    tone: Tone = "strong"

    @property
    def text(self) -> str:
        """The title without links."""
        return "".join(part.text for part in self.parts)


@dataclass(frozen=True, slots=True)
class Bullets:
    """Lines that stand as the items of a list."""

    items: tuple[Toned | str, ...]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A line of text."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Remark:
    """What a reader of the numbers should know."""

    about: str
    """Its subject in a word, by which other programs recognise it."""
    text: str
    """Without its full stop."""
    tone: Tone = "doubtful"
    label: str = ""
    """What stands before it: `warning`."""

    @property
    def sentence(self) -> str:
        """The text with its label and its full stop; a question has its own mark."""
        text = self.text if self.text.endswith("?") else f"{self.text}."
        return f"{self.label}: {text}" if self.label else text


@dataclass(frozen=True, slots=True)
class Mark:
    """One rank of a strip."""

    sign: str
    tone: Tone = "plain"
    title: str = ""
    """What a pointer on it shows, where the medium can."""
    moved: bool = False
    """Whether the chunk stood elsewhere in the other run."""


@dataclass(frozen=True, slots=True)
class Strip:
    """A retrieval at a glance: one mark a rank."""

    marks: tuple[Mark, ...]

    def __str__(self) -> str:
        return "".join(mark.sign for mark in self.marks) or "(nothing retrieved)"


@dataclass(frozen=True, slots=True)
class Toned:
    """A cell that is set off."""

    value: CellValue
    tone: Tone


@dataclass(frozen=True, slots=True)
class IdList:
    """Traces that a cell names; a page links them."""

    ids: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(self.ids)


CellValue: TypeAlias = str | int | float | tuple[float, float] | Strip | IdList | None
Cell: TypeAlias = CellValue | Toned


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    kind: ColumnKind = "text"
    cut: int | None = None
    """After how many characters a terminal cuts a text."""
    wide: bool = False
    """Whether only media with enough room show it: a terminal does not."""
    optional: bool = False
    """Whether it is left out if no row has a value."""


ITEM: Final = Column("item")
"""The column that an item of a list stands for."""


@dataclass(frozen=True, slots=True)
class TableBlock:
    """Rows of typed cells."""

    name: str
    """What it lists, in a word."""
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    more: int = 0
    """How many rows are left out."""
    of: str = ""
    """What these are: `missed claims`."""

    @property
    def rest(self) -> str:
        """What is left out, in words; empty if the table is complete."""
        return f"... and {self.more:,} more {self.of}".rstrip() if self.more else ""

    def cut(self, rows: int) -> TableBlock:
        """Return the table with so many rows at most."""
        return replace(self, rows=self.rows[:rows], more=self.more + max(0, len(self.rows) - rows))


TableColumns: TypeAlias = Sequence[str | tuple[str, ColumnKind] | Column]
"""The columns of a table: a column of text may be its name alone, one without further options its name and kind."""
MEAN: Final[TableColumns] = [("mean", "number"), ("95% interval", "interval")]
DIFFERENCE: Final[TableColumns] = [("difference", "signed"), ("95% interval", "signed interval")]


def columns_of(kind: ColumnKind, *names: str) -> TableColumns:
    """Make columns of one kind."""
    return [(name, kind) for name in names]


def make_table(
    name: str, columns: TableColumns, rows: Iterable[Sequence[Cell | Figure]], more: int = 0, of: str = ""
) -> TableBlock:
    """Make a table; of a figure its interval stands in columns of intervals, its value in others."""
    pairs = [(column,) if isinstance(column, str) else column for column in columns]
    named = [pair if isinstance(pair, Column) else Column(*pair) for pair in pairs]
    cells = [tuple(map(_part, named, row)) for row in rows]
    filled = [any(row[place] not in (None, "") for row in cells) for place in range(len(named))]
    shown = [place for place, column in enumerate(named) if filled[place] or not column.optional]
    kept = (tuple(row[place] for place in shown) for row in cells)
    return TableBlock(name, tuple(named[place] for place in shown), tuple(kept), more, of)


def _part(column: Column, cell: Cell | Figure) -> Cell:
    if isinstance(cell, Figure):
        return cell.interval if column.kind in ("interval", "signed interval") else cell.value
    return cell


@dataclass(frozen=True, slots=True)
class Pieces:
    """A line whose pieces are set off each on its own, without a space between."""

    pieces: tuple[Toned | Strip | str, ...]
    indent: int = 0
    """By how many spaces it is set in."""


ViewBlock: TypeAlias = Headline | Sentence | Remark | Bullets | Pieces | TableBlock


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks that belong together, set off from the others."""

    name: str
    blocks: tuple[ViewBlock, ...]
    folded: str = ""
    """Under which words Markdown folds it away; it is then the part that is cut for want of room."""


def make_section(name: str, *blocks: ViewBlock | str, folded: str = "") -> Section:
    """Make a section; a text alone is a plain sentence."""
    return Section(name, tuple(Sentence(block) if isinstance(block, str) else block for block in blocks), folded)


@dataclass(frozen=True, slots=True)
class View:
    """What people read of a thing."""

    kind: str
    """Of what: `run`, `comparison`."""
    sections: tuple[Section, ...]

    @property
    def blocks(self) -> Iterator[ViewBlock]:
        """All blocks in their order."""
        return (block for section in self.sections for block in section.blocks)

    @property
    def remarks(self) -> list[Remark]:
        """All remarks in their order."""
        return [block for block in self.blocks if isinstance(block, Remark)]


@singledispatch
def view_of(thing: object) -> View:
    """Return what people read of a thing, as long as fits a notebook; the module of its view registers how."""
    raise TypeError(f"no view of {type(thing).__name__}")


def table_view(columns: TableColumns, rows: Iterable[Sequence[Cell]]) -> View:
    """Build a view of one table."""
    return View("table", (make_section("table", make_table("table", columns, rows)),))


def bare_value(cell: Cell) -> CellValue:
    """Return what a cell holds without its tone."""
    return cell.value if isinstance(cell, Toned) else cell


def cell_text(kind: ColumnKind, value: CellValue) -> str:
    """Write what a cell holds as text."""
    if value is None:
        return "none" if kind == "number" else ""
    if isinstance(value, tuple):
        sign = "+" if kind == "signed interval" else "-"
        return f"[{value[0]:{sign}.4f}, {value[1]:{sign}.4f}]"
    if isinstance(value, int | float):
        return format(value, _FORMATS.get(kind, ""))
    return str(value)
