"""Connections that are slow to ask: dropped before they keep others out."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
"""Seconds in which the headers of a request must have come, from the connection or their first byte on."""
CONNECTIONS = 500
"""Open connections; past them the one that has waited longest for its headers is dropped."""


class PromptProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, for clients that send their headers in time."""

    waiting: asyncio.TimerHandle | None = None
    """Runs while headers are missing."""

    def connection_made(self, transport: Any) -> None:
        """Take a connection, and drop the one that waits longest where there are too many."""
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
