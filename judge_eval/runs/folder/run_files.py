"""The files of a run's folder: names, lines, the lock on them, and whether they are as they were written."""

import errno
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, Final, cast

from judge_eval.digest import digest_json
from judge_eval.errors import FullDiskError, RunError
from judge_eval.files import hold, open_plain
from judge_eval.runs.folder.records import EDITABLE, RESULTS, FileDigest, Manifest

MANIFEST, LABELS = "manifest.json", "labels.jsonl"
PROGRESS = "progress.json"
"""There while a process judges the run, or where one was killed: how far it was, and what it had paid by then."""
BEGUN = ".begun"
"""There while a process judges the run, or where one was killed: a byte for each request that has begun."""

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


ADVICE = (
    "it was changed or damaged: copy the run again from its source, or judge it again "
    "(`runs verify` says what was changed)"
)


def file_digest(path: Path) -> FileDigest:
    """Digest a file, which must not be a link."""
    with open_plain(path) as file:
        sha256 = hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()
        return FileDigest(bytes=file.tell(), sha256=sha256)


def manifest_digest(manifest: Manifest) -> str:
    """Digest all of a manifest but what may be edited."""
    # What is as a new run has it is left out: a field that a later version adds changes no digest.
    text = manifest.model_dump_json(exclude={*EDITABLE, "digest"}, exclude_defaults=True)
    return digest_json(json.loads(text))


def with_digests(manifest: Manifest, results: FileDigest | None) -> Manifest:
    """Return the manifest of a run that has ended, with the digests of its results and of itself."""
    ended = manifest.replace(files={} if results is None else {RESULTS: results})
    return ended.replace(digest=manifest_digest(ended))


def finished_manifest(manifest: Manifest, folder: Path) -> Manifest:
    """Return the manifest of a run that has ended in a folder, with the digest of its results."""
    path = folder / RESULTS
    with os_errors("cannot be read", path):
        return with_digests(manifest, file_digest(path))


def is_as_written(manifest: Manifest) -> bool:
    """Return whether a manifest is as it was when the run ended; one of a run under way has no digest."""
    if manifest.digest is None:
        return manifest.counted is None and not manifest.files
    return manifest.digest == manifest_digest(manifest)


class ResultsCheck:
    """Checks the results of a run, while they are read, against their digest and number, if known."""

    def __init__(self, path: Path, expected: FileDigest | None, count: int | None = None) -> None:
        self.path, self.expected, self.count = path, expected, count
        self._hash = hashlib.sha256()
        self._lines = self._bytes = 0

    def add(self, line: bytes) -> None:
        """Take in a line."""
        self._lines += 1
        self._bytes += len(line)
        if self.expected is not None:
            self._hash.update(line)

    def conclude(self, traces: int | None = None) -> None:
        """Check what was read, with the number of different traces in it; None: one for each line."""
        results = self._lines if traces is None else traces
        if self.count not in (None, results):
            self._refuse(f"holds {results:,} results, and its manifest counts {self.count:,}")
        expected = self.expected
        if expected is not None:
            # The last line may have no end, and is passed over then: the size tells.
            same = self._bytes == expected.bytes == self.path.lstat().st_size
            if not same or self._hash.hexdigest() != expected.sha256:
                self._refuse("is not what was written when the run ended")

    def _refuse(self, what: str) -> None:
        raise RunError(f"{what}; {ADVICE}", file=self.path)


def check_length(path: Path, manifest: Manifest) -> None:
    """Check that the results of a run have the size in its manifest, without reading them."""
    expected = manifest.results_digest
    if expected is not None:
        try:
            size = path.lstat().st_size
        except OSError as error:
            raise RunError(f"cannot be read: {error.strerror or error}; {ADVICE}", file=path) from None
        if size != expected.bytes:
            check_results(path, expected, manifest.counted)


def check_results(path: Path, expected: FileDigest | None, count: int | None = None) -> None:
    """Check a results file against its digest or its number of results; about a second a gigabyte."""
    check = ResultsCheck(path, expected, count)
    for _, line in whole_lines(path):
        check.add(line)
    check.conclude()
