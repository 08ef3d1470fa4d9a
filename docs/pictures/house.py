"""Draws docs/design/house.svg: the floors of the house from the layer contract, each room in its own words.

Run `python docs/pictures/house.py` after a room is added, renamed or moved; a test compares the two.
"""

from __future__ import annotations

import ast
import textwrap
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "design" / "house.svg"
WIDTH, LEFT, GAP, LINE, HEAD = 1000, 10, 8, 13, 22
STYLE = (
    "svg{background:#fff}rect{fill:#eef3f8;stroke:#456;stroke-width:1}"
    "text{font-family:sans-serif;fill:#123;text-anchor:middle}.r{font-size:14px;font-weight:600}.d{font-size:11px}"
)


def floors() -> list[list[str]]:
    """Return the rooms of each floor, top to bottom, as the layer contract states them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(each["layers"] for each in contracts["contracts"] if each["containers"] == ["judge_eval"])
    return [[room.strip() for room in layer.split("|")] for layer in layers]


def words_of(room: str) -> str:
    """Return the first sentence of a room's docstring."""
    path = ROOT / "judge_eval" / room
    file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.split("\n")[0].replace("`", "").rstrip(".")


def drawing() -> str:
    """Return the picture: a row a floor, a box a room, its name above its words."""
    top, parts = 10, []
    for rooms in floors():
        rows = [rooms[start : start + 5] for start in range(0, len(rooms), 5)]
        for row in rows:
            wide = (WIDTH - 2 * LEFT - GAP * (len(row) - 1)) // len(row)
            texts = [textwrap.wrap(words_of(room), max(10, int(wide / 5.6))) for room in row]
            high = HEAD + LINE * max(len(lines) for lines in texts) + 6
            for place, (room, lines) in enumerate(zip(row, texts, strict=True)):
                left = LEFT + place * (wide + GAP)
                middle = left + wide // 2
                parts.append(f'<rect x="{left}" y="{top}" width="{wide}" height="{high}" rx="4"/>')
                parts.append(f'<text x="{middle}" y="{top + 16}" class="r">{escape(room)}</text>')
                for number, line in enumerate(lines):
                    below = top + HEAD + LINE * number + 10
                    parts.append(f'<text x="{middle}" y="{below}" class="d">{escape(line)}</text>')
            top += high + GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + 2}" role="img" '
        f'aria-label="The floors of the house, top to bottom">'
    )
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(drawing(), encoding="utf-8")
