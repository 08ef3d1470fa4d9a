"""Writing traces as our own JSON Lines."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from judge_eval.errors import ConfigError
from judge_eval.files import replacing
from judge_eval.schema import Trace


def trace_line(trace: Trace) -> bytes:
    """Write a trace as its line, with the line end; fields that hold nothing are left out."""
    return trace.model_dump_json(exclude_none=True, exclude_defaults=True).encode() + b"\n"


def write_jsonl(traces: Iterable[Trace], path: Path) -> int:
    """Write traces to a file, one by one; the file appears only when all are written.

    Returns:
        How many were written.

    Raises:
        ConfigError: The file cannot be written.
        DataError: A trace cannot be read; a file that was there before stays as it was.
    """
    written = 0
    try:
        with replacing(path) as file:
            for trace in traces:
                file.write(trace_line(trace))
                written += 1
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from None
    return written
