"""SIGTERM as an ending like Ctrl-C: clusters and spot machines send it some seconds before they kill."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

TERMINATED = 143
"""The exit code of a command that SIGTERM ended: 128 and the signal's number."""


class Terminated(SystemExit):
    """SIGTERM was received: finished work is kept and pushed before the process ends."""

    def __init__(self) -> None:
        super().__init__(TERMINATED)


@contextmanager
def terminable() -> Iterator[None]:
    """Make SIGTERM raise `Terminated` in the block, unless it is handled; a second one ends the process."""
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
    # The default would not kill the first process of a container, so this is a handler.
    signal.signal(signal.SIGTERM, _end_at_once)
    raise Terminated


def _end_at_once(*_: object) -> None:
    os._exit(TERMINATED)
