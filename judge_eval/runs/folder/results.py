"""The results in a run's folder, a line each."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import RunError
from judge_eval.files import open_plain
from judge_eval.record import KEPT
from judge_eval.runs.folder.files import whole_lines
from judge_eval.runs.folder.integrity import ResultsCheck, fits
from judge_eval.runs.folder.records import FORMAT, Manifest, TraceResult


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
                f"written by a later version (format {version}); upgrade", file=path, line=number
            ) from None
        raise RunError(
            "not a result of a run; the file was changed or damaged", file=path, line=number
        ) from None


def later_format(data: bytes) -> int | None:
    """Return the format that a damaged record names, where it is later than any that is known here."""
    with suppress(ValueError, AttributeError, RecursionError):
        version = json.loads(data).get("v")
        return version if isinstance(version, int) and version > FORMAT else None
    return None


class ResultsFile(Sequence[TraceResult]):
    """The results in a run's folder, read one by one as they are asked for.

    The first look at them reads the file once and checks it against the manifest; a file that is changed
    after that is refused too.

    Args:
        path: The `results.jsonl`; a torn last line is passed over, and of two lines about one trace the
            later counts.
        manifest: Of the run, whose digest and count the file is checked against; None checks nothing.
    """

    def __init__(self, path: Path, manifest: Manifest | None = None) -> None:
        self.path, self.manifest = path, manifest
        self._entries: NDArray[np.int64] | None = None
        self._stamp: tuple[int, ...] | None = None

    @property
    def places(self) -> NDArray[np.int64]:
        """Offset and line number of each result in order, shape (n, 2): 16 bytes a trace."""
        return self._index()

    def placed(self, places: NDArray[np.int64], sha256: str) -> bool:
        """Take the places from elsewhere, and tell whether they are of results as the manifest has them.

        Args:
            places: As `places`.
            sha256: Of the file as it is now.
        """
        if self.manifest is not None and not fits(self.manifest, sha256, len(places)):
            return False
        self._stamp, self._entries = _stamp_of(self.path.lstat()), places
        return True

    def _index(self) -> NDArray[np.int64]:
        if self._entries is None:
            offsets, positions = array("q"), array("q")
            told = self.manifest
            check = ResultsCheck(self.path, told.seal if told else None, told.counted if told else None)
            for number, (offset, line) in enumerate(whole_lines(self.path), 1):
                check.add(line)
                offsets.append(offset)
                positions.append(_position(line, self.path, number))
            where = np.array(positions, dtype=np.int64)
            entries = np.column_stack([np.array(offsets, dtype=np.int64), np.arange(1, where.size + 1)])
            if (np.diff(where) <= 0).any():
                order = np.argsort(where, kind="stable")
                last = np.append(np.diff(where[order]) > 0, True)
                entries = entries[order[last]]
            check.conclude(len(entries))
            if check.expected is not None:  # what has no digest may still be written
                self._stamp = _stamp_of(self.path.lstat())
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

    def at(self, places: NDArray[np.int64]) -> Iterator[TraceResult]:
        """Yield the results at many places, in the order of `places`, from a file that is opened once."""
        return self._read(self._index()[places])

    def lines(self) -> Iterator[tuple[int, bytes, int]]:
        """Yield position, bytes and number of every result's line, in order, without reading into it."""
        for number, line in self._lines(self._index()):
            yield _position(line, self.path, number), line, number

    def _read(self, entries: NDArray[np.int64]) -> Iterator[TraceResult]:
        for number, line in self._lines(entries):
            yield read_result(line, self.path, number)

    def _lines(self, entries: NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
        with open_plain(self.path) as file:
            if self._stamp is not None and _stamp_of(os.fstat(file.fileno())) != self._stamp:
                raise RunError("was changed while it was read; open the run again", file=self.path)
            at = 0
            for start in range(0, len(entries), 4096):
                for offset, number in entries[start : start + 4096].tolist():
                    if offset != at:  # seeking throws away what was read ahead
                        file.seek(offset)
                    line = file.readline()
                    at = offset + len(line)
                    yield number, line


def _stamp_of(status: os.stat_result) -> tuple[int, ...]:
    """Tell a file from what it is after a change."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _position(line: bytes, path: Path, number: int) -> int:
    """Read the position off the start of a line: 0.7 us, where reading all of it takes 60."""
    head = line[:60]
    start = head.find(b'"position":')
    digits = head[start + 11 :].split(b",", 1)[0].strip() if start >= 0 else b""
    return int(digits) if digits.isdigit() else read_result(line, path, number).position
