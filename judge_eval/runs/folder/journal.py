"""Writing a run's folder: an append-only journal, put in the dataset's order when the run ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from judge_eval.errors import RunError
from judge_eval.files import open_plain, replacing, write_atomically
from judge_eval.runs.folder.files import MANIFEST, RESULTS, lock_folder, whole_lines
from judge_eval.runs.folder.index import Index
from judge_eval.runs.folder.integrity import ResultsCheck, sealed_file
from judge_eval.runs.folder.records import Manifest, TraceResult
from judge_eval.runs.folder.results import encode, read_result


class Journal:
    """The results of a run being written.

    Lines are appended as traces finish; a line that a kill tore off is cut away when the run is resumed.
    Only one process writes a run at a time.

    Args:
        folder: The run's folder; made where it is not there.
        manifest: Written at once, without the digest of the results, which those that are there must fit.
        rescored: Gives a result of an earlier sitting the scores of the manifest's metrics, where it was
            written under others.

    Raises:
        RunError: The folder cannot be written, another process is writing it, or its results were changed.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        rescored: Callable[[TraceResult], TraceResult] | None = None,
    ) -> None:
        self.folder, self.manifest = folder, manifest
        self._lock: IO[bytes] | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = lock_folder(folder)
            if manifest.results is not None:
                _check(folder / RESULTS, manifest)
                self.write_manifest(manifest)  # before a line is changed: a kill leaves no digest of others
            if rescored is not None:
                _rescore(folder / RESULTS, manifest, rescored)
            self.index, self._size = _recover(folder / RESULTS, manifest)
            self._file = open_plain(folder / RESULTS, "ab")
            self.write_manifest(manifest)
        except OSError as error:
            self.close()
            raise _unwritable(folder, error) from None
        except RunError:
            self.close()
            raise

    def append(self, results: Sequence[TraceResult]) -> None:
        """Add lines in one write.

        Raises:
            RunError: The disk is full or the folder cannot be written; what was there before stays.
        """
        lines = [encode(result) for result in results]
        try:
            data = b"".join(lines)
            written = self._file.write(data)
            if written != len(data):  # a full disk takes a part
                self._file.truncate(self._size)
                raise OSError(28, "No space left on device")
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(self._size)
            raise _unwritable(self.folder, error) from None
        for result, line in zip(results, lines, strict=True):
            self.index.add(result, self._size, len(line))
            self._size += len(line)

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest in one step; it holds no digest of results that are still written."""
        self._write(manifest.model_copy(update={"results": None}))

    def finish(self, manifest: Manifest) -> Manifest:
        """Replace the manifest by that of a run that has ended, and return it: with its results' digest."""
        self._write(sealed_file(manifest, self.folder / RESULTS, len(self.index)))
        return self.manifest

    def _write(self, manifest: Manifest) -> None:
        self.manifest = manifest
        try:
            write_atomically(self.folder / MANIFEST, manifest.model_dump_json(indent=2).encode() + b"\n")
        except OSError as error:
            raise _unwritable(self.folder, error) from None

    def sort(self) -> Index:
        """Put the lines in the dataset's order, each trace once, and return the index of the result."""
        path = self.folder / RESULTS
        try:
            os.fsync(self._file.fileno())
            if self.index.in_order():
                return self.index
            target = self.index.sorted()
            with replacing(path) as out, open_plain(path) as source:
                for row in self.index.order():
                    source.seek(self.index.offsets[row])
                    out.write(source.read(self.index.lengths[row]))
                self._file.close()
            self._file = open_plain(path, "ab")
        except OSError as error:
            raise _unwritable(self.folder, error) from None
        self.index = target
        self._size = sum(target.lengths)
        return target

    def close(self) -> None:
        """Let go of the files; safe to call twice."""
        for file in (getattr(self, "_file", None), self._lock):
            if file is not None:
                file.close()


def _unwritable(folder: Path, error: OSError) -> RunError:
    return RunError(
        f"cannot be written: {error.strerror or error}; "
        "what was written stays; make room or fix the folder, then run again with --resume",
        file=folder,
    )


def _rescore(path: Path, manifest: Manifest, rescored: Callable[[TraceResult], TraceResult]) -> None:
    """Replace the lines in one step by ones with the manifest's metrics, unless all have these."""
    results = (read_result(line, path, number) for number, (_, line) in enumerate(whole_lines(path), 1))
    names = set(manifest.metrics)
    if path.exists() and any(result.scores.keys() != names for result in results):
        with replacing(path) as out:
            for number, (_, line) in enumerate(whole_lines(path), 1):
                out.write(encode(rescored(read_result(line, path, number))))


def _check(path: Path, manifest: Manifest) -> None:
    """See that the results are those that an earlier sitting ended with."""
    check = ResultsCheck(path, manifest.results)
    for _, line in whole_lines(path):
        check.add(line)
    check.conclude()


def _recover(path: Path, manifest: Manifest) -> tuple[Index, int]:
    """Index the lines that are there, cutting off a torn last one; return the index and the file's size."""
    index, size = Index(manifest.metrics, manifest.intervals.cluster), 0
    if not os.path.lexists(path):
        return index, size
    for offset, line in whole_lines(path):
        index.add(read_result(line, path, len(index) + 1), offset, len(line))
        size = offset + len(line)
    with open_plain(path, "ab") as file:
        if os.fstat(file.fileno()).st_size > size:
            file.truncate(size)
    return index, size
