"""What every request must pass: its host, its origin, its token, its size."""

import asyncio
import hmac
import ipaddress
from collections import deque
from contextlib import suppress
from time import monotonic
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from judge_eval.llm.http.secrets import keys_to_hide
from judge_eval.server import server_settings as bounds
from judge_eval.trust import is_loopback

TOOLS = "/mcp"
"""The path of the tools for agents."""

LARGE = ("/api/v1/runs", "/api/v1/runs/upload", TOOLS)
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


class Body:
    """What has come of a request's body, which may have `most` bytes."""

    def __init__(self, most: int) -> None:
        self.most, self.size, self.whole = most, 0, False
        self.pieces: deque[Message] = deque()
        self.clock: asyncio.Timeout | None = None
        self._start = monotonic()

    def until(self) -> float:
        """Return the time of the event loop at which the next piece must have come."""
        seconds = min(bounds.BODY_SECONDS, bounds.BODY_GRACE + self.size / bounds.LEAST_RATE)
        return asyncio.get_running_loop().time() + seconds - (monotonic() - self._start)

    def add(self, message: Message) -> int:
        """Take in a piece and return its size; raises `HTTPException` if the body is too large."""
        size = len(message.get("body", b""))
        self.size += size
        self.whole = not message.get("more_body", False)
        self.pieces.append(message)
        if self.size > self.most:
            self.size -= size
            raise HTTPException(413, _too_large(self.most))
        return size

    def replay(self, receive: Receive) -> Receive:
        """Return what gives the app the pieces, then what comes after the body."""

        async def replayed() -> Message:
            return self.pieces.popleft() if self.pieces else await receive()

        return replayed

    def rate(self) -> float:
        """Return the bytes a second at which it has come."""
        return self.size / (monotonic() - self._start + 1.0)

    def drop(self) -> None:
        """Let the time for the next piece end."""
        if self.clock is not None:
            self.clock.reschedule(0.0)


class Guard:
    """Answers requests that must not come in, and adds the headers that keep pages safe.

    The Host header is checked so that no foreign name can be pointed at this machine; the Origin header so
    that no other site's page can ask; the token in constant time; size and speed of the body while it is
    read. A request takes one of the server's places once its body is whole.
    """

    def __init__(self, app: ASGIApp, settings: bounds.ServerSettings) -> None:
        self.app, self._limit, self._active, self._held = app, settings.limits.body, 0, 0
        self._reading: list[Body] = []
        self._token = settings.token.encode() if settings.token else None
        self._hosts = {settings.host.lower(), *(name.lower() for name in settings.allowed_hosts)}
        if is_loopback(settings.host):
            self._hosts |= {"localhost", "127.0.0.1", "::1"}
        self._keys = [key.encode() for key in keys_to_hide()]
        self._any_address = settings.host in ("0.0.0.0", "::")  # noqa: S104  compared, not bound

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            for key in self._keys if message.get("body") else ():  # as long as before: the length is sent
                message["body"] = message["body"].replace(key, b"*" * len(key))
            await send(message)

        headers = {name.lower(): value for name, value in scope["headers"]}
        refusal = self._refusal(scope["path"], headers)
        if refusal is not None:
            if refusal[0] == 413:
                await _drain(receive, self._limit)
            await _refused(*refusal)(scope, receive, safe)
            return
        if scope["method"] == "OPTIONS":
            allow = {"allow": ", ".join(_methods(scope))}
            await Response(status_code=204, headers=allow)(scope, receive, safe)
            return
        if scope["method"] == "HEAD":  # the answer to GET; the server sends its headers alone
            scope = {**scope, "method": "GET"}
        body = Body(self._most(scope["path"]))
        try:
            if scope["method"] != "GET":  # a route that answers GET reads no body
                await self._read(body, receive)
            if self._active >= bounds.REQUESTS and scope["path"] not in OPEN:
                raise HTTPException(503, "too many requests at once; try again later")
            self._active += 1
            try:
                await self.app(scope, body.replay(receive), safe)
            finally:
                self._active -= 1
        except HTTPException as error:
            if error.status_code == 413 and not body.whole:
                await _drain(receive, self._limit)
            await _refused(error.status_code, error.detail)(scope, receive, safe)
        finally:
            self._held -= body.size

    async def _read(self, body: Body, receive: Receive) -> None:
        """Read a body until it is whole; only then does its request take one of the server's places."""
        if len(self._reading) >= bounds.READING:
            min(self._reading, key=Body.rate).drop()
        self._reading.append(body)
        try:
            while not body.whole:
                try:
                    async with asyncio.timeout_at(body.until()) as body.clock:
                        message = await receive()
                except TimeoutError:
                    raise HTTPException(408, "the request's body came too slowly") from None
                size = body.add(message)
                self._held += size
                if self._held > bounds.BODIES * self._limit:
                    raise HTTPException(503, "too many large requests at once; try again later")
        finally:
            self._reading.remove(body)

    def _refusal(self, path: str, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._known(host):
            return 400, "this server does not accept that Host name; its operator can allow it"
        origin = headers.get(b"origin")
        if origin is not None and _netloc(origin.decode("latin-1")) != host.lower():
            return 403, "requests from another origin are refused"
        length = headers.get(b"content-length", b"0")
        limit = self._most(path)
        if length.isdigit() and int(length) > limit:
            return 413, _too_large(limit)
        if self._token is not None and path.startswith(("/api/", TOOLS)) and path not in OPEN:
            kind, _, token = headers.get(b"authorization", b"").partition(b" ")
            same = hmac.compare_digest(token.strip(), self._token)
            if kind.lower() != b"bearer" or not same:
                return 401, "this server asks for its token: send it as `Authorization: Bearer ...`"
        return None

    def _most(self, path: str) -> int:
        return self._limit if path in LARGE else min(self._limit, bounds.SMALL_BODY)

    def _known(self, host: str) -> bool:
        with suppress(ValueError):  # not a host at all, or not an address
            name = urlsplit(f"//{host}").hostname or ""
            return name in self._hosts or (self._any_address and ipaddress.ip_address(name) is not None)
        return False


async def _drain(receive: Receive, most: int) -> None:
    """Read on for a short time; a client that still sends would see a reset instead of the answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(bounds.DRAIN_SECONDS):
            while most > 0:
                message = await receive()
                if not message.get("more_body", False):
                    return
                most -= len(message.get("body", b""))


def _too_large(limit: int) -> str:
    return f"the request is larger than {limit:,} bytes"


def _methods(scope: Scope) -> list[str]:
    routes = scope["app"].routes if "app" in scope else ()
    methods = {"OPTIONS"}
    for method in ("GET", "POST", "DELETE"):
        asked = {**scope, "method": method}
        if any(route.matches(asked)[0] is Match.FULL for route in routes):
            methods |= {method, "HEAD"} if method == "GET" else {method}
    return sorted(methods)


def _netloc(origin: str) -> str:
    with suppress(ValueError):
        parts = urlsplit(origin)
        return parts.netloc.lower() if parts.scheme in ("http", "https") else ""
    return ""


def _refused(status: int, message: str) -> JSONResponse:
    more = {401: {"www-authenticate": "Bearer"}}
    if status in (408, 413, 503):  # more of the body may be on its way
        more[status] = {"connection": "close"}
    return JSONResponse({"error": {"type": "refused", "message": message}}, status, more.get(status))
