"""A folder of runs behind a URL: the local folder that stands for it, pulled and pushed."""

import asyncio
import hashlib
import json
import logging
import os
import shlex
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from judge_eval.data.reading import is_url
from judge_eval.errors import JudgeEvalError, RunError
from judge_eval.files import read_plain, write_atomically
from judge_eval.runs.folder.journal import MANIFEST, byte_blocks, lock_folder, whole_lines
from judge_eval.runs.folder.records import RESULTS
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.keeping import transfer
from judge_eval.safe_text import public_url
from judge_eval.spelling import option

_NOTE = ".synced"


def read_note(folder: Path) -> dict[str, Any]:
    """Read the note of a mirrored run; empty if there is none or it cannot be read."""
    try:
        note = json.loads(read_plain(folder / _NOTE, 2**20))
    except (OSError, ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def note_same(folder: Path, there: dict[str, str], **more: Any) -> None:
    """Note the stamps at which the local and the remote copy of a run are equal, with `more` fields."""
    _write_note(folder, {"here": sizes_here(folder), "there": there, **more})


def _write_note(folder: Path, note: dict[str, Any]) -> None:
    write_atomically(folder / _NOTE, json.dumps(note).encode())


def stamps_there(system: Any, source: str) -> dict[str, str]:
    """Return a stamp of each remote file of a run: its size, and tag or time; segments count as results."""
    stamps: dict[str, str] = {}
    segments = []
    try:
        entries = system.ls(source, detail=True)
    except FileNotFoundError:
        return stamps
    for entry in entries:
        name = str(entry["name"]).rpartition("/")[2]
        keys = ("ETag", "etag", "mtime", "LastModified", "updated", "created")
        stamp = f"{entry.get('size')} {next((entry[key] for key in keys if entry.get(key)), '')}"
        if name in transfer.FILES:
            stamps[name] = stamp
        elif transfer.is_segment(name):
            segments.append(f"{name} {stamp}")
    if segments:
        text = "\n".join([stamps.get(RESULTS, ""), *sorted(segments)])
        stamps[RESULTS] = hashlib.sha256(text.encode()).hexdigest()
    return stamps


def sizes_here(folder: Path) -> dict[str, list[int]]:
    """Return size and time of each local file of a run."""
    return {
        name: [(folder / name).lstat().st_size, (folder / name).lstat().st_mtime_ns]
        for name in transfer.FILES
        if os.path.lexists(folder / name)
    }


def is_changed(folder: Path) -> bool:
    """Return whether a run was changed here since its two copies were last equal."""
    note = read_note(folder)
    before = note.get("here", {})
    changed = any(before.get(name) != stamp for name, stamp in sizes_here(folder).items())
    return changed and not note.get("bringing")


def is_pushed(folder: Path) -> bool:
    """Return whether a push of a run has begun: then something of it is behind the URL, which must learn its end."""
    return "there" in read_note(folder)


STAGING = "JUDGE_EVAL_STAGING"

MIRRORS: Final[dict[Path, str]] = {}
"""The folders of runs that stand for URLs in this process. No URL is written down: it may hold a password."""


def place_of_runs(place: str | Path) -> Path:
    """Return the folder of runs that a path or a URL names; for a URL, its local mirror."""
    # The mirror is in `JUDGE_EVAL_STAGING`, else in the user's state folder, under a name that is derived
    # from the URL: the same command finds what a killed run left there.
    if not is_url(place):
        return Path(place)
    url = str(place).rstrip("/")
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state else Path.home() / ".local" / "state"
    root = Path(os.environ.get(STAGING) or base / "judge_eval" / "runs")
    folder = root / hashlib.sha256(url.encode()).hexdigest()[:16]
    MIRRORS[folder] = url
    return folder


def check_place(root: Path) -> None:
    """Check before anything is paid for that the bucket of a mirror's URL exists."""
    transfer.check_bucket(*transfer.storage_at(MIRRORS[root], ""), MIRRORS[root])


def shown(root: Path) -> str:
    """Return the name of a folder of runs for messages: its URL without credentials, or its path."""
    return public_url(MIRRORS[root]) if root in MIRRORS else str(root)


def is_mirror(root: Path) -> bool:
    """Return whether a folder of runs is the mirror of a URL."""
    return root in MIRRORS


def refresh_mirror(root: Path) -> None:
    """Copy the manifests of all runs behind a mirror's URL; a run with local changes is left alone."""
    url = MIRRORS.get(root)
    if url is None:
        return
    with transfer.reaching(url, "read"):
        system, base = transfer.storage_at(url, "")
        try:
            entries = system.ls(base, detail=True)
        except FileNotFoundError:  # nothing was put there yet
            return
        for entry in entries:
            name = str(entry["name"]).rstrip("/").rpartition("/")[2]
            if entry["type"] == "directory" and not name.startswith("."):
                _bring(system, f"{base}{name}", root / name, (MANIFEST,))


def bring_run(folder: Path) -> Path:
    """Copy all files of a run into its mirror and return its folder; other folders stay as they are."""
    url = MIRRORS.get(folder.parent)
    if url is not None:
        with transfer.reaching(url, "read"):
            _bring(*transfer.storage_at(url, folder.name), folder, transfer.FROM_THERE)
    return folder


def run_at(url: str) -> Path:
    """Copy the run at a URL, such as `s3://bucket/runs/20260101-120000-abcdef12`, and return its folder."""
    parent, _, name = url.rstrip("/").rpartition("/")
    folder = bring_run(place_of_runs(parent) / name)
    if not (folder / MANIFEST).is_file():
        raise RunError(f"no run in {public_url(url)}: it has no {MANIFEST}; name a run's folder")
    return folder


PUSH_GRACE = 20.0
"""Seconds that a push may take once the process was asked to end."""


@contextmanager
def written(root: Path, tell: Callable[[str], None] = lambda _: None, grace: float = PUSH_GRACE) -> Iterator[None]:
    """Push what changed in a mirror, however the block ends; other folders of runs are left alone."""
    # `tell` is called with where runs are now, or why they could not be pushed; if the block succeeded, that
    # is an error too, and the run is kept here. If a signal ends it, the push may take `grace` seconds.
    try:
        yield
    except Exception:
        _push_and_tell(root, tell)
        raise
    except BaseException:
        _push_within(root, tell, grace)
        raise
    try:
        push_changed(root, tell)
    except (KeyboardInterrupt, SystemExit):  # half pushed is not there: once more, unless asked to end again
        _push_within(root, tell, grace)
        raise


def _push_and_tell(root: Path, tell: Callable[[str], None]) -> None:
    try:
        push_changed(root, tell)
    except JudgeEvalError as error:
        tell(f"not pushed: {error}")


def _push_within(root: Path, tell: Callable[[str], None], grace: float) -> None:
    """Push for at most `grace` seconds, then tell what is missing and how it is pushed."""
    url = MIRRORS.get(root)
    if url is None or not root.is_dir():
        return
    lines: list[str] = []
    pusher = threading.Thread(target=_push_and_tell, args=(root, lines.append), daemon=True)
    pusher.start()
    pusher.join(grace)
    late = pusher.is_alive()
    for line in lines:
        tell(line)
    for folder in _changed(root) if late else ():
        there, place = read_note(folder).get("here", {}), public_url(url)
        missing = sum(1 for _ in whole_lines(folder / RESULTS, there.get(RESULTS, [0])[0]))
        tell(
            f"not pushed within {grace:g} s: {place}/{folder.name} lacks {missing:,} results and how the run "
            f"ended; they are kept in {folder}; `judge-eval runs push {shlex.quote(str(folder))} {place}` "
            "pushes them"
        )


def _changed(root: Path) -> Iterator[Path]:
    for folder in sorted(root.iterdir()):
        if (folder / MANIFEST).is_file() and is_changed(folder):
            yield folder


def push_changed(root: Path, tell: Callable[[str], None]) -> None:
    """Push a mirror's runs with local changes, unless they are being written; a failure keeps them here."""
    url = MIRRORS.get(root)
    if url is None or not root.is_dir():
        return
    for folder in _changed(root):
        if _is_locked(folder):  # another process is writing it, and will push it
            continue
        if (pusher := _ending.pop(folder, None)) is not None:
            pusher.join()  # its push is under way, and would undo a part of this one
        try:
            beat = transfer.read_beat(folder, url)
            if beat is not None and beat.get("by") != read_note(folder).get("by"):
                raise RunError(f"{public_url(url)}/{folder.name}: another machine has continued this run")
            there = transfer.push(folder, url)
        except RunError as error:
            raise RunError(
                f"{error}; the run is kept in {folder}; running again with {option('resume')}, or "
                "`runs push`, pushes it, and judges nothing again"
            ) from None
        with transfer.reaching(url, "read"):
            note_same(folder, stamps_there(*transfer.storage_at(url, folder.name)))
        tell(f"pushed to {there}")


def _bring(system: Any, source: str, folder: Path, names: tuple[str, ...]) -> None:
    there, note = stamps_there(system, source), read_note(folder)
    before = note.get("there", {})
    if MANIFEST not in there:
        return
    if (folder / MANIFEST).is_file():
        if _is_locked(folder):
            return
        if is_changed(folder):
            went_on_there = before and before.get(RESULTS) != there.get(RESULTS)
            if RESULTS in names and went_on_there and load_manifest(folder).status != "done":
                _join(system, source, folder, there)
            return
    folder.mkdir(parents=True, exist_ok=True)
    stale = [name for name in transfer.FILES if before.get(name) != there.get(name)]
    if stale:  # until all is noted, what is here counts as nothing that was written here
        _write_note(folder, {"bringing": True})
    more = {"by": note["by"]} if "by" in note and not stale else {}
    for name in stale:  # of the run as it was, nothing may stand beside the new manifest
        (folder / name).unlink(missing_ok=True)
    for name in names:
        if name in there and not (folder / name).exists():
            transfer.copy_here(system, source, folder, name)
    note_same(folder, there, **more)


def _join(system: Any, source: str, folder: Path, there: dict[str, str]) -> None:
    """Take over a run that another machine has continued, and keep the results that are only here."""
    # A kill in between loses nothing: it is done again.
    joined = folder / ".joined.jsonl"
    for name in transfer.FROM_THERE:
        if name in there and name != RESULTS:
            transfer.copy_here(system, source, folder, name)
    transfer.copy_results(system, source, joined, ended=transfer.is_ended(folder))
    known = {json.loads(line)["trace_id"] for _, line in whole_lines(joined)}
    own = [line for _, line in whole_lines(folder / RESULTS) if json.loads(line)["trace_id"] not in known]
    with joined.open("ab") as file:
        file.writelines(own)
    joined.replace(folder / RESULTS)
    here = sizes_here(folder)
    if own:
        del here[RESULTS]  # so that it counts as changed, and is pushed
        open_again = load_manifest(folder).under_way("running")
        write_atomically(folder / MANIFEST, open_again.model_dump_json(indent=2).encode() + b"\n")
    note_same(folder, there, here=here)


def _is_locked(folder: Path) -> bool:
    try:
        lock_folder(folder).close()
    except RunError:
        return True
    return False


PUSH_EVERY = 20.0
"""Seconds between pushes of a run that is being judged: what a killed machine loses at most."""
_LINE = 1 << 26
"""Bytes in which the end of a line is looked for."""
_MERGED = 16
"""So many segments become one, so that a long run has dozens of them, not thousands."""

_log = logging.getLogger("judge_eval")
_ending: dict[Path, threading.Thread] = {}
"""By folder the pushes that were under way when their run was ended by a signal."""


@asynccontextmanager
async def pushing(folder: Path, every: float) -> AsyncIterator[None]:
    """Push a run in a mirror every `every` seconds while the block judges it."""
    # Errors are logged and the push is repeated the next time. The push at the end is made elsewhere.
    pusher = _Pusher(folder, MIRRORS[folder.parent], every)
    pusher.start()
    try:
        yield
    except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):  # the last push is bounded, and waits
        _ending[folder] = pusher.stop(0)
        raise
    except BaseException:
        await asyncio.to_thread(pusher.stop)
        raise
    await asyncio.to_thread(pusher.stop)


async def until_left(folder: Path) -> None:
    """Before resuming a run behind a URL, wait until it is clear that no other machine is judging it."""
    url = MIRRORS.get(folder.parent)
    if url is None:
        return
    beat = await asyncio.to_thread(transfer.read_beat, folder, url)
    if beat is None or beat.get("by") == read_note(folder).get("by"):
        return
    wait = 1.5 * float(beat.get("every") or PUSH_EVERY) + 1
    name = f"{public_url(url)}/{folder.name}"
    _log.warning("%s: waiting %.0f s to see whether another machine still judges it", name, wait)
    await asyncio.sleep(wait)
    again = await asyncio.to_thread(transfer.read_beat, folder, url)
    if again is not None and again != beat:
        raise RunError(f"{name}: another machine is judging this run; wait for it, or use another folder of runs")
    if again is not None:  # whoever left it learns by that, should it come back, that the run is not its own
        with transfer.reaching(url, "written"):
            system, path = transfer.storage_at(url, folder.name)
            system.rm(f"{path}/{transfer.BEAT}")
    await asyncio.to_thread(bring_run, folder)


class _Pusher:
    """A thread that pushes new results as a segment, and the manifest with them."""

    def __init__(self, folder: Path, url: str, every: float) -> None:
        self._folder, self._url, self._every = folder, url, every
        self._by = str(read_note(folder).get("by") or uuid.uuid4())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="judge_eval push", daemon=True)
        # Held open: the sorted file that takes its place at the end has other offsets.
        self._file = (folder / RESULTS).open("rb")
        self._before = sizes_here(folder).get(RESULTS)
        self._size = self._number = self._beats = 0
        self._segments: list[tuple[str, int, int, int]] = []
        """Name, start, end and rank of each segment: how often it was merged."""

    def start(self) -> None:
        _write_note(self._folder, {**read_note(self._folder), "by": self._by})
        self._thread.start()

    def stop(self, wait: float = 10) -> threading.Thread:
        """Stop and return the thread; a push in progress may take so many seconds more."""
        self._ended.set()
        self._thread.join(wait)
        if not self._thread.is_alive():
            self._file.close()
        return self._thread

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            try:
                with transfer.reaching(self._url, "written"):
                    if not self._push():
                        _log.warning("%s: another machine has continued this run", self._folder.name)
                        return
            except (JudgeEvalError, OSError) as error:
                _log.warning("not pushed, and tried again later: %s", error)

    def _push(self) -> bool:
        """Push new results; return False if the run does not belong to this machine any more."""
        system, target = transfer.storage_at(self._url, self._folder.name)
        if self._beats:
            beat = transfer.read_beat(self._folder, self._url)
            if beat is None or beat.get("by") != self._by:
                return False
        here, now = sizes_here(self._folder), os.fstat(self._file.fileno())
        manifest = (self._folder / MANIFEST).read_bytes()
        if json.loads(manifest)["status"] != "running":  # ended: from now on the whole is pushed, or nothing
            return True
        _write_note(self._folder, {"there": {}, **read_note(self._folder)})  # it has begun
        end = self._whole_lines(now.st_size)
        here[RESULTS] = [end, now.st_mtime_ns]
        transfer.make_remote_folder(system, target)
        # First the manifest of a run under way: one with digests, of an earlier end, fits no further line.
        with transfer.writing(system, f"{target}/{MANIFEST}") as file:
            file.write(manifest)
        if not self._beats:
            self._begin(system, target)
        if end > self._size:
            self._add(system, target, end)
        self._beats += 1
        beat = {"by": self._by, "every": self._every, "beat": self._beats}
        with transfer.writing(system, f"{target}/{transfer.BEAT}") as file:
            file.write(json.dumps(beat).encode())
        system.invalidate_cache()
        note_same(self._folder, stamps_there(system, target), here=here, by=self._by)
        return True

    def _begin(self, system: Any, target: str) -> None:
        """Find what is there already: what was when both copies were last equal, if neither was changed since."""
        there, note = stamps_there(system, target).get(RESULTS), read_note(self._folder)
        if self._before and there and there == note.get("there", {}).get(RESULTS):
            self._size = self._before[0] if self._before == note.get("here", {}).get(RESULTS) else 0
        self._number = max(map(transfer.segment_number, transfer.segments_in(system, target)), default=0)

    def _add(self, system: Any, target: str, end: int) -> None:
        """Put the new lines there as a segment, and merge segments of one rank once there are many."""
        self._number += 1
        self._segments.append((self._send(system, target, self._number, self._size, end), self._size, end, 0))
        self._size = end
        while len(self._segments) >= _MERGED and len({rank for *_, rank in self._segments[-_MERGED:]}) == 1:
            merged, self._segments = self._segments[-_MERGED:], self._segments[:-_MERGED]
            (oldest, first, _, rank), (_, _, last, _) = merged[0], merged[-1]
            name = self._send(system, target, transfer.segment_number(oldest), first, last)
            self._segments.append((name, first, last, rank + 1))
            system.rm([f"{target}/{name}" for name, *_ in merged])

    def _send(self, system: Any, target: str, number: int, start: int, end: int) -> str:
        """Put a part of the results there under a number, and return its name."""
        name = transfer.segment_name(number, self._by, end - start)
        self._file.seek(start)
        with transfer.writing(system, f"{target}/{name}") as file:
            for block in byte_blocks(self._file, end - start):
                file.write(block)
        return name

    def _whole_lines(self, size: int) -> int:
        """Return where the last complete line ends, at most `size`; what was pushed before is complete."""
        start = max(self._size, size - _LINE)
        self._file.seek(start)
        end = self._file.read(max(0, size - start)).rfind(b"\n")
        return self._size if end < 0 else start + end + 1
