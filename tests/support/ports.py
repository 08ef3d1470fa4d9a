"""Ports of this machine for servers that a test starts later."""

from __future__ import annotations

import random
import socket


def quiet_port() -> int:
    """Find a port where nobody listens, below those that the system gives to others meanwhile."""
    while True:
        port = random.randint(20_000, 30_000)
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
