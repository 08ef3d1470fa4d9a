"""What a run's folder notes of the run behind a URL: when both were last the same, how far it was pushed."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from judge_eval.files import read_plain, write_atomically
from judge_eval.runs.folder.files import RESULTS
from judge_eval.runs.keeping.moving import FILES
from judge_eval.runs.keeping.pieces import is_piece

_NOTE = ".synced"


def read_note(folder: Path) -> dict[str, Any]:
    """Read what was noted; empty where nothing was, or it cannot be read."""
    try:
        note = json.loads(read_plain(folder / _NOTE, 2**20))
    except (OSError, ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def note_bringing(folder: Path) -> None:
    """Note that files are being brought: until all are here, nothing counts as written here."""
    write_atomically(folder / _NOTE, json.dumps({"bringing": True}).encode())


def note_same(folder: Path, there: dict[str, str], **more: Any) -> None:
    """Note that a run is the same here and there.

    Args:
        folder: The run's folder.
        there: The stamps of its files there.
        more: What else to remember; `here` in place of the files as they are now.
    """
    note = {"here": sizes_here(folder), "there": there, **more}
    write_atomically(folder / _NOTE, json.dumps(note).encode())


def note_more(folder: Path, **more: Any) -> None:
    """Add to what is noted."""
    write_atomically(folder / _NOTE, json.dumps({**read_note(folder), **more}).encode())


def stamps_there(system: Any, source: str) -> dict[str, str]:
    """Tell a run's files there apart from later ones: by size, and tag or time; pieces count as results."""
    stamps: dict[str, str] = {}
    pieces = []
    try:
        entries = system.ls(source, detail=True)
    except FileNotFoundError:
        return stamps
    for entry in entries:
        name = str(entry["name"]).rpartition("/")[2]
        keys = ("ETag", "etag", "mtime", "LastModified", "updated", "created")
        stamp = f"{entry.get('size')} {next((entry[key] for key in keys if entry.get(key)), '')}"
        if name in FILES:
            stamps[name] = stamp
        elif is_piece(name):
            pieces.append(f"{name} {stamp}")
    if pieces:
        text = "\n".join([stamps.get(RESULTS, ""), *sorted(pieces)])
        stamps[RESULTS] = hashlib.sha256(text.encode()).hexdigest()
    return stamps


def sizes_here(folder: Path) -> dict[str, list[int]]:
    """Return size and time of each file of a run that is here."""
    return {
        name: [(folder / name).lstat().st_size, (folder / name).lstat().st_mtime_ns]
        for name in FILES
        if os.path.lexists(folder / name)
    }


def is_changed(folder: Path) -> bool:
    """Tell whether a run was written here since it was last the same there."""
    note = read_note(folder)
    before = note.get("here", {})
    changed = any(before.get(name) != stamp for name, stamp in sizes_here(folder).items())
    return changed and not note.get("bringing")
