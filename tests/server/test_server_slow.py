"""Bodies that come slowly take nobody's place: a request takes one once its body is whole."""

from __future__ import annotations

import asyncio
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from judge_eval import Evaluator
from judge_eval.server import server_settings as bounds
from judge_eval.server.guard import Guard
from judge_eval.server.server_settings import ServerLimits, ServerSettings
from tests.support.serving import ask, serving

pytestmark = pytest.mark.filterwarnings("ignore:The .* attribute with value .* was provided:UserWarning")
ONE = {"query": "a", "reference": "b", "chunks": ["c"]}


@contextmanager
def begun(url: str, count: int, size: int = 12, path: str = "/api/v1/runs") -> Iterator[list[socket.socket]]:
    """Begin uploads whose last byte does not come."""
    place = urlsplit(url)
    with ExitStack() as stack:
        begun: list[socket.socket] = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((place.hostname, place.port), timeout=60))
            head = f"POST {path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: {size + 1}\r\n"
            connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + b" " * size)
            begun.append(connection)
        yield begun


def status_of(connection: socket.socket) -> int:
    """Wait for the answer to an upload, and for the end of its connection."""
    answer = b""
    with suppress(ConnectionResetError):  # it may end before all that was sent is read; the answer came first
        while piece := connection.recv(65536):
            answer += piece
    return int(answer.split()[1])


def test_dripping_uploads_do_not_block_submissions(tmp_path: Path) -> None:
    """Six uploads that do not end, more than are read at a time, leave room for one that does."""
    with (
        serving(ServerSettings(tmp_path), Evaluator("fake/overlap", cache=False)) as url,
        begun(url, 3),
        begun(url, 3, path="/api/v1/runs/upload"),
    ):
        assert ask(f"{url}/api/v1/runs", method="POST", body={"traces": [ONE]})[0] == 202


@pytest.mark.slow
def test_more_dripping_uploads_than_places_leave_every_route_answering(tmp_path: Path) -> None:
    """210 of them take none of the 200 places."""
    with serving(ServerSettings(tmp_path), Evaluator("fake/overlap", cache=False)) as url, begun(url, 210):
        for path in ("/api/v1/health", "/api/v1/runs", "/"):
            assert ask(f"{url}{path}")[0] == 200, path
        assert ask(f"{url}/api/v1/runs", method="POST", body={"traces": [ONE]})[0] == 202


@pytest.mark.parametrize(("grace", "total"), [(0.3, 300.0), (1000.0, 0.3)])
def test_a_body_that_comes_too_slowly_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grace: float, total: float
) -> None:
    """Below the least rate, or past the total time, the answer is 408 and the connection ends."""
    monkeypatch.setattr(bounds, "BODY_GRACE", grace)
    monkeypatch.setattr(bounds, "BODY_SECONDS", total)
    with serving(ServerSettings(tmp_path)) as url, begun(url, 1) as (connection,):
        assert status_of(connection) == 408


def test_the_slowest_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the most bodies that are not whole, the one of which least has come is dropped for a new one."""
    monkeypatch.setattr(bounds, "READING", 3)
    monkeypatch.setattr(bounds, "BODY_GRACE", 1000.0)  # so that slowness alone drops none of them
    with (
        serving(ServerSettings(tmp_path), Evaluator("fake/overlap", cache=False)) as url,
        begun(url, 2, 200_000),
        begun(url, 1) as (slowest,),
        begun(url, 1, 200_000),
    ):
        assert status_of(slowest) == 408


def test_large_bodies_that_do_not_end_are_bounded_together(tmp_path: Path) -> None:
    """What is held of all bodies is bounded; a request beyond it is told to come again, small ones pass."""
    settings = ServerSettings(tmp_path, limits=ServerLimits(body=400_000))
    with serving(settings, Evaluator("fake/overlap", cache=False)) as url, begun(url, 5, 390_000) as connections:
        answered, _, _ = select.select(connections, [], [], 60)
        assert [status_of(connection) for connection in answered] == [503]
        assert ask(f"{url}/api/v1/runs", method="POST", body={"traces": [ONE]})[0] == 202


def test_a_client_that_leaves_gives_its_room_back(tmp_path: Path) -> None:
    """Uploads that break off hold nothing."""
    settings = ServerSettings(tmp_path, limits=ServerLimits(body=400_000))
    with serving(settings, Evaluator("fake/overlap", cache=False)) as url:
        for _ in range(4):
            with begun(url, 3, 390_000):
                pass
        large = {"traces": [{**ONE, "metadata": {"x": "y" * 350_000}}]}
        while (code := ask(f"{url}/api/v1/runs", method="POST", body=large)[0]) != 202:
            assert code == 503
            time.sleep(0.01)


def test_no_more_requests_are_answered_at_once_than_there_are_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one takes the only place another gets a 503 and /health an answer; then there is room again."""
    monkeypatch.setattr(bounds, "REQUESTS", 1)

    async def statuses() -> list[int]:
        begun, may_end, sent = asyncio.Event(), asyncio.Event(), []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"] == "/slow":
                begun.set()
                await may_end.wait()
            await Response(status_code=200)(scope, receive, send)

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.extend([message["status"]] if "status" in message else [])

        async def ask_for(path: str) -> None:
            scope = {"type": "http", "method": "GET", "path": path, "headers": [(b"host", b"localhost")]}
            await guard(scope, receive, send)

        guard = Guard(app, ServerSettings(tmp_path))
        slow = asyncio.create_task(ask_for("/slow"))
        await begun.wait()
        await ask_for("/api/v1/runs")
        await ask_for("/api/v1/health")
        may_end.set()
        await slow
        await ask_for("/api/v1/runs")
        return sent

    assert asyncio.run(statuses()) == [503, 200, 200, 200]
