"""A view as JSON, for pages and other programs."""

from collections.abc import Iterable
from typing import Any, TypeAlias

from judge_eval.views.blocks import (
    Bullets,
    Cell,
    Headline,
    IdList,
    Pieces,
    Remark,
    Sentence,
    Strip,
    TableBlock,
    Toned,
    View,
    ViewBlock,
    bare_value,
)

JSON: TypeAlias = dict[str, Any]


def data_of(view: View) -> JSON:
    """Return a view as values that JSON can hold: numbers stay numbers."""
    sections = [{"name": each.name, "blocks": blocks_data(each.blocks)} for each in view.sections]
    return {"kind": view.kind, "sections": sections}


def remarks_data(remarks: Iterable[Remark]) -> list[JSON]:
    """Return remarks as values that JSON can hold."""
    return [{"about": r.about, "tone": r.tone, "text": r.text} for r in remarks]


def blocks_data(blocks: Iterable[ViewBlock]) -> list[JSON]:
    """Return blocks as values that JSON can hold, for a page to draw."""
    return [_block(block) for block in blocks]


def _block(block: ViewBlock) -> JSON:
    if isinstance(block, Headline):
        links = [{"text": part.text, "href": part.href} for part in block.parts]
        return {"type": "headline", "text": block.text, "parts": links}
    if isinstance(block, Pieces):
        text = "".join(str(bare_value(piece)) for piece in block.pieces)
        return {"type": "line", "text": text, "pieces": [_cell(piece) for piece in block.pieces]}
    if isinstance(block, Bullets):
        return {"type": "list", "items": [_cell(item) for item in block.items]}
    if isinstance(block, Sentence):
        return {"type": "sentence", "tone": block.tone, "text": block.text}
    if isinstance(block, Remark):
        (data,) = remarks_data([block])
        return {"type": "remark", **data}
    return _table(block)


def _table(table: TableBlock) -> JSON:
    return {
        "type": "table",
        "name": table.name,
        "columns": [{"name": column.name, "kind": column.kind} for column in table.columns],
        "rows": [[_cell(cell) for cell in row] for row in table.rows],
        "rest": table.rest,
    }


def _cell(cell: Cell) -> Any:
    if isinstance(cell, Toned):
        return {"tone": cell.tone, "value": _cell(cell.value)}
    if isinstance(cell, Strip):
        return str(cell) if cell.marks else ""
    return list(cell.ids) if isinstance(cell, IdList) else list(cell) if isinstance(cell, tuple) else cell
