"""Writes rows to a store as they arrive: at once if the store can, else in batches by one thread."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from judge_eval.errors import StoreError
from judge_eval.llm.cache.store import Claiming, KeyedRow, OnDisk, Store

_FLUSHED = 1.0  # seconds after which what was written is to be on the disk


@dataclass
class _Queue:
    """What waits to be written in one event loop."""

    rows: list[KeyedRow] = field(default_factory=list)
    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class Committer:
    """Writes rows to a store: at once, or in transactions shared by rows that come within `delay` seconds.

    At once means before `add` returns, so that a killed process loses no answer it has received. A store that would
    have to wait, for another process or a network, gets its rows from a thread. Rows that could not be written are kept
    in memory, and `failure` says why. Nothing is raised to those who wait, because their answers are paid for.
    """

    def __init__(self, store: Store, *, delay: float) -> None:
        self._store = store
        self._on_disk = store if isinstance(store, OnDisk) else None
        self._claiming = store if isinstance(store, Claiming) else None
        self._timers: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.TimerHandle] = WeakKeyDictionary()
        self._delay = delay
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()
        self._worker: ThreadPoolExecutor | None = None
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._unsaved: list[KeyedRow] = []
        self.stored = 0
        """How many rows were written."""
        self.waiting = 0
        """How many rows are not written yet."""
        self.beside = 0
        """For how many rows another process had asked, or stored an answer, meanwhile."""
        self.failure: StoreError | None = None
        """Why rows are not written; None if they are."""

    def add(self, key: bytes, value: bytes) -> asyncio.Future[None]:
        """Hand over a row, to be written even if nobody waits; the future is done then, or on `failure`."""
        loop = asyncio.get_running_loop()
        queue = self._queues.get(loop)
        if queue is None:
            queue = self._queues[loop] = _Queue()
        waiter: asyncio.Future[None] = loop.create_future()
        store = self._on_disk if not queue.rows and self.failure is None else None
        if store is not None and store.put_now([(key, value)]):
            self.stored += 1
            waiter.set_result(None)
            self._flush_soon(loop)
            return waiter
        self.waiting += 1
        queue.rows.append((key, value))
        queue.waiters.append(waiter)
        if queue.task is None:
            queue.task = loop.create_task(self._drain(queue))
        return waiter

    async def aclose(self) -> None:
        """Write what waits, try once more what could not be written, then close the store."""
        queue = self._queues.get(asyncio.get_running_loop())
        if queue is not None and queue.task is not None:
            await asyncio.shield(queue.task)
        for timer in list(self._timers.values()):
            timer.cancel()
        self._timers.clear()
        rows, self._unsaved, self.failure = self._unsaved, [], None
        try:
            if rows:
                await asyncio.shield(asyncio.wrap_future(self._in_thread(self._put, rows)))
                self.stored += len(rows)
        except StoreError as error:
            raise StoreError(f"{error.wording} ({len(rows)} paid answers are not in the cache)") from None
        finally:
            if self._on_disk is not None:
                with contextlib.suppress(StoreError):  # the rows are written; the disk takes them later
                    self._on_disk.flush()
            worker, self._worker = self._worker, None
            if worker is not None and self._pid == os.getpid():
                worker.shutdown(wait=True)
            self._store.close()

    async def _drain(self, queue: _Queue) -> None:
        try:
            while queue.rows:
                await asyncio.sleep(self._delay)
                job, settle = self._begin(queue)
                try:
                    with contextlib.suppress(Exception):  # `settle` notes it
                        await asyncio.shield(asyncio.wrap_future(job))
                finally:
                    settle()
                self._flush_soon(asyncio.get_running_loop())
        except asyncio.CancelledError:
            if queue.rows:  # the loop is being torn down, the rows are paid for
                self._begin(queue)[1]()
            raise
        finally:
            queue.task = None

    def _begin(self, queue: _Queue) -> tuple[Future[None], Callable[[], None]]:
        """Begin to write what waits; returns the job, and what waits for it and notes how it went."""
        rows, waiters = queue.rows, queue.waiters
        queue.rows, queue.waiters = [], []
        job = self._in_thread(self._put, rows)

        def settle() -> None:
            error = job.exception()
            self.waiting -= len(rows)
            if error is None:
                self.stored += len(rows)
            else:
                self._unsaved += rows
                if not isinstance(error, StoreError):
                    error = StoreError(f"the cache failed: {error!r}")
                self.failure = error
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

        return job, settle

    def _flush_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """See that what was written is on the disk within a second, without waiting for it."""
        if self._on_disk is not None and loop not in self._timers:
            self._timers[loop] = loop.call_later(_FLUSHED, self._flush, loop, self._on_disk)

    def _flush(self, loop: asyncio.AbstractEventLoop, on_disk: OnDisk) -> None:
        self._timers.pop(loop, None)
        self._in_thread(on_disk.flush)

    def _put(self, rows: list[KeyedRow]) -> None:
        if self._claiming is None:
            self._store.put_many(rows)
        else:
            self.beside += self._claiming.put_claimed(rows)

    def _in_thread(self, work: Callable[..., None], *values: Any) -> Future[None]:
        if self._pid != os.getpid():  # a fork has neither the thread nor a lock that can be trusted
            self._worker, self._lock, self._pid = None, threading.Lock(), os.getpid()
        with self._lock:
            if self._worker is None:
                self._worker = ThreadPoolExecutor(1, thread_name_prefix="judge-eval-cache")
            return self._worker.submit(work, *values)
