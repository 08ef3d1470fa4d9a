"""What a page's HTML holds: its data, its traces, and the tables that Python wrote."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from typing import Any


def data_of(text: str) -> dict:
    """Read the data out of a report."""
    return _unpacked(_island(text, "data"))


def blocks_of(text: str) -> list[dict]:
    """Read the traces out of a report."""
    return [trace for block in _island(text, "blocks")["blocks"] for trace in _unpacked(block)]


def tables_in(html: str) -> list[list[list[str]]]:
    """Read the tables of a piece of HTML: the texts of the cells, row by row, without the head."""
    reader = _Tables()
    reader.feed(html)
    return reader.tables


def _island(text: str, name: str) -> Any:
    result = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', text, re.DOTALL)
    assert result is not None
    return json.loads(result.group(1))


def _unpacked(block: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(block)))


class _Tables(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tbody":
            self.inside = True
            self.tables.append([])
        elif tag == "tr" and self.inside:
            self.tables[-1].append([])
        elif tag == "td":
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "tbody"

    def handle_data(self, data: str) -> None:
        if self.inside and self.tables[-1] and self.tables[-1][-1]:
            self.tables[-1][-1][-1] += data
