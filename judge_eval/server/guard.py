"""What every request must pass: its host, its origin, its token, its size."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from judge_eval.server.settings import (
    PIECE_SECONDS,
    REQUESTS,
    SMALL_BODY,
    ServerSettings,
    is_loopback,
)

LARGE = ("/api/v1/runs", "/api/v1/runs/upload")
"""Paths that take traces or runs."""

OPEN = ("/api/v1/health",)
"""Paths of the API that need no token."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]


class Guard:
    """Answers requests that must not come in, and adds the headers that keep pages safe.

    The Host header is checked so that no foreign name can be pointed at this machine; the Origin header so
    that no other site's page can ask; the token in constant time; the size while it is being read.

    Args:
        app: What is guarded.
        settings: Of the server.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app, self._limit, self._active = app, settings.limits.body, 0
        self._token = settings.token.encode() if settings.token else None
        self._hosts = {settings.host.lower(), *(name.lower() for name in settings.allowed_hosts)}
        if is_loopback(settings.host):
            self._hosts |= {"localhost", "127.0.0.1", "::1"}
        self._any_address = settings.host in ("0.0.0.0", "::")  # noqa: S104  compared, not bound

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        headers = {name.lower(): value for name, value in scope["headers"]}
        refusal = self._refusal(scope["path"], headers)
        if refusal is not None:
            await _refused(*refusal)(scope, receive, safe)
            return
        if scope["method"] == "OPTIONS":
            allow = {"allow": ", ".join(_methods(scope))}
            await Response(status_code=204, headers=allow)(scope, receive, safe)
            return
        if scope["method"] == "HEAD":  # the answer to GET; the server sends its headers alone
            scope = {**scope, "method": "GET"}
        if self._active >= REQUESTS and scope["path"] not in OPEN:
            await _refused(503, "too many requests at once; try again later")(scope, receive, safe)
            return
        read, limit = 0, self._most(scope["path"])

        async def limited() -> Message:
            nonlocal read
            try:
                message = await asyncio.wait_for(receive(), PIECE_SECONDS)
            except TimeoutError:
                raise HTTPException(408, f"nothing came for {PIECE_SECONDS:g} seconds") from None
            read += len(message.get("body", b""))
            if read > limit:
                raise HTTPException(413, _too_large(limit))
            return message

        self._active += 1
        try:
            await self.app(scope, limited, safe)
        finally:
            self._active -= 1

    def _refusal(self, path: str, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._known(host):
            return 400, "this server does not answer under that Host name; see --allow-host"
        origin = headers.get(b"origin")
        if origin is not None and _netloc(origin.decode("latin-1")) != host.lower():
            return 403, "requests from pages of another origin are refused"
        length = headers.get(b"content-length", b"0")
        limit = self._most(path)
        if length.isdigit() and int(length) > limit:
            return 413, _too_large(limit)
        if self._token is not None and path.startswith("/api/") and path not in OPEN:
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            same = hmac.compare_digest(given.strip(), self._token)
            if kind.lower() != b"bearer" or not same:
                return 401, "this server asks for its token: send it as `Authorization: Bearer ...`"
        return None

    def _most(self, path: str) -> int:
        """Return the most bytes that a request to a path may have."""
        return self._limit if path in LARGE else min(self._limit, SMALL_BODY)

    def _known(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self._hosts or (self._any_address and _is_address(name))


def _too_large(limit: int) -> str:
    return f"the request is larger than {limit:,} bytes"


def _methods(scope: Scope) -> list[str]:
    """Return the methods that a path answers to."""
    routes = scope["app"].routes if "app" in scope else ()
    found = {"OPTIONS"}
    for method in ("GET", "POST", "DELETE"):
        asked = {**scope, "method": method}
        if any(route.matches(asked)[0] is Match.FULL for route in routes):
            found |= {method, "HEAD"} if method == "GET" else {method}
    return sorted(found)


def _netloc(origin: str) -> str:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return parts.netloc.lower() if parts.scheme in ("http", "https") else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _refused(status: int, message: str) -> JSONResponse:
    more = {401: {"www-authenticate": "Bearer"}, 413: {"connection": "close"}}
    return JSONResponse({"error": {"type": "refused", "message": message}}, status, more.get(status))
