"""What becomes of the text of a flag."""

from __future__ import annotations

from pathlib import Path


def prompt_name(given: str) -> str | Path:
    """Tell a prompt's id from a file: `file:PATH` is a file, everything else an id."""
    return Path(given[5:]) if given.startswith("file:") else given
