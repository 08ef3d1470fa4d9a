"""The folder of runs as a server sees it: found by id, read once while nothing changes."""

from __future__ import annotations

import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from judge_eval.errors import RunError
from judge_eval.eval_run import EvalRun
from judge_eval.files import hold, open_plain
from judge_eval.pages.comparepage import SideBySide
from judge_eval.pages.matrixpage import SeveralRuns, check_several
from judge_eval.pages.overview import Table
from judge_eval.runs.folder.files import LABELS, MANIFEST, RESULTS
from judge_eval.runs.folder.labels import with_labels
from judge_eval.runs.folder.records import Manifest, Status
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.keeping.finding import LABELLED, Listing, listing, newest_labelled
from judge_eval.server.following import Followed

T = TypeVar("T")

KEPT = 6
"""Runs whose rows stay in memory."""


GOING: frozenset[Status] = frozenset({"submitted", "running"})
"""The statuses of runs that are judged, or wait for it."""


class MissingRunError(RunError):
    """There is no run of that id."""


class BusyRunError(RunError):
    """A process is writing the run."""


class Library:
    """Runs by id or label. A request never names a folder: what it gives is looked for in the manifests.

    Other processes may write the folder meanwhile; what was read is read again once its files changed.

    Args:
        root: The folder of runs.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.RLock()
        self._manifests: dict[Path, tuple[tuple[int, int], Manifest]] = {}
        self._read: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def runs(self) -> list[tuple[Path, Manifest]]:
        """List the runs, newest first; what is no run, or cannot be read, is passed over."""
        return self.listing().runs

    def listing(self) -> Listing:
        """List the runs, and what cannot be read."""
        with self._lock:
            found = listing(self.root, self._load)
            for gone in self._manifests.keys() - {folder for folder, _ in found.runs}:
                del self._manifests[gone]
        return found

    def _load(self, folder: Path) -> Manifest:
        """Read a manifest, once for as long as its file stays the same."""
        try:
            stamp = _stamp(folder / MANIFEST)
        except OSError as error:
            raise RunError(f"cannot be read: {error.strerror or error}", file=folder / MANIFEST) from None
        known = self._manifests.get(folder)
        if known is None or known[0] != stamp:
            known = self._manifests[folder] = (stamp, load_manifest(folder))
        return known[1]

    def find(self, run_id: str) -> tuple[Path, Manifest]:
        """Find a run by its whole id, or by `label:NAME` the newest of that label.

        Raises:
            MissingRunError: There is none.
        """
        if run_id.startswith(LABELLED):
            try:
                return newest_labelled(self.runs(), run_id[len(LABELLED) :], "this folder")
            except RunError as error:
                raise MissingRunError(str(error)) from None
        for folder, manifest in self.runs():
            if manifest.id == run_id:
                return folder, manifest
        raise MissingRunError(f"no run {run_id} in this folder")

    def table(self, run_id: str) -> Table:
        """Return a run's rows.

        Raises:
            MissingRunError: There is no such run.
            RunError: Its results are damaged.
        """
        folder, manifest = self.find(run_id)
        key = ("table", folder, _stamps(folder))
        return self._once(key, lambda: Table(with_labels(_open(folder, manifest))))

    def followed(self, run_id: str) -> Followed | None:
        """Return the run with what has come of it by now, where it is not judged to its end; None else.

        Raises:
            MissingRunError: There is no such run.
            RunError: Its results are damaged.
        """
        folder, manifest = self.find(run_id)
        if manifest.status not in GOING:
            return None
        key = ("followed", folder, manifest.id, manifest.metrics)
        followed = self._once(key, lambda: Followed(folder, manifest))
        followed.look()
        return followed

    def side_by_side(self, baseline: str, candidate: str) -> SideBySide:
        """Return two runs side by side.

        Raises:
            MissingRunError: There is no such run.
            RunError: Results are damaged.
        """
        a, b = self.find(baseline)[0], self.find(candidate)[0]
        key = ("side by side", a, _stamps(a), b, _stamps(b))
        return self._once(key, lambda: SideBySide(self.table(baseline), self.table(candidate)))

    def several(self, run_ids: Sequence[str]) -> SeveralRuns:
        """Return three runs or more side by side.

        Raises:
            ConfigError: They are too few or too many.
            MissingRunError: There is no such run.
            RunError: Results are damaged.
        """
        found = [self.find(run_id) for run_id in run_ids]
        ids = [manifest.id for _, manifest in found]
        check_several(ids)
        key = ("several", *((folder, _stamps(folder)) for folder, _ in found))
        return self._once(key, lambda: SeveralRuns([self.table(run_id) for run_id in ids]))

    def derived(self, table: Table | SideBySide | SeveralRuns, name: str, make: Callable[[], T]) -> T:
        """Return what is made of a table, once for as long as the table stays the same."""
        return self._once(("derived", name, table), make)

    def _once(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        with self._lock:
            if key in self._read:
                self._read.move_to_end(key)
                kept: T = self._read[key]
                return kept
        made = make()
        with self._lock:
            self._read[key] = made
            while len(self._read) > 3 * KEPT:
                self._read.popitem(last=False)
        return made

    def delete(self, run_id: str) -> None:
        """Remove a run with everything in its folder.

        Raises:
            MissingRunError: There is no such run.
            BusyRunError: A process is writing it.
        """
        folder, _ = self.find(run_id)
        if is_being_written(folder):
            raise BusyRunError("a process is judging this run; it cannot be deleted meanwhile")
        grave = self.root / f".deleted-{uuid4()}"
        try:
            folder.rename(grave)  # in one step: no reader ever sees half a run
        except FileNotFoundError:
            raise MissingRunError(f"no run {run_id} in this folder") from None
        except OSError as error:
            raise RunError(f"the run cannot be deleted: {error.strerror or error}") from None
        shutil.rmtree(grave, ignore_errors=True)


def _open(folder: Path, manifest: Manifest) -> EvalRun:
    """Open a run; one that waits to be judged has no results yet."""
    waits = manifest.seal is None and manifest.counted is None
    if waits and not os.path.lexists(folder / RESULTS):
        return EvalRun(manifest, [], folder)
    return EvalRun.load(folder)


def _stamp(path: Path) -> tuple[int, int]:
    return (status := path.lstat()).st_mtime_ns, status.st_size


def _stamps(folder: Path) -> tuple[tuple[int, int] | None, ...]:
    paths = [folder / name for name in (MANIFEST, RESULTS, LABELS)]
    return tuple(_stamp(path) if os.path.lexists(path) else None for path in paths)


def is_being_written(folder: Path) -> bool:
    """Tell whether a process holds the lock of a run's folder."""
    try:
        with open_plain(folder / ".lock") as file:
            return not hold(file, wait=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True
