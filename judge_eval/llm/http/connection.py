"""Posts bodies to one address over aiohttp."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from ssl import SSLContext
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from judge_eval.errors import ConfigError
from judge_eval.llm.http.bounded import ASKED_CODING, Received, read_whole
from judge_eval.llm.http.cloud_credentials import AwsSigner

if TYPE_CHECKING:
    import aiohttp

_CONNECT = 30.0  # seconds in which a connection must stand
_KEPT = 60.0  # seconds for which an idle connection is kept
_EVER = 1e8
_PIECE = 2**19
"""Bytes of a body above which it is sent in pieces."""


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
    concurrency: int
    """The most calls in flight."""
    timeout: float
    """Seconds one call may take."""
    max_reply: int
    """The most bytes of a reply."""
    signer: AwsSigner | None = None
    """What signs each request, in the place of a key."""


class Connection:
    """Connections to one address, for one event loop: no cookie is kept, nothing is unpacked, no redirect followed.

    Those that nobody closes are closed when the loop shuts down, or when nothing refers to them any more.
    """

    def __init__(self, endpoint: Endpoint, key: str) -> None:
        import aiohttp
        from yarl import URL

        self._endpoint = endpoint
        self._headers = {
            "accept": "application/json",
            "accept-encoding": ASKED_CODING,
            "content-type": "application/json",
            **endpoint.headers,
        }
        self._yarl, self._url = URL, URL(endpoint.url, encoded=True)
        self._proxy = proxy_of(endpoint.url)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=endpoint.concurrency,
                keepalive_timeout=_KEPT,
                ssl=trusted_certificates() if self._url.scheme == "https" else True,
            ),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(_CONNECT, endpoint.timeout)),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        self._life = _until_closed(self._session)
        self._begun = False
        self.use(key)

    def use(self, key: str) -> None:
        """Send this key from now on, unless user name and password stand in its place."""
        self.key, header = key, self._endpoint.key_header
        self._headers[header] = f"Bearer {key}" if header == "authorization" else key
        if self._endpoint.authorization is not None:
            self._headers["authorization"] = self._endpoint.authorization

    async def post(self, content: bytes, url: str = "") -> Received:
        """Send a body to the address, or to another URL of its host, and read the reply, whatever its status.

        Raises as `read_whole`, or what aiohttp raises.
        """
        if not self._begun:
            self._begun = True
            await anext(self._life)
        signer = self._endpoint.signer
        headers = self._headers if signer is None else signer.headers(url or self._endpoint.url, content, self._headers)
        response = await self._session.post(
            self._yarl(url, encoded=True) if url else self._url,
            data=content if len(content) <= _PIECE else BytesIO(content),  # aiohttp warns of large bodies of bytes
            headers=headers,
            allow_redirects=False,
            proxy=self._proxy,
        )
        try:
            parts = response.content.iter_any()
            body = await read_whole(
                parts, response.headers, self._endpoint.max_reply, self._endpoint.place, paid=response.ok
            )
        except BaseException:
            response.close()
            raise
        response.release()
        return Received(response.status, response.headers, body)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._life.aclose()
        await self._session.close()


async def _until_closed(session: aiohttp.ClientSession) -> AsyncGenerator[None, None]:
    """Close a session when this generator ends.

    An event loop ends its async generators when it shuts down, as `asyncio.run` has it do, and each that is garbage.
    """
    # The loop holds the session meanwhile: if both were garbage at once, the session would end first, in any thread.
    held = asyncio.get_running_loop().call_later(_EVER, id, session)
    try:
        yield
    finally:
        held.cancel()
        await session.close()


def proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for an address; None if there is none.

    aiohttp's own `trust_env` would look it up in a thread for each call, and send what `~/.netrc` holds.
    """
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.netloc):
        return None
    scheme = urlsplit(proxy).scheme
    if scheme not in ("http", "https"):
        raise ConfigError(f"a proxy of the scheme {scheme!r} is not supported; name one that starts with http://")
    return proxy


def trusted_certificates() -> SSLContext:
    """Trust what the SDK's HTTP library trusts: `SSL_CERT_FILE`, `SSL_CERT_DIR`, else the system's certificates."""
    library = "httpx2" if find_spec("httpx2") else "httpx"
    context: SSLContext = import_module(library).create_ssl_context()
    return context
