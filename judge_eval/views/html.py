"""A view as a small HTML fragment, for notebooks: all text is escaped, and it runs and loads nothing."""

import re
from html import escape
from typing import Final

from judge_eval.views import blocks
from judge_eval.views.tones import Tone

_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_SQUARE = "display:inline-block;width:1.1em;text-align:center;border:1px solid #888;margin-right:1px;"
_FILLS: Final[dict[Tone, str]] = {"good": "#9bd39b", "bad": "repeating-linear-gradient(45deg,#fff,#fff 2px,#c66 4px)"}


def html_of(view: blocks.View) -> str:
    """Write a view."""
    return "<div>" + "".join(_block(block) for block in view.blocks) + "</div>"


def _squares_of(strip: blocks.Strip) -> str:
    return "".join(map(_square, strip.marks)) or str(strip)


def _square(mark: blocks.Mark) -> str:
    border = ";border-style:dashed" if mark.moved else ""
    style = f"{_SQUARE}background:{_FILLS.get(mark.tone, '#f4f4f4')}{border};color:#111"
    title = f' title="{escape(mark.title, quote=True)}"' if mark.title else ""
    return f"<span style='{style}'{title}>{escape(mark.sign)}</span>"


def with_code(escaped: str) -> str:
    """Set what stands between backticks of an escaped sentence as code, as `sentence` of the pages' scripts does."""
    return _CODE.sub(r"<code>\1</code>", escaped)


def _block(block: blocks.ViewBlock) -> str:
    if isinstance(block, blocks.TableBlock):
        return _table(block)
    if isinstance(block, blocks.Headline):
        return f"<p><b>{with_code(escape(block.text))}</b></p>"
    if isinstance(block, blocks.Pieces):
        return f"<div style='margin-left:{block.indent}ch'>{''.join(map(_piece, block.pieces))}</div>"
    if isinstance(block, blocks.Bullets):
        return f"<ul>{''.join(f'<li>{with_code(_text(blocks.ITEM, item))}</li>' for item in block.items)}</ul>"
    text = with_code(escape(block.sentence if isinstance(block, blocks.Remark) else block.text))
    return f"<p><b>{text}</b></p>" if block.tone in ("strong", "bad") else f"<p>{text}</p>"


def _piece(piece: blocks.Toned | blocks.Strip | str) -> str:
    if isinstance(piece, blocks.Strip):
        return _squares_of(piece)
    text = escape(str(blocks.bare_value(piece)))
    if isinstance(piece, blocks.Toned) and piece.tone == "evidence":
        return f"<mark>{text}</mark>"
    return f"<b>{text}</b>" if isinstance(piece, blocks.Toned) and piece.tone in ("good", "bad") else text


def _table(table: blocks.TableBlock) -> str:
    more = f"<p>{with_code(escape(table.rest))}</p>" if table.rest else ""
    if not table.rows:
        return more
    head = "".join(f"<th{_side(column)}>{escape(column.name)}</th>" for column in table.columns)
    rows = "".join(f"<tr>{''.join(map(_cell, table.columns, row))}</tr>" for row in table.rows)
    return f"<table><tr>{head}</tr>{rows}</table>{more}"


def _cell(column: blocks.Column, cell: blocks.Cell) -> str:
    value = blocks.bare_value(cell)
    if isinstance(value, blocks.Strip):
        return f"<td>{_squares_of(value)}</td>"
    return f"<td{_side(column)}>{_text(column, cell)}</td>"


def _side(column: blocks.Column) -> str:
    return " style='text-align:left'" if column.kind == "text" else ""


def _text(column: blocks.Column, cell: blocks.Cell) -> str:
    text = escape(blocks.cell_text(column.kind, blocks.bare_value(cell)))
    return f"<b>{text}</b>" if isinstance(cell, blocks.Toned) and cell.tone in ("strong", "bad") else text
