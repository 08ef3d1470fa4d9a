"""The files of a run's folder: their names, their lines, the lock on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from judge_eval.errors import RunError
from judge_eval.files import hold

MANIFEST, RESULTS, LABELS = "manifest.json", "results.jsonl", "labels.jsonl"
TRACES, VERDICTS = "traces.parquet", "verdicts.parquet"


def lock_folder(folder: Path) -> IO[bytes]:
    """Take the folder's lock for the life of this process; the system frees it however the process ends.

    Raises:
        RunError: Another process holds it.
    """
    file = (folder / ".lock").open("wb")
    if not hold(file, wait=False):
        file.close()
        raise RunError(f"run folder {folder}: another process is writing this run; wait for it")
    return file


def whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and bytes of every line that was written to its end.

    Raises:
        RunError: The file cannot be read.
    """
    offset = 0
    try:
        opened = path.open("rb")
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror or error}") from None
    with opened as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield offset, line
            offset += len(line)
