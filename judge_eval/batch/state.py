"""The folder of a batch: its state, its files of requests; every change is one atomic step."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import IO, Annotated, Any, Literal, cast

from pydantic import Field, JsonValue, ValidationError

from judge_eval.data.options import ReadOptions
from judge_eval.errors import ConfigError, RunError
from judge_eval.files import is_plain, open_plain, read_plain, write_atomically
from judge_eval.llm.options import Options
from judge_eval.record import PlainObject, Record, data_error
from judge_eval.registry import stated_of
from judge_eval.runs.folder.journal import lock_folder, os_errors
from judge_eval.runs.folder.records import Dataset, Tally
from judge_eval.runs.options import Selection
from judge_eval.schema import BlankPolicy, EvidencePolicy
from judge_eval.settings import of_keywords
from judge_eval.trust import check_address, check_owned, unnamed_hosts

REPLIES = (".output", ".errors")
"""What is put to the name of a file of requests for the files of its replies."""
STATE = "batch.json"
MAX_REQUESTS = 50_000
MAX_BYTES = 190_000_000
"""What a server takes in one file: OpenAI's limits are 50,000 requests and 200 MB."""

_LINK = "it is a link, and links in the folder of a batch are not followed"

Phase = Literal["exported", "submitting", "submitted", "ended", "fetched"]
"""`submitting`: the server may have it; `ended`: it brings nothing more; `fetched`: its replies are here."""

PART_NAME = r"^part-\d{4,9}\.jsonl$"
"""The names of files of requests."""
GIVEN = "given-"
"""What the names of files begin with whose replies were brought by hand."""
GIVEN_NAME = rf"^{GIVEN}[0-9a-f]{{16}}\.jsonl$"
"""Their whole names."""


class BatchSettings(Record):
    """The settings of a batch; nothing secret."""

    data: str
    """The path or URL of the traces."""
    reading: PlainObject = Field(default_factory=dict)
    """What is set of `ReadOptions`."""
    selecting: PlainObject = Field(default_factory=dict)
    """What is set of `Selection`."""
    calling: PlainObject = Field(default_factory=dict)
    """What is set of `Options` and changes a verdict."""
    model: str
    prompt: str = "support/binary"
    """A prompt's id, or `file:PATH`."""
    mode: str = "pointwise"
    """The name of a kind of judge that is made from a prompt."""
    relevant: int | None = None
    evidence: EvidencePolicy | None = None
    blank: BlankPolicy | None = None
    metrics: tuple[str, ...] = ()
    """The metrics of the run unless `import` names others; empty for the default ones."""
    cache: str | None = None
    max_requests: int = MAX_REQUESTS
    """The most requests in a file, in later rounds too."""
    max_bytes: int = MAX_BYTES
    """The greatest size of a file in bytes."""

    @property
    def options(self) -> Options:
        """How the judge is called, as far as it changes a verdict."""
        return of_keywords(Options, {**self.calling, "key_command": None})  # a file runs no command

    @property
    def selection(self) -> Selection:
        """Which of the data's traces are judged, and how they are read."""
        reader = of_keywords(ReadOptions, {**self.reading, "relevant": self.relevant})
        return of_keywords(Selection, {**self.selecting, "reader": reader, "name": None})


class Part(Record):
    """One file of requests and its progress."""

    name: str = Field(pattern=PART_NAME)
    digest: str
    """64 hexadecimal digits: the SHA-256 of the file; sent along as metadata, to find the batch again."""
    requests: int
    bytes: int
    phase: Phase = "exported"
    file_id: str | None = None
    batch_id: str | None = None
    ordered: float | None = None
    """When its batch was last ordered, in seconds since 1970."""
    status: str = ""
    """In the words of OpenAI's API."""
    output_file_id: str | None = None
    error_file_id: str | None = None
    completed: int = 0
    failed: int = 0
    message: str = ""
    """The server's reason if it refused the batch."""


class Round(Record):
    """The requests that were open at one time."""

    number: int = Field(ge=1)
    parts: tuple[Part, ...]
    given: tuple[Annotated[str, Field(pattern=GIVEN_NAME)], ...] = ()
    """Files of replies that were brought by hand."""


class BatchState(Record):
    """Everything about a batch except its requests and replies: `batch.json`."""

    v: int = 1
    settings: BatchSettings
    dataset: Dataset
    judge: dict[str, JsonValue]
    backend: dict[str, JsonValue]
    rounds: tuple[Round, ...] = ()
    run: str | None = None
    """The id of its one run, once an import has begun it."""
    counted: Tally | None = None
    """What the batch had paid when the run was last begun or continued, which is in the run's totals."""


class Folder:
    """The folder of a batch, locked by one process while it is open; use it as a context manager."""

    def __init__(self, path: Path, *, make: bool = False) -> None:
        self.path = path
        self._lock: IO[bytes] | None = None
        check_owned(path / STATE)
        with os_errors("cannot be used", path):
            if make:
                path.mkdir(parents=True, exist_ok=True)
            if not (path / STATE).is_file():
                if replies := sorted(path.glob("round-*/part-*.jsonl.*")):
                    raise RunError(
                        f"{path} holds the replies of a batch, but no {STATE}; export into another folder, and give "
                        f"`batch import` the files of replies, such as {replies[0]}"
                    )
                if not make:
                    raise _no_batch(path)
            try:
                self._lock = lock_folder(path)
            except RunError:
                raise RunError(f"{path}: another process is working on this batch; wait for it") from None
        try:
            self.state = self._read() if (path / STATE).is_file() else None
        except RunError:
            self._lock.close()
            raise

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()

    @property
    def known(self) -> BatchState:
        """The state of the batch. Raises `RunError` if nothing was exported yet."""
        if self.state is None:
            raise _no_batch(self.path)
        return self.state

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds of the state; none if nothing was exported yet."""
        return () if self.state is None else self.state.rounds

    @property
    def current(self) -> Round:
        """The last round. Raises `RunError` if there is none: no request was open."""
        if not self.known.rounds:
            raise RunError(f"{self.path}: nothing was exported: the cache holds every answer")
        return self.known.rounds[-1]

    def check_host(self, address: object) -> None:
        """Check an address that `batch.json` names; see `trust.check_address`."""
        check_address(address, self.path / STATE, stated_of(self.known.settings.model).hosts)

    def unnamed_hosts(self) -> list[str]:
        """Return the hosts that the next step must be told to trust: only this command named them."""
        settings = self.known.settings
        places = [settings.options.base_url, settings.cache, settings.data]
        owned = stated_of(settings.model).hosts
        return list(dict.fromkeys(host for place in places for host in unnamed_hosts(place, owned)))

    def place(self, number: int) -> Path:
        """Return the folder of a round; raises `RunError` if it is a link."""
        place = self.path / f"round-{number}"
        if place.is_symlink():
            raise RunError(_LINK, file=place)
        return place

    def asked(self) -> Iterator[bytes] | None:
        """Yield the key of every request in the files of all rounds; None if a file is missing."""
        files = [self.place(each.number) / part.name for each in self.rounds for part in each.parts]
        return chain.from_iterable(map(request_keys, files)) if all(map(is_plain, files)) else None

    def open_part(self, part: Part) -> IO[bytes]:
        """Open a file of requests of the current round, which must be as it was exported."""
        path = self.place(self.current.number) / part.name
        with os_errors("cannot be read", path):
            file = open_plain(path)
        size = os.fstat(file.fileno()).st_size
        if size == part.bytes and hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest() == part.digest:
            file.seek(0)
            return file
        file.close()
        raise RunError(
            f"it has {size:,} bytes and is not the file of {part.requests:,} requests that was exported; run "
            "`batch export` again, which writes it",
            file=path,
        )

    def save(self, state: BatchState) -> None:
        """Replace the state in one step."""
        with os_errors("cannot be used", self.path):
            write_atomically(self.path / STATE, state.model_dump_json(indent=2).encode() + b"\n")
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
        for each in self.rounds:
            place = self.place(each.number)
            for part in each.parts:
                if part.phase == "fetched":
                    files += [place / f"{part.name}{ending}" for ending in REPLIES]
            files += [place / name for name in each.given]
        if link := next((path for path in files if path.is_symlink()), None):
            raise RunError(_LINK, file=link)
        return [path for path in files if path.is_file()]

    def _read(self) -> BatchState:
        path = self.path / STATE
        try:
            with os_errors("cannot be used", self.path):
                return BatchState.from_json(read_plain(path, 2**26))
        except ValueError as error:
            reason = str(data_error(error)) if isinstance(error, ValidationError) else str(error)
            raise RunError(f"{path}: not the state of a batch, or of another version: {reason}") from None


def _no_batch(path: Path) -> RunError:
    return RunError(f"no batch in {path}: it has no {STATE}; `batch export` makes one")


def write_requests(place: Path, lines: Iterable[tuple[str, bytes]], max_requests: int, max_bytes: int) -> list[Part]:
    """Write requests (a trace's id, a line) into files; those of an earlier export go."""
    rest = iter(lines)
    following = next(rest, None)
    clear(place)
    if following is None:
        return []
    place.mkdir(parents=True, exist_ok=True)
    parts: list[Part] = []
    try:
        while following is not None:
            trace_id, line = following
            if len(line) > max_bytes:
                raise ConfigError(f"trace {trace_id!r}: one request takes {len(line):,} bytes, more than a file may")
            path = place / f"part-{len(parts) + 1:04d}.jsonl"
            digest, requests, size = hashlib.sha256(), 0, 0
            with path.open("xb") as file:
                while following is not None and requests < max_requests and size + len(following[1]) <= max_bytes:
                    digest.update(following[1])
                    size += file.write(following[1])
                    requests += 1
                    following = next(rest, None)
                file.flush()
                os.fsync(file.fileno())
            parts.append(Part(name=path.name, digest=digest.hexdigest(), requests=requests, bytes=size))
        return parts
    except OSError as error:
        with suppress(OSError):
            clear(place)
        raise RunError(f"{place}: cannot be written: {error.strerror or error}") from None


_HEAD = re.compile(rb'\{"\w+":"([0-9a-f]{64})"')


def request_keys(file: Path) -> Iterator[bytes]:
    """Yield the keys of the requests in a file, with which its lines begin."""
    with open_plain(file) as lines:
        yield from (bytes.fromhex(match[1].decode()) for match in map(_HEAD.match, lines) if match)


def clear(place: Path) -> None:
    """Remove the requests of an export that was killed or is replaced; replies stay."""
    for file in place.glob("part-*.jsonl"):
        file.unlink()
    with suppress(OSError):  # not there, or not empty
        place.rmdir()
