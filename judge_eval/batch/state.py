"""The folder of a batch: what was exported, submitted, fetched; every change is one atomic step."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import Field, JsonValue

from judge_eval.data.options import ReadOptions
from judge_eval.errors import RunError
from judge_eval.files import write_atomically
from judge_eval.record import PlainObject, Record
from judge_eval.runs.folder.files import lock_folder
from judge_eval.runs.folder.records import Dataset
from judge_eval.runs.judging.selection import Selection
from judge_eval.schema import EvidencePolicy

REPLIES = (".output", ".errors")
"""What is put to the name of a file of requests for the files of its replies."""

STATE = "batch.json"
MAX_REQUESTS = 50_000
MAX_BYTES = 190_000_000
"""What a server takes in one file: OpenAI's limits are 50,000 requests and 200 MB."""

Phase = Literal["exported", "submitting", "submitted", "ended", "fetched"]
"""`submitting`: the server may have it; `ended`: it brings nothing more; `fetched`: its replies are here."""


class BatchSettings(Record):
    """What judging by batch was asked for; nothing secret."""

    data: str
    """The path or URL of the traces."""
    format: str | None = None
    map: dict[str, str] = Field(default_factory=dict)
    corpus: str | None = None
    list_sep: str | None = None
    depth: int | None = None
    records: str | None = None
    group_by: str | None = None
    model: str
    prompt: str = "support/binary"
    """A prompt's id, or `file:PATH`."""
    mode: Literal["pointwise", "listwise", "claims", "claims-list"] = "pointwise"
    relevant: int | None = None
    evidence: EvidencePolicy | None = None
    cascade: PlainObject = Field(default_factory=dict)
    """The flags that describe a cascade; empty where one model judges alone, whose place is `model`."""
    metrics: tuple[str, ...] = ()
    """What the run is to compute unless `import` is told otherwise; empty for the usual ones."""
    params: PlainObject = Field(default_factory=dict)
    base_url: str | None = None
    cache: str | None = None
    lacking: tuple[str, ...] = ()
    """What the server is known not to take, and is left out of every request."""
    limit: int | None = None
    seed: int | None = None
    shard: tuple[int, int] | None = None
    on_invalid: Literal["error", "skip"] = "error"
    claims: str | None = None
    """The file with the claims of the references; None where they are split, or nobody judges by claims."""
    max_requests: int = MAX_REQUESTS
    """The most requests in a file, in later rounds too."""
    max_bytes: int = MAX_BYTES
    """The most bytes in a file."""

    @property
    def reader(self) -> ReadOptions:
        """How the data are read; see `ReadOptions`."""
        corpus = None if self.corpus is None else Path(self.corpus)
        return ReadOptions(
            format=self.format,
            map=self.map,
            corpus=corpus,
            list_sep=self.list_sep,
            depth=self.depth,
            relevant=self.relevant,
            records=self.records,
            group_by=self.group_by,
        )

    @property
    def selection(self) -> Selection:
        """Which of the data's traces are judged."""
        return Selection(
            self.limit, self.seed, self.shard, self.on_invalid, reader=self.reader, claims=self.claims
        )


class Part(Record):
    """One file of requests and what became of it."""

    name: str
    digest: str
    """64 hexadecimal digits: the SHA-256 of the file; sent along as metadata, to find the batch again."""
    requests: int
    bytes: int
    phase: Phase = "exported"
    file_id: str | None = None
    batch_id: str | None = None
    status: str = ""
    """In the server's words."""
    output_file_id: str | None = None
    error_file_id: str | None = None
    completed: int = 0
    failed: int = 0
    message: str = ""
    """What the server said of a batch that it would not take."""


class Round(Record):
    """The requests that were open at one time."""

    number: int
    parts: tuple[Part, ...]
    given: tuple[str, ...] = ()
    """Files of replies that were brought by hand."""


class BatchState(Record):
    """Everything about a batch but its requests and replies: `batch.json`."""

    v: int = 1
    settings: BatchSettings
    dataset: Dataset
    judge: dict[str, JsonValue]
    backend: dict[str, JsonValue]
    rounds: tuple[Round, ...] = ()


class Folder:
    """A batch's folder, held by one process at a time while it is open; use it as a context manager.

    Args:
        path: Where it is; made where `make` is set.
        make: Whether it may be new.

    Raises:
        RunError: There is no batch in it, another process holds it, or it cannot be used.
    """

    def __init__(self, path: Path, *, make: bool = False) -> None:
        self.path = path
        self._lock: IO[bytes] | None = None
        try:
            if make:
                path.mkdir(parents=True, exist_ok=True)
            elif not (path / STATE).is_file():
                raise _no_batch(path)
            try:
                self._lock = lock_folder(path)
            except RunError:
                raise RunError(f"{path}: another process is working on this batch; wait for it") from None
        except OSError as error:
            raise self._unusable(error) from None
        self.state = self._read() if (path / STATE).is_file() else None

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()

    @property
    def known(self) -> BatchState:
        """The state, where there is one.

        Raises:
            RunError: Nothing was exported yet.
        """
        if self.state is None:
            raise _no_batch(self.path)
        return self.state

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds of the state; where it is lost, those whose replies are there, as their files tell."""
        return found_rounds(self.path) if self.state is None else self.state.rounds

    @property
    def current(self) -> Round:
        """The last round.

        Raises:
            RunError: There is none: nothing was open.
        """
        if not self.known.rounds:
            raise RunError(f"{self.path}: nothing was exported: the cache held every answer")
        return self.known.rounds[-1]

    def place(self, number: int) -> Path:
        """Return the folder of a round."""
        return self.path / f"round-{number}"

    def save(self, state: BatchState) -> None:
        """Replace the state in one step."""
        try:
            write_atomically(self.path / STATE, state.model_dump_json(indent=2).encode() + b"\n")
        except OSError as error:
            raise self._unusable(error) from None
        self.state = state

    def set_current(self, **changes: Any) -> None:
        """Change the current round."""
        rounds = (*self.known.rounds[:-1], self.current.model_copy(update=changes))
        self.save(self.known.model_copy(update={"rounds": rounds}))

    def set_part(self, name: str, **changes: Any) -> None:
        """Change a part of the current round."""
        parts = (part.model_copy(update=changes if part.name == name else {}) for part in self.current.parts)
        self.set_current(parts=tuple(parts))

    def replies(self) -> list[Path]:
        """List the files of replies of all rounds, in a fixed order."""
        files: list[Path] = []
        for one in self.rounds:
            place = self.place(one.number)
            for part in one.parts:
                if part.phase == "fetched":
                    files += [place / f"{part.name}{ending}" for ending in REPLIES]
            files += [place / name for name in one.given]
        return [path for path in files if path.is_file()]

    def _read(self) -> BatchState:
        path = self.path / STATE
        try:
            return BatchState.model_validate_json(path.read_bytes())
        except OSError as error:
            raise self._unusable(error) from None
        except ValueError as error:
            reason = str(error).splitlines()[0]
            raise RunError(f"{path}: not the state of a batch, or of another version: {reason}") from None

    def _unusable(self, error: OSError) -> RunError:
        with suppress(Exception):
            if self._lock is not None:
                self._lock.close()
        return RunError(f"{self.path}: cannot be used: {error.strerror or error}")


def found_rounds(path: Path) -> tuple[Round, ...]:
    """Tell by the files of a folder, whose `batch.json` is lost, which rounds have brought replies.

    A file of such a round without replies may be at the server: `submitting` has it looked for there.
    """
    found = []
    for place in path.glob("round-*"):
        given = sorted(file.name for file in place.glob("given-*.jsonl"))
        parts = [
            (file, any(file.with_name(file.name + ending).exists() for ending in REPLIES))
            for file in sorted(place.glob("part-*.jsonl"))
        ]
        number = place.name.removeprefix("round-")
        if number.isdigit() and (given or any(fetched for _, fetched in parts)):
            told = tuple(_part(file, "fetched" if fetched else "submitting") for file, fetched in parts)
            found.append(Round(number=int(number), parts=told, given=tuple(given)))
    return tuple(sorted(found, key=lambda one: one.number))


def _part(file: Path, phase: Phase) -> Part:
    """Describe a file of requests."""
    data = file.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return Part(name=file.name, digest=digest, requests=data.count(b"\n"), bytes=len(data), phase=phase)


def _no_batch(path: Path) -> RunError:
    kept = found_rounds(path) if path.is_dir() else ()
    more = (
        "; the replies in it are kept, and the `batch export` that made it goes on with them" if kept else ""
    )
    return RunError(f"no batch in {path}: it has no {STATE}; `batch export` makes one{more}")
