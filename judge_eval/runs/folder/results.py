"""The results in a run's folder, a line each."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import RunError
from judge_eval.record import KEPT
from judge_eval.runs.folder.files import whole_lines
from judge_eval.runs.folder.records import FORMAT, TraceResult


def encode(result: TraceResult) -> bytes:
    """Write a result as its line, with the line end."""
    return result.model_dump_json().encode() + b"\n"


def read_result(line: bytes, path: Path, number: int) -> TraceResult:
    """Read a line of a journal.

    Raises:
        RunError: It is not a result, or one of a later version.
    """
    try:
        return TraceResult.model_validate_json(line, context=KEPT)
    except ValueError:
        if version := later_format(line):
            raise RunError(
                f"{path}:{number}: written by a later version (format {version}); upgrade"
            ) from None
        raise RunError(f"{path}:{number}: not a result of a run; the file was changed or damaged") from None


def later_format(data: bytes) -> int | None:
    """Return the format that a damaged record names, where it is later than any that is known here."""
    with suppress(ValueError, AttributeError):
        version = json.loads(data).get("v")
        return version if isinstance(version, int) and version > FORMAT else None
    return None


class ResultsFile(Sequence[TraceResult]):
    """The results in a run's folder, read one by one as they are asked for.

    Args:
        path: The `results.jsonl`; a torn last line is passed over, and of two lines about one trace the
            later counts.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: NDArray[np.int64] | None = None

    @property
    def places(self) -> NDArray[np.int64]:
        """Offset and line number of each result in order, shape (n, 2): 16 bytes a trace."""
        return self._index()

    @places.setter
    def places(self, known: NDArray[np.int64]) -> None:
        self._entries = known

    def _index(self) -> NDArray[np.int64]:
        if self._entries is None:
            offsets, positions = array("q"), array("q")
            for number, (offset, line) in enumerate(whole_lines(self.path), 1):
                offsets.append(offset)
                positions.append(_position(line, self.path, number))
            where = np.array(positions, dtype=np.int64)
            entries = np.column_stack([np.array(offsets, dtype=np.int64), np.arange(1, where.size + 1)])
            if (np.diff(where) <= 0).any():
                order = np.argsort(where, kind="stable")
                last = np.append(np.diff(where[order]) > 0, True)
                entries = entries[order[last]]
            self._entries = entries
        return self._entries

    def __len__(self) -> int:
        return len(self._index())

    @overload
    def __getitem__(self, index: int) -> TraceResult: ...
    @overload
    def __getitem__(self, index: slice) -> list[TraceResult]: ...
    def __getitem__(self, index: int | slice) -> TraceResult | list[TraceResult]:
        entries = self._index()[index]
        if entries.ndim == 1:
            return next(self._read(entries[np.newaxis]))
        return list(self._read(entries))

    def __iter__(self) -> Iterator[TraceResult]:
        return self._read(self._index())

    def lines(self) -> Iterator[tuple[int, bytes, int]]:
        """Yield position, bytes and number of every result's line, in order, without reading into it."""
        for number, line in self._lines(self._index()):
            yield _position(line, self.path, number), line, number

    def _read(self, entries: NDArray[np.int64]) -> Iterator[TraceResult]:
        for number, line in self._lines(entries):
            yield read_result(line, self.path, number)

    def _lines(self, entries: NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
        with self.path.open("rb") as file:
            at = 0
            for start in range(0, len(entries), 4096):
                for offset, number in entries[start : start + 4096].tolist():
                    if offset != at:  # seeking throws away what was read ahead
                        file.seek(offset)
                    line = file.readline()
                    at = offset + len(line)
                    yield number, line


def _position(line: bytes, path: Path, number: int) -> int:
    """Read the position off the start of a line: 0.7 us, where reading all of it takes 60."""
    head = line[:60]
    start = head.find(b'"position":')
    digits = head[start + 11 :].split(b",", 1)[0].strip() if start >= 0 else b""
    return int(digits) if digits.isdigit() else read_result(line, path, number).position
