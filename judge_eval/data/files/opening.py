"""Opening a file of data, with an error that names it where that fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
