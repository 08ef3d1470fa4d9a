"""A view on the terminal: the lines and tables that `rich` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from rich.table import Table as Grid
from rich.text import Text

from judge_eval.safe_text import one_line, printable, shortened
from judge_eval.views import blocks
from judge_eval.views.tones import STYLES

if TYPE_CHECKING:
    from judge_eval.views.blocks import View, ViewBlock

Printed: TypeAlias = Text | Grid


def for_terminal(view: View) -> Iterator[Printed]:
    """Yield what is to be printed; sections and tables are set off by empty lines."""
    # Texts are shown as they are, without markup and without what would steer a terminal.
    begun = False
    for section in view.sections:
        if begun and section.blocks:
            yield Text()
        yield from section_lines(section)
        begun = begun or bool(section.blocks)


def section_lines(section: blocks.Section) -> Iterator[Printed]:
    """Yield what is to be printed of one section."""
    for place, block in enumerate(section.blocks):
        if place and isinstance(block, blocks.TableBlock):
            yield Text()
        yield from _printed(block)


def _printed(block: ViewBlock) -> Iterator[Printed]:
    if isinstance(block, blocks.TableBlock):
        if block.rows:
            yield _grid(block)
        if block.rest:
            yield Text(one_line(block.rest))
    elif isinstance(block, blocks.Pieces):
        yield _line(block)
    elif isinstance(block, blocks.Bullets):
        yield from (_cell(blocks.ITEM, item) for item in block.items)
    else:
        text = block.sentence if isinstance(block, blocks.Remark) else block.text
        yield Text(printable(text), style=STYLES[block.tone])


def _grid(table: blocks.TableBlock) -> Grid:
    grid = Grid(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    shown = [place for place, column in enumerate(table.columns) if not column.wide]
    for column in (table.columns[place] for place in shown):
        right = column.kind in blocks.NUMERIC
        grid.add_column(one_line(column.name), justify="right" if right else "left", no_wrap=right, overflow="fold")
    for row in table.rows:
        grid.add_row(*(_cell(table.columns[place], row[place]) for place in shown))
    return grid


def _line(line: blocks.Pieces) -> Text:
    text = Text(" " * line.indent)
    for piece in line.pieces:
        if isinstance(piece, blocks.Strip):
            text.append_text(_strip(piece))
            continue
        written = printable(str(blocks.bare_value(piece)))
        tone = piece.tone if isinstance(piece, blocks.Toned) else "plain"
        text.append(f">>{written}<<" if tone == "evidence" else written, style=STYLES[tone])
    return text


def _strip(strip: blocks.Strip) -> Text:
    drawn = Text()
    for mark in strip.marks:
        drawn.append(one_line(mark.sign), style=STYLES[mark.tone])
    return drawn if strip.marks else Text(str(strip))


def _cell(column: blocks.Column, cell: blocks.Cell) -> Text:
    value = blocks.bare_value(cell)
    if isinstance(value, blocks.Strip):
        return _strip(value)
    text = blocks.cell_text(column.kind, value)
    if column.cut is not None:
        text = shortened(text, column.cut)
    return Text(one_line(text), style=STYLES[cell.tone] if isinstance(cell, blocks.Toned) else "")
