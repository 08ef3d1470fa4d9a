"""A view as Markdown, with every text made safe."""

from judge_eval.safe_text import markdown, shortened, web_address
from judge_eval.views import blocks


def markdown_of(view: blocks.View, room: int | None = None) -> str:
    """Write a view, its blocks set off by empty lines, in at most `room` characters."""
    # The rows of folded sections are cut to fit, then the rest at a line's end.
    whole = [section for section in view.sections if not section.folded]
    text = "\n\n".join(_block(block) for section in whole for block in section.blocks)
    if room is not None and len(text) > room - 1000:  # hundreds of metrics: cut at a line, so no row breaks
        text = text[: room - 1000].rpartition("\n")[0] + "\n\n... (cut: the report is too long)"
    for section in (section for section in view.sections if section.folded):
        text += "\n\n" + _folded(section, None if room is None else room - len(text) - 200)
    return text + "\n"


def _folded(section: blocks.Section, room: int | None) -> str:
    """Fold a section away under its summary, with as many rows of its tables as there is room for."""
    head, tail = f"<details><summary>{markdown(section.folded)}</summary>\n\n", "\n\n</details>"
    parts: list[str] = []
    for block in section.blocks:
        text = _block(block)
        left = None if room is None else room - len(head) - len(tail) - sum(map(len, parts)) - 100
        if left is not None and len(text) > left:
            if not isinstance(block, blocks.TableBlock):
                break
            rows = len(block.rows)
            while rows and len(text) > left:
                rows = min(rows - 1, max(0, rows * left // len(text)))
                text = _block(block.cut(rows))
        parts.append(text)
    return head + "\n\n".join(parts) + tail


def linked(text: str, href: str | None) -> str:
    """Write a text as Markdown, linked where the address is one of the web."""
    href = web_address(href)
    return f"[{markdown(text)}](<{href}>)" if href else markdown(text)


def _block(block: blocks.ViewBlock) -> str:
    if isinstance(block, blocks.TableBlock):
        return _table(block)
    if isinstance(block, blocks.Headline):
        return block.prefix + "".join(_linked(part) for part in block.parts)
    if isinstance(block, blocks.Pieces):
        return "".join(_cell(blocks.ITEM, piece) for piece in block.pieces)
    if isinstance(block, blocks.Bullets):
        return "\n".join(f"- {_cell(blocks.ITEM, item)}" for item in block.items)
    text = markdown(block.sentence if isinstance(block, blocks.Remark) else block.text)
    if isinstance(block, blocks.Remark) and block.label:
        return f"> **{text}**" if block.tone == "doubtful" else f"> {text}"
    return f"**{text}**" if block.tone in ("strong", "bad") else text


def _linked(part: blocks.Link) -> str:
    """Write a piece of a headline; the spaces at its ends part it from the others."""
    lead, end = (" " if part.text[place : place + 1 or None] == " " else "" for place in (0, -1))
    return lead + linked(part.text, part.href) + end


def _table(table: blocks.TableBlock) -> str:
    head = " | ".join(markdown(column.name) for column in table.columns)
    rule = "|".join("---" for _ in table.columns)
    rows = [" | ".join(map(_cell, table.columns, row)) for row in table.rows]
    lines = [f"| {head} |", f"|{rule}|", *(f"| {row} |" for row in rows)] if rows else []
    more = [*([""] if rows else []), markdown(table.rest)] if table.rest else []
    return "\n".join([*lines, *more])


def _cell(column: blocks.Column, cell: blocks.Cell) -> str:
    value = blocks.bare_value(cell)
    if isinstance(value, blocks.Strip):
        return f"`{str(value)[:40]}`" if value.marks else markdown(str(value))
    text = blocks.cell_text(column.kind, value)
    if column.kind == "text":
        text = markdown(text if column is blocks.ITEM else shortened(text, 200))
    return (
        f"**{text}**"
        if text and isinstance(cell, blocks.Toned) and cell.tone in ("strong", "bad", "evidence")
        else text
    )
