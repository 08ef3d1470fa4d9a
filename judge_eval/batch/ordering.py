"""The steps of a batch at the server: submit, status, fetch, cancel; each may be killed and repeated."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from judge_eval.batch.state import Folder, Part, Round
from judge_eval.errors import ConfigError, RefusedError, TransientError

if TYPE_CHECKING:
    from openai.types import Batch

    from judge_eval.batch.remote import Remote

OVER = frozenset({"completed", "expired", "cancelled"})
"""States in which a batch has brought all it will."""
STOPPED = frozenset({"failed", "expired", "cancelling", "cancelled"})
"""States in which nothing more is done, or will be paid."""
PATIENCE = 60.0
"""Seconds for which a batch is looked for that may have been ordered: servers list it with a delay."""
LOOK = 1.0
"""Seconds between two looks."""


def submit(
    folder: Folder,
    remote: Remote,
    tell: Callable[[str], None] = lambda _: None,
    *,
    patience: float = PATIENCE,
) -> None:
    """Order the work on every file of the current round that no batch works on yet.

    Batches are looked for first by their metadata, which name file and round. Where an order may have been
    sent whose answer nobody has, its batch is looked for as long as `patience` before it is ordered again.

    Args:
        folder: The batch's folder.
        remote: The server.
        tell: Told of each file.
        patience: Seconds, >= 0.

    Raises:
        CallError: The server could not be asked, or would not take a file.
        FatalCallError: No call can succeed.
        TransientError: An order went unanswered, and its batch was not found.
    """
    current = folder.current
    waiting = [part for part in current.parts if part.batch_id is None]
    if not waiting:
        return
    lost = [part for part in waiting if part.phase == "submitting"]
    found = _look(folder, remote, lost, patience, tell)
    for part in waiting:
        if known := found.get(part.name):
            _note(folder, part.name, known[0])
            tell(f"{part.name}: found again as {known[0].id}")
            continue
        file_id = part.file_id
        if file_id is None:
            file_id = remote.upload(folder.place(current.number) / part.name)
        folder.set_part(part.name, phase="submitting", file_id=file_id, message="")
        try:
            batch = remote.create(file_id, _mark(part, current))
        except TransientError as error:
            if not error.sent:
                folder.set_part(part.name, phase="exported")
                raise
            again = _look(folder, remote, [part], patience, tell).get(part.name)
            if not again:
                raise TransientError(
                    f"{part.name}: whether the batch was ordered is not known: {error.detail}; "
                    "`batch submit` looks for it before it orders again"
                ) from None
            batch = again[0]
        except RefusedError:
            # The file may be gone from the server; it is brought anew the next time.
            folder.set_part(part.name, phase="exported", file_id=None)
            raise
        except Exception:
            folder.set_part(part.name, phase="exported")
            raise
        _note(folder, part.name, batch)
        tell(f"{part.name}: {part.requests:,} requests submitted as {batch.id}")


def doubles(folder: Folder, remote: Remote) -> list[tuple[Part, Batch]]:
    """Return the batches that do, or did, the work of another one over again, each with its file.

    Raises:
        CallError: The server could not be asked.
    """
    found = _find(folder, remote)
    return [
        (part, batch)
        for part in folder.current.parts
        for batch in found.get(part.name, ())
        if part.batch_id not in (None, batch.id) and batch.status not in STOPPED
    ]


def cancel(
    folder: Folder,
    remote: Remote,
    batch_ids: Sequence[str],
    *,
    doubled: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Cancel batches of the current round; what one has answered by then can still be fetched.

    Args:
        folder: The batch's folder.
        remote: The server.
        batch_ids: Which.
        doubled: Whether to cancel those that do another's work over again.
        tell: Told of each.

    Raises:
        ConfigError: One is not of this round.
        CallError: The server could not be asked, or would not cancel one.
    """
    found = _find(folder, remote)
    known = {batch.id: part for part in folder.current.parts for batch in found[part.name]}
    known |= {part.batch_id: part for part in folder.current.parts if part.batch_id is not None}
    for batch_id in batch_ids:
        if batch_id not in known:
            raise ConfigError(
                f"{batch_id} is no batch of this round; there are {', '.join(sorted(known)) or 'none'}"
            )
    more = [batch.id for _, batch in doubles(folder, remote) if batch.status not in OVER] if doubled else []
    for batch_id in dict.fromkeys((*batch_ids, *more)):
        part = known[batch_id]
        batch = remote.cancel(batch_id)
        if batch_id == part.batch_id:
            _note(folder, part.name, batch)
        tell(f"{part.name}: {batch_id} is {batch.status}")


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


def _mark(part: Part, round_: Round) -> dict[str, str]:
    """Return the metadata that a batch of a file is given, and found again by."""
    return {"judge_eval_file": part.digest, "judge_eval_round": str(round_.number)}


def _find(folder: Folder, remote: Remote) -> dict[str, list[Batch]]:
    """List the batches of each file of the current round that did anything, first the one furthest on."""
    current = folder.current
    marks = {part.name: _mark(part, current) for part in current.parts}
    listed = remote.find(lambda metadata: dict(metadata) in marks.values())

    def rank(batch: Batch) -> tuple[bool, bool, int, int]:
        done = batch.request_counts.completed if batch.request_counts else 0
        return batch.status != "completed", batch.status in STOPPED, -done, batch.created_at

    # Nothing was done for one that failed.
    return {
        name: sorted((b for b in listed if b.metadata == mark and b.status != "failed"), key=rank)
        for name, mark in marks.items()
    }


def _look(
    folder: Folder, remote: Remote, lost: Sequence[Part], patience: float, tell: Callable[[str], None]
) -> dict[str, list[Batch]]:
    """Find the batches of each file; look again, within limits, for those that may be on their way."""
    until = time.monotonic() + patience
    found = _find(folder, remote)
    told = False
    while (missing := [part.name for part in lost if not found[part.name]]) and time.monotonic() < until:
        if not told:
            tell(f"{', '.join(missing)}: ordered without an answer; looking for the batch for {patience:g} s")
            told = True
        time.sleep(min(LOOK, max(0.0, until - time.monotonic())))
        found = _find(folder, remote)
    return found


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
