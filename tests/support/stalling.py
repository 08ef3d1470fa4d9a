"""A proxy to a TCP server that can stand still: connections stay open, and nothing comes through."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Stalling:
    """Passes bytes between clients and a server unless it stands still."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.moving = threading.Event()
        self.moving.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more clients, and let everything through."""
        self._listener.close()
        self.moving.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.moving.wait()
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        source.close()  # the other direction closes the other one


@contextmanager
def stalling(host: str, port: int) -> Iterator[Stalling]:
    """Run a proxy to a server."""
    proxy = Stalling(host, port)
    try:
        yield proxy
    finally:
        proxy.close()
