"""Writing a file that is odd, and reading it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from judge_eval.data.reading import open_dataset
from judge_eval.schema import Trace


def write(folder: Path, name: str, content: str | bytes | list[Any]) -> Path:
    """Write a file; a list becomes JSON Lines."""
    path = folder / name
    if isinstance(content, list):
        content = "".join(json.dumps(row) + "\n" for row in content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path: Path, **options: Any) -> list[Trace]:
    """Read all of a file."""
    return list(open_dataset(path, **options))
