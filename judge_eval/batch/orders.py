"""The steps of a batch at the server: submit, status, fetch, cancel; each may be killed and repeated."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import IO, TYPE_CHECKING, Any

from judge_eval.batch.state import Folder, Part, Round
from judge_eval.errors import CallError, ConfigError, RefusedError, TransientError
from judge_eval.files import replacing
from judge_eval.llm.http import client as endpoint
from judge_eval.llm.http.client import is_packed, too_large
from judge_eval.llm.http.failures import Declined, beginning, raise_failure
from judge_eval.llm.http.key_command import key_command as of_words
from judge_eval.llm.http.secrets import Scrubber
from judge_eval.llm.options import MOST_BYTES
from judge_eval.registry import split_model

if TYPE_CHECKING:
    from openai.types import Batch

_USED: Mapping[str, tuple[type, ...]] = {
    "id": (str,),
    "status": (str,),
    "input_file_id": (str,),
    "output_file_id": (str, NoneType),
    "error_file_id": (str, NoneType),
    "metadata": (dict, NoneType),
    "request_counts": (dict, NoneType),
    "errors": (dict, NoneType),
}
"""What is used of a batch."""


class Remote:
    """The Files and Batches API of a server.

    The base URL None takes `OPENAI_BASE_URL`, else OpenAI's own; `timeout` is in seconds, for one call; the
    key is in the environment variable `key_variable`, or printed by `key_command`.
    """

    @classmethod
    def of(cls, folder: Folder, base_url: str | None = None, key_command: Sequence[str] = ()) -> Remote:
        """Return the server at a base URL, else the trusted one that a batch's folder names."""
        settings = folder.known.settings
        options = settings.options
        if base_url is None:
            folder.check_host(options.base_url)
        provider = endpoint.entry_of(split_model(settings.model)[0])
        return cls(
            base_url or options.base_url,
            key_variable=options.key_env or "OPENAI_API_KEY",
            key_command=key_command or provider.key_command,
        )

    def __init__(
        self,
        base_url: str | None,
        *,
        timeout: float = 600.0,
        key_variable: str = "OPENAI_API_KEY",
        key_command: Sequence[str] = (),
    ) -> None:
        import openai

        self._address = endpoint.Address.parse(base_url or os.environ.get("OPENAI_BASE_URL") or endpoint.DEFAULT)
        self._command = of_words(tuple(key_command)) if key_command else None
        self._printed = time.monotonic()
        key = self._command.key() if self._command else endpoint.read_key(key_variable, self._address)
        self._scrub = Scrubber(key, self._address.secrets)
        self._timeout = timeout
        # What is asked of the server may be asked again, but for the one call that orders work.
        headers = {"Accept-Encoding": "identity"}
        if self._address.authorization is not None:
            headers["Authorization"] = self._address.authorization
        wait = openai.Timeout(timeout, connect=30)
        http = openai.DefaultHttpxClient(timeout=wait, follow_redirects=False, event_hooks={"response": [self._bound]})
        self._client = openai.OpenAI(
            api_key=key,
            base_url=self._address.url,
            timeout=wait,
            max_retries=4,
            default_headers=headers,
            http_client=http,
        )
        self._once = self._client.with_options(max_retries=0)

    def close(self) -> None:
        """Close connections."""
        self._client.close()

    def find(self, wanted: Callable[[Mapping[str, str]], bool]) -> list[Batch]:
        """List the batches with wanted metadata, newest first."""
        with self._errors():
            known = map(self._sound, self._client.batches.list(limit=100))
            return [batch for batch in known if wanted(batch.metadata or {})]

    def upload(self, name: str, file: IO[bytes]) -> str:
        """Upload a file of requests, and return its id."""
        with self._errors():
            return self._without_key(self._client.files.create(file=(name, file), purpose="batch").id)

    def create(self, file_id: str, metadata: dict[str, str]) -> Batch:
        """Submit a file as a batch, once; a `TransientError` that was `sent` may have been accepted."""
        with self._errors():
            return self._sound(
                self._once.batches.create(
                    completion_window="24h", endpoint="/v1/chat/completions", input_file_id=file_id, metadata=metadata
                )
            )

    def cancel(self, batch_id: str) -> Batch:
        """Cancel a batch; what it has answered by then can still be fetched."""
        with self._errors():
            return self._sound(self._client.batches.cancel(batch_id))

    def retrieve(self, batch_id: str) -> Batch:
        """Return the current state of a batch."""
        with self._errors():
            return self._sound(self._client.batches.retrieve(batch_id))

    def download(self, file_id: str, path: Path) -> None:
        """Download a file, in one step, without the key where the server repeats it."""
        with (
            replacing(path) as file,
            self._errors(),
            self._client.files.with_streaming_response.content(file_id) as response,
        ):
            rest = b""
            for piece in response.iter_bytes(1 << 20):
                # What may be the beginning of a key waits for the next piece.
                data = self._cleaned(rest + piece)
                file.write(data[:-_LONGEST_KEY])
                rest = data[-_LONGEST_KEY:]
            file.write(rest)

    def _cleaned(self, data: bytes) -> bytes:
        return self._scrub.reply(data.decode("latin-1")).encode("latin-1")

    def _without_key(self, text: Any) -> str:
        """Return a text that is stored and shown; raises `ValueError` if the server put the key into it."""
        if not isinstance(text, str) or self._scrub.reply(text) != text:
            raise ValueError("a name that is not a text, or contains the key")
        return text

    def _sound(self, batch: Batch) -> Batch:
        """Check the types of a batch's used fields, which the SDK does not, and clean its messages."""
        known: dict[str, Any] = batch.to_dict(warnings=False)
        for name, kinds in _USED.items():
            value = known.get(name)
            if not isinstance(value, kinds):
                raise ValueError(f"a batch with an odd field {name!r}")
            if isinstance(value, str):
                self._without_key(value).encode()  # half a character can be written to no file
        counts = known.get("request_counts") or {}
        errors = (known.get("errors") or {}).get("data") or []
        if not all(type(counts.get(name, 0)) is int for name in ("completed", "failed")):
            raise ValueError("a batch with odd counts")
        if not isinstance(errors, list) or not all(isinstance(error, dict) for error in errors):
            raise ValueError("a batch with odd errors")
        for error in (batch.errors.data if batch.errors else None) or []:
            error.message = beginning(error.message, self._scrub)
            error.code = beginning(error.code, self._scrub)
            error.line = error.line if type(error.line) is int else None
        return batch

    def _bound(self, response: Any) -> None:
        """Limit the size and the time of a response; a file is streamed to the disk without a limit."""
        place, until = self._address.public, time.monotonic() + self._timeout
        if is_packed(response.headers, place):
            raise CallError(f"{place} sent gzip, which was not asked for")
        if response.is_success and response.request.url.path.endswith("/content"):
            return
        inner = response.stream

        def parts(_: Any) -> Iterator[bytes]:
            size = 0
            for part in inner:
                size += len(part)
                if size > MOST_BYTES:
                    raise too_large(MOST_BYTES, place)
                if time.monotonic() > until:
                    raise endpoint.timed_out(self._timeout, place)
                yield part

        # The class that the HTTP library asks for is known from what it made itself.
        (kind,) = (each for each in type(inner).__mro__ if each.__name__ == "SyncByteStream")
        response.stream = type("Bounded", (kind,), {"__iter__": parts, "close": lambda _: inner.close()})()

    def _renew(self) -> None:
        """Have the key printed again, before it ends; if it does not say when, every ten minutes."""
        if self._command is None or (not self._command.expiring and time.monotonic() - self._printed < _FRESH):
            return
        key, self._printed = self._command.renewed(self._client.api_key), time.monotonic()
        self._client.api_key = self._once.api_key = key
        self._scrub = Scrubber(key, self._address.secrets)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn the SDK's errors into those of this package, without a key."""
        import openai

        self._renew()
        place, scrub = self._address.public, self._scrub
        try:
            yield
        except CallError as ours:
            raise scrub.error(ours) from None
        except openai.NotFoundError as error:
            message = scrub(" ".join(error.message.split()))[:300]
            raise RefusedError(f"{place} does not have it (any more): {message}") from None
        except openai.APIStatusError as error:
            body: Any = error.body if error.body is not None else ""
            try:
                raise_failure(error.status_code, body, error.response.headers, place, scrub)
            except Declined as declined:
                raise RefusedError(declined.error.detail) from None
        except openai.APIError as error:
            if isinstance(error.__cause__, CallError):  # raised by `_bound`, which the SDK cannot know
                raise scrub.error(error.__cause__) from None
            raise endpoint.unreachable(error, self._timeout, place, scrub) from None
        except (openai.OpenAIError, ValueError, TypeError, AttributeError, RecursionError) as error:
            message = scrub(" ".join(str(error).split()))[:300]
            raise TransientError(f"{place} sent what cannot be read: {message}", kind="body") from None
        except Exception as error:
            # A connection that is lost while a file streams raises the HTTP library's own error.
            if type(error).__module__.partition(".")[0] in ("httpx", "httpx2", "httpcore", "httpcore2"):
                raise endpoint.unreachable(error, self._timeout, place, scrub) from None
            raise


_LONGEST_KEY = 4096  # characters
_FRESH = 600.0  # seconds for which a key is used whose end is not known
OVER = frozenset({"completed", "expired", "cancelled"})
"""States in which a batch has brought all it will."""
STOPPED = frozenset({"failed", "expired", "cancelling", "cancelled"})
"""States in which nothing more is done, or will be paid."""
PATIENCE = 60.0
"""Seconds for which a batch is looked for that may have been ordered: servers list it with a delay."""
LOOK = 1.0
"""Seconds between two looks."""


def submit(
    folder: Folder, remote: Remote, tell: Callable[[str], None] = lambda _: None, *, patience: float = PATIENCE
) -> None:
    """Submit every file of the current round that has no batch yet; `tell` gets a line for each."""
    # Batches are first looked up by their metadata, which name file and round. If an order may have been sent
    # whose answer was lost, its batch is looked for during `patience` seconds (>= 0) before it is ordered
    # again; if it was not found after that, a `TransientError` says so.
    current = folder.current
    waiting = [part for part in current.parts if part.batch_id is None]
    if not waiting:
        return
    lost = [part for part in waiting if part.phase == "submitting"]
    batches = _look(folder, remote, lost, patience, tell)
    for part in waiting:
        if known := batches.get(part.name):
            _note(folder, part.name, known[0])
            tell(f"{part.name}: found again as {known[0].id}")
            continue
        file_id = part.file_id
        if file_id is None:
            with folder.open_part(part) as file:
                file_id = remote.upload(part.name, file)
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
                    f"{part.name}: it is not known whether the batch was submitted: {error.detail}; "
                    "`batch submit` looks for it before it submits again"
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
    """Return the batches that repeat the work of another one, each with its file."""
    batches = _find(folder, remote)
    return [
        (part, batch)
        for part in folder.current.parts
        for batch in batches.get(part.name, ())
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
    """Cancel batches of the current round, or its duplicates; what they have answered can be fetched."""
    batches = _find(folder, remote)
    known = {batch.id: part for part in folder.current.parts for batch in batches[part.name]}
    known |= {part.batch_id: part for part in folder.current.parts if part.batch_id is not None}
    for batch_id in batch_ids:
        if batch_id not in known:
            raise ConfigError(
                f"{batch_id} is not a batch of this round; there are {', '.join(sorted(known)) or 'none'}"
            )
    more = [batch.id for _, batch in doubles(folder, remote) if batch.status not in OVER] if doubled else []
    for batch_id in dict.fromkeys((*batch_ids, *more)):
        part = known[batch_id]
        batch = remote.cancel(batch_id)
        if batch_id == part.batch_id:
            _note(folder, part.name, batch)
        tell(f"{part.name}: {batch_id} is {batch.status}")


def refresh(folder: Folder, remote: Remote) -> Round:
    """Update the batches of the current round; one that failed did nothing, so its file is free again."""
    for part in folder.current.parts:
        if part.phase == "submitted" and part.batch_id is not None:
            _note(folder, part.name, remote.retrieve(part.batch_id))
    return folder.current


def fetch(
    folder: Folder, remote: Remote, *, wait: float | None = None, tell: Callable[[str], None] = lambda _: None
) -> Round:
    """Download the replies of the batches that have ended; `tell` gets a line for each file."""
    # `wait` is the number of seconds between requests until all batches have ended; None asks once.
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
    return {"judge_eval_file": part.digest, "judge_eval_round": str(round_.number)}


def _find(folder: Folder, remote: Remote) -> dict[str, list[Batch]]:
    """List the batches of each file of the current round that did anything, the most advanced first."""
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
    """Find the batches of each file; repeat, within limits, for those that may appear later."""
    until = time.monotonic() + patience
    batches = _find(folder, remote)
    announced = False
    while (missing := [part.name for part in lost if not batches[part.name]]) and time.monotonic() < until:
        if not announced:
            tell(f"{', '.join(missing)}: ordered without an answer; looking for the batch for {patience:g} s")
            announced = True
        time.sleep(min(LOOK, max(0.0, until - time.monotonic())))
        batches = _find(folder, remote)
    return batches


def _note(folder: Folder, name: str, batch: Batch) -> None:
    errors = (batch.errors.data if batch.errors else None) or []
    message = "; ".join(
        f"{error.message} ({error.code}{f', line {error.line}' if error.line else ''})" for error in errors[:3]
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
