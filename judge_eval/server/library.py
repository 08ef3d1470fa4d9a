"""The folder of runs as the server reads it, with the runs that are being judged."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from judge_eval.errors import RunError
from judge_eval.eval_run import EvalRun
from judge_eval.files import open_plain
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.matrixpage import SeveralRuns, check_several
from judge_eval.pages.rows import Table, TraceRow, lead_first, row_of
from judge_eval.pages.runpage import run_page
from judge_eval.runs.folder.journal import LABELS, MANIFEST, read_result
from judge_eval.runs.folder.labels import Labelled, given_labels, with_labels
from judge_eval.runs.folder.records import RESULTS, Manifest, Status, TraceResult
from judge_eval.runs.folder.run import Run, load_manifest
from judge_eval.runs.folder.validation import VALIDATION
from judge_eval.runs.keeping.lookup import LABELLED, Listing, delete_run, listing, newest_labelled
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.views.blocks import JSON

LOOK = 4 * 2**20
"""Bytes of results that are read at one look."""
LINE = 256 * 2**20
"""Bytes in which a line must end."""
FOLLOWED = 20_000
"""Traces that are held of a run while it is judged; all of them are there when it has ended."""


class Followed:
    """The traces of a run that is being judged, in the order in which they came.

    It takes no lock. A file that replaces another, as when the run ends, is read from its start. Scale and
    metrics stay those of the manifest.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self.scale = scale_of(Run(manifest, []))
        self.metrics = lead_first(manifest.metrics)
        self._lock = threading.RLock()
        self._labels: Mapping[tuple[str, str], int] = {}
        self._labels_stamp: tuple[int, ...] = ()
        self._start_anew()

    def _start_anew(self) -> None:
        self._file: tuple[int, int] | None = None
        self._size = 0
        self.rows: list[TraceRow] = []
        self._spans: list[tuple[int, int]] = []
        self._places: dict[int, int] = {}
        self._by_id: dict[str, int] = {}
        self._ends: list[dict[str, tuple[float, float]]] = []  # of each row, by metric, what it can be

    def look(self) -> None:
        """Read the new results, a part of them if there are many."""
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
        known = {name: (score, score) for name, score in result.scores.items() if score is not None}
        place = self._places.setdefault(result.position, len(self.rows))
        there = slice(place, place + 1)  # empty, unless the trace is judged again
        self._spans[there], self.rows[there] = [span], [self._row(result)]
        self._ends[there] = [{**result.bounds, **known}]
        self._by_id[result.trace_id] = place

    def means(self) -> list[JSON]:
        """Return each metric's mean over the traces that are here; None if none has a value."""
        # If failed verdicts leave traces open, its bounds: a mean of the others would be selected by failure.
        out: list[JSON] = []
        for name in self.metrics:
            ends = [pairs[name] for pairs in self._ends if name in pairs]
            low, high, n = sum(low for low, _ in ends), sum(high for _, high in ends), len(ends)
            bounds = (low / n, high / n) if n and high - low > 1e-9 * n else None
            mean = low / n if n and bounds is None else None
            headline = "mean" if bounds is None else "bounds"
            out.append({"name": name, "mean": mean, "bounds": bounds, "headline": headline, "n": n})
        return out

    def find(self, trace_id: str) -> TraceResult | None:
        """Return the result of a trace with its later labels; None if there is none yet."""
        with self._lock:
            place = self._by_id.get(trace_id)
            return None if place is None else self._read(place)

    def results(self, positions: Collection[int]) -> Iterator[TraceResult]:
        """Read again what came of some of the traces that are here, by their places in the dataset."""
        for position in positions:
            with self._lock:
                place = self._places.get(position)
                result = None if place is None else self._read(place)
            if result is not None:
                yield result

    def _read(self, place: int) -> TraceResult:
        start, length = self._spans[place]
        with open_plain(self.folder / RESULTS) as file:
            status = os.fstat(file.fileno())
            if (status.st_dev, status.st_ino) != self._file:
                raise RunError("the run has just ended; reload the page")
            file.seek(start)
            line = file.read(length)
        return self._labelled(read_result(line, self.folder / RESULTS, place + 1))

    def _row(self, result: TraceResult) -> TraceRow:
        return row_of(self._labelled(result), self.scale)

    def _labelled(self, result: TraceResult) -> TraceResult:
        return next(iter(Labelled([result], self._labels))) if self._labels else result

    def _read_labels(self) -> None:
        if (stamp := _stamp(self.folder / LABELS)) == self._labels_stamp:
            return
        labels = {
            key: label.label or 0 for key, label in given_labels(self.folder, self.scale.relevant, self.scale).items()
        }
        changed = {key[0] for key in labels.keys() | self._labels.keys() if labels.get(key) != self._labels.get(key)}
        self._labels, self._labels_stamp = labels, stamp
        for trace_id in changed & self._by_id.keys():
            place = self._by_id[trace_id]
            self.rows[place] = self._row(self._read(place))


T = TypeVar("T")
KEPT = 6
"""Runs whose rows stay in memory."""
LARGE = 32 * 2**20
"""Bytes of results from which a request does not wait until they are read."""
GOING: frozenset[Status] = frozenset({"submitted", "running"})
"""The statuses of runs that are judged, or wait for it."""


class MissingRunError(RunError):
    """There is no run of that id."""


class IndexingError(RunError):
    """The rows of a large run are being read; asking again later brings them."""


class Library:
    """Runs by id or label. A request never names a folder: its name is looked up in the manifests.

    Other processes may write the folder; a run is read again when its files change.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.RLock()
        self._manifests: dict[Path, tuple[tuple[int, ...], Manifest]] = {}
        self._read: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._making: dict[tuple[Any, ...], threading.RLock] = {}
        self._indexed: dict[Path, float] = {}
        """By folder of the large runs whose rows are being read: the share that is done."""
        self._faulty: set[tuple[Any, ...]] = set()
        """Large runs whose rows could not be read."""
        self._ended: list[tuple[str, Path]] | None = None
        """Runs whose pages are to be prepared, the newest last; None before `index`."""
        self._preparing = False

    def runs(self) -> list[tuple[Path, Manifest]]:
        """List the readable runs, newest first."""
        return self.listing().runs

    def listing(self) -> Listing:
        """List the runs, and what cannot be read."""
        with self._lock:
            runs = listing(self.root, self._load)
            for gone in self._manifests.keys() - {folder for folder, _ in runs.runs}:
                del self._manifests[gone]
        return runs

    def _load(self, folder: Path) -> Manifest:
        stamp = _stamp(folder / MANIFEST)
        known = self._manifests.get(folder)
        if known is None or known[0] != stamp:
            known = self._manifests[folder] = (stamp, load_manifest(folder))
            if self._ended is not None and known[1].status not in GOING:
                self._prepare([(known[1].id, folder)])
        return known[1]

    def find(self, run_id: str) -> tuple[Path, Manifest]:
        """Find a run by its whole id, or by `label:NAME` the newest of that label."""
        if run_id.startswith(LABELLED):
            try:
                return newest_labelled(self.runs(), run_id[len(LABELLED) :], "this folder")
            except RunError as error:
                raise MissingRunError(str(error)) from None
        for folder, manifest in self.runs():
            if manifest.id == run_id:
                return folder, manifest
        raise MissingRunError(f"no run {run_id} in this folder")

    def table(self, run_id: str, *, patient: bool = True) -> Table:
        """Return a run's rows.

        Raises:
            IndexingError: The rows of a large run are not there yet, and `patient` is false: they are being
                read now, once for as long as the run stays as it is.
        """
        folder, manifest = self.find(run_id)
        key, plain = ("table", folder, stamps_of(folder)), _plain(folder)
        if not patient and not {key, plain} & self._read.keys() and plain not in self._faulty and _is_large(manifest):
            self._index(run_id, folder)

        def labelled() -> Table:
            table = self._once(plain, lambda: self._table(folder, manifest))
            return table.with_labels_of(with_labels(table.run))

        return self._once(key, labelled)

    def _table(self, folder: Path, manifest: Manifest) -> Table:
        traces = max(1, manifest.tally.traces)

        def watch(done: int) -> None:
            if folder in self._indexed:
                self._indexed[folder] = done / traces

        return Table(_open(folder, manifest), watch=watch)

    def _index(self, run_id: str, folder: Path) -> NoReturn:
        with self._lock:
            if folder not in self._indexed:
                self._indexed[folder] = 0.0
                threading.Thread(target=self._try_table, args=(run_id, folder), daemon=True).start()
        share = self._indexed.get(folder, 1.0)
        raise IndexingError(f"the traces of this run are read for the first time: {share:.0%}")

    def _try_table(self, run_id: str, folder: Path) -> None:
        plain = _plain(folder)
        try:
            table = self.table(run_id)
            self.derived(table, "page", lambda: run_page(table))
        except Exception:  # whoever asks next is told why
            self._faulty.add(plain)
        finally:
            self._indexed.pop(folder, None)

    def index(self) -> None:
        """Have a thread prepare the pages of the newest large runs, and from now on of each run that has ended."""
        large = [(manifest.id, folder) for folder, manifest in self.runs() if _is_large(manifest)]
        with self._lock:
            self._ended = []
            self._prepare(large[:KEPT][::-1])

    def _prepare(self, runs: Sequence[tuple[str, Path]]) -> None:
        assert self._ended is not None
        self._ended = [*self._ended, *runs][-KEPT:]
        if self._ended and not self._preparing:
            self._preparing = True
            threading.Thread(target=self._prepare_all, daemon=True).start()

    def _prepare_all(self) -> None:
        while True:
            with self._lock:
                if not self._ended:
                    self._preparing = False
                    return
                run_id, folder = self._ended.pop()
            self._try_table(run_id, folder)

    def followed(self, run_id: str) -> Followed | None:
        """Return an unfinished run with its results so far; None if it is finished."""
        folder, manifest = self.find(run_id)
        if manifest.status not in GOING:
            return None
        key = ("followed", folder, manifest.id, manifest.metrics)
        followed = self._once(key, lambda: Followed(folder, manifest))
        followed.look()
        return followed

    def compared(self, baseline: str, candidate: str) -> ComparedRuns:
        """Return two runs compared."""
        a, b = self.find(baseline)[0], self.find(candidate)[0]
        key = ("compared", a, stamps_of(a), b, stamps_of(b))
        tables = self.table(baseline, patient=False), self.table(candidate, patient=False)
        return self._once(key, lambda: ComparedRuns(*tables))

    def several(self, run_ids: Sequence[str]) -> SeveralRuns:
        """Return three runs or more side by side."""
        runs = [self.find(run_id) for run_id in run_ids]
        ids = [manifest.id for _, manifest in runs]
        check_several(ids)
        key = ("several", *((folder, stamps_of(folder)) for folder, _ in runs))
        tables = [self.table(run_id, patient=False) for run_id in ids]
        return self._once(key, lambda: SeveralRuns(tables))

    def page(self, name: str, run_ids: Sequence[str], make: Callable[[], JSON]) -> JSON:
        """Return a page of some runs, made once for as long as their files stay the same."""
        key = ("page", name, *((folder, stamps_of(folder)) for folder, _ in map(self.find, run_ids)))
        return self._once(key, make)

    def derived(self, table: Table | ComparedRuns, name: str, make: Callable[[], T]) -> T:
        """Return what is made of a table, once for as long as the table stays the same."""
        return self._once(("derived", name, table), make)

    def _once(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        with self._lock:
            if key in self._read:
                self._read.move_to_end(key)
                kept: T = self._read[key]
                return kept
            making = self._making.setdefault(key, threading.RLock())
        with making:  # what takes long is made once, whoever else waits for it
            with self._lock:
                known: T | None = self._read.get(key)
            made = make() if known is None else known
        with self._lock:
            self._making.pop(key, None)
            self._read[key] = made
            while len(self._read) > 3 * KEPT:
                self._read.popitem(last=False)
        return made

    def delete(self, run_id: str) -> None:
        """Remove a run with everything in its folder."""
        folder, _ = self.find(run_id)
        try:
            delete_run(folder)
        except FileNotFoundError:
            raise MissingRunError(f"no run {run_id} in this folder") from None


def _open(folder: Path, manifest: Manifest) -> EvalRun:
    """Open a run; one that waits to be judged has no results yet."""
    waits = not manifest.files and manifest.counted is None
    if waits and not os.path.lexists(folder / RESULTS):
        return EvalRun(manifest, [], folder)
    return EvalRun.load(folder)


def _is_large(manifest: Manifest) -> bool:
    return manifest.results_digest is not None and manifest.results_digest.bytes >= LARGE


def _plain(folder: Path) -> tuple[Any, ...]:
    return "plain", folder, stamps_of(folder)[:2]  # whatever labels came later


def stamps_of(folder: Path) -> tuple[tuple[int, ...], ...]:
    """Return what tells whether a file changed of which pages are made, empty for one that is not there.

    They are the manifest and results of a run, its labels, and the table of validated judges beside it.
    """
    return tuple(map(_stamp, (folder / MANIFEST, folder / RESULTS, folder / LABELS, folder.parent / VALIDATION)))


def _stamp(path: Path) -> tuple[int, ...]:
    with suppress(OSError):
        status = path.lstat()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    return ()
