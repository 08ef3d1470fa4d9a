"""The data blocks inside a page's HTML."""

from __future__ import annotations

import base64
import json
import re
import zlib


def data_of(text: str) -> dict:
    """Read the data out of a report."""
    result = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert result is not None
    return json.loads(result.group(1))


def blocks_of(text: str) -> list[dict]:
    """Read the traces out of a report."""
    result = re.search(r'<script type="application/json" id="blocks">(.*?)</script>', text, re.DOTALL)
    assert result is not None
    return [
        trace
        for block in json.loads(result.group(1))["blocks"]
        for trace in json.loads(zlib.decompress(base64.b64decode(block)))
    ]
