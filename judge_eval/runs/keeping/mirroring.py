"""A folder of runs behind a URL: the local folder that stands for it, brought up to date and pushed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from judge_eval.data.remote import error_text, file_system, is_url
from judge_eval.errors import JudgeEvalError, RunError
from judge_eval.files import read_plain, write_atomically
from judge_eval.runs.folder.files import MANIFEST, lock_folder
from judge_eval.runs.keeping.moving import FILES, copy_here, push
from judge_eval.urls import public_url

STAGING = "JUDGE_EVAL_STAGING"
_NOTE = ".synced"

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
    with _readable(url):
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
        with _readable(url):
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
    push_changed(root, tell)


def push_changed(root: Path, tell: Callable[[str], None]) -> None:
    """Push the runs of a folder that are newer here than behind its URL, but those under way.

    Raises:
        RunError: One cannot be pushed; it is kept here.
    """
    url = _urls.get(root)
    if url is None or not root.is_dir():
        return
    for folder in sorted(root.iterdir()):
        if not (folder / MANIFEST).is_file() or not _changed(folder):
            continue
        try:
            lock = lock_folder(folder)
        except RunError:  # another process is writing it, and will push it
            continue
        if lock is not None:
            lock.close()
        try:
            there = push(folder, url)
        except RunError as error:
            raise RunError(
                f"{error}; the run is kept in {folder}, and the same command, or `runs push`, pushes it"
            ) from None
        system, base = file_system(url)
        with _readable(url):
            system.invalidate_cache()
            _note(folder, _stamps(system, f"{base.rstrip('/')}/{folder.name}"))
        tell(f"pushed to {there}")


def _bring(system: Any, source: str, folder: Path, names: tuple[str, ...]) -> None:
    """Copy those files of a run that are other ones there than when they were last the same."""
    if folder.is_dir() and (folder / MANIFEST).is_file() and _changed(folder):
        return
    there = _stamps(system, source)
    if MANIFEST not in there:
        return
    before = _read_note(folder).get("there", {})
    folder.mkdir(parents=True, exist_ok=True)
    stale = [name for name in FILES if before.get(name) != there.get(name)]
    if stale:  # until all is noted, what is here counts as nothing that was written here
        write_atomically(folder / _NOTE, json.dumps({"bringing": True}).encode())
    for name in stale:  # of the run as it was, nothing may stand beside the new manifest
        (folder / name).unlink(missing_ok=True)
    for name in names:
        if name in there and not (folder / name).exists():
            copy_here(system, f"{source}/{name}", folder / name)
    _note(folder, there)


def _stamps(system: Any, source: str) -> dict[str, str]:
    """Tell a run's files there apart from later ones: by size, and tag or time."""
    stamps: dict[str, str] = {}
    try:
        entries = system.ls(source, detail=True)
    except FileNotFoundError:
        return stamps
    for entry in entries:
        name = str(entry["name"]).rpartition("/")[2]
        if name in FILES:
            keys = ("ETag", "etag", "mtime", "LastModified", "updated", "created")
            mark = next((entry[key] for key in keys if entry.get(key)), "")
            stamps[name] = f"{entry.get('size')} {mark}"
    return stamps


def _here(folder: Path) -> dict[str, list[int]]:
    return {
        name: [(folder / name).lstat().st_size, (folder / name).lstat().st_mtime_ns]
        for name in FILES
        if os.path.lexists(folder / name)
    }


def _changed(folder: Path) -> bool:
    """Tell whether a run was written here since it was last the same there."""
    note = _read_note(folder)
    before = note.get("here", {})
    return not note.get("bringing") and any(
        before.get(name) != stamp for name, stamp in _here(folder).items()
    )


def _note(folder: Path, there: dict[str, str]) -> None:
    note = {"here": _here(folder), "there": there}
    write_atomically(folder / _NOTE, json.dumps(note).encode())


def _read_note(folder: Path) -> dict[str, Any]:
    try:
        note = json.loads(read_plain(folder / _NOTE, 2**20))
    except (OSError, ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


@contextmanager
def _readable(url: str) -> Iterator[None]:
    try:
        yield
    except JudgeEvalError:
        raise
    except Exception as error:  # each file system has errors of its own
        raise RunError(f"{public_url(url)}: cannot be read: {error_text(error, url)}") from None
