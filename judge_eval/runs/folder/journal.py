"""Writing a run's folder: an append-only journal, put in the dataset's order when the run ends."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from judge_eval.digest import canonical_json
from judge_eval.errors import RunError
from judge_eval.runs.folder.records import FORMAT, Manifest, TraceResult
from judge_eval.schema import Trace

MANIFEST, RESULTS = "manifest.json", "results.jsonl"


def cluster_of(trace: Trace, key: str) -> str | None:
    """Return the id of the cluster a trace belongs to; None where it carries none.

    Args:
        trace: The trace.
        key: The key of its `metadata`; a value that is no text goes by its JSON.
    """
    return cluster_in(trace.metadata, key)


def cluster_in(metadata: Mapping[str, Any], key: str) -> str | None:
    """Return the id of the cluster that a trace's metadata name; see `cluster_of`."""
    value = metadata.get(key)
    return value if value is None or isinstance(value, str) else canonical_json(value)


def encode(result: TraceResult) -> bytes:
    """Write a result as its line, with the line end."""
    return result.__pydantic_serializer__.to_json(result, exclude_none=False) + b"\n"


class Index:
    """Where each result stands in a journal, and its scores: a few numbers a line, whatever its length."""

    def __init__(self, metrics: Sequence[str], cluster: str = "cluster") -> None:
        self.cluster = cluster
        self.positions, self.offsets, self.lengths = array("q"), array("q"), array("q")
        self.scores = {name: array("d") for name in metrics}
        self.bounds: dict[str, dict[int, tuple[float, float]]] = {name: {} for name in metrics}
        self.tags: list[tuple[str, ...]] = []
        self.clusters: list[str | None] = []
        self._tags_seen: dict[tuple[str, ...], tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self.positions)

    def add(self, result: TraceResult, offset: int, length: int) -> None:
        """Note a line; a later one of the same position replaces it when the run is sorted."""
        cluster = cluster_in(result.trace.metadata, self.cluster)
        self.note(result.position, result.scores, result.bounds, result.trace.tags, cluster, offset, length)

    def note(
        self,
        position: int,
        scores: Mapping[str, float | None],
        bounds: Mapping[str, tuple[float, float]],
        tags: tuple[str, ...],
        cluster: str | None,
        offset: int,
        length: int,
    ) -> None:
        """Note a line by what it says; see `add`."""
        row = len(self.positions)
        self.positions.append(position)
        self.offsets.append(offset)
        self.lengths.append(length)
        self.tags.append(self._tags_seen.setdefault(tags, tags))  # few differ: one tuple serves many rows
        self.clusters.append(cluster)
        for name, column in self.scores.items():
            value = scores.get(name)
            column.append(float("nan") if value is None else value)
            if name in bounds:
                self.bounds[name][row] = bounds[name]

    def order(self) -> list[int]:
        """Return the rows by position, of two with the same position the later one."""
        last = {position: row for row, position in enumerate(self.positions)}
        return [last[position] for position in sorted(last)]

    def in_order(self) -> bool:
        """Tell whether the lines stand in the order of their positions, each once."""
        return all(a < b for a, b in zip(self.positions, self.positions[1:], strict=False))

    def sorted(self) -> Index:
        """Return an index of the rows in order, as they will stand in the sorted file."""
        out, offset = Index(list(self.scores), self.cluster), 0
        for new, row in enumerate(self.order()):
            out.positions.append(self.positions[row])
            out.offsets.append(offset)
            out.lengths.append(self.lengths[row])
            out.tags.append(self.tags[row])
            out.clusters.append(self.clusters[row])
            offset += self.lengths[row]
            for name, column in self.scores.items():
                out.scores[name].append(column[row])
                if row in self.bounds[name]:
                    out.bounds[name][new] = self.bounds[name][row]
        return out


class Journal:
    """The results of a run being written.

    Lines are appended as traces finish; a line that a kill tore off is cut away when the run is resumed.
    Only one process writes a run at a time.

    Args:
        folder: The run's folder; made where it is not there.
        manifest: Written at once.

    Raises:
        RunError: The folder cannot be written, or another process is writing it.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self._lock: IO[bytes] | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = lock_folder(folder)
            self.index, self._size = _recover(folder / RESULTS, manifest)
            self._file = (folder / RESULTS).open("ab", buffering=0)
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
        """Replace the manifest in one step."""
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
            temporary = path.with_suffix(".tmp")
            with path.open("rb") as source, temporary.open("wb") as out:
                for row in self.index.order():
                    source.seek(self.index.offsets[row])
                    out.write(source.read(self.index.lengths[row]))
                out.flush()
                os.fsync(out.fileno())
            self._file.close()
            temporary.replace(path)
            self._file = path.open("ab", buffering=0)
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
        f"run folder {folder}: cannot be written: {error.strerror or error}; "
        "what was written stays; make room or fix the folder, then run again with --resume"
    )


def lock_folder(folder: Path) -> IO[bytes] | None:
    """Take the folder's lock for the life of this process; the system frees it however the process ends.

    Raises:
        RunError: Another process holds it.
    """
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        return None
    file = (folder / ".lock").open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise RunError(f"run folder {folder}: another process is writing this run; wait for it") from None
    return file


def _recover(path: Path, manifest: Manifest) -> tuple[Index, int]:
    """Index the lines that are there, cutting off a torn last one; return the index and the file's size."""
    index, size = Index(manifest.metrics, manifest.intervals.cluster), 0
    if not path.exists():
        return index, size
    for offset, line in whole_lines(path):
        index.add(read_result(line, path, len(index) + 1), offset, len(line))
        size = offset + len(line)
    if path.stat().st_size > size:
        os.truncate(path, size)
    return index, size


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


def read_result(line: bytes, path: Path, number: int) -> TraceResult:
    """Read a line of a journal.

    Raises:
        RunError: It is not a result, or one of a later version.
    """
    try:
        return TraceResult.model_validate_json(line)
    except ValueError:
        version: Any = None
        with suppress(ValueError, AttributeError):
            version = json.loads(line).get("v")
        if isinstance(version, int) and version > FORMAT:
            raise RunError(
                f"{path}:{number}: written by a later version (format {version}); upgrade"
            ) from None
        raise RunError(f"{path}:{number}: not a result of a run; the file was changed or damaged") from None


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file in one step, so that no reader and no kill ever sees half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
