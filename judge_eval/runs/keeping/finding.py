"""The folder of runs: finding, listing, naming."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from judge_eval.data.remote import is_url
from judge_eval.errors import RunError, advise
from judge_eval.runs.folder.files import MANIFEST
from judge_eval.runs.folder.records import Manifest, Shard
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.keeping.mirroring import bring_run, refresh_mirror, run_at, shown

UNFINISHED = frozenset({"submitted", "running", "incomplete", "failed", "interrupted"})


@dataclass(frozen=True, slots=True)
class Listing:
    """What is in a folder of runs."""

    runs: list[tuple[Path, Manifest]]
    """Folder and manifest of each run, newest first."""
    unreadable: list[tuple[Path, RunError]]
    """What should be a run and cannot be read, by name, with what is wrong."""


def listing(root: Path, load: Callable[[Path], Manifest] = load_manifest) -> Listing:
    """Look at every run in a folder; one that cannot be read hides no other.

    What holds no manifest is no run, and what is hidden is still made or already deleted. A link to a run
    elsewhere is not followed: it is among what cannot be read.

    Args:
        root: The folder of runs.
        load: Reads the manifest of a run's folder.
    """
    found = Listing([], [])
    folders = sorted(root.iterdir()) if root.is_dir() else []
    for folder in folders:
        if folder.name.startswith(".") or not os.path.lexists(folder / MANIFEST):
            continue
        try:
            if folder.is_symlink():
                raise RunError("it is a link, and links in a folder of runs are not followed", file=folder)
            found.runs.append((folder, load(folder)))
        except RunError as error:
            found.unreadable.append((folder, error))
    found.runs.sort(key=lambda pair: (pair[1].created, pair[1].id), reverse=True)
    return found


def names_in(root: Path) -> Callable[[str], str]:
    """Return what gives files in a folder of runs the names that they have there, without the way to it."""

    def called(file: str) -> str:
        path = Path(file)
        return str(path.relative_to(root)) if path.is_relative_to(root) else file

    return called


def run_folders(root: Path) -> Iterator[tuple[Path, Manifest]]:
    """Yield the runs in a folder, newest first; what is no run, or cannot be read, is passed over."""
    refresh_mirror(root)
    yield from listing(root).runs


def list_runs(
    root: Path, *, label: str | None = None, tags: Sequence[str] = ()
) -> list[tuple[Path, Manifest]]:
    """List the runs in a folder, newest first.

    Args:
        root: The folder of runs.
        label: Only runs of this label.
        tags: Only runs that carry all of these.
    """
    return [
        (folder, manifest)
        for folder, manifest in run_folders(root)
        if (label is None or manifest.label == label) and set(tags) <= set(manifest.tags)
    ]


def find_run(name: str, root: Path) -> Path:
    """Find a run by its folder or URL, its id or the start of it, `label:NAME` (the newest), or `latest`.

    A run behind a URL is brought here first.

    Args:
        name: Which run.
        root: The folder of runs.

    Raises:
        RunError: There is none, or the start of an id fits several.
    """
    if is_url(name):
        return run_at(name)
    given = Path(name)
    with suppress(OSError, ValueError):  # too long for a path, or no path at all: it may be a label
        if os.path.lexists(given / MANIFEST):
            return given
        if given.is_dir() and given.resolve() != root.resolve():
            raise RunError(f"no run in {given}: it has no {MANIFEST}; name a run's folder or id")
    runs, place = list(run_folders(root)), shown(root)
    if name.startswith("label:"):
        runs_of = [folder for folder, manifest in runs if manifest.label == name[6:]]
        if not runs_of:
            labels = sorted({manifest.label for _, manifest in runs if manifest.label})
            raise RunError(f"no run labelled {name[6:]!r} in {place}; {advise(name[6:], labels)}")
        return bring_run(runs_of[0])
    if name == "latest" and runs:
        return bring_run(runs[0][0])
    hits = [
        f for f, m in runs if m.id == name or (len(name) >= 4 and m.id.startswith(name)) or f.name == name
    ]
    if len(hits) == 1:
        return bring_run(hits[0])
    if hits:
        raise RunError(f"{name!r} is the start of {len(hits)} run ids in {place}; give more of it")
    for folder, error in listing(root).unreadable:
        if folder.name == name:
            raise error
    known = [manifest.id[:8] for _, manifest in runs]
    raise RunError(f"no run {name!r} in {place}; {advise(name, known)} (`judge-eval runs list` shows them)")


def newest_unfinished(root: Path, dataset_digest: str, shard: Shard | None = None) -> Path | None:
    """Return the newest run of a dataset (and of this shard of it) that did not finish, if there is one."""
    found = _runs_of(root, dataset_digest, shard)
    return next((bring_run(folder) for folder, m in found if m.status in UNFINISHED), None)


def newest_done(root: Path, dataset_digest: str, shard: Shard | None = None) -> Path | None:
    """Return the newest run of a dataset (and of this shard of it) that is whole, if there is one."""
    found = _runs_of(root, dataset_digest, shard)
    return next((bring_run(folder) for folder, m in found if m.status not in UNFINISHED), None)


def _runs_of(root: Path, dataset_digest: str, shard: Shard | None) -> Iterator[tuple[Path, Manifest]]:
    """Yield the runs that judged a dataset; one that was imported is none that could go on."""
    for folder, manifest in run_folders(root):
        there = manifest.dataset
        same = there.digest == dataset_digest and str(there.shard) == str(shard)
        if same and not manifest.imported:
            yield folder, manifest
