"""Sync calls of async code, run by one private event loop in a background thread."""

import asyncio
import inspect
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

from judge_eval.errors import brief


class Interruptible(Protocol):
    """What may make the loop's thread wait for long."""

    def interrupted(self) -> None:
        """Note that the caller wants to end."""


on_interrupt: WeakSet[Interruptible] = WeakSet()
"""What is told when a caller is interrupted, by Ctrl-C or SIGTERM, before its work is cancelled."""

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")
P = ParamSpec("P")


class BackgroundLoop:
    """An event loop in a daemon thread, started at first use and again after a fork.

    It serves sync callers wherever they are: in a script, in a thread, inside a running event loop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the running loop of this process; start it if there is none."""
        if self._pid != os.getpid():
            # Locks and threads do not survive a fork; the child starts its own.
            self._lock, self._loop, self._pid = threading.Lock(), None, os.getpid()
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._serve, args=(self._loop,), name="judge_eval", daemon=True).start()
            return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while True:
            with suppress(KeyboardInterrupt, SystemExit):  # of a caller's function: its task has it for the caller, too
                return loop.run_forever()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result."""
        # What a signal's handler raises, as Ctrl-C does, cancels it, waits until it has cleaned up, and is
        # raised then; a second one does not wait.
        loop = self.loop()
        if _running() is loop:
            coroutine.close()
            raise RuntimeError("a sync call inside the private event loop would wait for itself; use the async one")
        call = _Call(loop, coroutine)
        # All that starts it is inside the block: Ctrl-C may come between any two steps.
        try:
            loop.call_soon_threadsafe(call.start)
            call.wait()
        except BaseException:
            for waiting in list(on_interrupt):
                waiting.interrupted()
            loop.call_soon_threadsafe(call.cancel)
            call.wait()
            raise
        return call.result()

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

    def blocking(self, verb: Callable[Concatenate[S, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[S, P], T]:
        """Make the sync method of an async one: `evaluate = background_loop.blocking(aevaluate)`."""
        return _sync_of(verb, self.run)

    def iterating(
        self, verb: Callable[Concatenate[S, P], AsyncIterator[T]]
    ) -> Callable[Concatenate[S, P], Iterator[T]]:
        """Make the sync method of an async generator: `stream = background_loop.iterating(astream)`."""
        return _sync_of(verb, self.iterate)


def _sync_of(verb: Callable[Concatenate[S, P], T], wait: Callable[[T], R]) -> Callable[Concatenate[S, P], R]:
    name = verb.__name__

    @wraps(verb)
    @brief
    def sync(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return wait(getattr(self, name)(*args, **kwargs))  # a subclass may have its own

    shown = inspect.signature(verb)
    returned = str(shown.return_annotation).removeprefix("Async")
    sync.__signature__ = shown.replace(return_annotation=returned)  # type: ignore[attr-defined]
    sync.__name__ = name.removeprefix("a")
    sync.__qualname__ = verb.__qualname__.removesuffix(name) + sync.__name__
    return sync


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _Call(Generic[T]):
    """One coroutine on its way through the loop: the caller waits, the loop's thread does the rest.

    A bare lock is waited for, since Ctrl-C inside `threading.Event.wait` may leave its lock held for ever.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> None:
        self._ended = threading.Lock()
        self._ended.acquire()
        self._over = False
        self._loop, self._coroutine = loop, coroutine
        self._task: asyncio.Task[T] | None = None

    def start(self) -> None:
        self._task = self._loop.create_task(self._coroutine)
        self._task.add_done_callback(self._end)

    def _end(self, _: object = None) -> None:
        self._over = True
        self._ended.release()

    def cancel(self) -> None:
        """Cancel what has started; what has not will not start."""
        if self._task is not None:
            self._task.cancel()
        else:
            self._coroutine.close()
            self._end()

    def wait(self) -> None:
        """Block until it is over; may be called again after an interrupt."""
        # It looks up now and then: a signal that the system hands to another thread interrupts no lock.
        while not self._over:
            self._ended.acquire(timeout=0.5)

    def result(self) -> T:
        assert self._task is not None
        try:
            return self._task.result()
        except asyncio.CancelledError:
            raise CancelledError from None


background_loop = BackgroundLoop()
"""The background loop of this process."""
