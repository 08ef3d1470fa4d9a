"""The Files and Batches API of a server, through the SDK."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from judge_eval.backends.chat import endpoint
from judge_eval.backends.chat.failures import Declined, beginning, raise_failure
from judge_eval.backends.chat.receiving import MOST_BYTES, is_packed, too_large
from judge_eval.backends.chat.secrets import Scrubber
from judge_eval.errors import CallError, RefusedError, TransientError
from judge_eval.files import replacing

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
    """A server that judges files.

    Args:
        base_url: Where it is; None takes `OPENAI_BASE_URL`, else OpenAI's own.
        timeout: Seconds one call may take.
        key_variable: The environment variable that holds the key.

    Raises:
        ConfigError: The base URL or the key cannot be used.
    """

    def __init__(
        self, base_url: str | None, *, timeout: float = 600.0, key_variable: str = "OPENAI_API_KEY"
    ) -> None:
        import openai

        self._address = endpoint.Address.parse(
            base_url or os.environ.get("OPENAI_BASE_URL") or endpoint.DEFAULT
        )
        key = endpoint.read_key(key_variable, self._address)
        self._scrub = Scrubber(key, self._address.secrets)
        self._timeout = timeout
        # What is asked of the server may be asked again, but for the one call that orders work.
        headers = {"Accept-Encoding": "identity"}
        if self._address.authorization is not None:
            headers["Authorization"] = self._address.authorization
        wait = openai.Timeout(timeout, connect=30)
        http = openai.DefaultHttpxClient(
            timeout=wait, follow_redirects=False, event_hooks={"response": [self._bound]}
        )
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
        """Give back connections."""
        self._client.close()

    def find(self, wanted: Callable[[Mapping[str, str]], bool]) -> list[Batch]:
        """List the batches whose metadata are wanted, newest first.

        Raises:
            CallError: The server cannot be asked.
            FatalCallError: It does not know the key, or batches.
        """
        with self._errors():
            known = map(self._sound, self._client.batches.list(limit=100))
            return [one for one in known if wanted(one.metadata or {})]

    def upload(self, path: Path) -> str:
        """Bring a file of requests to the server, and return its id there."""
        with self._errors(), path.open("rb") as file:
            return self._client.files.create(file=(path.name, file), purpose="batch").id

    def create(self, file_id: str, metadata: dict[str, str]) -> Batch:
        """Order the work on a file, once.

        Raises:
            TransientError: The order was not taken; or, where it was `sent`, nobody knows whether it was.
        """
        with self._errors():
            return self._sound(
                self._once.batches.create(
                    completion_window="24h",
                    endpoint="/v1/chat/completions",
                    input_file_id=file_id,
                    metadata=metadata,
                )
            )

    def cancel(self, batch_id: str) -> Batch:
        """Have the server stop the work on a batch; what it has answered by then can still be fetched."""
        with self._errors():
            return self._sound(self._client.batches.cancel(batch_id))

    def retrieve(self, batch_id: str) -> Batch:
        """Ask how far a batch is."""
        with self._errors():
            return self._sound(self._client.batches.retrieve(batch_id))

    def download(self, file_id: str, path: Path) -> None:
        """Write a file of the server to a path, in one step."""
        with (
            replacing(path) as file,
            self._errors(),
            self._client.files.with_streaming_response.content(file_id) as response,
        ):
            file.writelines(response.iter_bytes(1 << 20))

    def _sound(self, batch: Batch) -> Batch:
        """See that what is used of a batch is of its kind, which the SDK does not; clean what it says.

        Raises:
            ValueError: It is not.
        """
        known: dict[str, Any] = batch.to_dict(warnings=False)
        for name, kinds in _USED.items():
            value = known.get(name)
            if not isinstance(value, kinds):
                raise ValueError(f"a batch with an odd field {name!r}")
            if isinstance(value, str):
                value.encode()  # half a character can be written to no file
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
        """Let no more be read of a response than a reply may hold, nor for longer than a call may take.

        The content of a file goes to the disk as it comes, however much it is.

        Raises:
            CallError: It is in a coding that was not asked for.
        """
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

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn the SDK's errors into this package's, without a key in them."""
        import openai

        place, scrub = self._address.public, self._scrub
        try:
            yield
        except CallError as ours:
            raise scrub.error(ours) from None
        except openai.NotFoundError as error:
            said = scrub(" ".join(error.message.split()))[:300]
            raise RefusedError(f"{place} does not have it (any more): {said}") from None
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
            said = scrub(" ".join(str(error).split()))[:300]
            raise TransientError(f"{place} sent what cannot be read: {said}", kind="body") from None
        except Exception as error:
            # A connection that is lost while a file streams raises the HTTP library's own error.
            if type(error).__module__.partition(".")[0] in ("httpx", "httpx2", "httpcore", "httpcore2"):
                raise endpoint.unreachable(error, self._timeout, place, scrub) from None
            raise
