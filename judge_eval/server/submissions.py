"""Runs that were submitted to the server: kept at once, judged in turn, taken up again after a restart."""

import asyncio
import logging
import shutil
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from judge_eval.data.options import ReadOptions
from judge_eval.errors import JudgeEvalError, RunError
from judge_eval.evaluator import Evaluator
from judge_eval.files import held_folder, is_plain, read_plain, write_atomically
from judge_eval.runs.folder.journal import MANIFEST, os_errors
from judge_eval.runs.folder.records import Manifest, Status
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.judging.session import folder_name
from judge_eval.runs.keeping.lookup import is_being_written, names_in
from judge_eval.runs.options import Selection
from judge_eval.server.library import Library
from judge_eval.server.models import Submission
from judge_eval.server.server_settings import ServerLimits

TRACES, ERROR = "submission.jsonl", "submission.error"
OPEN: frozenset[Status] = frozenset({"submitted", "running", "interrupted"})
"""The statuses in which a submitted run is judged without being asked for again."""
MOST_ERROR = 2**20
"""Bytes that are read of why a submission failed."""
SCAN = 5.0
"""Seconds between looks for runs that another server left behind."""

_log = logging.getLogger("judge_eval.server")


class QueueFullError(JudgeEvalError):
    """Too many submitted runs are waiting."""


class Submissions:
    """The queue of submitted runs. It lives in the folder: every run holds its own traces.

    Any server on the folder may judge a submitted run; the lock of its folder sees to it that only one
    does. Verdicts that were written are not asked for again, whichever process continues.
    """

    def __init__(self, library: Library, evaluator: Evaluator, limits: ServerLimits) -> None:
        self.library, self.evaluator, self.limits = library, evaluator, limits
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._taken: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start judging, first what an earlier server left behind."""
        workers = [asyncio.create_task(self._work()) for _ in range(self.limits.at_once)]
        self._tasks = [*workers, asyncio.create_task(self._scan())]

    async def stop(self) -> None:
        """Stop judging; runs under way are marked as interrupted and go on at the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.evaluator.aclose()

    def submit(self, submission: Submission) -> Manifest:
        """Keep a submission; it is judged when its turn comes. Blocks while it writes."""
        with self._alone():
            self._check_room()
            reader = ReadOptions(yes_ids=submission.yes_ids)
            source = self.evaluator.source(submission.traces, Selection(name=submission.name, reader=reader))
            assert source is not None
            baseline = None if submission.baseline is None else str(submission.baseline)
            if isinstance(submission.baseline, str):  # a label stands for the run that has it now
                baseline = self.library.find(submission.baseline)[1].id
            sent = {"label": submission.label, "href": submission.href, "tags": submission.tags, "baseline": baseline}
            sent["status"] = "submitted"
            manifest = self.evaluator.begin(source.survey()).replace(**sent)
            files = {
                TRACES: b"".join(trace.model_dump_json().encode() + b"\n" for trace in submission.traces),
                MANIFEST: manifest.model_dump_json(indent=2).encode() + b"\n",
            }
            make_run_folder(self.library.root, manifest, files)
            return manifest

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep all others, of other servers on the folder too, from the queue; blocks until it is free."""
        with os_errors("the folder of runs cannot be written"):
            self.library.root.mkdir(parents=True, exist_ok=True)
        with self._lock, held_folder(self.library.root):
            yield

    def _check_room(self) -> None:
        open_runs = sum(m.status in OPEN and is_plain(f / TRACES) for f, m in self.library.runs())
        if open_runs >= self.limits.queued:
            raise QueueFullError(f"{open_runs} submitted runs are already waiting; try again later")

    def enqueue(self, run_id: str) -> None:
        """Put a run into the queue, once."""
        if run_id not in self._taken:
            self._taken.add(run_id)
            self._waiting.put_nowait(run_id)

    async def _scan(self) -> None:
        while True:
            with suppress(OSError, RunError):
                for folder, manifest in reversed(await asyncio.to_thread(self.library.runs)):
                    if manifest.status in OPEN and is_plain(folder / TRACES):
                        self.enqueue(manifest.id)
            await asyncio.sleep(SCAN)

    async def _work(self) -> None:
        while True:
            run_id = await self._waiting.get()
            try:
                await self._judge(run_id)
            except JudgeEvalError as error:
                _log.warning("run %s: %s", run_id, type(error).__name__)
            except Exception:
                _log.exception("run %s could not be judged", run_id)
            finally:
                self._taken.discard(run_id)

    async def _judge(self, run_id: str) -> None:
        folder, _ = await asyncio.to_thread(self.library.find, run_id)
        if load_manifest(folder).status not in OPEN or is_being_written(folder):
            return  # another server has judged it, or is judging it
        if not is_plain(folder / TRACES):
            return  # a link planted meanwhile
        try:
            await self.evaluator.aevaluate(
                folder / TRACES,
                name=load_manifest(folder).dataset.name,
                resume=folder,
                reader=ReadOptions(yes_ids=True),  # they were refused when they came
            )
        except Exception as error:
            if is_being_written(folder):
                return
            if isinstance(error, JudgeEvalError):
                text = error.message_for(names_in(self.library.root))
            else:
                text = "an internal error; see the log"
            note_error(folder, text)
            manifest = load_manifest(folder)
            if manifest.status in OPEN:
                _mark(folder, manifest, "failed", datetime.now(UTC))
            raise
        note_error(folder)

    def resume(self, run_id: str) -> Manifest:
        """Put a submitted run that ended without all its verdicts into the queue again."""
        with self._alone():
            folder, manifest = self.library.find(run_id)
            if not is_plain(folder / TRACES):
                raise RunError("this run was not submitted to a server; resume it where it was judged")
            if manifest.status not in ("failed", "incomplete", "interrupted"):
                raise RunError(f"cannot resume: the run is {manifest.status}")
            if manifest.status not in OPEN:
                self._check_room()
            return _mark(folder, manifest, "submitted", None)


def _mark(folder: Path, manifest: Manifest, status: Status, finished: datetime | None) -> Manifest:
    changed = manifest.under_way(status).replace(finished=finished)
    with os_errors("the run cannot be changed"):
        write_atomically(folder / MANIFEST, changed.model_dump_json(indent=2).encode() + b"\n")
    return changed


def make_run_folder(root: Path, manifest: Manifest, files: dict[str, bytes]) -> Path:
    """Make a run's folder with its files in one step."""
    folder, fresh = root / folder_name(manifest), root / f".new-{uuid.uuid4()}"
    with os_errors("the folder of runs cannot be written"):
        try:
            fresh.mkdir(parents=True)
            for name, data in files.items():
                write_atomically(fresh / name, data)
            fresh.rename(folder)
        except OSError:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
    return folder


def error_of(folder: Path) -> str | None:
    """Read why judging a submission failed; None if it did not."""
    try:
        return read_plain(folder / ERROR, MOST_ERROR).decode() or None
    except (OSError, ValueError):
        return None


def note_error(folder: Path, text: str = "") -> None:
    """Write down why judging a submission failed, in place of what was said of that before."""
    with suppress(OSError):
        write_atomically(folder / ERROR, text.encode())
