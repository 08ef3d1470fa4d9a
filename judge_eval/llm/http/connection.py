"""Posts bodies to one address: over aiohttp alone where it is installed, else over the SDK's HTTP client."""

import asyncio
import logging
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies

from judge_eval.errors import needs_extra
from judge_eval.llm.http.bounded import ASKED_CODING, Received, read_whole
from judge_eval.llm.http.cloud_credentials import AwsSigner
from judge_eval.llm.http.secrets import Scrubber

Transport: TypeAlias = Literal["auto", "httpx", "aiohttp"]
"""The HTTP library: `aiohttp`, of the extra `fast`, takes less CPU than `httpx`; `auto` prefers it."""
_CONNECT = 30.0  # seconds in which a connection must stand
_KEPT = 60.0  # seconds for which an idle connection is kept
_PIECE = 2**19
"""Bytes of a body that are handed over at once."""
_OF_ORGANISATION = {"OPENAI_ORG_ID": "openai-organization", "OPENAI_PROJECT_ID": "openai-project"}


@dataclass(frozen=True)
class Endpoint:
    """Where bodies are posted, and how."""

    url: str
    place: str
    """The address as it may be shown."""
    key_header: str
    """The header that carries the key, as `Bearer KEY` if it is `authorization`."""
    headers: Mapping[str, str]
    """What each request carries besides."""
    authorization: str | None
    """What stands in the place of the key, from user name and password."""
    secrets: tuple[str, ...]
    calls: int
    """The most calls in flight."""
    timeout: float
    """Seconds one call may take."""
    most: int
    """The most bytes of a reply."""
    signer: AwsSigner | None = None
    """What signs each request, in the place of a key."""


class Connection(ABC):
    """Connections to one address, for one event loop; each call keeps its own until the reply is read."""

    def __init__(self, endpoint: Endpoint, key: str) -> None:
        self._endpoint = endpoint
        of_user = {name: value for variable, name in _OF_ORGANISATION.items() if (value := os.environ.get(variable))}
        self._headers = {
            "accept": "application/json",
            "accept-encoding": ASKED_CODING,
            "content-type": "application/json",
            "user-agent": f"AsyncOpenAI/Python {version('openai')}",
            **of_user,
            **endpoint.headers,
        }
        self.use(key)

    def use(self, key: str) -> None:
        """Send this key from now on, unless user name and password stand in its place."""
        self.key, header = key, self._endpoint.key_header
        self._headers[header] = f"Bearer {key}" if header == "authorization" else key
        if self._endpoint.authorization is not None:
            self._headers["authorization"] = self._endpoint.authorization

    def _headers_of(self, content: bytes) -> dict[str, str]:
        signer = self._endpoint.signer
        return self._headers if signer is None else signer.headers(self._endpoint.url, content, self._headers)

    @abstractmethod
    async def post(self, content: bytes) -> Received:
        """Send a body and read the reply, whatever its status; raises as `read_whole`, or what the library raises."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections."""


class SdkConnection(Connection):
    """Connections of the HTTP client that the SDK comes with."""

    def __init__(self, endpoint: Endpoint, key: str) -> None:
        import openai

        super().__init__(endpoint, key)
        # The SDK's own limits keep 100 connections alive; their class belongs to the HTTP library it runs on.
        limits: Any = type(openai.DEFAULT_CONNECTION_LIMITS)(
            max_connections=endpoint.calls, max_keepalive_connections=endpoint.calls, keepalive_expiry=_KEPT
        )
        wait = openai.Timeout(endpoint.timeout, connect=min(_CONNECT, endpoint.timeout))
        self._http: Any = openai.DefaultAsyncHttpxClient(limits=limits, timeout=wait, follow_redirects=False)
        self._url = self._http.build_request("POST", endpoint.url).url
        self._log = logging.getLogger(_library())
        self._clean = Scrubber(key, endpoint.secrets).log_record
        if urlsplit(endpoint.url).query:  # the library logs each URL whole
            self._log.addFilter(self._clean)

    async def post(self, content: bytes) -> Received:
        """Send a body and read the reply."""
        sent, headers = _pieces(content, self._headers_of(content))
        request = self._http.build_request("POST", self._url, content=sent, headers=headers)
        response = await self._http.send(request, stream=True)
        try:
            async with aclosing(response.aiter_raw()) as parts:
                body = await read_whole(parts, response.headers, self._endpoint.most, self._endpoint.place)
        finally:
            await response.aclose()
        return Received(response.status_code, response.headers, body)

    async def aclose(self) -> None:
        """Close the connections."""
        self._log.removeFilter(self._clean)
        await self._http.aclose()


class AiohttpConnection(Connection):
    """Connections of aiohttp: no cookie is kept, nothing is unpacked, and no proxy is used.

    A call takes one of aiohttp's connections and reads by its parser. Its session, which makes objects and a task
    of each request, is passed over: it takes half of the time.
    """

    def __init__(self, endpoint: Endpoint, key: str) -> None:
        import aiohttp
        from yarl import URL

        super().__init__(endpoint, key)
        url = URL(endpoint.url, encoded=True)
        tls: Any = True
        if url.scheme == "https":  # with the certificates that the SDK's HTTP library trusts
            tls = sys.modules[_library()].create_ssl_context()
        self._connector = aiohttp.TCPConnector(limit=endpoint.calls, keepalive_timeout=_KEPT, ssl=tls)
        self._request = aiohttp.ClientRequest("POST", url, loop=asyncio.get_running_loop())
        self._wait = aiohttp.ClientTimeout(total=None, sock_connect=min(_CONNECT, endpoint.timeout))

    def use(self, key: str) -> None:
        """Send this key from now on."""
        super().use(key)
        self._head = b""

    async def post(self, content: bytes) -> Received:
        """Send a body and read the reply."""
        headers = self._headers_of(content)
        head = self._head or self._written(headers)
        if headers is self._headers:
            self._head = head
        try:
            connection = await self._connector.connect(self._request, [], self._wait)
        except TimeoutError as error:
            raise self._too_late() from error
        try:
            protocol, transport = connection.protocol, connection.transport
            assert protocol is not None
            assert transport is not None
            protocol.set_response_params(read_until_eof=True, auto_decompress=False)
            transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(content), content))
            message, payload = await protocol.read()
            while 100 <= message.code < 200 and message.code != 101:
                message, payload = await protocol.read()
            body = await read_whole(payload.iter_any(), message.headers, self._endpoint.most, self._endpoint.place)
            if transport.get_write_buffer_size():  # the server answered before it had read everything
                connection.close()
        except BaseException:
            connection.close()
            raise
        connection.release()
        return Received(message.code, message.headers, body)

    def _written(self, headers: Mapping[str, str]) -> bytes:
        """Write the head of a request but the length of its body."""
        own = {"host": self._request.headers["host"], **{name.lower(): value for name, value in headers.items()}}
        lines = [f"POST {self._request.url.raw_path_qs} HTTP/1.1", *(f"{name}: {own[name]}" for name in own)]
        if not all(line.isprintable() for line in lines):
            raise ValueError("a header of the request holds a line break or another character that is not allowed")
        return "".join(f"{line}\r\n" for line in lines).encode()

    def _too_late(self) -> Exception:
        import aiohttp

        return aiohttp.ConnectionTimeoutError(f"no connection to {self._endpoint.place}")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connector.close()


def open_connection(endpoint: Endpoint, key: str, transport: Transport) -> Connection:
    """Make the connections; where the environment names a proxy, which aiohttp alone does not know, the SDK's."""
    # A call uses connections of aiohttp that only its third version has.
    fast = transport != "httpx" and find_spec("aiohttp") is not None and version("aiohttp").startswith("3.")
    if transport == "aiohttp" and not fast:
        raise needs_extra("the transport 'aiohttp' needs its package, version 3", "fast")
    proxies = getproxies()
    if fast and not (proxies.get(urlsplit(endpoint.url).scheme) or proxies.get("all")):
        return AiohttpConnection(endpoint, key)
    return SdkConnection(endpoint, key)


def _library() -> str:
    """Name the HTTP library that the SDK runs on, which is loaded then."""
    import openai

    return type(openai.DEFAULT_CONNECTION_LIMITS).__module__.partition(".")[0]


def _pieces(content: bytes, headers: dict[str, str]) -> tuple[Any, dict[str, str]]:
    """Return a large body in pieces: one library warns of others, and its users may have made that an error."""

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(content), _PIECE):
            yield content[start : start + _PIECE]

    if len(content) <= _PIECE:
        return content, headers
    return pieces(), {**headers, "content-length": str(len(content))}
