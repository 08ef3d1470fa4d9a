"""Blocks as the HTML of the pages, whose styles say how they look: all text is escaped, and nothing in it runs."""

import re
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from html import escape
from typing import Final
from urllib.parse import quote

from judge_eval.runs.folder.judgedclaims import CLAIM_SIGNS
from judge_eval.views import blocks
from judge_eval.views.claims import SAID_WORDS
from judge_eval.views.html import with_code

_HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\ufeff]")
"""Signs that would change how the text around them reads, or that cannot be seen."""
_MARKS: Final = {"+": ("✓", "yes"), "~": ("~", "some"), "x": ("×", "against"), ".": ("·", "no"), "!": ("!", "failed")}
_MEANINGS: Final = {CLAIM_SIGNS[verdict]: words for verdict, words in SAID_WORDS.items()}


def page_html(shown: Iterable[blocks.ViewBlock], label: str = "", heading: str = "h3") -> str:
    """Write blocks: strong sentences as headings, tables under `label` (else their own name)."""
    return "".join(_block(block, label, heading) for block in shown)


def sections_html(sections: Iterable[blocks.Section], label: str = "") -> str:
    """Write the blocks of sections; empty without any."""
    return "".join(page_html(section.blocks, label) for section in sections)


def _block(block: blocks.ViewBlock, label: str, heading: str) -> str:
    if isinstance(block, blocks.TableBlock):
        return _table(block, label or block.name)
    if isinstance(block, blocks.Bullets):
        return f"<ul>{''.join(f'<li>{with_code(_cell(blocks.ITEM, item))}</li>' for item in block.items)}</ul>"
    if isinstance(block, blocks.Pieces):
        text = "".join(str(blocks.bare_value(piece)) for piece in block.pieces)
        return f"<p class=sentence dir=auto>{_text(text)}</p>"
    text = with_code(_text(block.sentence if isinstance(block, blocks.Remark) else block.text))
    if block.tone == "strong":
        return f"<{heading} dir=auto>{text}</{heading}>"
    return f"<p class=sentence dir=auto>{text}</p>"


def _table(table: blocks.TableBlock, label: str) -> str:
    head = "".join(f"<th scope=col{_side(column)}>{_text(column.name)}</th>" for column in table.columns)
    rows = "".join(f"<tr>{''.join(map(_data, table.columns, row))}</tr>" for row in table.rows)
    region = f'<div class=scroll tabindex=0 role=region aria-label="{_plain(label)}">'
    more = f"<p class=note>{with_code(_text(table.rest))}</p>" if table.rest else ""
    grid = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f"<div class=claimlist>{region}{grid}</div>{more}</div>"


def _data(column: blocks.Column, cell: blocks.Cell) -> str:
    return f"<td{_side(column)}>{_cell(column, cell)}</td>"


def _side(column: blocks.Column) -> str:
    return " class=right" if column.kind in ("number", "share", "count", "signed", "p") else ""


def _cell(column: blocks.Column, cell: blocks.Cell) -> str:
    if isinstance(cell, blocks.Toned):
        if cell.tone == "plain":
            return _cell(column, cell.value)
        if cell.tone == "strong":
            return f"<b class=whole>{_cell(column, cell.value)}</b>"
        kind, sign = ("fail", "▼") if cell.tone == "bad" else ("pass", "▲")
        return f'<b class="whole {kind}">{sign} {_text(str(cell.value))}</b>'
    if isinstance(cell, blocks.Strip):
        return _strip(cell)
    if isinstance(cell, blocks.IdList):
        return ", ".join(map(_trace, cell.ids))
    if isinstance(cell, str) and cell.startswith("█"):  # a bar; the number stands beside it
        return f"<span class=bar aria-hidden=true>{'<i></i>' * len(cell)}</span>"
    if column.kind in ("interval", "signed interval"):
        return f"<span class=whole>{_interval(column.kind, cell)}</span>"
    if isinstance(cell, str):
        name = re.sub(r"\W+", "-", column.name, flags=re.ASCII)
        return f"<span class=column-{name} dir=auto>{_text(cell)}</span>"
    if isinstance(cell, tuple) or column.kind not in ("number", "share", "signed", "p"):
        return _text(blocks.cell_text(column.kind, cell))
    if cell is None:
        return "–"
    if column.kind == "p" and cell < 0.001:
        return "&lt;0.001"
    return _signed(cell) if column.kind == "signed" else _rounded(cell)


def _trace(name: str) -> str:
    return f'<a href="#{quote(name, safe="!~*()")}"><bdi dir=auto>{_text(name)}</bdi></a>'


def _interval(kind: blocks.ColumnKind, value: blocks.CellValue) -> str:
    if not isinstance(value, tuple):
        return "no interval"
    write = _rounded if kind == "interval" else _signed
    return f"[{write(value[0])}, {write(value[1])}]"


def _rounded(value: float) -> str:
    """Round to three decimals as browsers do: a half goes away from zero."""
    return str(Decimal(value).quantize(Decimal("0.001"), ROUND_HALF_UP)).replace("-", "−")


def _signed(value: float) -> str:
    text = _rounded(abs(value))
    return f"±{text}" if float(text) == 0 else f"{'−' if value < 0 else '+'}{text}"


def _strip(strip: blocks.Strip) -> str:
    signs = [mark.sign for mark in strip.marks]
    meaning = "; ".join(f"{rank} {_MEANINGS[sign]}" for rank, sign in enumerate(signs, 1)) or "nothing retrieved"
    squares = "".join(f'<span class="sq {_MARKS[sign][1]}" aria-hidden=true>{_MARKS[sign][0]}</span>' for sign in signs)
    return f'<span class=strip role=img aria-label="{_plain(meaning)}">{squares}</span>'


def _text(text: str) -> str:
    """Write a text that others may have written; of a hidden sign its code is shown."""
    return _HIDDEN.sub(lambda sign: f"<span class=sign>U+{ord(sign[0]):04X}</span>", escape(text, quote=False))


def _plain(text: str) -> str:
    """The same inside an attribute, which holds no elements."""
    return _HIDDEN.sub(lambda sign: f"U+{ord(sign[0]):04X}", escape(text))
