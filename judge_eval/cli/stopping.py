"""SIGTERM as an ending like Ctrl-C: clusters and spot machines send it some seconds before they kill."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

TERMINATED = 143
"""The exit code of a command that SIGTERM ended: 128 and the signal's number."""


class Terminated(SystemExit):
    """SIGTERM has come: what is done is kept and pushed on the way out."""

    def __init__(self) -> None:
        super().__init__(TERMINATED)


@contextmanager
def terminable() -> Iterator[None]:
    """Have SIGTERM raise `Terminated` in the block, and a second one end the process at once.

    Where somebody else handles or ignores the signal already, or outside the main thread, nothing changes.
    """
    own = threading.current_thread() is threading.main_thread()
    if not own or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is _end:  # once it has come, a second one may still follow
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(*_: object) -> None:
    # A handler, not the default: the first process of a container is not killed by that.
    signal.signal(signal.SIGTERM, _end_at_once)
    raise Terminated


def _end_at_once(*_: object) -> None:
    os._exit(TERMINATED)
