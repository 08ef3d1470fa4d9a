"""A server that writes bytes, whatever they are, in answer to each request."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from typing import Self


class RawServer:
    """A server on loopback; use it as a context manager. Every connection serves one request.

    Args:
        answer: What to write, in pieces, for a request: its head and body.
        pause: Seconds before each piece.
        tls: A certificate, if connections are to be encrypted.
    """

    def __init__(
        self,
        answer: Callable[[bytes], bytes | Iterable[bytes]],
        *,
        pause: float = 0.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._answer, self._pause, self._tls = answer, pause, tls
        self.requests: list[bytes] = []
        """What was received."""
        self._open: set[socket.socket] = set()

    @property
    def url(self) -> str:
        """The base URL to give to a client."""
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._listener.close()
        for connection in list(self._open):
            connection.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(connection)
            threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            request = self._read(connection)
            if not request:
                return
            self.requests.append(request)
            pieces = self._answer(request)
            for piece in (pieces,) if isinstance(pieces, bytes) else pieces:
                if self._pause:
                    time.sleep(self._pause)
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(60)
            while connection.recv(65536):
                pass
        except OSError:
            pass
        finally:
            self._open.discard(connection)
            connection.close()

    @staticmethod
    def _read(connection: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            part = connection.recv(65536)
            if not part:
                return b""
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
        )
        while len(body) < length:
            part = connection.recv(65536)
            if not part:
                break
            body += part
        return head + b"\r\n\r\n" + body


def http(status: int, body: bytes = b"", *headers: str) -> bytes:
    """Write an HTTP reply with its length."""
    lines = [f"HTTP/1.1 {status} Status", f"content-length: {len(body)}", "connection: close", *headers]
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body
