"""The steps of a batch: export, submit, status, fetch, import; each may be killed and repeated."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from judge_eval.batch.drive import AtHand, open_requests
from judge_eval.batch.judging import Session, check_same
from judge_eval.batch.parts import line_of, write_requests
from judge_eval.batch.state import Folder, Part, Round
from judge_eval.errors import ConfigError, RefusedError, RunError
from judge_eval.files import replacing
from judge_eval.wire import Request

if TYPE_CHECKING:
    from openai.types import Batch

    from judge_eval.batch.remote import Remote

MAX_REQUESTS = 50_000
MAX_BYTES = 190_000_000
"""What a server takes in one file: OpenAI's limits are 50,000 requests and 200 MB."""
OVER = frozenset({"completed", "expired", "cancelled"})
"""States in which a batch has brought all it will."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import found."""

    imported: int
    """Replies that went into the cache."""
    rejected: int
    """Replies from which no verdict could be read; their repairs are open."""
    open: int
    """Distinct requests that have no answer yet."""
    unreadable: int
    """Lines that are no reply."""
    doubled: int
    """Lines about a request that another line was about."""
    declined: Counter[str]
    unanswered: Counter[str]

    @classmethod
    def of(cls, session: Session, at_hand: AtHand, asked: set[bytes]) -> Self:
        """Gather what was counted on the way through all open requests."""
        a, answers = at_hand, session.answers
        counts = (answers.unreadable, answers.doubled, answers.declined, answers.unanswered)
        return cls(a.imported, a.rejected, len(asked), *counts)


def export(
    folder: Folder, session: Session, *, max_requests: int = MAX_REQUESTS, max_bytes: int = MAX_BYTES
) -> tuple[Round | None, Imported]:
    """Write the requests that nothing at hand answers, each once, into files for a server's batches.

    Replies that are there already go into the cache on the way. A round that nobody has submitted is
    written anew.

    Args:
        folder: The batch's folder.
        session: What is judged how.
        max_requests: The most requests in a file.
        max_bytes: The most bytes in a file.

    Returns:
        The round, None where nothing is open; and what was found.

    Raises:
        RunError: The folder holds another batch, or one that is under way.
        ConfigError: A single request is larger than a file may be.
    """
    state = session.new_state()
    if folder.state is not None:
        check_same(folder, state)
        if waiting := under_way(folder):
            raise RunError(
                f"{folder.path}: {len(waiting)} of {len(folder.current.parts)} files are under way; "
                "`batch fetch` brings their replies"
            )
        rounds = folder.known.rounds
        if rounds and all(part.phase == "exported" for part in rounds[-1].parts) and not rounds[-1].given:
            rounds = rounds[:-1]
        state = state.model_copy(update={"rounds": rounds})
    at_hand, asked = AtHand(session.cached, session.answers), set[bytes]()
    lines = (
        (request.trace_id, line_of(key, session.body(request)))
        for key, request in _fresh(session, at_hand, asked)
    )
    number = len(state.rounds) + 1
    parts = write_requests(folder.place(number), lines, max_requests, max_bytes)
    imported = Imported.of(session, at_hand, asked)
    if imported.declined and parts:
        shutil.rmtree(folder.place(number))
        raise ConfigError(
            f"the server declined requests: {next(iter(imported.declined))}; "
            "export into another folder with what it does not take as --lacking"
        )
    done = Round(number=number, parts=tuple(parts)) if parts else None
    folder.save(state.model_copy(update={"rounds": (*state.rounds, *([done] if done else []))}))
    return done, imported


def bring_in(folder: Folder, session: Session) -> Imported:
    """Put the replies that are there into the cache, and count what is open after that.

    Raises:
        RunError: The data or the judge are not those that were exported.
    """
    check_same(folder, session.new_state())
    at_hand, asked = AtHand(session.cached, session.answers), set[bytes]()
    for _ in _fresh(session, at_hand, asked):
        pass
    return Imported.of(session, at_hand, asked)


def give(folder: Folder, files: Iterable[Path]) -> None:
    """Copy files of replies into the folder: those of a server that has no Batches API, for instance.

    Raises:
        ConfigError: A file cannot be read.
    """
    current = folder.current
    names = list(current.given)
    place = folder.place(current.number)
    for path in files:
        try:
            with path.open("rb") as file:
                name = f"given-{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}.jsonl"
                file.seek(0)
                with replacing(place / name) as copy:
                    shutil.copyfileobj(file, copy)
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
        if name not in names:
            names.append(name)
    folder.set_current(given=tuple(names))


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


def under_way(folder: Folder) -> list[Part]:
    """Return the parts of the current round whose replies may still come."""
    if not folder.known.rounds:
        return []
    return [part for part in folder.current.parts if part.phase in ("submitting", "submitted", "ended")]


def unsubmitted(folder: Folder) -> list[Part]:
    """Return the parts of the current round that no server has; none where replies were brought by hand."""
    if not folder.known.rounds or folder.current.given:
        return []
    return [part for part in folder.current.parts if part.phase == "exported"]


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


def _fresh(session: Session, at_hand: AtHand, asked: set[bytes]) -> Iterable[tuple[bytes, Request]]:
    """Yield each open request once, with its key, which is noted in `asked`."""
    for request in open_requests(session.evaluator.judge, session.source, at_hand):
        key = session.cached.key(request)
        assert key is not None  # such a backend has an identity
        if key not in asked:
            asked.add(key)
            yield key, request
