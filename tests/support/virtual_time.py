"""An event loop whose clock jumps to the next timer, so that minutes of waiting take no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.SelectSelector):
    """A selector that never waits: it moves the clock instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            if timeout is None:  # a thread may still work
                ready = super().select(5.0)
                assert ready, "nothing is left to happen: everyone waits for somebody else"
                return ready
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop on a virtual clock that starts at 0."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds since the start, on the virtual clock."""
        return self._jumping.now


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run like `asyncio.run`, on a virtual clock."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)
