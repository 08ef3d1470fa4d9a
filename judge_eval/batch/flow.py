"""The steps of a batch: export, submit, status, fetch, import; each may be killed and repeated."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from judge_eval.batch.drive import AtHand, open_requests
from judge_eval.batch.judging import Session, check_same
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


@dataclass(slots=True)
class Imported:
    """What an import found."""

    imported: int = 0
    """Replies that went into the cache."""
    rejected: int = 0
    """Replies from which no verdict could be read; their repairs are open."""
    open: int = 0
    """Distinct requests that have no answer yet."""
    unreadable: int = 0
    """Lines that are no reply."""
    doubled: int = 0
    """Lines about a request that another line was about."""
    declined: Counter[str] = field(default_factory=Counter)
    unanswered: Counter[str] = field(default_factory=Counter)


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
        _check_idle(folder)
        rounds = folder.known.rounds
        if rounds and all(part.phase == "exported" for part in rounds[-1].parts) and not rounds[-1].given:
            rounds = rounds[:-1]
        state = state.model_copy(update={"rounds": rounds})
    at_hand, found = AtHand(session.cached, session.answers), Imported()
    fresh = _fresh(session, at_hand, found)
    number = len(state.rounds) + 1
    parts = _write_parts(folder.place(number), session, fresh, max_requests, max_bytes)
    _sum(found, session, at_hand)
    if found.declined and parts:
        shutil.rmtree(folder.place(number))
        raise ConfigError(
            f"the server declined requests: {_first(found.declined)}; "
            "export into another folder with what it does not take as --lacking"
        )
    done = Round(number=number, parts=tuple(parts)) if parts else None
    folder.save(state.model_copy(update={"rounds": (*state.rounds, *([done] if done else []))}))
    return done, found


def bring_in(folder: Folder, session: Session) -> Imported:
    """Put the replies that are there into the cache, and count what is open after that.

    Raises:
        RunError: The data or the judge are not those that were exported.
    """
    check_same(folder, session.new_state())
    at_hand, found = AtHand(session.cached, session.answers), Imported()
    for _ in _fresh(session, at_hand, found):
        pass
    _sum(found, session, at_hand)
    return found


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
    folder.set_round(current.model_copy(update={"given": tuple(names)}))


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
    marks = {part.name: _mark(part, current.number) for part in waiting}
    found: dict[str, Batch] = {}
    for batch in remote.find(lambda told: dict(told) in marks.values()):
        name = next(name for name, mark in marks.items() if mark == batch.metadata)
        if batch.status != "failed":  # nothing was done for one that failed
            found.setdefault(name, batch)
    for part in waiting:
        known = found.get(part.name)
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
            told = f"{part.name}: {part.status}, {part.completed} of {part.requests} answered"
            tell(f"{told}; {message}" if message else told)
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


def _mark(part: Part, number: int) -> dict[str, str]:
    return {"judge_eval_file": part.digest, "judge_eval_round": str(number)}


def _note(folder: Folder, name: str, batch: Batch) -> None:
    """Write down what the server says of a batch."""
    told = "; ".join(
        f"{error.message} ({error.code}, line {error.line})"
        if error.line
        else f"{error.message} ({error.code})"
        for error in ((batch.errors.data if batch.errors else None) or [])[:3]
    )
    counts = batch.request_counts
    if batch.status == "failed":
        folder.set_part(name, phase="exported", file_id=None, batch_id=None, status="failed", message=told)
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
        message=told,
    )


def _check_idle(folder: Folder) -> None:
    if waiting := under_way(folder):
        raise RunError(
            f"{folder.path}: {len(waiting)} of {len(folder.current.parts)} files are under way; "
            "`batch fetch` brings their replies"
        )


def _fresh(session: Session, at_hand: AtHand, found: Imported) -> Iterable[tuple[bytes, Request]]:
    """Yield each open request once, with its key."""
    seen: set[bytes] = set()
    for request in open_requests(session.evaluator.judge, session.source, at_hand):
        key = session.cached.key(request)
        assert key is not None  # such a backend has an identity
        if key not in seen:
            seen.add(key)
            found.open += 1
            yield key, request


def _sum(found: Imported, session: Session, at_hand: AtHand) -> None:
    found.imported, found.rejected = at_hand.imported, at_hand.rejected
    found.unreadable, found.doubled = session.answers.unreadable, session.answers.doubled
    found.declined, found.unanswered = session.answers.declined, session.answers.unanswered


def _first(counts: Mapping[str, int]) -> str:
    return next(iter(counts))


def _write_parts(
    place: Path,
    session: Session,
    fresh: Iterable[tuple[bytes, Request]],
    max_requests: int,
    max_bytes: int,
) -> list[Part]:
    """Write requests into as many files as it takes; no file where there is no request."""
    rest = iter(fresh)
    first = next(rest, None)
    if place.exists():  # of an export that was killed or is replaced
        shutil.rmtree(place)
    if first is None:
        return []
    place.mkdir(parents=True)
    parts: list[Part] = []
    writer: _Writer | None = None
    try:
        for key, request in chain([first], rest):
            line = _line(key, session.backend.body(request))
            if len(line) > max_bytes:
                raise ConfigError(
                    f"trace {request.trace_id!r}: one request takes {len(line):,} bytes, more than a file may"
                )
            if writer is not None and (
                writer.requests == max_requests or writer.bytes + len(line) > max_bytes
            ):
                parts.append(writer.close())
                writer = None
            if writer is None:
                writer = _Writer(place / f"part-{len(parts) + 1:04d}.jsonl")
            writer.add(line)
        assert writer is not None
        parts.append(writer.close())
    except OSError as error:
        with suppress(OSError):
            shutil.rmtree(place)
        raise RunError(f"{place}: cannot be written: {error.strerror or error}") from None
    return parts


def _line(key: bytes, body: bytes) -> bytes:
    head = f'{{"custom_id":"{key.hex()}","method":"POST","url":"/v1/chat/completions","body":'
    return b"".join((head.encode(), body, b"}\n"))


class _Writer:
    """One file of requests being written."""

    def __init__(self, path: Path) -> None:
        self.path, self.requests, self.bytes = path, 0, 0
        self._hash = hashlib.sha256()
        self._file = path.open("wb")

    def add(self, line: bytes) -> None:
        self._file.write(line)
        self._hash.update(line)
        self.requests += 1
        self.bytes += len(line)

    def close(self) -> Part:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return Part(
            name=self.path.name, digest=self._hash.hexdigest(), requests=self.requests, bytes=self.bytes
        )
