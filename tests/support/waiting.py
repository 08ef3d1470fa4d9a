"""Waiting for what must come to be, however busy the machine is."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable


def until(true: Callable[[], bool], process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """Wait until something holds, while a process runs; how long in all, pytest decides."""
    while not true():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
