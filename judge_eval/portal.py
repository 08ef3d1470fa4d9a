"""Sync over async: one private event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class Portal:
    """An event loop in a daemon thread, started at first use and again after a fork.

    It serves sync callers wherever they are: in a script, in a thread, inside a running event loop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the running loop, starting it where there is none in this process."""
        if self._pid != os.getpid():
            # Locks and threads do not survive a fork; the child starts anew.
            self._lock, self._loop, self._pid = threading.Lock(), None, os.getpid()
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._serve, args=(self._loop,), name="judge_eval", daemon=True
                ).start()
            return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result.

        Ctrl-C cancels it, waits until it has cleaned up, and is raised then; a second Ctrl-C does not wait.

        Raises:
            RuntimeError: Called from the private loop itself.
        """
        loop = self.loop()
        if _running() is loop:
            coroutine.close()
            raise RuntimeError(
                "a sync call inside the private event loop would wait for itself; use the async one"
            )
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            done = threading.Event()
            future.add_done_callback(lambda _: done.set())
            loop.call_soon_threadsafe(_cancel_all, loop, coroutine)
            done.wait()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Step through an async iterator from sync code; closing the generator closes the iterator."""
        end = object()

        async def step() -> Any:
            return await anext(items, end)

        try:
            while (item := self.run(step())) is not end:
                yield item
        finally:
            close = getattr(items, "aclose", None)
            if close is not None:
                self.run(close())


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _cancel_all(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any]) -> None:
    for task in asyncio.all_tasks(loop):
        if task.get_coro() is coroutine:
            task.cancel()


portal = Portal()
"""The one portal of this process."""
