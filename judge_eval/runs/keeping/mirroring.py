"""A folder of runs behind a URL: the local folder that stands for it, brought up to date and pushed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from judge_eval.data.remote import file_system, is_url
from judge_eval.errors import JudgeEvalError, RunError
from judge_eval.files import write_atomically
from judge_eval.runs.folder.files import MANIFEST, RESULTS, lock_folder, whole_lines
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.keeping.moving import FILES, copy_here, push, reaching, read_beat
from judge_eval.runs.keeping.notes import (
    is_changed,
    note_bringing,
    note_same,
    read_note,
    sizes_here,
    stamps_there,
)
from judge_eval.runs.keeping.pieces import copy_results
from judge_eval.urls import public_url

STAGING = "JUDGE_EVAL_STAGING"

_urls: dict[Path, str] = {}
"""The folders that stand for URLs in this process. No URL is written down: it may hold a password."""


def place_of_runs(given: str | Path) -> Path:
    """Return the folder of runs that a path or a URL names; of a URL, the local one that stands for it.

    It lies in `JUDGE_EVAL_STAGING`, else in the user's state folder, under a name that follows from the
    URL: what a killed run left there is found by the same command.
    """
    if not is_url(given):
        return Path(given)
    url = str(given).rstrip("/")
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state else Path.home() / ".local" / "state"
    root = Path(os.environ.get(STAGING) or base / "judge_eval" / "runs")
    folder = root / hashlib.sha256(url.encode()).hexdigest()[:16]
    _urls[folder] = url
    return folder


def shown(root: Path) -> str:
    """Return what to call a folder of runs: its URL without credentials, or its path."""
    return public_url(_urls[root]) if root in _urls else str(root)


def url_of(folder: Path) -> str | None:
    """Return the URL of the folder of runs that a run's folder stands in; None where there is none."""
    return _urls.get(folder.parent)


def is_mirror(root: Path) -> bool:
    """Tell whether a folder of runs stands for a URL."""
    return root in _urls


def refresh_mirror(root: Path) -> None:
    """Bring the manifests of all runs behind a folder's URL; an ordinary folder stays as it is.

    A run that was changed here and is not there yet is left alone.

    Raises:
        ConfigError: Such URLs cannot be opened here.
        RunError: What is there cannot be read.
    """
    url = _urls.get(root)
    if url is None:
        return
    system, base = file_system(url)
    with reaching(url, "read"):
        system.invalidate_cache()
        try:
            entries = system.ls(base, detail=True)
        except FileNotFoundError:  # nothing was put there yet
            return
        for entry in entries:
            name = str(entry["name"]).rstrip("/").rpartition("/")[2]
            if entry["type"] == "directory" and not name.startswith("."):
                _bring(system, f"{base.rstrip('/')}/{name}", root / name, (MANIFEST,))


def bring_run(folder: Path) -> Path:
    """Bring all of a run that a folder behind a URL holds, and return it; others stay as they are.

    Raises:
        RunError: It cannot be read.
    """
    url = _urls.get(folder.parent)
    if url is not None:
        system, base = file_system(url)
        with reaching(url, "read"):
            system.invalidate_cache()
            _bring(system, f"{base.rstrip('/')}/{folder.name}", folder, FILES)
    return folder


def run_at(url: str) -> Path:
    """Bring the run at a URL, such as `s3://bucket/runs/20260101-120000-abcdef12`, and return its folder.

    Raises:
        ConfigError: Such URLs cannot be opened here.
        RunError: There is no run, or it cannot be read.
    """
    parent, _, name = url.rstrip("/").rpartition("/")
    folder = bring_run(place_of_runs(parent) / name)
    if not (folder / MANIFEST).is_file():
        raise RunError(f"no run in {public_url(url)}: it has no {MANIFEST}; name a run's folder")
    return folder


@contextmanager
def written(root: Path, tell: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Push what was changed in a folder behind a URL, however the work in it ends.

    Args:
        root: The folder of runs; nothing happens for an ordinary one.
        tell: Told where runs are now, or why they could not be pushed.

    Raises:
        RunError: The work ended well, but a run could not be pushed; it is kept here.
    """
    try:
        yield
    except BaseException:
        try:
            push_changed(root, tell)
        except JudgeEvalError as error:
            tell(f"not pushed: {error}")
        raise
    try:
        push_changed(root, tell)
    except (KeyboardInterrupt, SystemExit):  # half pushed is not there: once more, unless asked to end again
        push_changed(root, tell)
        raise


def push_changed(root: Path, tell: Callable[[str], None]) -> None:
    """Push the runs of a folder that are newer here than behind its URL, but those under way.

    Raises:
        RunError: One cannot be pushed; it is kept here.
    """
    url = _urls.get(root)
    if url is None or not root.is_dir():
        return
    for folder in sorted(root.iterdir()):
        if not (folder / MANIFEST).is_file() or not is_changed(folder):
            continue
        try:
            lock = lock_folder(folder)
        except RunError:  # another process is writing it, and will push it
            continue
        if lock is not None:
            lock.close()
        try:
            beat = read_beat(folder, url)
            if beat is not None and beat.get("by") != read_note(folder).get("by"):
                raise RunError(f"{public_url(url)}/{folder.name}: another machine has gone on with this run")
            there = push(folder, url)
        except RunError as error:
            raise RunError(
                f"{error}; the run is kept in {folder}; the same command with --resume, or `runs push`, "
                "pushes it, and judges nothing again"
            ) from None
        system, base = file_system(url)
        with reaching(url, "read"):
            system.invalidate_cache()
            note_same(folder, stamps_there(system, f"{base.rstrip('/')}/{folder.name}"))
        tell(f"pushed to {there}")


def _bring(system: Any, source: str, folder: Path, names: tuple[str, ...]) -> None:
    """Copy those files of a run that are other ones there than when they were last the same."""
    there, note = stamps_there(system, source), read_note(folder)
    before = note.get("there", {})
    if MANIFEST not in there:
        return
    if (folder / MANIFEST).is_file():
        if _is_held(folder):
            return
        if is_changed(folder):
            if RESULTS in names and _went_on_there(folder, before, there):
                _join(system, source, folder, there)
            return
    folder.mkdir(parents=True, exist_ok=True)
    stale = [name for name in FILES if before.get(name) != there.get(name)]
    if stale:  # until all is noted, what is here counts as nothing that was written here
        note_bringing(folder)
    more = {name: note[name] for name in ("pieces", "by") if name in note and not stale}
    for name in stale:  # of the run as it was, nothing may stand beside the new manifest
        (folder / name).unlink(missing_ok=True)
    for name in names:
        if name in there and not (folder / name).exists():
            if name == RESULTS:
                more["pieces"] = copy_results(system, source, folder / name)
            else:
                copy_here(system, f"{source}/{name}", folder / name)
    note_same(folder, there, **more)


def _join(system: Any, source: str, folder: Path, there: dict[str, str]) -> None:
    """Take over a run as another machine has gone on with it, and keep what was judged here alone.

    A kill on the way loses nothing: it is done again.
    """
    joined = folder / ".joined.jsonl"
    pieces = copy_results(system, source, joined)
    known = {json.loads(line)["trace_id"] for _, line in whole_lines(joined)}
    with joined.open("ab") as file:
        for _, line in whole_lines(folder / RESULTS):
            if json.loads(line)["trace_id"] not in known:
                file.write(line)
    joined.replace(folder / RESULTS)
    for name in FILES:
        if name in there and name != RESULTS:
            copy_here(system, f"{source}/{name}", folder / name)
    here = sizes_here(folder)
    if here[RESULTS][0] > pieces.size:
        here[RESULTS] = [pieces.size, 0]
        open_again = load_manifest(folder).model_copy(update={"results": None, "status": "running"})
        write_atomically(folder / MANIFEST, open_again.model_dump_json(indent=2).encode() + b"\n")
    note_same(folder, there, here=here, pieces=pieces)


def _is_held(folder: Path) -> bool:
    """Tell whether another process is writing a run."""
    try:
        lock_folder(folder).close()
    except RunError:
        return True
    return False


def _went_on_there(folder: Path, before: dict[str, str], there: dict[str, str]) -> bool:
    """Tell whether a run that did not end here has been gone on with on another machine."""
    moved = bool(before) and before.get(RESULTS) != there.get(RESULTS) and MANIFEST in there
    return moved and load_manifest(folder).status != "done"
