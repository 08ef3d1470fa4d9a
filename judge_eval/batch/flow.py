"""The steps of a batch on this machine: export and import; each may be killed and repeated."""

import hashlib
import shutil
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from judge_eval.batch.orders import remote_class
from judge_eval.batch.pending import AtHand, Session, check_same, open_requests
from judge_eval.batch.replies import strangers
from judge_eval.batch.state import GIVEN, Folder, Part, Round, clear, write_requests
from judge_eval.errors import ConfigError, RunError
from judge_eval.files import replacing
from judge_eval.runs.folder.records import Manifest, Tally
from judge_eval.runs.keeping.lookup import run_folders
from judge_eval.runs.keeping.mirror import bring_run
from judge_eval.spelling import option
from judge_eval.wire import Request


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import brought."""

    imported: int
    """Replies that went into the cache."""
    rejected: int
    """Replies from which no verdict could be read; their repairs are open."""
    open: int
    """Distinct requests that have no answer yet."""
    unreadable: int
    """Lines that are not a reply."""
    doubled: int
    """Lines about a request that another line was about."""
    declined: Counter[str]
    unanswered: Counter[str]

    @classmethod
    def of(cls, session: Session, at_hand: AtHand, open_keys: set[bytes]) -> Self:
        """Collect the counts after all open requests were visited."""
        a, answers = at_hand, session.answers
        counts = (answers.unreadable, answers.doubled, answers.declined, answers.unanswered)
        return cls(a.imported, a.rejected, len(open_keys), *counts)


def export(folder: Folder, session: Session) -> tuple[Round | None, Imported]:
    """Write the requests without a known answer, each once, into files for a server's batches."""
    # Existing replies are cached on the way, also those of a folder that lost its `batch.json`. A round that
    # nobody submitted is written again. The round is None if no request is open.
    state = session.new_state()
    if folder.state is None and folder.rounds:
        folder.save(state.model_copy(update={"rounds": folder.rounds}))
    if folder.state is not None:
        check_same(folder, state)
        if waiting := under_way(folder):
            lost = any(part.phase == "submitting" for part in waiting)
            raise RunError(
                f"{folder.path}: {len(waiting)} of {len(folder.current.parts)} files are in progress; "
                f"{'`batch submit` looks for them, ' if lost else ''}`batch fetch` brings their replies"
            )
        rounds = folder.known.rounds
        if rounds and all(part.phase == "exported" for part in rounds[-1].parts) and not rounds[-1].given:
            rounds = rounds[:-1]
        kept = {"rounds": rounds, "run": folder.known.run, "counted": folder.known.counted}
        state = state.model_copy(update=kept)
    at_hand, open_keys = session.at_hand(), set[bytes]()
    line = remote_class(session.settings.model).line
    lines = (
        (request.trace_id, line(key, session.body(request))) for key, request in _fresh(session, at_hand, open_keys)
    )
    number = state.rounds[-1].number + 1 if state.rounds else 1
    sizes = session.settings.max_requests, session.settings.max_bytes
    parts = write_requests(folder.place(number), lines, *sizes)
    imported = Imported.of(session, at_hand, open_keys)
    if imported.declined and parts:
        clear(folder.place(number))
        raise ConfigError(
            f"the server declined requests: {next(iter(imported.declined))}; "
            f"`batch export` into another folder with what is unsupported as {option('unsupported')}"
        )
    done = Round(number=number, parts=tuple(parts)) if parts else None
    rounds = (*state.rounds, *([done] if done else []))
    folder.save(state.model_copy(update={"rounds": rounds}))
    return done, imported


def bring_in(folder: Folder, session: Session) -> Imported:
    """Cache the existing replies, and count the requests that are still open."""
    check_same(folder, session.new_state())
    at_hand, open_keys = session.at_hand(), set[bytes]()
    for _ in _fresh(session, at_hand, open_keys):
        pass
    return Imported.of(session, at_hand, open_keys)


def give(folder: Folder, files: Sequence[Path]) -> None:
    """Copy files of replies into the folder, such as those of a server without a Batches API."""
    current = folder.current
    names = list(current.given)
    place = folder.place(current.number)
    foreign_lines(folder, files)
    for path in files:
        try:
            with path.open("rb") as file:
                name = f"{GIVEN}{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}.jsonl"
                file.seek(0)
                with replacing(place / name) as copy:
                    shutil.copyfileobj(file, copy)
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
        if name not in names:
            names.append(name)
    folder.set_current(given=tuple(names))


def foreign_lines(folder: Folder, files: Sequence[Path]) -> dict[Path, list[int]]:
    """Return by file of replies the numbers of lines that answer no request of the batch, where known."""
    asked = folder.asked()
    return {} if asked is None else strangers(files, asked, remote_class(folder.known.settings.model).reply)


def one_run(folder: Folder, session: Session, out: Path) -> tuple[Path, Manifest] | None:
    """Return the batch's one run, if an import has begun it in a folder of runs; else prepare to begin it."""
    # What the batch has paid since is added to the run's totals.
    state = folder.known
    run_id, paid = state.run or str(uuid.uuid4()), session.paid(folder.asked())
    begun = next((run for run in run_folders(out) if run[1].id == run_id), None) if state.run else None
    session.evaluator.run_id = run_id
    session.evaluator.paid = paid if begun is None else _since(paid, state.counted)
    folder.save(state.model_copy(update={"run": run_id, "counted": paid}))
    return None if begun is None else (bring_run(begun[0]), begun[1])


def _since(paid: Tally, before: Tally | None) -> Tally:
    if before is None:
        return Tally(cost=0.0)
    names = ("calls", "input_tokens", "output_tokens")
    made = {name: getattr(paid, name) - getattr(before, name) for name in names}
    cost = None if paid.cost is None or before.cost is None else paid.cost - before.cost
    return Tally(**made, cost=cost)


def under_way(folder: Folder) -> list[Part]:
    """Return the files of the current round whose replies may still come."""
    if not folder.known.rounds:
        return []
    return [part for part in folder.current.parts if part.phase in ("submitting", "submitted", "ended")]


def unsubmitted(folder: Folder) -> list[Part]:
    """Return the files of the current round that no server has; none if replies were brought by hand."""
    if not folder.known.rounds or folder.current.given:
        return []
    return [part for part in folder.current.parts if part.phase == "exported"]


def _fresh(session: Session, at_hand: AtHand, open_keys: set[bytes]) -> Iterable[tuple[bytes, Request]]:
    """Yield each open request once, with its key, and add the key to `open_keys`."""
    for request in open_requests(session.evaluator.judge, session.source, at_hand):
        key = session.cached.key(request)
        assert key is not None  # such a backend has an identity
        if key not in open_keys:
            open_keys.add(key)
            yield key, request
