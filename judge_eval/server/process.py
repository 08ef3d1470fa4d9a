"""The server process: it drops connections that send their headers too slowly."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from judge_eval.errors import ConfigError, needs_extra
from judge_eval.evaluator import Evaluator
from judge_eval.server.server_settings import ServerSettings
from judge_eval.spelling import option

HEADER_SECONDS = 10.0
"""Seconds in which the headers of a request must have come, from the connection or their first byte on."""
CONNECTIONS = 500
"""Open connections; past them the one that has waited longest for its headers is dropped."""


class PromptProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, for clients that send their headers in time."""

    waiting: asyncio.TimerHandle | None = None
    """Runs while headers are missing."""

    def connection_made(self, transport: Any) -> None:
        """Take a connection; if there are too many, drop the one that waits longest."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > CONNECTIONS:
            idle = [
                (other.waiting.when(), id(other), other)
                for other in self.connections
                if isinstance(other, PromptProtocol) and other.waiting is not None
            ]
            min(idle)[2]._drop()

    def data_received(self, data: bytes) -> None:
        """Take bytes in; the clock stops when the headers are whole."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self.waiting is None and not self.transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self.waiting = self.loop.call_later(HEADER_SECONDS, self._drop)

    def _stop(self) -> None:
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting = None

    def _drop(self) -> None:
        self._stop()
        self.transport.abort()


if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI


def serve(
    settings: ServerSettings,
    evaluator: Evaluator | None = None,
    *,
    ready: Callable[[str], None] | None = None,
    tools: bool = False,
) -> None:
    """Serve until stopped (at once by a second SIGTERM); `ready` gets the address that takes connections.

    The first SIGTERM lets requests under way end, and returns.

    With `tools` agents find the tools of the Model Context Protocol at `/mcp`.
    """
    try:
        import uvicorn

        from judge_eval.server.app import create_app
    except ImportError as error:
        raise needs_extra(f"the server needs {error.name}", "server") from None
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}; "
            f"choose another port ({option('port')})"
        ) from None
    listener.listen(128)
    host, port = listener.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    if ready is not None:
        ready(address)

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            if sig != signal.SIGTERM:
                super().handle_exit(sig, frame)
            elif self.should_exit:  # asked twice: at once
                os._exit(128 + sig)
            else:  # uvicorn would end the process by the signal, as if it had been killed
                self.should_exit = True

    Server(make_config(create_app(settings, evaluator, tools=tools))).run(sockets=[listener])


def make_config(app: FastAPI) -> uvicorn.Config:
    """Return how connections are handled; the guard limits the requests that are answered at once."""
    import uvicorn

    return uvicorn.Config(
        app,
        http=PromptProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=10,
        lifespan="on",
    )
