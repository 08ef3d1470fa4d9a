"""What every request must pass: its host, its origin, its token, its size."""

from __future__ import annotations

import hmac
import ipaddress
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from judge_eval.server.settings import ServerSettings, is_loopback

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
        self.app, self._limit = app, settings.limits.body
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
        read = 0

        async def limited() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._limit:
                raise HTTPException(413, self._too_large())
            return message

        await self.app(scope, limited, safe)

    def _refusal(self, path: str, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._known(host):
            return 400, "this server does not answer under that Host name; see --allow-host"
        origin = headers.get(b"origin")
        if origin is not None and _netloc(origin.decode("latin-1")) != host.lower():
            return 403, "requests from pages of another origin are refused"
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._limit:
            return 413, self._too_large()
        if self._token is not None and path.startswith("/api/") and path not in OPEN:
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            same = hmac.compare_digest(given.strip(), self._token)
            if kind.lower() != b"bearer" or not same:
                return 401, "this server asks for its token: send it as `Authorization: Bearer ...`"
        return None

    def _too_large(self) -> str:
        return f"the request is larger than {self._limit:,} bytes"

    def _known(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self._hosts or (self._any_address and _is_address(name))


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
