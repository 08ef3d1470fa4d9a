"""Waiting for what must come to be, however busy the machine is."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any


def until(true: Callable[[], bool], process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """Wait until something holds, while a process runs; how long in all, pytest decides."""
    while not true():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def until_page(page: Any, true: str) -> None:
    """Wait until an expression is true in a page, which itself forbids that a text is run as code.

    `page.wait_for_function` runs the expression as the page's own code from its second look on, so that it
    fails by chance under the pages' security policy.
    """
    deadline = time.monotonic() + 60
    while not _holds(page, true):
        assert time.monotonic() < deadline, f"never true: {true}"
        time.sleep(0.05)


def _holds(page: Any, true: str) -> bool:
    try:
        return bool(page.evaluate(true))
    except Exception as error:
        if "context was destroyed" not in str(error):  # as while the page is being loaded anew
            raise
        return False
