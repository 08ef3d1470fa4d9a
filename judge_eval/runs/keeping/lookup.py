"""The folder of runs: finding, listing, naming, deleting."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from judge_eval.data.reading import is_url
from judge_eval.errors import RunError, advise
from judge_eval.files import hold, open_plain
from judge_eval.runs.folder.journal import MANIFEST, os_errors
from judge_eval.runs.folder.records import Manifest, Shard
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.keeping.mirror import bring_run, refresh_mirror, run_at, shown

LABELLED = "label:"
"""What stands before a label where a run is named."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What is in a folder of runs."""

    runs: list[tuple[Path, Manifest]]
    """Folder and manifest of each run, newest first."""
    unreadable: list[tuple[Path, RunError]]
    """Folders of runs that cannot be read, by name, each with its error."""


def listing(root: Path, load: Callable[[Path], Manifest] = load_manifest) -> Listing:
    """Read the manifest of every run in a folder; an unreadable one hides no other."""
    # A folder without a manifest is not a run; hidden folders are unfinished or deleted. Links to runs
    # elsewhere are not followed: they are listed as unreadable.
    runs = Listing([], [])
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        if folder.name.startswith(".") or not os.path.lexists(folder / MANIFEST):
            continue
        try:
            if folder.is_symlink():
                raise RunError("it is a link, and links in a folder of runs are not followed", file=folder)
            runs.runs.append((folder, load(folder)))
        except RunError as error:
            runs.unreadable.append((folder, error))
    runs.runs.sort(key=lambda pair: (pair[1].created, pair[1].id), reverse=True)
    return runs


def names_in(root: Path) -> Callable[[str], str]:
    """Return a function that shortens paths in a folder of runs to paths relative to it."""

    def called(file: str) -> str:
        path = Path(file)
        return str(path.relative_to(root)) if path.is_relative_to(root) else file

    return called


def holds_no_run(root: Path) -> bool:
    """Return whether a folder of runs has no run yet."""
    return not root.is_dir() or not any(os.path.lexists(folder / MANIFEST) for folder in root.iterdir())


def run_folders(root: Path) -> Iterator[tuple[Path, Manifest]]:
    """Yield the runs in a folder, newest first; unreadable ones are left out."""
    refresh_mirror(root)
    yield from listing(root).runs


def list_runs(root: Path, *, label: str | None = None, tags: Sequence[str] = ()) -> list[tuple[Path, Manifest]]:
    """List the runs in a folder, newest first: only those with this label and with all of these tags."""
    return [
        (folder, manifest)
        for folder, manifest in run_folders(root)
        if (label is None or manifest.label == label) and set(tags) <= set(manifest.tags)
    ]


def find_run(name: str, root: Path, say: Callable[[str], None] | None = None, *, any_: bool = False) -> Path:
    """Find a run by its folder or URL, its id or the start of it, `label:NAME` (the newest), or `latest`."""
    # `latest` and `label:NAME` skip runs that failed and runs without a verdict if there is a better one,
    # unless `any_`. `say` is called with which run was taken if it is not the newest or has no
    # verdict. A run behind a URL is copied here first.
    if is_url(name):
        return run_at(name)
    path = Path(name)
    with suppress(OSError, ValueError):  # too long for a path, or no path at all: it may be a label
        if os.path.lexists(path / MANIFEST):
            return path
        if path.is_dir() and path.resolve() != root.resolve():
            raise RunError(f"no run in {path}: it has no {MANIFEST}; name a run's folder or id")
    return find_run_in(name, root, say, any_=any_)


def find_run_in(name: str, root: Path, say: Callable[[str], None] | None = None, *, any_: bool = False) -> Path:
    """Find a run of a folder as `find_run` does, but by no path and no URL."""
    runs, place = list(run_folders(root)), shown(root)
    if name.startswith(LABELLED):
        return bring_run(_newest(name, _labelled(runs, name[len(LABELLED) :], place), say, any_))
    if name == "latest" and runs:
        return bring_run(_newest(name, runs, say, any_))
    hits = [f for f, m in runs if m.id == name or (len(name) >= 4 and m.id.startswith(name)) or f.name == name]
    if len(hits) == 1:
        return bring_run(hits[0])
    if hits:
        raise RunError(f"{name!r} is the start of {len(hits)} run ids in {place}; give more characters")
    unreadable = listing(root).unreadable
    for folder, error in unreadable:
        if folder.name == name:
            raise error
    if name == "latest" and unreadable:
        folder, error = unreadable[0]
        why = f"{folder.name}: {error.message_for(lambda _: '').removeprefix(': ')}"
        raise RunError(f"no run 'latest' in {place}: none of {len(unreadable)} can be read, such as {why}")
    if name == "latest":
        raise RunError(f"no run 'latest' in {place}: it holds none yet; `judge-eval run DATA` makes one")
    known = [manifest.id[:8] for _, manifest in runs]
    meant = advise(name, ["latest"] if runs and advise(name, ["latest"]).startswith("did") else known)
    raise RunError(f"no run {name!r} in {place}; {meant} (`judge-eval runs list` shows them)")


def newest_labelled(runs: Sequence[tuple[Path, Manifest]], label: str, place: str | Path) -> tuple[Path, Manifest]:
    """Return the newest run (they come newest first) with a label, skipping as `find_run` does."""
    labelled = _labelled(runs, label, place)
    return next((pair for pair in labelled if _says_something(pair[1])), labelled[0])


def _labelled(runs: Sequence[tuple[Path, Manifest]], label: str, place: str | Path) -> list[tuple[Path, Manifest]]:
    labelled = [(folder, manifest) for folder, manifest in runs if manifest.label == label]
    if not labelled:
        labels = sorted({manifest.label for _, manifest in runs if manifest.label})
        raise RunError(f"no run labelled {label!r} in {place}; {advise(label, labels)}")
    return labelled


def _newest(name: str, runs: Sequence[tuple[Path, Manifest]], say: Callable[[str], None] | None, any_: bool) -> Path:
    place = next((place for place, (_, manifest) in enumerate(runs) if any_ or _says_something(manifest)), 0)
    folder, manifest = runs[place]
    if say is not None and not any_ and not _says_something(manifest):
        say(f"{name} is run {manifest.id[:8]}, of status {manifest.status}; no run has verdicts")
    elif say is not None and place:
        newer = f"{place} newer ones" if place > 1 else "a newer one"
        say(f"{name} is run {manifest.id[:8]}; {newer} failed or ended without a verdict")
    return folder


def _says_something(m: Manifest) -> bool:
    """Return whether a run did not fail and has verdicts, or values of traces that retrieved nothing."""
    if m.status in ("failed", "submitted"):
        return False
    return m.tally.verdicts > 0 or (m.status == "done" and m.tally.traces > 0)


def newest_of(
    root: Path, dataset_digest: str, shard: Shard | None = None, *, done: bool = True
) -> tuple[Path, Manifest] | None:
    """Return a dataset's newest unfinished run, of this shard; `done`: else the newest complete one."""

    def same(m: Manifest) -> bool:
        return m.dataset.digest == dataset_digest and str(m.dataset.shard) == str(shard)

    # Imported runs cannot be resumed.
    runs = [run for run in run_folders(root) if same(run[1]) and not run[1].imported]
    unfinished = [run for run in runs if not run[1].is_whole]
    newest = next(iter(unfinished or (runs if done else [])), None)
    if newest is not None:
        bring_run(newest[0])
    return newest


def delete_run(folder: Path) -> None:
    """Remove a run with everything in its folder.

    Raises:
        FileNotFoundError: It is gone already.
        RunError: A process is judging it, or the folder cannot be changed.
    """
    if is_being_written(folder):
        raise RunError("the run cannot be deleted while a process is judging it")
    grave = folder.parent / f".deleted-{uuid4()}"
    if not folder.is_dir():
        raise FileNotFoundError(folder)
    with os_errors("the run cannot be deleted"):
        folder.rename(grave)  # in one step: no reader ever sees half a run
    shutil.rmtree(grave, ignore_errors=True)


def is_being_written(folder: Path) -> bool:
    """Tell whether a process holds the lock of a run's folder."""
    try:
        with open_plain(folder / ".lock") as file:
            return not hold(file, wait=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True
