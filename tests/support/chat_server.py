"""A chat server on loopback: real HTTP, deterministic replies, faults on demand.

In a test::

    with ChatServer() as server:
        server.script(reply("refusal"))        # the next call gets this, later ones the usual answer
        backend = create("some-model", base_url=server.url)

As a process of its own (for benchmarks): `python -m tests.support.chat_server --latency 0.2` prints its
URL as the first line. `GET /_stats` counts, `GET /_calls` shows the bodies, `POST /_reset` forgets them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import struct
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any, Self

from tests.support.canned import Canned, error
from tests.support.chat_answers import completion, judge
from tests.support.chat_faults import Bucket, Faults
from tests.support.chat_flavours import Flavour, dress, objection

REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found"}


class ChatServer:
    """A chat server in a thread of its own; use it as a context manager.

    Args:
        latency: Seconds each answer takes.
        flavour: Which server it is like, in what it accepts and how it writes.
        faults: What goes wrong how often.
        bucket: A rate limit.
        verdict: The answer to a body, in place of `judge`.
        keep: Whether bodies are kept for `calls`.
        port: 0 for a free one.
    """

    path = "/chat/completions"
    """Under the base URL."""

    def __init__(
        self,
        *,
        latency: float = 0.0,
        flavour: Flavour = "openai",
        faults: Faults | None = None,
        bucket: Bucket | None = None,
        verdict: Callable[[Mapping[str, Any]], Any] = judge,
        keep: bool = True,
        port: int = 0,
    ) -> None:
        self.latency, self.flavour, self.faults, self.bucket = latency, flavour, faults or Faults(), bucket
        self.verdict, self.keep, self.port = verdict, keep, port
        self.calls: list[dict[str, Any]] = []
        """The bodies received, in order."""
        self.headers: list[dict[str, str]] = []
        """The headers received with each, names in lower case, and the target as `:path`."""
        self.counts: Counter[str] = Counter()
        """`calls`, `paid` (completions sent) and each status, `reset` or `hang`."""
        self.in_flight = self.most_in_flight = self.connections = 0
        self.together = 1
        """How many calls must be in flight before any of them is answered."""
        self._waiting: list[Callable[[], None]] = []
        self._scripted: deque[Canned] = deque()
        self._seen: Counter[bytes] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transports: set[asyncio.Transport] = set()

    @property
    def url(self) -> str:
        """The base URL to give to a client."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def stats(self) -> dict[str, Any]:
        """What happened so far."""
        return {
            **self.counts,
            "most_in_flight": self.most_in_flight,
            "connections": self.connections,
            "distinct": len(self._seen),
        }

    def script(self, *replies: Canned) -> None:
        """Answer the next calls with these, in order; later ones as usual."""
        self._scripted.extend(replies)

    def reset(self) -> None:
        """Forget calls, counts and script."""
        self.calls.clear()
        self.headers.clear()
        self.counts.clear()
        self._scripted.clear()
        self._seen.clear()
        self.most_in_flight = 0

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve(ready.set)), daemon=True)
        self._thread.start()
        assert ready.wait(60)
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)

    async def serve(self, ready: Callable[[], None]) -> None:
        """Serve until stopped; `ready` is called once the port is known."""
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await self._loop.create_server(lambda: _Connection(self), "127.0.0.1", self.port, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        ready()
        await self._stop.wait()
        server.close()
        for transport in list(self._transports):
            transport.abort()
        await asyncio.sleep(0)

    def release(self) -> None:
        """Answer all that wait for others, and from now on at once."""
        assert self._loop is not None
        self.together = 1
        self._loop.call_soon_threadsafe(self._finish_together)

    def _finish_together(self) -> None:
        if len(self._waiting) >= self.together:
            waiting, self._waiting = self._waiting, []
            for finish in waiting:
                finish()

    def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
        """Decide on the reply to one call."""
        self.counts["calls"] += 1
        try:
            body = json.loads(raw)
        except ValueError:
            return error(400, "the body is not JSON")
        self._seen[raw] += 1
        attempt = self._seen[raw]
        if self.keep:
            self.calls.append(body)
            self.headers.append(headers)
        if self._scripted:
            canned = self._scripted.popleft()
            return canned if canned.body is not None else self._usual(canned, body)
        extra: dict[str, str] = {"x-request-id": f"req_{self.counts['calls']}"}
        if self.bucket is not None:
            assert self._loop is not None
            granted, advertised = self.bucket.take(self._loop.time())
            extra |= advertised
            if not granted:
                return error(429, "Rate limit reached for requests", code="rate_limit_exceeded", **extra)
        fault = self.faults.draw(raw, attempt)
        if fault in ("429", "503"):
            if self.faults.retry_after is not None:
                extra["retry-after-ms"] = f"{self.faults.retry_after * 1000:.0f}"
            return error(int(fault), "try again later", **extra)
        if fault == "500":
            return error(500, "The server had an error while processing your request.", **extra)
        if fault in ("reset", "hang"):
            return Canned(fate=fault)
        declined = objection(self.flavour, body)
        if declined is not None:
            return declined
        if fault == "broken_body":
            return Canned(body='{"id": "chatcmpl-1", "choices": [{"mess', headers=extra)
        if fault == "malformed":
            return Canned(body=completion(body, '{"evidence": "", "reason": "cut'), headers=extra)
        if fault == "refusal":
            return Canned(body=completion(body, None, refusal="I can't help with that."), headers=extra)
        if fault == "length":
            return Canned(body=completion(body, "<think>", finish="length"), headers=extra)
        return self._usual(Canned(headers=extra), body)

    def _usual(self, canned: Canned, body: Mapping[str, Any]) -> Canned:
        if canned.fate != "send":
            return canned
        given = self.verdict(body)
        content = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        return Canned(canned.status, canned.headers, dress(self.flavour, body, content), canned.delay)


class _Connection(asyncio.Protocol):
    """One kept-alive HTTP/1.1 connection."""

    def __init__(self, server: ChatServer) -> None:
        self.server, self.buffer = server, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server._transports.add(transport)
        self.server.connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.server._transports.discard(self.transport)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while True:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            first, *lines = self.buffer[:end].decode("latin-1").split("\r\n")
            headers = {}
            for line in lines:
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            length = int(headers.get("content-length", 0))
            if len(self.buffer) < end + 4 + length:
                return
            body = self.buffer[end + 4 : end + 4 + length]
            self.buffer = self.buffer[end + 4 + length :]
            method, target, _ = first.split(" ", 2)
            self.handle(method, target, headers, body)

    def handle(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        server, path = self.server, target.partition("?")[0]
        if path == "/_stats":
            return self.send(Canned(body=server.stats))
        if path == "/_calls":
            return self.send(Canned(body=server.calls))
        if path == "/_reset":
            server.reset()
            return self.send(Canned(body={}))
        if method != "POST" or not path.endswith(server.path):
            return self.send(error(404, f"Invalid URL ({method} {path})"))
        server.in_flight += 1
        server.most_in_flight = max(server.most_in_flight, server.in_flight)
        canned = server.answer(body, {**headers, ":path": target})
        wait = canned.delay + (server.latency if canned.status == 200 else 0.0)
        assert server._loop is not None
        if wait > 0:
            server._loop.call_later(wait, self.finish, canned)
            return None
        server._waiting.append(lambda: self.finish(canned))
        return server._finish_together()

    def finish(self, canned: Canned) -> None:
        server = self.server
        server.in_flight -= 1
        if canned.fate == "hang":
            server.counts["hang"] += 1
            return
        if canned.fate == "reset":
            server.counts["reset"] += 1
            sock = self.transport.get_extra_info("socket")
            # Lingering for zero seconds makes the kernel send RST in place of FIN.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
            return
        server.counts[str(canned.status)] += 1
        if canned.status == 200 and isinstance(canned.body, dict) and canned.body.get("choices"):
            server.counts["paid"] += 1
        if not self.transport.is_closing():
            server.counts.update(canned.paid)
            self.send(canned)

    def send(self, canned: Canned) -> None:
        if isinstance(canned.body, bytes):
            payload = canned.body
        else:
            written = canned.body if isinstance(canned.body, str) else json.dumps(canned.body)
            payload = written.encode("utf-8", "surrogatepass")
        headers = {"content-type": "application/json", **canned.headers, "content-length": str(len(payload))}
        head = f"HTTP/1.1 {canned.status} {REASONS.get(canned.status, 'Status')}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(head.encode("latin-1") + b"\r\n" + payload)


def main(arguments: list[str] | None = None, kind: type[ChatServer] = ChatServer) -> None:
    """Serve until SIGINT or SIGTERM; the first line printed is the base URL."""
    parser = argparse.ArgumentParser(prog="chat_server", description="A chat server on loopback for benchmarks.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds an answer takes")
    parser.add_argument("--flavour", default="openai")
    parser.add_argument("--rpm", type=float, help="requests a minute; more get 429")
    parser.add_argument("--burst", type=float, help="the bucket's size; a second's worth by default")
    parser.add_argument("--no-advertise", action="store_true", help="send no x-ratelimit-* headers")
    parser.add_argument("--no-keep", action="store_true", help="do not keep bodies")
    parser.add_argument("--tell-once", type=int, help="decline the first call, with this limit a minute")
    parser.add_argument("--retry-after", type=float, default=0.05)
    parser.add_argument("--fail-text", action="append", default=[])
    parser.add_argument("--seed", type=int, default=0)
    for name in ("429", "500", "503", "reset", "hang", "malformed", "broken-body", "refusal", "length"):
        parser.add_argument(f"--rate-{name}", type=float, default=0.0)
    given = parser.parse_args(arguments)
    rates = {name: value for name, value in vars(given).items() if name.startswith("rate_")}
    faults = Faults(**rates, retry_after=given.retry_after, fail_texts=tuple(given.fail_text), seed=given.seed)
    bucket = None
    if given.rpm:
        burst = given.burst or max(1.0, given.rpm / 60)
        bucket = Bucket(given.rpm, burst, level=burst, advertise=not given.no_advertise)
    server = kind(
        latency=given.latency, flavour=given.flavour, faults=faults, bucket=bucket,
        keep=not given.no_keep, port=given.port,
    )  # fmt: skip

    if given.tell_once:
        advertised = {"limit": f"{given.tell_once}", "remaining": "0", "reset": "60s"}
        values = {f"x_ratelimit_{name}_requests": value for name, value in advertised.items()}
        server.script(error(429, "Rate limit reached", retry_after=f"{given.retry_after:g}", **values))

    async def run() -> None:
        def ready() -> None:
            print(server.url, flush=True)  # noqa: T201
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, server._stop.set)

        await server.serve(ready)

    asyncio.run(run())


if __name__ == "__main__":
    main(sys.argv[1:])
