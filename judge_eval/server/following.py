"""A run that is judged, followed as it grows: every byte of its results is read once."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from judge_eval.errors import RunError
from judge_eval.files import open_plain
from judge_eval.pages.overview import lead_first
from judge_eval.pages.rows import JSON, TraceRow, row_of
from judge_eval.runs.folder.files import LABELS, RESULTS
from judge_eval.runs.folder.labels import Labelled, given_labels
from judge_eval.runs.folder.records import Manifest, TraceResult
from judge_eval.runs.folder.results import read_result
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import scale_of

LOOK = 4 * 2**20
"""Bytes of results that are read at one look."""
LINE = 256 * 2**20
"""Bytes in which a line must end."""
FOLLOWED = 20_000
"""Traces that are held of a run while it is judged; all of them are there when it has ended."""


class Followed:
    """The traces of a run that is judged, in the order in which they came.

    No lock is taken: the process that judges notices nothing. A file that was put in another's place, as
    when the run ends, is read anew.

    Args:
        folder: The run's folder.
        manifest: The run's; scale and metrics stay what they are.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self.scale = scale_of(Run(manifest, []))
        self.metrics = lead_first(manifest.metrics)
        self.rows: list[TraceRow] = []
        self._lock = threading.RLock()
        self._labels: Mapping[tuple[str, str], int] = {}
        self._labels_stamp: tuple[int, int] | None = None
        self._start_anew()

    def _start_anew(self) -> None:
        self._file: tuple[int, int] | None = None
        self._size = 0
        self.rows = []
        self._spans: list[tuple[int, int]] = []
        self._places: dict[int, int] = {}
        self._by_id: dict[str, int] = {}
        self._sums = {name: [0.0, 0] for name in self.metrics}

    def look(self) -> None:
        """Read what has come since the last look, a part of it where it is much.

        Raises:
            RunError: A line is no result.
        """
        with self._lock:
            self._read_labels()
            if len(self.rows) >= FOLLOWED:
                return
            with suppress(FileNotFoundError), open_plain(self.folder / RESULTS) as file:
                status = os.fstat(file.fileno())
                same = (status.st_dev, status.st_ino)
                if same != self._file or status.st_size < self._size:
                    self._start_anew()
                    self._file = same
                file.seek(self._size)
                data = file.read(LOOK)
                end = data.rfind(b"\n") + 1
                if not end and len(data) == LOOK:  # one line that is longer than a look
                    data += file.readline(LINE)
                    end = data.rfind(b"\n") + 1
                for line in data[:end].split(b"\n")[:-1]:
                    self._take(line + b"\n")

    def _take(self, line: bytes) -> None:
        result = read_result(line, self.folder / RESULTS, len(self._spans) + 1)
        span, self._size = (self._size, len(line)), self._size + len(line)
        place = self._places.get(result.position)
        if place is None:
            place = self._places[result.position] = len(self.rows)
            self._spans.append(span)
            self.rows.append(self._row(result))
        else:  # judged again, in this sitting or a later one
            self._count(self.rows[place], -1)
            self._spans[place], self.rows[place] = span, self._row(result)
        self._by_id[result.trace_id] = place
        self._count(self.rows[place], 1)

    def _count(self, row: TraceRow, times: int) -> None:
        for name, told in self._sums.items():
            if (score := row.scores.get(name)) is not None:
                told[0] += times * score
                told[1] += times

    def means(self) -> list[JSON]:
        """Return each metric's mean over the traces that are here; None where none has a value."""
        return [
            {"name": name, "mean": total / n if n else None, "n": int(n)}
            for name, (total, n) in self._sums.items()
        ]

    def find(self, trace_id: str) -> TraceResult | None:
        """Return what came of a trace, with its later labels; None where it has not come yet."""
        with self._lock:
            place = self._by_id.get(trace_id)
            return None if place is None else self._read(place)

    def results(self, positions: Collection[int]) -> Iterator[TraceResult]:
        """Read again what came of some of the traces that are here, by their places in the dataset."""
        for position in positions:
            with self._lock:
                place = self._places.get(position)
                found = None if place is None else self._read(place)
            if found is not None:
                yield found

    def _read(self, place: int) -> TraceResult:
        start, length = self._spans[place]
        with open_plain(self.folder / RESULTS) as file:
            status = os.fstat(file.fileno())
            if (status.st_dev, status.st_ino) != self._file:
                raise RunError("the run has just ended; load the page again")
            file.seek(start)
            line = file.read(length)
        return self._labelled(read_result(line, self.folder / RESULTS, place + 1))

    def _row(self, result: TraceResult) -> TraceRow:
        return row_of(self._labelled(result), self.scale)

    def _labelled(self, result: TraceResult) -> TraceResult:
        return next(iter(Labelled([result], self._labels))) if self._labels else result

    def _read_labels(self) -> None:
        """Read the labels again where they have changed, and make the rows of their traces anew."""
        try:
            status = (self.folder / LABELS).lstat()
        except OSError:
            return
        if (stamp := (status.st_mtime_ns, status.st_size)) == self._labels_stamp:
            return
        given = {key: label.label or 0 for key, label in given_labels(self.folder).items()}
        changed = {
            key[0] for key in given.keys() | self._labels.keys() if given.get(key) != self._labels.get(key)
        }
        self._labels, self._labels_stamp = given, stamp
        for trace_id in changed & self._by_id.keys():
            place = self._by_id[trace_id]
            self.rows[place] = self._row(self._read(place))
