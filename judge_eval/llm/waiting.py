"""Tells the engine which of its workers wait for an answer that another process is paying for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from weakref import WeakMethod

note_waiting: ContextVar[WeakMethod[Callable[[int], None]] | None] = ContextVar("judge_eval waiting", default=None)
"""What is called with 1 when a request of this task begins to wait for another process, and with -1 when it ends.

It is held weakly: an open socket keeps the context in which it was opened, and would keep what keeps the socket."""


@contextmanager
def waiting_for_others() -> Iterator[None]:
    """Let another request be made meanwhile, in the place of the one that waits in this block."""
    method = note_waiting.get()
    note = None if method is None else method()
    if note is not None:
        note(1)
    try:
        yield
    finally:
        if note is not None:
            note(-1)
