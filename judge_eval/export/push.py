"""Sends the scores of a run to the service that its traces came from."""

import asyncio
import hashlib
import json
import logging
import os
import random
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from judge_eval.background_loop import background_loop
from judge_eval.errors import (
    CallError,
    ConfigError,
    DeniedError,
    FatalCallError,
    JudgeEvalError,
    RefusedError,
    TransientError,
)
from judge_eval.export.scores import ScoreBody, Service
from judge_eval.files import open_plain
from judge_eval.foreign import read_json
from judge_eval.llm.http.bounded import Received
from judge_eval.llm.http.client import Address, read_key, timed_out, unreachable
from judge_eval.llm.http.connection import Connection, Endpoint
from judge_eval.llm.http.failures import Declined, beginning, raise_failure
from judge_eval.llm.http.secrets import Scrubber
from judge_eval.llm.limit import PATIENCE
from judge_eval.runs.folder.run import Run
from judge_eval.safe_text import counted

_CALLS = 4  # requests under way
_TIMEOUT = 60.0  # seconds of one
_MOST = 900_000  # bytes of one; Langfuse takes 1 MiB
_REPLY = 4_000_000  # bytes of a reply
_ATTEMPTS = 6  # at one request, besides those that the service asks to repeat later
_LONG = 10.0  # seconds of a wait from which people are told
_PROGRESS = 5.0  # seconds between two reports of how far it is
_HOPELESS = 5  # refusals before anything was taken: then no score will be

_IN_PART = "in part"

_log = logging.getLogger("judge_eval")


@dataclass
class Pushed:
    """What became of the scores of a run."""

    place: str
    """The address they were sent to."""
    sent: int = 0
    before: int = 0
    """How many an earlier push had sent: they are not sent again."""
    refused: list[str] = field(default_factory=list)
    """What the service said of each score that it did not take."""
    note: Path | None = None
    """The file that says what was sent."""


def push_scores(run: Run, service: Service, watch: Callable[[int], None] | None = None) -> Pushed:
    """Send the scores of a run, except those that the service already has from it.

    What was sent is noted in the run's folder, so that another push sends the rest; and since a score keeps its id,
    one that is sent twice is there once. `watch` is called every few seconds with how many have been sent.

    Raises:
        ConfigError: A key is missing, or the address cannot be read.
        DataError: No trace of the run names one of the service.
        FatalCallError: The service cannot be reached, or takes no score.
    """
    return background_loop.run(_Push(run, service, watch).all())


class _Push:
    def __init__(self, run: Run, service: Service, watch: Callable[[int], None] | None) -> None:
        self._watch, self._shown = watch, time.monotonic()
        self._run, self._service, self._lists = run, service, service.at_once > 1
        named = next(filter(None, map(_variable, service.base_urls)), service.default_url)
        address = Address.parse(named)
        keys = [read_key(variable, address) for variable in service.keys]
        basic = None if service.key_header else b64encode(":".join(keys).encode()).decode()
        self._key, self._scrub = keys[-1], Scrubber(keys[-1], (*keys, *address.secrets, *([basic] if basic else [])))
        extra = {header: value for header, variable in service.headers if (value := _variable(variable))}
        self._endpoint = Endpoint(
            url=address.under(service.path),
            place=address.public,
            key_header=service.key_header or "authorization",
            headers={"user-agent": "judge_eval", **extra},
            authorization=f"Basic {basic}" if basic else address.authorization,
            concurrency=_CALLS,
            timeout=_TIMEOUT,
            max_reply=_REPLY,
        )
        account = hashlib.sha256("\n".join([address.public, *keys, *extra.values()]).encode()).hexdigest()[:16]
        self._notes = _Notes(run.folder and run.folder / f".pushed-{service.name.lower()}-{account}")
        self._pushed = Pushed(address.public, note=self._notes.path)
        self._failure: JudgeEvalError | None = None
        self._free = 0.0
        """The time from which the service, which asked to wait, may be asked again."""

    async def all(self) -> Pushed:
        """Send all that is not there yet."""
        batches = self._batches()
        self._connection = Connection(self._endpoint, self._key)
        try:
            with self._notes:
                await asyncio.gather(*(self._work(batches) for _ in range(_CALLS)))
        finally:
            await self._connection.aclose()
        if isinstance(self._failure, FatalCallError) and self._pushed.sent:
            sent = f"{counted(self._pushed.sent, 'score')} sent; the same command sends the rest"
            raise FatalCallError(f"{self._failure}; {sent}", self._failure.cause)
        if self._failure is not None:
            raise self._failure
        return self._pushed

    def _batches(self) -> Iterator[list[ScoreBody]]:
        batch, size = list[ScoreBody](), 0
        for record in self._service.scores(self._run):
            if self._notes.has(record):
                self._pushed.before += 1
                continue
            more = len(_json(record)) + 1
            if batch and (size + more > _MOST or len(batch) >= self._service.at_once):
                yield batch
                batch, size = [], 0
            batch.append(record)
            size += more
        if batch:
            yield batch

    async def _work(self, batches: Iterator[list[ScoreBody]]) -> None:
        try:
            while self._failure is None and (batch := next(batches, None)) is not None:
                await self._deliver(batch)
        except JudgeEvalError as error:
            self._failure = self._failure or error

    async def _deliver(self, batch: Sequence[ScoreBody]) -> None:
        """Send scores as a list; one by one if the service takes no lists, or not all of this one."""
        in_part = taken = False
        if self._lists:
            try:
                await self._ask(batch)
            except RefusedError as error:
                in_part = error.cause == _IN_PART
            else:
                self._take(batch)
                return
        for record in batch:
            try:
                await self._ask(record)
            except RefusedError as error:
                self._pushed.refused.append(error.detail)
                if not self._pushed.sent and len(self._pushed.refused) >= _HOPELESS:
                    raise FatalCallError(f"{self._service.name} takes no score: {error.detail}") from None
            else:
                self._take([record])
                taken = True
        self._lists = self._lists and (in_part or not taken)

    def _take(self, records: Sequence[ScoreBody]) -> None:
        self._notes.add(records)
        self._pushed.sent += len(records)
        if self._watch is not None and time.monotonic() - self._shown > _PROGRESS:
            self._shown = time.monotonic()
            self._watch(self._pushed.sent)

    async def _ask(self, content: ScoreBody | Sequence[ScoreBody]) -> None:
        """Send a request in as many attempts as it takes; raises `RefusedError` or `FatalCallError`."""
        body, waited = _json(content), 0.0
        for attempt in count(1):
            try:
                await self._post(body)
                return
            except TransientError as error:
                asked = error.retry_after
                # A service that asks for nothing at all is spared as well.
                pause = max(asked or 0.0, random.uniform(0, min(20.0, 2.0**attempt / 4)))  # noqa: S311  no secret
                waited += pause
                if waited > PATIENCE or (asked is None and attempt >= _ATTEMPTS):
                    late = "" if asked is None else f"; a wait of {asked:.0f} s was asked for"
                    raise FatalCallError(f"{error.detail} ({counted(attempt, 'attempt')}{late})") from None
                if asked is not None:
                    self._hold(asked)
            await asyncio.sleep(pause)

    def _hold(self, asked: float) -> None:
        """Let all other requests wait as well, as the service asks."""
        if asked >= _LONG and time.monotonic() + asked > self._free + _LONG:
            _log.warning("%s asks to wait %.0f s", self._service.name, asked)
        self._free = max(self._free, time.monotonic() + asked)

    async def _post(self, body: bytes) -> None:
        await asyncio.sleep(max(0.0, self._free - time.monotonic()))
        place = self._endpoint.place
        try:
            async with asyncio.timeout(_TIMEOUT):
                received = await self._connection.post(body)
        except CallError:
            raise
        except TimeoutError:
            raise timed_out(_TIMEOUT, place) from None
        except Exception as error:  # no list covers all that aiohttp raises
            raise unreachable(error, _TIMEOUT, place, self._scrub) from None
        self._check(received)

    def _check(self, received: Received) -> None:
        """Raise if a reply does not say that all was taken."""
        status, headers, content = received
        place, keys = self._endpoint.place, " and ".join(self._service.keys)
        body: object = content
        with suppress(ValueError):
            body = read_json(content)
        if status == 207:  # of a list, some may have been refused
            if isinstance(body, dict) and body.get("rejected") == 0:
                return
            raise RefusedError(f"HTTP 207 from {place}: {beginning(body, self._scrub)}", cause=_IN_PART)
        if status == 409 or (200 <= status < 300 and isinstance(body, dict)):  # a conflict: the id is there
            return
        message = f"HTTP {status} from {place}: {beginning(body, self._scrub)}"
        if 200 <= status < 300:  # a page of another server, which took nothing
            raise RefusedError(f"{message} (no JSON; check {self._service.base_urls[0]})")
        if status == 403:
            raise DeniedError(
                f"{message} (this key may not write scores; check {keys} and {self._service.base_urls[0]})"
            )
        if status == 404:
            raise RefusedError(f"{message} (no such trace there; or {self._service.base_urls[0]} is wrong)")
        try:
            raise_failure(status, body, headers, place, self._scrub, keys)
        except Declined as declined:
            raise declined.error from None


class _Notes:
    """A file in a run's folder that says what a service has taken: a digest of a record in each line."""

    def __init__(self, path: Path | None) -> None:
        self.path, self._known = path, set[str]()
        if path is not None and os.path.lexists(path):
            try:
                with open_plain(path) as file:
                    self._known = {line.decode("ascii", "replace").strip() for line in file}
            except OSError as error:
                raise ConfigError(f"{path}: cannot be read: {error.strerror or error}; remove it") from None

    def __enter__(self) -> None:
        self._file = None
        if self.path is not None:
            try:
                self._file = open_plain(self.path, "ab")
            except OSError as error:
                _log.warning("%s: cannot be written: %s; a repeat sends all again", self.path, error.strerror or error)

    def __exit__(self, *exc: object) -> None:
        if self._file is not None:
            self._file.close()

    def has(self, record: ScoreBody) -> bool:
        return _digest(record) in self._known

    def add(self, records: Iterable[ScoreBody]) -> None:
        if self._file is not None:
            with suppress(OSError):  # what is not noted is sent again, to the same effect
                self._file.write("".join(f"\n{_digest(record)}\n" for record in records).encode())
                self._file.flush()


def _variable(name: str) -> str:
    return os.environ.get(name, "").strip()


def _json(content: ScoreBody | Sequence[ScoreBody]) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def _digest(record: ScoreBody) -> str:
    return hashlib.sha256(_json(record)).hexdigest()[:32]
