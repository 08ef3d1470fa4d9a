"""Writing requests into the files that a server's batches take."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path

from judge_eval.batch.state import Part
from judge_eval.errors import ConfigError, RunError


def write_requests(
    place: Path, lines: Iterable[tuple[str, bytes]], max_requests: int, max_bytes: int
) -> list[Part]:
    """Write requests into as many files as it takes; no file where there is no request.

    Args:
        place: The folder of the round; requests of an earlier export go, replies stay.
        lines: A trace's id and one line of a file, made by `line_of`.
        max_requests: The most requests in a file.
        max_bytes: The most bytes in a file.

    Raises:
        RunError: The folder cannot be written.
        ConfigError: A single request is larger than a file may be.
    """
    rest = iter(lines)
    first = next(rest, None)
    clear(place)
    if first is None:
        return []
    place.mkdir(parents=True, exist_ok=True)
    parts: list[Part] = []
    try:
        writer = _Writer(place, 1)
        for trace_id, line in chain([first], rest):
            if len(line) > max_bytes:
                raise ConfigError(
                    f"trace {trace_id!r}: one request takes {len(line):,} bytes, more than a file may"
                )
            if writer.requests == max_requests or writer.bytes + len(line) > max_bytes:
                parts.append(writer.close())
                writer = _Writer(place, len(parts) + 1)
            writer.add(line)
        return [*parts, writer.close()]
    except OSError as error:
        with suppress(OSError):
            clear(place)
        raise RunError(f"{place}: cannot be written: {error.strerror or error}") from None


def clear(place: Path) -> None:
    """Remove the requests of an export that was killed or is replaced; replies stay, whoever brought them."""
    for file in place.glob("part-*.jsonl"):
        file.unlink()
    with suppress(OSError):  # not there, or not empty
        place.rmdir()


def line_of(key: bytes, body: bytes) -> bytes:
    """Write the line of a request from its key, which its reply will carry, and its JSON."""
    head = f'{{"custom_id":"{key.hex()}","method":"POST","url":"/v1/chat/completions","body":'
    return b"".join((head.encode(), body, b"}\n"))


class _Writer:
    """One file of requests being written."""

    def __init__(self, place: Path, number: int) -> None:
        self.name, self.requests, self.bytes = f"part-{number:04d}.jsonl", 0, 0
        self._hash = hashlib.sha256()
        self._file = (place / self.name).open("wb")

    def add(self, line: bytes) -> None:
        self._file.write(line)
        self._hash.update(line)
        self.requests += 1
        self.bytes += len(line)

    def close(self) -> Part:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return Part(name=self.name, digest=self._hash.hexdigest(), requests=self.requests, bytes=self.bytes)
