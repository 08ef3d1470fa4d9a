"""Opening a file of data, with an error that names it where that fails."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from judge_eval.errors import DataError


@contextmanager
def reading_file(name: str | Path) -> Iterator[None]:
    """Read a file within the block.

    Raises:
        DataError: The system does not let it be read.
    """
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=str(name)) from None


def is_stream(path: Path) -> bool:
    """Tell whether a path can be read only once: a pipe, `<(command)` of a shell, a terminal."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def steady(path: Path) -> Iterator[Path]:
    """Yield a file or folder that can be read more than once; what can be read only once is copied.

    Raises:
        DataError: The system does not let it be read.
    """
    if not is_stream(path):
        yield path
        return
    with reading_file(path):
        source = path.open("rb")
    with copied(source, str(path), path.suffix) as copy:
        yield copy


@contextmanager
def copied(source: BinaryIO, name: str, suffix: str = "") -> Iterator[Path]:
    """Copy a stream to a temporary file, read as JSON Lines where no suffix says otherwise, and close it.

    Raises:
        DataError: It cannot be read.
    """
    with tempfile.NamedTemporaryFile(prefix="judge_eval-", suffix=suffix or ".jsonl") as file:
        with reading_file(name), source:
            shutil.copyfileobj(source, file, 1 << 20)
            file.flush()
        yield Path(file.name)
