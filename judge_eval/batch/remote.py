"""The Files and Batches API of a server, through the SDK."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judge_eval.backends.chat import endpoint
from judge_eval.backends.chat.replies import Declined, raise_failure
from judge_eval.errors import CallError, FatalCallError, RefusedError, TransientError
from judge_eval.files import replacing

if TYPE_CHECKING:
    from openai.types import Batch


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
        self._scrub = endpoint.Scrubber(key, self._address)
        self._timeout = timeout
        # What is asked of the server may be asked again, but for the one call that orders work.
        self._client = openai.OpenAI(
            api_key=key,
            base_url=self._address.url,
            timeout=openai.Timeout(timeout, connect=30),
            max_retries=4,
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
            return [one for one in self._client.batches.list(limit=100) if wanted(one.metadata or {})]

    def upload(self, path: Path) -> str:
        """Bring a file of requests to the server, and return its id there."""
        with self._errors(), path.open("rb") as file:
            return self._client.files.create(file=(path.name, file), purpose="batch").id

    def create(self, file_id: str, metadata: dict[str, str]) -> Batch:
        """Order the work on a file, once.

        Where the answer is lost, the batch is looked for by its metadata.

        Raises:
            TransientError: Whether the server took the order is not known.
        """
        try:
            with self._errors():
                return self._once.batches.create(
                    completion_window="24h",
                    endpoint="/v1/chat/completions",
                    input_file_id=file_id,
                    metadata=metadata,
                )
        except TransientError as error:
            if not error.sent:
                raise
            for wait in (0.2, 1.0, 3.0):
                time.sleep(wait)
                with suppress(TransientError):
                    if batches := self.find(metadata.__eq__):
                        return batches[0]
            raise

    def retrieve(self, batch_id: str) -> Batch:
        """Ask how far a batch is."""
        with self._errors():
            return self._client.batches.retrieve(batch_id)

    def download(self, file_id: str, path: Path) -> None:
        """Write a file of the server to a path, in one step."""
        with (
            replacing(path) as file,
            self._errors(),
            self._client.files.with_streaming_response.content(file_id) as response,
        ):
            file.writelines(response.iter_bytes(1 << 20))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn the SDK's errors into this package's, without a key in them."""
        import openai

        place = self._address.public
        try:
            yield
        except openai.NotFoundError as error:
            raise RefusedError(self._scrub(f"{place} does not have it (any more): {error.message}")) from None
        except openai.APIStatusError as error:
            body: Any = error.body if error.body is not None else ""
            try:
                raise_failure(error.status_code, body, error.response.headers, place)
            except Declined as declined:
                raise RefusedError(self._scrub(declined.error.detail)) from None
            except CallError as ours:
                raise self._scrub.error(ours) from None
            except FatalCallError as ours:
                raise FatalCallError(self._scrub(str(ours))) from None
        except openai.APIError as error:
            raise self._scrub.error(endpoint.unreachable(error, self._timeout, place)) from None
        except (openai.OpenAIError, ValueError) as error:
            raise TransientError(
                self._scrub(f"{place} sent what cannot be read: {error}"), kind="body"
            ) from None
        except Exception as error:
            # A connection that is lost while a file streams raises the HTTP library's own error.
            if type(error).__module__.partition(".")[0] in ("httpx", "httpx2", "httpcore", "httpcore2"):
                raise self._scrub.error(endpoint.unreachable(error, self._timeout, place)) from None
            raise
