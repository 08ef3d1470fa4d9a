"""The steps of a batch at the server: submit, status, fetch; each may be killed and repeated."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from judge_eval.batch.state import Folder, Round
from judge_eval.errors import RefusedError

if TYPE_CHECKING:
    from openai.types import Batch

    from judge_eval.batch.remote import Remote

OVER = frozenset({"completed", "expired", "cancelled"})
"""States in which a batch has brought all it will."""


def submit(folder: Folder, remote: Remote, tell: Callable[[str], None] = lambda _: None) -> None:
    """Order the work on every file of the current round that no batch works on yet.

    Batches are looked for by their metadata first: one whose answer was lost is found, not ordered again.

    Raises:
        CallError: The server could not be asked, or would not take a file.
        FatalCallError: No call can succeed.
    """
    current = folder.current
    waiting = [part for part in current.parts if part.batch_id is None]
    if not waiting:
        return
    marks = {
        part.name: {"judge_eval_file": part.digest, "judge_eval_round": str(current.number)}
        for part in waiting
    }
    batches: dict[str, Batch] = {}
    for batch in remote.find(lambda metadata: dict(metadata) in marks.values()):
        name = next(name for name, mark in marks.items() if mark == batch.metadata)
        if batch.status != "failed":  # nothing was done for one that failed
            batches.setdefault(name, batch)
    for part in waiting:
        known = batches.get(part.name)
        if known is not None:
            _note(folder, part.name, known)
            tell(f"{part.name}: found again as {known.id}")
            continue
        file_id = part.file_id
        if file_id is None:
            file_id = remote.upload(folder.place(current.number) / part.name)
        folder.set_part(part.name, phase="submitting", file_id=file_id, message="")
        try:
            batch = remote.create(file_id, marks[part.name])
        except RefusedError:
            # The file may be gone from the server; it is brought anew the next time.
            folder.set_part(part.name, phase="exported", file_id=None)
            raise
        _note(folder, part.name, batch)
        tell(f"{part.name}: {part.requests:,} requests submitted as {batch.id}")


def refresh(folder: Folder, remote: Remote) -> Round:
    """Ask how far the batches of the current round are.

    A batch that failed did nothing: its file may be submitted again.
    """
    for part in folder.current.parts:
        if part.phase == "submitted" and part.batch_id is not None:
            _note(folder, part.name, remote.retrieve(part.batch_id))
    return folder.current


def fetch(
    folder: Folder, remote: Remote, *, wait: float | None = None, tell: Callable[[str], None] = lambda _: None
) -> Round:
    """Bring the replies of the batches that have ended.

    Args:
        folder: The batch's folder.
        remote: The server.
        wait: Seconds between questions until all batches have ended; None asks once.
        tell: Told of each file.

    Raises:
        CallError: The server could not be asked.
    """
    while True:
        current = refresh(folder, remote)
        place = folder.place(current.number)
        for part in current.parts:
            if part.phase != "ended":
                continue
            message = ""
            for file_id, suffix in ((part.output_file_id, "output"), (part.error_file_id, "errors")):
                if file_id is None:
                    continue
                try:
                    remote.download(file_id, place / f"{part.name}.{suffix}")
                except RefusedError as error:  # gone: what it held is open again
                    message = error.detail
            folder.set_part(part.name, phase="fetched", message=message)
            line = f"{part.name}: {part.status}, {part.completed} of {part.requests} answered"
            tell(f"{line}; {message}" if message else line)
        current = folder.current
        if wait is None or not any(part.phase == "submitted" for part in current.parts):
            return current
        time.sleep(wait)


def _note(folder: Folder, name: str, batch: Batch) -> None:
    """Write down what the server says of a batch."""
    errors = (batch.errors.data if batch.errors else None) or []
    message = "; ".join(
        f"{error.message} ({error.code}{f', line {error.line}' if error.line else ''})"
        for error in errors[:3]
    )
    counts = batch.request_counts
    if batch.status == "failed":
        folder.set_part(name, phase="exported", file_id=None, batch_id=None, status="failed", message=message)
        return
    folder.set_part(
        name,
        phase="ended" if batch.status in OVER else "submitted",
        batch_id=batch.id,
        file_id=batch.input_file_id,
        status=batch.status,
        output_file_id=batch.output_file_id,
        error_file_id=batch.error_file_id,
        completed=counts.completed if counts else 0,
        failed=counts.failed if counts else 0,
        message=message,
    )
