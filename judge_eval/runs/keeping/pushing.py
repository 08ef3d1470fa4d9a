"""Pushing a run in pieces while it is judged, so that another machine can go on after a kill."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import threading
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from judge_eval.data.remote import file_system
from judge_eval.errors import JudgeEvalError, RunError
from judge_eval.ranges import check_ranges
from judge_eval.runs.folder.files import MANIFEST, RESULTS
from judge_eval.runs.keeping.mirroring import bring_run, url_of
from judge_eval.runs.keeping.moving import BEAT, reaching, read_beat, writing
from judge_eval.runs.keeping.notes import note_more, note_same, read_note, sizes_here, stamps_there
from judge_eval.runs.keeping.pieces import NO_BASE, Pieced, byte_blocks, piece_name
from judge_eval.urls import public_url

PUSH_EVERY = 20.0
"""Seconds between pushes of a run that is being judged: what a killed machine loses at most."""
_LINE = 1 << 26
"""Bytes in which the end of a line is looked for."""
_MERGED = 16
"""So many pieces become one, so that a long run has dozens of them, not thousands."""

_log = logging.getLogger("judge_eval")


@asynccontextmanager
async def pushing(folder: Path | None, every: float) -> AsyncIterator[None]:
    """Push a run now and then while the block judges it.

    What fails is told in the log and tried again the next time; the push at the end is not made here.

    Args:
        folder: The run's folder; nothing happens for one in memory, or where no URL stands behind it.
        every: Seconds between pushes; 0 pushes nothing.
    """
    check_ranges({"push_every": every})
    url = None if folder is None else url_of(folder)
    if folder is None or url is None or not every:
        yield
        return
    pusher = _Pusher(folder, url, every)
    pusher.start()
    try:
        yield
    finally:
        await asyncio.to_thread(pusher.stop)


async def until_left(folder: Path) -> None:
    """Before going on with a run behind a URL, wait until it shows that no other machine is judging it.

    Raises:
        RunError: One is, or the storage cannot be read.
    """
    url = url_of(folder)
    if url is None:
        return
    beat = await asyncio.to_thread(read_beat, folder, url)
    if beat is None or beat.get("by") == read_note(folder).get("by"):
        return
    wait = 1.5 * float(beat.get("every") or PUSH_EVERY) + 1
    name = f"{public_url(url)}/{folder.name}"
    _log.warning("%s: waiting %.0f s to see whether another machine still judges it", name, wait)
    await asyncio.sleep(wait)
    again = await asyncio.to_thread(read_beat, folder, url)
    if again is not None and again != beat:
        raise RunError(
            f"{name}: another machine is judging this run; wait for it, or judge into another place"
        )
    if again is not None:  # whoever left it learns by that, should it come back, that the run is not its own
        with reaching(url, "written"):
            system, base = file_system(url)
            system.rm(f"{base.rstrip('/')}/{folder.name}/{BEAT}")
    await asyncio.to_thread(bring_run, folder)


class _Pusher:
    """A thread that pushes what the journal has gained, as a piece, and the manifest beside it."""

    def __init__(self, folder: Path, url: str, every: float) -> None:
        self._folder, self._url, self._every = folder, url, every
        self._by = str(read_note(folder).get("by") or uuid.uuid4())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="judge_eval push", daemon=True)
        # Held open: the sorted file that takes its place at the end has other offsets.
        self._file = (folder / RESULTS).open("rb")
        self._base: str | None = None
        self._size, self._sum = 0, hashlib.sha256()
        self._pieces: list[tuple[int, int, int]] = []
        """Start, end and rank of each piece: how often it was merged."""
        self._beats = 0

    def start(self) -> None:
        note_more(self._folder, by=self._by)
        self._thread.start()

    def stop(self) -> None:
        """End it; what is on its way may arrive."""
        self._ended.set()
        self._thread.join(10)
        if not self._thread.is_alive():
            self._file.close()

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            try:
                with reaching(self._url, "written"):
                    if not self._push():
                        _log.warning("%s: another machine has gone on with this run", self._folder.name)
                        return
            except (JudgeEvalError, OSError) as error:
                _log.warning("not pushed, and tried again later: %s", error)

    def _push(self) -> bool:
        """Push what is new; False where the run is not this machine's any more."""
        system, base = file_system(self._url)
        system.invalidate_cache()
        target = f"{base.rstrip('/')}/{self._folder.name}"
        if self._beats:
            beat = read_beat(self._folder, self._url)
            if beat is None or beat.get("by") != self._by:
                return False
        here, now = sizes_here(self._folder), os.fstat(self._file.fileno())
        manifest = (self._folder / MANIFEST).read_bytes()
        if json.loads(manifest)["status"] != "running":  # ended: from now on the whole is pushed, or nothing
            return True
        end = self._whole_lines(now.st_size)
        here[RESULTS] = [end, now.st_mtime_ns]
        system.makedirs(target, exist_ok=True)
        # First the manifest of a run under way: one with a seal, of an earlier end, fits no further line.
        with writing(system, f"{target}/{MANIFEST}") as file:
            file.write(manifest)
        if self._base is None:
            self._begin(system, target, end)
        if end > self._size:
            self._add(system, target, end)
        self._beats += 1
        beat = {"by": self._by, "every": self._every, "beat": self._beats}
        with writing(system, f"{target}/{BEAT}") as file:
            file.write(json.dumps(beat).encode())
        system.invalidate_cache()
        pieced = Pieced(str(self._base), self._size, self._sum.hexdigest())
        note_same(self._folder, stamps_there(system, target), here=here, pieces=pieced, by=self._by)
        return True

    def _begin(self, system: Any, target: str, end: int) -> None:
        """Go on behind what was pushed of this very file before, else push the whole as a new one."""
        there, note = stamps_there(system, target), read_note(self._folder)
        base, size, digest = note.get("pieces") or (NO_BASE, 0, hashlib.sha256().hexdigest())
        untouched = note.get("there") == there if "pieces" in note else RESULTS not in there
        if untouched and size <= end:
            self._sum = self._summed(size)
            if self._sum.hexdigest() == digest:
                self._base, self._size = base, size
                return
        self._sum = self._summed(end)
        self._send(system, f"{target}/{RESULTS}", 0, end)
        self._base, self._size = self._sum.hexdigest()[:16], end

    def _add(self, system: Any, target: str, end: int) -> None:
        """Push the journal's new lines as a piece, and merge pieces where there are many of a rank."""
        base, start = str(self._base), self._size
        self._send(system, f"{target}/{piece_name(base, start, end)}", start, end)
        self._file.seek(start)
        for block in byte_blocks(self._file, end - start):
            self._sum.update(block)
        self._size = end
        self._pieces.append((start, end, 0))
        while len(self._pieces) >= _MERGED and len({rank for *_, rank in self._pieces[-_MERGED:]}) == 1:
            merged, self._pieces = self._pieces[-_MERGED:], self._pieces[:-_MERGED]
            first, last = merged[0][0], merged[-1][1]
            self._send(system, f"{target}/{piece_name(base, first, last)}", first, last)
            system.rm([f"{target}/{piece_name(base, start, end)}" for start, end, _ in merged])
            self._pieces.append((first, last, merged[0][2] + 1))

    def _send(self, system: Any, path: str, start: int, end: int) -> None:
        self._file.seek(start)
        with writing(system, path) as file:
            for block in byte_blocks(self._file, end - start):
                file.write(block)

    def _summed(self, size: int) -> Any:
        sum_ = hashlib.sha256()
        self._file.seek(0)
        for block in byte_blocks(self._file, size):
            sum_.update(block)
        return sum_

    def _whole_lines(self, size: int) -> int:
        """Return where the last whole line ends, at most `size`; what was pushed before is whole."""
        start = max(self._size, size - _LINE)
        self._file.seek(start)
        found = self._file.read(max(0, size - start)).rfind(b"\n")
        return self._size if found < 0 else start + found + 1
