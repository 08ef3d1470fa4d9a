"""The steps of a batch on this machine: export and import; each may be killed and repeated."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from judge_eval.batch.drive import AtHand, open_requests
from judge_eval.batch.judging import Session, check_same
from judge_eval.batch.parts import clear, line_of, write_requests
from judge_eval.batch.state import Folder, Part, Round
from judge_eval.errors import ConfigError, RunError
from judge_eval.files import replacing
from judge_eval.runs.judging.counting import Progress
from judge_eval.wire import Request


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
    folder: Folder, session: Session, watch: Callable[[Progress], None] | None = None
) -> tuple[Round | None, Imported]:
    """Write the requests that nothing at hand answers, each once, into files for a server's batches.

    Replies that are there already go into the cache on the way, also those of a folder that has lost its
    `batch.json`. A round that nobody has submitted is written anew.

    Args:
        folder: The batch's folder.
        session: What is judged how, in files of what size.
        watch: Called with the progress of a cascade's cheap judge.

    Returns:
        The round, None where nothing is open; and what was found.

    Raises:
        RunError: The folder holds another batch, or one that is under way; or a cascade's cheap judge could
            not be asked about everything.
        ConfigError: A single request is larger than a file may be.
    """
    state = session.new_state()
    if folder.state is None and folder.rounds:
        folder.save(state.model_copy(update={"rounds": folder.rounds}))
    if folder.state is not None:
        check_same(folder, state)
        if waiting := under_way(folder):
            lost = any(part.phase == "submitting" for part in waiting)
            raise RunError(
                f"{folder.path}: {len(waiting)} of {len(folder.current.parts)} files are under way; "
                f"{'`batch submit` looks for them, ' if lost else ''}`batch fetch` brings their replies"
            )
        rounds = folder.known.rounds
        if rounds and all(part.phase == "exported" for part in rounds[-1].parts) and not rounds[-1].given:
            rounds = rounds[:-1]
        state = state.model_copy(update={"rounds": rounds})
    at_hand, asked = session.at_hand(watch), set[bytes]()
    lines = (
        (request.trace_id, line_of(key, session.body(request)))
        for key, request in _fresh(session, at_hand, asked)
    )
    number = state.rounds[-1].number + 1 if state.rounds else 1
    sizes = session.settings.max_requests, session.settings.max_bytes
    parts = write_requests(folder.place(number), lines, *sizes)
    imported = Imported.of(session, at_hand, asked)
    if imported.declined and parts:
        clear(folder.place(number))
        raise ConfigError(
            f"the server declined requests: {next(iter(imported.declined))}; "
            "export into another folder with what it does not take as --lacking"
        )
    done = Round(number=number, parts=tuple(parts)) if parts else None
    folder.save(state.model_copy(update={"rounds": (*state.rounds, *([done] if done else []))}))
    return done, imported


def bring_in(folder: Folder, session: Session, watch: Callable[[Progress], None] | None = None) -> Imported:
    """Put the replies that are there into the cache, and count what is open after that.

    Args:
        folder: The batch's folder.
        session: What is judged how.
        watch: Called with the progress of a cascade's cheap judge.

    Raises:
        RunError: The data or the judge are not those that were exported, or a cascade's cheap judge could not
            be asked about everything.
    """
    check_same(folder, session.new_state())
    at_hand, asked = session.at_hand(watch), set[bytes]()
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


def _fresh(session: Session, at_hand: AtHand, asked: set[bytes]) -> Iterable[tuple[bytes, Request]]:
    """Yield each open request once, with its key, which is noted in `asked`."""
    for request in open_requests(session.evaluator.judge, session.source, at_hand):
        key = session.cached.key(request)
        assert key is not None  # such a backend has an identity
        if key not in asked:
            asked.add(key)
            yield key, request
