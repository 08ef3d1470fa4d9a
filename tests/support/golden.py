"""Golden files: what people read, kept beside the tests; `UPDATE_GOLDEN=1` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "golden"


def check_golden(name: str, text: str) -> None:
    """Compare a text with the golden file of that name."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    assert text == path.read_bytes().decode()
