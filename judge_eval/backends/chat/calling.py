"""Calls to one address of one server: a body out, a reply in, whatever goes wrong on the way named."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypedDict
from weakref import WeakKeyDictionary

from judge_eval.backends.around.quota import RateSignal
from judge_eval.backends.base import Identity
from judge_eval.backends.chat import endpoint
from judge_eval.backends.chat.headers import rate_signal
from judge_eval.backends.chat.receiving import MOST_BYTES, Received
from judge_eval.backends.chat.secrets import Scrubber
from judge_eval.digest import canonical_json
from judge_eval.errors import CallError, ConfigError

_CONNECT = 30.0

Transport: TypeAlias = Literal["auto", "httpx", "aiohttp"]
"""Over which library calls go: `aiohttp` takes less CPU than `httpx` and needs the extra `fast`; `auto` takes
it where it is installed."""


class CallerOptions(TypedDict, total=False):
    """How a server is called, as `Caller` takes it."""

    base_url: str | None
    """Where the server is, as in `https://host/v1`; else `OPENAI_BASE_URL`, else OpenAI's."""
    timeout: float
    """Seconds one call may take in all, > 0; 120 unless given."""
    concurrency: int
    """The most calls in flight, for which connections are kept, >= 1; 256 unless given."""
    transport: Transport
    """Over which library; `auto` unless given."""
    key_variable: str
    """The environment variable that holds the key, read at the first call; `OPENAI_API_KEY` unless given."""
    max_reply: int
    """The most bytes that are read of one reply, compressed or not, > 0; a larger one is an error of its
    call."""


def address_of(base_url: str | None) -> endpoint.Address:
    """Return the address of the server that is called: the one given, else `OPENAI_BASE_URL`, else OpenAI's.

    Raises:
        ConfigError: It cannot be used.
    """
    return endpoint.Address.parse(base_url or os.environ.get("OPENAI_BASE_URL") or endpoint.DEFAULT)


class Caller:
    """Posts bodies to one address of a server, without retries.

    Args:
        path: Under the base URL, such as `/chat/completions`.
        base_url: This and all others as `CallerOptions` says.

    Raises:
        ConfigError: An argument or the base URL cannot be used.
    """

    def __init__(
        self,
        path: str,
        *,
        base_url: str | None = None,
        timeout: float = 120.0,
        concurrency: int = 256,
        transport: Transport = "auto",
        key_variable: str = "OPENAI_API_KEY",
        max_reply: int = MOST_BYTES,
    ) -> None:
        if not timeout > 0 or concurrency < 1 or max_reply < 1:
            given = f"{timeout}, {concurrency} and {max_reply}"
            raise ConfigError(f"timeout, concurrency and max_reply must be above 0, not {given}")
        if transport not in ("auto", "httpx", "aiohttp"):
            raise ConfigError(f"no transport {transport!r}; known: aiohttp, auto, httpx")
        self._address, self._path = address_of(base_url), path
        self._timeout, self._concurrency = timeout, concurrency
        self._transport, self._key_variable, self._max_reply = transport, key_variable, max_reply
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, endpoint.Line] = WeakKeyDictionary()
        self.listener: Callable[[RateSignal], None] | None = None
        """Told what the server advertises of its limits."""

    @property
    def place(self) -> str:
        """The server's address as it may be shown."""
        return self._address.public

    def scope(self, model: str) -> str:
        """Return the name of a model's quota: a digest of base URL, key and model."""
        key = os.environ.get(self._key_variable, "")
        parts = (self.place, hashlib.sha256(key.encode("utf-8", "replace")).hexdigest())
        return hashlib.sha256(canonical_json([*parts, model]).encode()).hexdigest()

    def check(self) -> None:
        """Make sure that a call can be made, as far as that can be known without one.

        Raises:
            ConfigError: The key is missing or cannot be sent; the message says which.
        """
        endpoint.read_key(self._key_variable, self._address)

    @cached_property
    def scrub(self) -> Scrubber:
        """What keeps the key out of replies; where they come from files, it may be missing."""
        return Scrubber(os.environ.get(self._key_variable, "").strip(), self._address.secrets)

    async def post(self, body: bytes) -> Received:
        """Send a body and read the reply, whatever its status.

        Raises:
            ConfigError: The key is missing, or the transport is not installed.
            CallError: No reply came in time, or none that could be read.
        """
        line = self._line()
        try:
            async with asyncio.timeout(self._timeout):
                received = await line.post(body)
        except CallError:
            raise
        except TimeoutError:
            raise endpoint.timed_out(self._timeout, self.place) from None
        except Exception as error:  # no list holds all that two HTTP libraries raise over odd bytes
            raise endpoint.unreachable(error, self._timeout, self.place, self.scrub) from None
        if self.listener is not None and (signal := rate_signal(received.headers)) is not None:
            self.listener(signal)
        return received

    async def aclose(self) -> None:
        """Close the connections of this event loop; a later call opens new ones."""
        line = self._lines.pop(asyncio.get_running_loop(), None)
        if line is not None:
            await line.aclose()

    def _line(self) -> endpoint.Line:
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            key = endpoint.read_key(self._key_variable, self._address)
            self.__dict__["scrub"] = Scrubber(key, self._address.secrets)
            line = self._lines[loop] = endpoint.Line(
                self._address,
                self._path,
                key,
                self._timeout,
                min(_CONNECT, self._timeout),
                self._concurrency,
                self._transport,
                self._max_reply,
            )
        return line


class CallingBackend:
    """What backends over one `Caller` share: their quota, the check before a call, the end of connections."""

    identity: Identity
    """Provider, model, public base URL and every parameter asked for."""
    _caller: Caller

    @property
    def listener(self) -> Callable[[RateSignal], None] | None:
        """Told what the server advertises of its limits."""
        return self._caller.listener

    @listener.setter
    def listener(self, tell: Callable[[RateSignal], None] | None) -> None:
        self._caller.listener = tell

    @property
    def scope(self) -> str:
        """The name of the quota: a digest of base URL, key and model."""
        return self._caller.scope(self.identity.model)

    def check(self) -> None:
        """Make sure that a call can be made, as far as that can be known without one.

        Raises:
            ConfigError: The key is missing or cannot be sent; the message says which.
        """
        self._caller.check()

    async def aclose(self) -> None:
        """Close the connections of this event loop; a later call opens new ones."""
        await self._caller.aclose()


def identified(provider: str, model: str, place: str, params: Mapping[str, Any]) -> Identity:
    """Say who is asked, by what is sent.

    Raises:
        ConfigError: No model is named.
    """
    if not model.strip():
        raise ConfigError(f"no model is named; write --model {provider}/<name>")
    return Identity(
        provider, model, place, tuple(sorted((name, canonical_json(value)) for name, value in params.items()))
    )
