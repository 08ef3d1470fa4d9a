"""Replies in files, found by the key that was their request's `custom_id`."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from judge_eval.data.files.opening import reading_file
from judge_eval.errors import CallError, FatalCallError, TransientError
from judge_eval.foreign import check_single_keys, read_json
from judge_eval.llm.backend import Backend, Wrapper
from judge_eval.llm.cache.cached import cache_key
from judge_eval.llm.http.capabilities import Objection
from judge_eval.llm.http.failures import Declined, as_line, in_parentheses
from judge_eval.wire import Completion, Reply, Request, Usage, filled

NOTHING, FAILURE, SUCCESS = range(3)
"""What a line brings for its request; the greater takes precedence."""


@runtime_checkable
class BatchBackend(Backend, Protocol):
    """A backend whose requests and replies can go through files, as those of a `TextServer` can."""

    def body(self, request: Request) -> bytes:
        """Write the JSON body of a request."""
        ...

    def read(self, content: bytes, status: int = 200) -> Completion:
        """Read a reply that came in a file, or raise as a call does (`Declined`: the form is refused)."""
        ...

    def shown(self, value: Any) -> str:
        """Show the beginning of what a server wrote, in one line and without a key."""
        ...

    def unsupported_after(self, objection: Objection) -> tuple[str, ...]:
        """Name what would have to be left out after an objection; empty if nothing would help."""
        ...


class LineReply(NamedTuple):
    """A line of replies."""

    key: bytes
    status: int | None
    """An HTTP status; None if there is no response."""
    body: Any
    """The response's body: an object, or its text."""
    why: Any
    """Why there is no response."""
    request_id: Any = None
    """The server's name of the request, where the line has one."""


LineReader: TypeAlias = Callable[[Mapping[str, Any]], LineReply]
"""Reads a line of replies; raises `ValueError`, `TypeError`, `LookupError` or `AttributeError` if it is none."""


class Answers:
    """The replies of a batch, read from their files on demand.

    `form` reads a line; lines may be in any order, repeated or missing. A reply takes precedence over an error. Of two
    replies to one request the one of the earlier file counts; two that differ in one file are an error of the request.
    """

    def __init__(self, files: Sequence[Path], reader: BatchBackend, form: LineReader) -> None:
        self._files, self._reader, self._form = list(files), reader, form
        self._index: dict[bytes, tuple[int, int, int]] = {}
        self._contradicted: set[bytes] = set()
        self.unreadable = 0
        """Lines that are not a reply: incomplete or foreign."""
        self.doubled = 0
        """Lines about a request that another line was about."""
        self.declined: Counter[str] = Counter()
        """The server's objections to the form of requests, in its words."""
        self.unanswered: Counter[str] = Counter()
        """Why requests that stand in the files have no answer."""
        for number, path in enumerate(self._files):
            with path.open("rb") as file:
                offset = 0
                for line in file:
                    self._note(line, number, offset)
                    offset += len(line)

    def find(self, key: bytes) -> Reply | None:
        """Return the completion for a key, its final error, or None if it must be requested."""
        entry = self._index.get(key)
        if entry is None:
            return None
        if key in self._contradicted:
            return CallError(f"custom_id {key.hex()} occurs twice in a file, with two replies", why="unparsable")
        reply = self._reply(*entry[:2])
        name = self._reader.shown(as_line(reply.request_id)[:100])
        try:
            if reply.status is None:
                raise TransientError(self._reader.shown(reply.why or "no response"), sent=False)
            status = reply.status if 100 <= reply.status <= 599 else 200
            completion = self._reader.read(_content(reply), status)
            return filled(Completion, {**completion.__dict__, "request_id": name or completion.request_id})
        except Declined as declined:
            unsupported = self._reader.unsupported_after(declined.objection)
            if not unsupported:  # an objection to this very request, for which nothing can be left out
                declined.error.detail += in_parentheses(name)
                return declined.error
            self.declined[f"{declined.objection.message} (unsupported: {', '.join(unsupported)})"] += 1
            return None
        except (TransientError, FatalCallError) as failed:
            # What no call to the server could cure then may be cured by now: it is asked again.
            self.unanswered[str(failed)] += 1
            return None
        except CallError as failed:
            failed.detail += in_parentheses(name)
            return failed

    def _reply(self, number: int, offset: int) -> LineReply:
        with self._files[number].open("rb") as file:
            file.seek(offset)
            return self._form(read_json(file.readline()))

    def request_id(self, key: bytes, completion: Completion) -> str:
        """Return the server's name of the request of a reply; "" if the reply is another than this completion."""
        if self._index.get(key, (0, 0, NOTHING))[2] != SUCCESS:
            return ""
        reply = self.find(key)
        return reply.request_id if isinstance(reply, Completion) and reply == completion else ""

    def paid(self, asked: Iterable[bytes] | None = None) -> tuple[int, Usage]:
        """Return how many requests, of those with these keys, have a completion, and the tokens of all."""
        known = self._index.values() if asked is None else map(self._index.get, set(asked))
        calls, usage = 0, Usage()
        for number, offset, rank in sorted(filter(None, known)):
            if rank == SUCCESS:
                with suppress(Declined, CallError, FatalCallError):
                    usage += self._reader.read(_content(self._reply(number, offset)), 200).usage
                    calls += 1
        return calls, usage

    def _note(self, line: bytes, number: int, offset: int) -> None:
        if not line.strip():
            return
        if (reply := read_line(line, self._form)) is None:
            self.unreadable += 1
            return
        key = reply.key
        rank = NOTHING if reply.status is None else SUCCESS if reply.status == 200 else FAILURE
        before = self._index.get(key)
        self.doubled += before is not None
        if before is not None and (number, rank, SUCCESS) == (before[0], before[2], rank):
            first = self._reply(*before[:2])
            if (first.status, first.body) != (reply.status, reply.body):
                self._contradicted.add(key)
        if before is None or rank > before[2]:
            self._index[key] = (number, offset, rank)


def _content(reply: LineReply) -> bytes:
    text = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
    return text.encode("utf-8", "surrogatepass")


def read_line(line: bytes, form: LineReader) -> LineReply | None:
    """Read a line; None if it is not a reply."""
    with suppress(ValueError, TypeError, LookupError, AttributeError):
        reply = form(check_single_keys(line, read_json(line)))
        return reply if len(reply.key) == 32 else None
    return None


def answered_keys(path: Path, form: LineReader) -> dict[int, bytes]:
    """Return the keys of the requests that a file of replies answers, by the numbers of their lines from 1."""
    with reading_file(path), path.open("rb") as file:
        replies = ((number, read_line(line, form)) for number, line in enumerate(file, 1) if line.strip())
        return {number: reply.key for number, reply in replies if reply is not None}


class Remembered(Wrapper):
    """A backend that answers from a batch's replies what its cache may not keep; `inner` answers the rest.

    A reply from which no verdict could be read is never cached, but it was paid for: from here only its
    repair is requested. `online`: whether other requests may be made.
    """

    def __init__(self, inner: Backend, answers: Answers, *, online: bool = True) -> None:
        super().__init__(inner)
        self._answers, self._online = answers, online

    async def complete(self, request: Request) -> Completion:
        """Answer from the replies, else call."""
        identity = self.identity
        assert identity is not None  # a server's model has one
        reply = self._answers.find(cache_key(identity, request.digest))
        if reply is None:
            if self._online:
                return await self.inner.complete(request)
            raise CallError("the batch brought no reply", why="unjudged")
        if isinstance(reply, CallError):
            raise reply
        return reply
