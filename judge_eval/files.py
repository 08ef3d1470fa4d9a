"""Writing a file whole, and holding a file against other processes."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: Path, *, mode: int | None = None) -> Iterator[IO[bytes]]:
    """Write a file beside `path` that takes its place in one step when the block ends well.

    No reader and no kill ever sees half of it: the bytes are on the disk before the name changes. Where the
    block raises, `path` stays as it was and the file beside it is removed.

    Args:
        path: The file to write.
        mode: Its permissions, such as 0o600, before a byte is written; those of any new file where None.

    Raises:
        OSError: The folder cannot be written, or the disk is full.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        if mode is not None:
            beside.touch(mode)
            beside.chmod(mode)
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file in one step; see `replacing`.

    Raises:
        OSError: The folder cannot be written, or the disk is full.
    """
    with replacing(path) as file:
        file.write(data)


def hold(file: IO[bytes], *, wait: bool = True) -> bool:
    """Take a lock on an open file until it is closed; the system frees it however the process ends.

    Args:
        file: An open file, by which processes find each other.
        wait: Whether to wait while another process holds it.

    Returns:
        Whether it is held now: False where another process holds it. On a system without such locks nobody
        is kept out, and True is returned.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Write rows as CSV, a line each; a cell that holds a line's end of any kind is quoted."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n")  # else Python leaves a lone carriage return unquoted
    lines = []
    for row in rows:
        writer.writerow(row)
        lines.append(out.getvalue()[:-2] + "\n")
        out.seek(0)
        out.truncate()
    return "".join(lines)
