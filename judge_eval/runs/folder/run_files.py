"""The files of a run's folder: their names, their lines, the lock on them."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from judge_eval.errors import FullDiskError, RunError
from judge_eval.files import hold, open_plain

MANIFEST, RESULTS, LABELS = "manifest.json", "results.jsonl", "labels.jsonl"
TRACES, VERDICTS = "traces.parquet", "verdicts.parquet"
PROGRESS = "progress.json"
"""There while a process judges the run, or where one was killed; no part of the run."""
TAKEN = ".taken.jsonl"
"""There while a process judges the run, or where one was killed: what it has paid by then."""

MOST_MANIFEST = 64 * 2**20
"""Bytes that a manifest may have: more than any whose breakdown by tag is full."""

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What the system says if there is no room left."""


def lock_folder(folder: Path) -> IO[bytes]:
    """Lock the folder for the life of this process, however it ends; raises `OSError` for a link."""
    file = open_plain(folder / ".lock", "ab")
    if not hold(file, wait=False):
        file.close()
        raise RunError("another process is writing this run; wait for it", file=folder)
    return file


@contextmanager
def os_errors(what: str, file: Path | None = None) -> Iterator[None]:
    """Turn an error of the system in the block into a `RunError` that says `what` could not be done."""
    try:
        yield
    except OSError as error:
        kind = FullDiskError if error.errno in FULL else RunError
        raise kind(f"{what}: {error.strerror or error}", file=file) from None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock while the block runs."""
    with os_errors("cannot be locked", folder):
        file = lock_folder(folder)
    with file:
        yield


def byte_blocks(file: IO[bytes], most: int | None = None) -> Iterator[bytes]:
    """Yield the rest of a file, at most `most` bytes in all, one megabyte at a time."""
    left = most
    while block := file.read(1 << 20 if left is None else min(left, 1 << 20)):
        left = None if left is None else left - len(block)
        yield block


def whole_lines(path: Path, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and bytes of every complete line from an offset on."""
    with os_errors("cannot be read", path):
        opened = open_plain(path)
    with opened as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield offset, line
            offset += len(line)
