"""Results that lie in pieces: where a run is pushed while it is judged, since stored objects cannot grow.

A piece holds whole lines of the journal, from one offset to another, and belongs to the file of results
that lay there when it was begun: its name holds that file's digest. So pieces of an earlier file, which a
whole one has replaced, are never put behind it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from judge_eval.files import replacing
from judge_eval.runs.folder.files import RESULTS

NO_BASE = "0" * 16
"""The digest in the names of pieces before which there is no file."""
_LOOKS = 4
"""How often results are looked for again whose pieces were merged while they were copied."""
_NAME = re.compile(r"results-([0-9a-f]{16})-(\d{15})-(\d{15})\.jsonl")


class Pieced(NamedTuple):
    """How far results were pushed in pieces."""

    base: str
    """16 hexadecimal digits of the SHA-256 of the file before them, or `NO_BASE`."""
    size: int
    """Bytes of file and pieces together."""
    digest: str
    """The SHA-256 of those bytes, in hexadecimal digits."""


def piece_name(base: str, start: int, end: int) -> str:
    """Name the piece from `start` to `end`, in bytes of the whole."""
    return f"results-{base}-{start:015d}-{end:015d}.jsonl"


def is_piece(name: str) -> bool:
    """Tell whether a file's name is that of a piece."""
    return _NAME.fullmatch(name) is not None


def copy_results(system: Any, source: str, target: Path) -> Pieced:
    """Copy a run's results from a file system of fsspec, pieces put together, in one step.

    Raises:
        FileNotFoundError: There are none.
    """
    for _ in range(_LOOKS):
        try:
            return _copied(system, source, target)
        except FileNotFoundError:  # a piece was merged into a longer one meanwhile; or there is nothing
            system.invalidate_cache()
    return _copied(system, source, target)


def _copied(system: Any, source: str, target: Path) -> Pieced:
    sizes = {str(entry["name"]).rpartition("/")[2]: entry["size"] for entry in system.ls(source, detail=True)}
    names = [name for name in sizes if is_piece(name)]
    if RESULTS not in sizes and not names:
        raise FileNotFoundError(f"{source}/{RESULTS}")
    sum_, at, base = hashlib.sha256(), 0, NO_BASE
    with replacing(target) as out:

        def append(name: str) -> None:
            with system.open(f"{source}/{name}", "rb") as file:
                for block in byte_blocks(file):
                    sum_.update(block)
                    out.write(block)

        if RESULTS in sizes:
            append(RESULTS)
            at, base = out.tell(), sum_.hexdigest()[:16]
        while follows := _longest(names, sizes, base, at):
            append(follows)
            at = out.tell()
    return Pieced(base, at, sum_.hexdigest())


def _longest(names: list[str], sizes: dict[str, int], base: str, at: int) -> str | None:
    """Return the piece from an offset that reaches furthest; one that was torn off counts for nothing."""
    found = []
    for name in names:
        match = _NAME.fullmatch(name)
        assert match is not None  # names of pieces
        start, end = int(match[2]), int(match[3])
        if match[1] == base and start == at and sizes[name] == end - start > 0:
            found.append((end, name))
    return max(found)[1] if found else None


def byte_blocks(file: IO[bytes], most: int | None = None) -> Iterator[bytes]:
    """Yield what follows in a file, at most so many bytes in all, a MB at a time."""
    left = most
    while block := file.read(1 << 20 if left is None else min(left, 1 << 20)):
        left = None if left is None else left - len(block)
        yield block
