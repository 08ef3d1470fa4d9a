"""What the steps of a batch need of a server that takes batches: the connection, and what each wire adds."""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import IO, Any, ClassVar, NoReturn

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from judge_eval.batch.replies import LineReply
from judge_eval.batch.state import Part
from judge_eval.errors import CallError, RefusedError, TransientError
from judge_eval.files import replacing
from judge_eval.foreign import read_json
from judge_eval.llm.http import client as endpoint
from judge_eval.llm.http.bounded import is_packed, too_large
from judge_eval.llm.http.failures import Declined, beginning, raise_failure
from judge_eval.llm.http.key_command import key_command as of_words
from judge_eval.llm.http.secrets import Scrubber
from judge_eval.llm.options import MOST_BYTES

OVER = frozenset({"completed", "expired", "cancelled"})
"""States in which a batch has brought all it will."""
STOPPED = frozenset({"failed", "expired", "cancelling", "cancelled"})
"""States in which nothing more is done, or will be paid."""
MARKS = ("judge_eval_file", "judge_eval_round")
"""The names of what is sent along with a batch, to find it again."""


@dataclass(frozen=True, slots=True)
class RemoteBatch:
    """A batch at a server, in the same words for every wire."""

    id: str
    status: str
    """`validating`, `in_progress`, `finalizing`, `completed`, `failed`, `expired`, `cancelling` or `cancelled`."""
    mark: Mapping[str, str] | None = None
    """What was sent along to find it again; None if the wire carries nothing."""
    requests: int = 0
    completed: int = 0
    failed: int = 0
    created: float = 0.0
    """Seconds since 1970."""
    input_file_id: str | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    message: str = ""
    """Why it failed."""


@dataclass(frozen=True, slots=True)
class Order:
    """A file of requests that is ordered as a batch."""

    part: Part
    file: IO[bytes]
    file_id: str | None
    """Its id at the server; None if the file goes along."""
    mark: dict[str, str]


class Remote(ABC):
    """A server's batches; each call may be repeated, but for `create`.

    `timeout` is in seconds, for one call; the key is in the environment variable
    `key_env`, or printed by `key_command`, and is sent in `key_header`.
    """

    marks: ClassVar[bool] = True
    """Whether what is sent along with a batch stands in the list; else a lost batch cannot be found there."""
    _home: ClassVar[str] = "/batches"
    """The path of the list of batches."""
    _first_page: ClassVar[Mapping[str, Any]] = {"limit": 100}
    _head: ClassVar[str]
    """How the line of a request begins; `%s` stands for its key."""
    _headers: ClassVar[Mapping[str, str]] = {}
    _download_query: ClassVar[Mapping[str, str]] = {}
    _streamed: ClassVar[tuple[str, ...]] = ()
    """How the paths end whose replies go to the disk, without a limit."""

    @classmethod
    def line(cls, key: bytes, body: bytes) -> bytes:
        """Return the line of a request in a file: its key, which its reply repeats, and its JSON."""
        return b"".join(((cls._head % key.hex()).encode(), body, b"}\n"))

    @staticmethod
    @abstractmethod
    def reply(record: Mapping[str, Any]) -> LineReply:
        """Read a line of replies; raises `ValueError`, `TypeError` or `KeyError` if it is none."""

    def batches(self) -> Iterator[RemoteBatch]:
        """Yield the server's batches, the newest first."""
        after: Mapping[str, Any] | None = {}
        while after is not None:
            with self.errors():
                page = self._json("get", self._home, options={"params": {**self._first_page, **after}})
                records, after = self._page(page)
                listed = [self._read(each) for each in records]
            yield from listed

    def create(self, order: Order) -> RemoteBatch:
        """Order a batch, once; a `TransientError` that was `sent` may have been accepted."""
        path, sent = self._order(order)
        with self.errors():
            return self._read(self._json("post", path, once=True, **sent))

    def cancel(self, batch_id: str) -> RemoteBatch:
        """Cancel a batch; what it has answered by then can still be fetched."""
        with self.errors():
            return self._read(self._json("post", f"{self._home}/{batch_id}/cancel"))

    def retrieve(self, batch_id: str) -> RemoteBatch:
        """Return the current state of a batch."""
        with self.errors():
            return self._read(self._json("get", f"{self._home}/{batch_id}"))

    @abstractmethod
    def upload(self, part: Part, file: IO[bytes]) -> str | None:
        """Upload a file of requests, and return its id; None if a file goes along with its order."""

    @abstractmethod
    def _order(self, order: Order) -> tuple[str, dict[str, Any]]:
        """Return the path and the options of the request that orders a batch."""

    @abstractmethod
    def _page(self, page: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any] | None]:
        """Return the batches on a page of the list, and the query of the next page; None if it is the last."""

    @abstractmethod
    def _read(self, known: Mapping[str, Any]) -> RemoteBatch:
        """Read the server's record of a batch; raises what `errors` turns into a `TransientError`."""

    @abstractmethod
    def _place(self, file_id: str) -> str:
        """Return the path from which a file is downloaded."""

    def __init__(
        self,
        address: endpoint.Address,
        *,
        model: str = "",
        timeout: float = 600.0,
        key_env: str = "OPENAI_API_KEY",
        key_command: Sequence[str] = (),
        key_header: str = "authorization",
        keyless: bool = False,
    ) -> None:
        import openai

        self.model = model
        self._address = address
        self._command = of_words(tuple(key_command)) if key_command else None
        self._printed = time.monotonic()
        read = self._command.key if self._command else lambda: endpoint.read_key(key_env, self._address, keyless)
        self._header = key_header
        self._use(read())
        self._timeout = timeout
        wait = openai.Timeout(timeout, connect=30)
        hooks: Any = {"request": [self._sign], "response": [self._bound]}
        sent = {"Accept-Encoding": "identity", **self._headers}
        self._http = http = openai.DefaultHttpxClient(
            timeout=wait, follow_redirects=False, event_hooks=hooks, headers=sent
        )
        self._client = openai.OpenAI(
            api_key="none",  # `_sign` puts the key in
            base_url=self._address.url,
            timeout=wait,
            max_retries=4,
            default_headers=sent,
            http_client=http,
        )
        # What is asked of the server may be asked again, but for the one call that orders work.
        self._once = self._client.with_options(max_retries=0)

    def close(self) -> None:
        """Close connections."""
        self._client.close()

    def download(self, file_id: str, path: Path) -> None:
        """Download a file, in one step, without the key where the server repeats it."""
        tries = Retrying(
            stop=stop_after_attempt(5),
            wait=wait_random_exponential(max=8),
            retry=retry_if_exception_type(TransientError),
            reraise=True,
        )
        tries(self._download, self._address.under(self._place(file_id)), path)

    def _download(self, url: str, path: Path) -> None:
        with (
            replacing(path) as file,
            self.errors(),
            self._http.stream("GET", url, params=self._download_query or None) as response,
        ):
            if not response.is_success:
                self._refused(response.status_code, response.read(), response.headers)
            rest = b""
            for piece in response.iter_bytes(1 << 20):
                # What may be the beginning of a key waits for the next piece.
                data = self.scrub.reply((rest + piece).decode("latin-1")).encode("latin-1")
                file.write(data[:-_LONGEST_KEY])
                rest = data[-_LONGEST_KEY:]
            file.write(rest)

    def _json(self, method: str, path: str, *, once: bool = False, **options: Any) -> dict[str, Any]:
        """Call the server; raises `ValueError` unless the reply is an object. `options` are those of a request."""
        client: Any = self._once if once else self._client
        reply = getattr(client, method)(path, cast_to=object, **options)
        if isinstance(reply, str):  # JSON that is not called so
            reply = read_json(reply.encode("utf-8", "surrogatepass"))
        if not isinstance(reply, dict):
            raise ValueError("no object")
        return reply

    def sound(self, **fields: Any) -> RemoteBatch:
        """Make a batch of a server's values; raises `ValueError` if one is odd or contains the key."""
        for name, value in fields.items():
            kinds = _KINDS.get(name, (str, NoneType))
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise ValueError(f"a batch with an odd field {name!r}")
            if isinstance(value, str) and name != "message":
                self.without_key(value).encode()  # half a character can be written to no file
            if value is not None and name.endswith("id") and not _IDENT.fullmatch(value):
                raise ValueError(f"a batch with an odd field {name!r}")
        made = RemoteBatch(**fields)
        return replace(made, message=beginning(made.message, self.scrub))

    def without_key(self, text: Any) -> str:
        """Return a text that is stored and shown; raises `ValueError` if the server put the key into it."""
        if not isinstance(text, str) or self.scrub.reply(text) != text:
            raise ValueError("a name that is not a text, or contains the key")
        return text

    def _use(self, key: str) -> None:
        self._key = key
        self.scrub = Scrubber(key, self._address.secrets)

    def _sign(self, request: Any) -> None:
        """Put the key into a request, in the place that this server reads."""
        request.headers.pop("authorization", None)
        if self._address.authorization is not None:
            request.headers["authorization"] = self._address.authorization
        elif self._header == "authorization":
            request.headers["authorization"] = f"Bearer {self._key}"
        else:
            request.headers[self._header] = self._key

    def _bound(self, response: Any) -> None:
        """Limit the size and the time of a response; a file is streamed to the disk without a limit."""
        place, until = self._address.public, time.monotonic() + self._timeout
        if is_packed(response.headers, place):
            raise CallError(f"{place} sent gzip, which was not asked for")
        if response.is_success and response.request.url.path.endswith(self._streamed):
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
        self._use(self._command.renewed(self._key))
        self._printed = time.monotonic()

    def _refused(self, status: int, body: Any, headers: Any) -> NoReturn:
        place, scrub = self._address.public, self.scrub
        if status == 404:
            error = body.get("error") if isinstance(body, dict) else None
            message = error.get("message") if isinstance(error, dict) else body
            raise RefusedError(f"{place} does not have it (any more): {beginning(message, scrub)}") from None
        try:
            raise_failure(status, body, headers, place, scrub)
        except Declined as declined:
            raise RefusedError(declined.error.detail) from None

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn the SDK's errors into those of this package, without a key."""
        import openai

        self._renew()
        place, scrub = self._address.public, self.scrub
        try:
            yield
        except CallError as ours:
            raise scrub.error(ours) from None
        except openai.APIStatusError as error:
            self._refused(error.status_code, error.body if error.body is not None else "", error.response.headers)
        except openai.APIError as error:
            if isinstance(error.__cause__, CallError):  # raised by `_bound`, which the SDK cannot know
                raise scrub.error(error.__cause__) from None
            raise endpoint.unreachable(error, self._timeout, place, scrub) from None
        except (
            openai.OpenAIError,
            ValueError,
            TypeError,
            AttributeError,
            ArithmeticError,
            LookupError,
            RecursionError,
        ) as error:
            message = scrub(" ".join(str(error).split()))[:300]
            raise TransientError(f"{place} sent what cannot be read: {message}", kind="body") from None
        except Exception as error:
            # A connection that is lost while a file streams raises the HTTP library's own error.
            if type(error).__module__.partition(".")[0] in ("httpx", "httpx2", "httpcore", "httpcore2"):
                raise endpoint.unreachable(error, self._timeout, place, scrub) from None
            raise


_IDENT = re.compile(r"(\w+/)?[\w-][\w.-]{0,199}")
_KINDS: Mapping[str, tuple[type, ...]] = {
    "id": (str,), "status": (str,), "mark": (dict, NoneType), "requests": (int,), "completed": (int,),
    "failed": (int,), "created": (int, float), "message": (str, NoneType),
}  # fmt: skip
_LONGEST_KEY = 4096  # characters
_FRESH = 600.0  # seconds for which a key is used whose end is not known
