"""The files of a run's folder: names, lock, reading and appending results, and whether they are as written."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO, Final, NamedTuple, cast, overload

import numpy as np
from numpy.typing import NDArray

from judge_eval.conversation import PlainTurn
from judge_eval.digest import digest_json
from judge_eval.errors import FullDiskError, RunError
from judge_eval.files import absent, hold, open_plain, remove_empty, replacing, write_atomically
from judge_eval.foreign import RepeatedKeyError, read_json
from judge_eval.record import KEPT
from judge_eval.runs.folder.records import EDITABLE, FORMAT, RESULTS, FileDigest, Manifest, TraceResult
from judge_eval.schema import Trace
from judge_eval.spelling import option

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
    with os_errors("cannot be read", path), open_plain(path) as file:
        sha256 = hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()
        return with_digests(manifest, FileDigest(bytes=file.tell(), sha256=sha256))


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


def by_position(positions: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the rows in the order of their positions, of equal ones only the last; None if they are so already."""
    if (np.diff(positions) > 0).all():
        return None
    order = np.argsort(positions, kind="stable")
    rows: NDArray[np.int64] = order[np.append(np.diff(positions[order]) > 0, True)]
    return rows


def encode(result: TraceResult) -> bytes:
    """Return a result as a line with its line end."""
    return result.model_dump_json(exclude=None if result.parts else {"parts"}).encode() + b"\n"


def read_result(line: bytes, path: Path, number: int, *, checked: bool = False) -> TraceResult:
    """Read a line of the results file; of one with a digest, `runs verify` looks for keys that stand twice."""
    try:
        if checked:
            return TraceResult.model_validate_json(line, context=KEPT)
        return TraceResult.from_json(line, kept=True)
    except RepeatedKeyError as error:
        raise RunError(f"not a result of a run: {error}", file=path, line=number) from None
    except ValueError:
        if version := later_format(line):
            raise RunError(f"written by a later version (format {version}); upgrade", file=path, line=number) from None
        raise RunError("not a result of a run; the file was changed or damaged", file=path, line=number) from None


def later_format(data: bytes) -> int | None:
    """Return the format of a record if it is later than this version supports."""
    with suppress(ValueError, AttributeError, RecursionError):
        version = json.loads(data).get("v")
        return version if isinstance(version, int) and version > FORMAT else None
    return None


class AskedTrace(NamedTuple):
    """What a trace asks."""

    id: str
    query: str
    reference: str | None
    answer: str | None
    history: tuple[PlainTurn, ...] = ()

    @classmethod
    def of(cls, trace: Trace) -> AskedTrace:
        """Take the question of a trace."""
        history = tuple(PlainTurn(turn.role, turn.content) for turn in trace.history)
        return cls(trace.id, trace.query, trace.reference, trace.answer, history)

    @classmethod
    def read(cls, line: bytes) -> AskedTrace:
        """Read the fields of a trace that stand before its chunks in a line."""
        fields = read_json(line)
        return cls(**{**fields, "history": tuple(PlainTurn(**turn) for turn in fields.get("history", ()))})


_TRACE, _CHUNKS = b',"trace":{', b',"chunks":['
"""Where the question of a line begins and ends: a quote inside a text is escaped, so no text holds these."""
_CALLS, _VOTES = b',"calls":[', b'],"votes":{'
"""Where the calls of a line begin and end, where it is written as usual."""


def _without_calls(line: bytes) -> bytes:
    start = line.find(_CALLS, 0, line.find(_TRACE)) + len(_CALLS)  # those of parts come later
    end = line.find(_VOTES, start)
    return line if start < len(_CALLS) or end < 0 else line[:start] + line[end:]


class ReadResults(Sequence[TraceResult]):
    """Results that are read when they are asked for, many at once in less time than one by one."""

    def at(self, places: NDArray[np.int64], calls: bool = True) -> Iterator[TraceResult]:
        """Yield the results at many places, in their order; without `calls` faster, and with none perhaps."""
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> TraceResult: ...
    @overload
    def __getitem__(self, index: slice) -> list[TraceResult]: ...
    def __getitem__(self, index: int | slice) -> TraceResult | list[TraceResult]:
        places = range(len(self))[index]
        if isinstance(places, range):
            return list(self.at(np.array(places, dtype=np.int64)))
        return next(self.at(np.array([places])))

    def __iter__(self) -> Iterator[TraceResult]:
        return self.at(np.arange(len(self)))


class ResultsFile(ReadResults):
    """The results in a run's folder, read one by one on demand.

    The first access reads the file once and checks it against the manifest; a file that changes later is
    refused too. An incomplete last line is ignored; of two lines about one trace the later one counts.
    """

    def __init__(self, path: Path, manifest: Manifest | None = None) -> None:
        self.path, self.manifest = path, manifest
        self._entries: NDArray[np.int64] | None = None
        self._stamp: tuple[int, ...] | None = None
        self._unused = False

    @property
    def places(self) -> NDArray[np.int64]:
        """Offset and line number of each result in order, shape (n, 2): 16 bytes a trace."""
        if self._unused:  # a resume may have written the file anew before it was read here
            self._unused = False
            self._entries = self._entries if self.unchanged() else None
        if self._entries is None:
            self._scan()
        assert self._entries is not None
        return self._entries

    def _scan(self, take: Callable[[bytes, int], None] | None = None) -> None:
        """Find and check all lines; see `read`."""
        offsets, positions = array("q"), array("q")
        manifest = self.manifest
        digest, count = (manifest.results_digest, manifest.counted) if manifest else (None, None)
        check = ResultsCheck(self.path, digest, count)
        for number, (offset, line) in enumerate(whole_lines(self.path), 1):
            check.add(line)
            offsets.append(offset)
            positions.append(_position(line, self.path, number))
            if take is not None:
                take(line, number)
        entries = np.column_stack([np.array(offsets, dtype=np.int64), np.arange(1, len(offsets) + 1)])
        if (order := by_position(np.array(positions, dtype=np.int64))) is not None:
            entries = entries[order]
        check.conclude(len(entries))
        if check.expected is not None:  # what has no digest may still be written
            self._stamp = self.stamp()
        self._entries = entries

    def read(self, take: Callable[[bytes, int], None]) -> None:
        """Give every line with its number to `take`, checking them meanwhile if nobody has yet."""
        if self._entries is not None and self.unchanged():
            for number, line in self._lines(self._entries):
                take(line, number)
            return
        try:
            self._scan(take)
        except (RunError, ValueError):
            if self.is_checked and self.manifest is not None:  # the file is not what was written, which says more
                check_results(self.path, self.manifest.results_digest, self.manifest.counted)
            raise

    @property
    def is_checked(self) -> bool:
        """Whether the lines are checked against a digest, so that they are as they were written."""
        return self.manifest is not None and self.manifest.results_digest is not None

    def placed(self, places: NDArray[np.int64], sha256: str) -> bool:
        """Take over stored places if they are of results with this digest, and return whether they are."""
        expected = None if self.manifest is None else self.manifest.results_digest
        if expected is not None and expected.sha256 != sha256:
            return False
        self._stamp, self._entries, self._unused = self.stamp(), places, True
        return True

    def stamp(self) -> tuple[int, ...]:
        """Return values that change when the file changes."""
        return _stamp_of(self.path.lstat())

    def unchanged(self) -> bool:
        """Return whether the file was checked, and is as it was then."""
        return self._stamp == self.stamp()

    def __len__(self) -> int:
        return len(self.places)

    def at(self, places: NDArray[np.int64], calls: bool = True) -> Iterator[TraceResult]:
        """Yield the results at many places; the file is opened once."""
        for number, line in self._lines(self.places[places]):
            yield read_result(line if calls else _without_calls(line), self.path, number, checked=self.is_checked)

    def lines(self, places: NDArray[np.int64] | None = None) -> Iterator[tuple[int, bytes, int]]:
        """Yield position, bytes and number of every result's line, or of those at some places, without parsing it."""
        for number, line in self._lines(self.places if places is None else self.places[places]):
            yield _position(line, self.path, number), line, number

    def questions(self, places: NDArray[np.int64] | None = None) -> Iterator[AskedTrace]:
        """Yield what each result is about, reading no more of its line where that is written as usual."""
        for number, line in self._lines(self.places if places is None else self.places[places]):
            start = line.find(_TRACE)
            end = line.find(_CHUNKS, start)
            try:
                yield AskedTrace.read(line[start + len(_TRACE) - 1 : end] + b"}")
            except (ValueError, TypeError):
                yield AskedTrace.of(read_result(line, self.path, number).trace)

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
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _position(line: bytes, path: Path, number: int) -> int:
    """Read the position from the start of a line: 0.7 us; parsing the line takes 60."""
    head = line[:60]
    start = head.find(b'"position":')
    digits = head[start + 11 :].split(b",", 1)[0].strip() if start >= 0 else b""
    return int(digits) if digits.isdigit() else read_result(line, path, number).position


class Journal:
    """The results of a run that is being written.

    Lines are appended as traces finish; an incomplete line left by a kill is removed on resume. Only one process writes
    a run at a time. Existing results are read once: `take` is called with each, and returns it with the scores of the
    manifest's metrics (an error changes nothing); `settle` completes the manifest after all are read. The manifest is
    written at once, without the digest of the results, which existing results must match.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        take: Callable[[TraceResult], TraceResult] = lambda result: result,
        settle: Callable[[Manifest], Manifest] = lambda manifest: manifest,
    ) -> None:
        self.folder, self.manifest = folder, manifest
        self._positions, self._lengths, self._size = array("q"), array("q"), 0
        self._lock: IO[bytes] | None = None
        self._made = absent(folder)
        try:
            with _writing(folder):
                folder.mkdir(parents=True, exist_ok=True)
                self._lock = lock_folder(folder)
                if manifest.files or os.path.lexists(folder / RESULTS):
                    self._take_in(folder / RESULTS, take, settle)
                else:
                    self.write_manifest(settle(manifest))
                self._file = open_plain(folder / RESULTS, "ab")
                if os.fstat(self._file.fileno()).st_size > self._size:  # a line that was torn off
                    self._file.truncate(self._size)
        except BaseException:
            self.close()
            raise

    def _take_in(
        self, path: Path, take: Callable[[TraceResult], TraceResult], settle: Callable[[Manifest], Manifest]
    ) -> None:
        """Read the existing lines; if one changes, a new file replaces theirs in one step."""
        digest = self.manifest.results_digest
        check = None if digest is None else ResultsCheck(path, digest)
        with ExitStack() as stack:
            out: IO[bytes] | None = None
            for offset, line in whole_lines(path):
                if check is not None:
                    check.add(line)
                result = self._read(line, path)
                taken = take(result)
                if taken is not result:
                    if out is None:
                        out = stack.enter_context(replacing(path))
                        with open_plain(path) as source:
                            out.writelines(byte_blocks(source, offset))
                    line = encode(taken)
                if out is not None:
                    out.write(line)
                self._note(taken, line)
            if check is not None:
                check.conclude()
            self.write_manifest(settle(self.manifest))  # before a line is changed: no digest is of others

    def _read(self, line: bytes, path: Path) -> TraceResult:
        try:
            return read_result(line, path, len(self._lengths) + 1)
        except RunError:
            if self.manifest.files:  # the file is not what was written, which says more
                check_results(path, self.manifest.results_digest)
            raise

    def _note(self, result: TraceResult, line: bytes) -> None:
        self._positions.append(result.position)
        self._lengths.append(len(line))
        self._size += len(line)

    def append(self, results: Sequence[TraceResult]) -> None:
        """Append lines in one write."""
        lines = [encode(result) for result in results]
        data = b"".join(lines)
        with _writing(self.folder):
            try:
                if self._file.write(data) != len(data):  # a full disk takes a part
                    raise OSError(28, "No space left on device")
            except OSError:
                with suppress(OSError):
                    self._file.truncate(self._size)
                raise
        for result, line in zip(results, lines, strict=True):
            self._note(result, line)

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest in one step, without a digest: the results are still being written."""
        self._write(manifest.under_way())

    def finish(self, manifest: Manifest) -> Manifest:
        """Replace the manifest by that of an ended run, and return it with the digest of the results."""
        self._write(finished_manifest(manifest, self.folder))
        return self.manifest

    def _write(self, manifest: Manifest) -> None:
        self.manifest = manifest
        with _writing(self.folder):
            write_atomically(self.folder / MANIFEST, manifest.model_dump_json(indent=2).encode() + b"\n")

    def sort(self) -> None:
        """Sort the lines into the order of the dataset, each trace once."""
        path, positions = self.folder / RESULTS, np.array(self._positions, dtype=np.int64)
        with _writing(self.folder):
            os.fsync(self._file.fileno())
            if (order := by_position(positions)) is None:
                return
            lengths = np.array(self._lengths, dtype=np.int64)
            offsets = np.cumsum(lengths) - lengths
            with replacing(path) as out, open_plain(path) as source:
                for row in order.tolist():
                    source.seek(int(offsets[row]))
                    out.write(source.read(int(lengths[row])))
                self._file.close()
            self._file = open_plain(path, "ab")
        self._positions, self._lengths = (array("q", each[order].tolist()) for each in (positions, lengths))
        self._size = sum(self._lengths)

    def close(self) -> None:
        """Close the files; safe to call twice."""
        for file in (getattr(self, "_file", None), self._lock):
            if file is not None:
                file.close()

    @property
    def is_new(self) -> bool:
        """Whether the folder was made for this run."""
        return bool(self._made)

    def discard(self) -> None:
        """Close, and remove the folder and those above it that were made for a new run."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        remove_empty(*self._made[1:])  # a folder of runs that others use by now stays


def missing_folder(folder: Path) -> RunError | None:
    """Return what to say of a run whose folder is not there any more; None if it is."""
    if folder.exists():
        return None
    fault = "is missing: it was deleted or moved while the run was judged; running again takes verdicts "
    return RunError(f"{fault}that were paid for from the cache, if there is one", file=folder)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn an error of the system in the block into a `RunError` that says how to go on."""
    try:
        yield
    except OSError as error:
        gone = missing_folder(folder) if isinstance(error, FileNotFoundError) else None
        raise gone or RunError(
            f"cannot be written: {error.strerror or error}; "
            f"what was written stays; make room or fix the folder, then run again with {option('resume')}",
            file=folder,
        ) from None
