"""Where a chat server is and how it is reached: address, key and client."""

from __future__ import annotations

import ipaddress
import logging
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from judge_eval.backends.chat.receiving import ASKED_CODING, Received, receive
from judge_eval.backends.chat.secrets import Scrubber, credentials_in
from judge_eval.errors import ConfigError, TransientError, needs_extra
from judge_eval.urls import reads_one_way

DEFAULT = "https://api.openai.com/v1"
_PORTS = {"http": 80, "https": 443}
_PIECE = 2**19
"""Bytes of a body that are handed over at once."""
_NOT_SENT = {
    "ConnectError", "ConnectTimeout", "PoolTimeout", "ClientConnectorError", "ClientConnectorDNSError",
    "ClientConnectorCertificateError", "ClientConnectorSSLError", "ConnectionTimeoutError",
    "ConnectionRefusedError", "gaierror", "UnsupportedProtocol", "LocalProtocolError",
}  # fmt: skip
_SENT = {"ClientOSError", "ServerDisconnectedError", "ConnectionResetError", "BrokenPipeError"}
"""Found in the chain, these mean that a connection stood; one transport reports them as failed connecting."""


@dataclass(frozen=True)
class Address:
    """A base URL: the one that is called, and the one that may be shown."""

    url: str = field(repr=False)
    """As given, without user name and password."""
    public: str
    """Lower-case host, no default port, no credentials, no query, no slash at the end."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Credentials and values of the query, never to be shown."""
    loopback: bool = False
    authorization: str | None = field(default=None, repr=False)
    """The header that carries user name and password, which stands in the place of the key's."""

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read a base URL.

        Raises:
            ConfigError: It is not an http or https URL, or one in which readers find different credentials.
        """
        if not reads_one_way(url):
            raise ConfigError(
                "the base URL can be read in more than one way; write %40 for @ where no credentials end"
            )
        try:
            parts = urlsplit(url.strip())
            port = parts.port
        except ValueError:
            raise ConfigError("the base URL cannot be read; write it as in https://host/v1") from None
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ConfigError("the base URL must start with http:// or https://, as in https://host/v1")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        netloc = host if port in (None, _PORTS[parts.scheme]) else f"{host}:{port}"
        public = f"{parts.scheme}://{netloc}{parts.path.rstrip('/')}"
        who = credentials_in(url.strip())
        if who is not None and not all(who[:2]):
            raise ConfigError(
                "the base URL holds a user name or a password alone; write both, as in "
                "https://user:password@host/v1, or set the key in the environment"
            )
        secrets = [text for text in (*(who or ()), parts.username, parts.password) if text]
        secrets += [who[2].partition(" ")[2]] if who else []
        secrets += [value for _, value in parse_qsl(parts.query) if len(value) > 3]
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        header = who[2] if who else None
        return cls(bare, public, tuple(dict.fromkeys(secrets)), _is_loopback(parts.hostname), header)

    def under(self, path: str) -> str:
        """Return the URL of a path under the base URL, whose query is kept."""
        parts = urlsplit(self.url)
        return parts._replace(path=parts.path.rstrip("/") + path).geturl()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_key(variable: str, address: Address) -> str:
    """Read the key from the environment.

    A server on this machine may do without, and one that is sent a password: a word stands in its place.

    Raises:
        ConfigError: It is missing or cannot be sent in a header.
    """
    key = os.environ.get(variable, "").strip()
    if not key:
        if address.loopback or address.authorization:
            return "none"
        raise ConfigError(f"no key: set the environment variable {variable} to the key for {address.public}")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"the key in {variable} contains characters that no key has; set it again")
    return key


class Line:
    """A line to one server: the SDK's client and its HTTP connections, for one event loop.

    Requests go out over the SDK's HTTP client with the SDK's headers, but not through its methods: so a
    call takes 0.13 ms of CPU here, 0.73 through the SDK's `post` and 2.4 through `chat.completions.create`.
    Retrying, which they add, is done elsewhere.

    Args:
        address: The server.
        path: Where requests go, under its base URL.
        key: The key.
        timeout: Seconds to wait for a reply.
        connect: Seconds to wait for a connection.
        concurrency: The most calls in flight; each keeps its connection.
        transport: `httpx`, `aiohttp`, or `auto`, which takes the latter where it is installed.
        most: The most bytes of a reply that are read.

    Raises:
        ConfigError: The transport's package is not installed.
    """

    def __init__(
        self,
        address: Address,
        path: str,
        key: str,
        timeout: float,
        connect: float,
        concurrency: int,
        transport: str,
        most: int,
    ) -> None:
        import openai

        # The SDK's own limits keep 100 connections alive; their class belongs to the HTTP library it runs on.
        limits: Any = type(openai.DEFAULT_CONNECTION_LIMITS)(
            max_connections=concurrency, max_keepalive_connections=concurrency, keepalive_expiry=60.0
        )
        wait = openai.Timeout(timeout, connect=connect)
        options: dict[str, Any] = {"limits": limits, "timeout": wait, "follow_redirects": False}
        try:
            http = (
                openai.DefaultAsyncHttpxClient(**options)
                if transport == "httpx"
                else openai.DefaultAioHttpClient(**options)
            )
        except RuntimeError:  # its package is not installed
            if transport == "aiohttp":
                raise needs_extra("the transport 'aiohttp' needs its package", "fast") from None
            http = openai.DefaultAsyncHttpxClient(**options)
        self._client = openai.AsyncOpenAI(
            api_key=key, base_url=address.url, max_retries=0, timeout=wait, http_client=http
        )
        sent = {**self._client.default_headers, **self._client.auth_headers}
        # Not what the SDK tells of this machine and its retries: the call does without, in less time.
        told = {name for name in sent if name.lower().startswith("x-stainless-")}
        http.headers.update({n: v for n, v in sent.items() if isinstance(v, str) and n not in told})
        http.headers["accept-encoding"] = ASKED_CODING
        if address.authorization is not None:
            http.headers["authorization"] = address.authorization
        self._http: Any = http
        self._url = http.build_request("POST", address.under(path)).url
        self._most, self._place = most, address.public
        library = next(kind.__module__ for kind in type(http).__mro__ if kind.__name__ == "AsyncClient")
        self._log = logging.getLogger(library.partition(".")[0])
        self._clean = Scrubber(key, address.secrets).log_record
        if urlsplit(address.url).query:  # the library logs each URL whole
            self._log.addFilter(self._clean)

    async def post(self, content: bytes) -> Received:
        """Send a body and read the reply, whatever its status.

        Raises:
            CallError: The reply is too large, or in a coding that was not asked for.
            Exception: Whatever the HTTP library raises where no reply comes, or an odd one.
        """
        sent: Any = content
        headers = {}
        if len(content) > _PIECE:  # a warning of one library, which its users may have turned into errors
            sent, headers = _pieces(content), {"content-length": str(len(content))}
        request = self._http.build_request("POST", self._url, content=sent, headers=headers)
        response = await self._http.send(request, stream=True)
        return await receive(response, self._most, self._place)

    async def aclose(self) -> None:
        """Close the connections."""
        self._log.removeFilter(self._clean)
        await self._client.close()


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), _PIECE):
        yield content[start : start + _PIECE]


def timed_out(timeout: float, place: str) -> TransientError:
    """Make the error of a call that took too long."""
    return TransientError(f"no answer from {place} within {timeout:g} s", kind="timeout")


def unreachable(
    error: BaseException, timeout: float, place: str, scrub: Callable[[str], str]
) -> TransientError:
    """Make the error of a call without a reply.

    Whether the request was sent is read from the chain of causes: one transport reports a refused
    connection as a timeout.
    """
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    names = [name for link in chain for name in (klass.__name__ for klass in type(link).__mro__)]
    stood = _SENT.intersection(type(link).__name__ for link in chain)
    sent = bool(stood) or not _NOT_SENT.intersection(names)
    innermost = scrub(" ".join(next((str(link) for link in reversed(chain) if str(link)), "").split()))
    innermost = innermost.encode("utf-8", "replace").decode()  # no file holds a lone surrogate
    if sent and not stood and any("Timeout" in name for name in names):
        return timed_out(timeout, place)
    what = "connection lost" if sent else "cannot connect"
    return TransientError(
        f"{what}: {place}: {innermost[:200] or type(chain[-1]).__name__}", kind="connection", sent=sent
    )
