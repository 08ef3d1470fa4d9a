"""Keys and other processes for the tests of the disk store."""

from __future__ import annotations

import subprocess
import sys


def key(n: int) -> bytes:
    """Make a key of a number."""
    return n.to_bytes(32, "big")


def child(code: str, *args: object, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own."""
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
