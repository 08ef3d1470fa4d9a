"""Hands claims and rows from event loops to a store, in batches."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from judge_eval.errors import StoreError
from judge_eval.llm.cache.store import BusyError, KeyClaim, KeyedRow, Store

_AT_ONCE = 4  # so many batches of claims may be on their way; what comes meanwhile waits and shares the next
_BATCH = 1000
_Claims: TypeAlias = list[tuple[bytes, "asyncio.Future[KeyClaim]"]]


@dataclass
class _Queue:
    """What waits in one event loop, and the tasks that work on it."""

    claims: _Claims = field(default_factory=list)
    claiming: int = 0
    rows: list[KeyedRow] = field(default_factory=list)
    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    writer: asyncio.Task[None] | None = None
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


class Batched:
    """A store's claims and writes, each shared by all who ask in the same turn of an event loop.

    A store of this machine works within the loop, which takes less time than a thread; only while another process is
    writing, a thread waits for it. A remote store works in threads; rows wait `delay` seconds for others. A killed
    process loses no answer that was returned. Rows that could not be written are kept in memory, and `failure` says
    why. Nothing is raised to those who wait, because their answers are paid for.
    """

    def __init__(self, store: Store, *, delay: float) -> None:
        self._store, self._delay = store, delay
        self._remote = store.remote
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._unsaved: list[KeyedRow] = []
        self.stored = 0
        """How many rows were written."""
        self.waiting = 0
        """How many rows are not written yet."""
        self.beside = 0
        """For how many rows another process had asked, or stored an answer, meanwhile."""
        self.failure: StoreError | None = None
        """Why rows are not written; None if they are."""

    def claim(self, key: bytes, *, replacing: bool = False) -> asyncio.Future[KeyClaim]:
        """Look a key up, and lease it if there is no row; `replacing`: even if there is one."""
        loop = asyncio.get_running_loop()
        queue = self._queue(loop)
        claimed: asyncio.Future[KeyClaim] = loop.create_future()
        if replacing:
            batch = [(key, claimed)]
            if self._remote:
                self._start(loop, queue, self._claim_batch(batch, replacing=True))
            else:
                self._claim_here(batch, replacing=True)
            return claimed
        queue.claims.append((key, claimed))
        if not self._remote:
            if len(queue.claims) == 1:
                loop.call_soon(self._claim_turn, queue)
        elif queue.claiming < _AT_ONCE:
            queue.claiming += 1
            self._start(loop, queue, self._claim_waiting(queue))  # begins when all who are about to ask have asked
        return claimed

    def release(self, key: bytes) -> None:
        """Give a lease back; nobody waits for it."""
        self._release([key])

    def write(self, key: bytes, value: bytes) -> asyncio.Future[None]:
        """Hand over a row, to be written even if nobody waits; the future is done then, or on `failure`."""
        loop = asyncio.get_running_loop()
        queue = self._queue(loop)
        waiter: asyncio.Future[None] = loop.create_future()
        self.waiting += 1
        queue.rows.append((key, value))
        queue.waiters.append(waiter)
        if queue.writer is None:
            if self._remote:
                queue.writer = loop.create_task(self._write_waiting(queue))
            elif len(queue.rows) == 1:
                loop.call_soon(self._write_turn, loop, queue)
        return waiter

    async def aclose(self) -> None:
        """Write what waits, try once more what could not be written, then close the store."""
        loop = asyncio.get_running_loop()
        queue = self._queue(loop)
        if queue.writer is None:
            self._write_turn(loop, queue)
        if queue.writer is not None:
            await asyncio.shield(queue.writer)
        rows, self._unsaved, self.failure = self._unsaved, [], None
        try:
            if rows:
                await asyncio.shield(asyncio.wrap_future(self._in_thread(self._put, rows)))
                self.stored += len(rows)
        except StoreError as error:
            self._store.release_many([key for key, _ in rows])
            raise StoreError(f"{error} ({len(rows)} paid answers are not in the cache)") from None
        finally:
            threads, self._threads = self._threads, None
            if threads is not None and self._pid == os.getpid():
                await asyncio.to_thread(threads.shutdown)
            self._store.close()

    def _queue(self, loop: asyncio.AbstractEventLoop) -> _Queue:
        queue = self._queues.get(loop)
        if queue is None:
            queue = self._queues[loop] = _Queue()
        return queue

    def _start(self, loop: asyncio.AbstractEventLoop, queue: _Queue, work: Any) -> None:
        task = loop.create_task(work)
        queue.tasks.add(task)
        task.add_done_callback(queue.tasks.discard)

    def _claim_turn(self, queue: _Queue) -> None:
        """Claim what was asked for in this turn of the loop."""
        batch, queue.claims = queue.claims, []
        if batch := [(key, claimed) for key, claimed in batch if not claimed.done()]:
            self._claim_here(batch)

    def _claim_here(self, batch: _Claims, *, replacing: bool = False) -> None:
        try:
            claims = self._store.claim_many([key for key, _ in batch], replacing=replacing)
        except Exception as error:
            _fail(batch, error)
        else:
            self._grant(batch, claims)

    async def _claim_waiting(self, queue: _Queue) -> None:
        """Claim what waits, batch by batch."""
        try:
            while queue.claims:
                batch, queue.claims = queue.claims[:_BATCH], queue.claims[_BATCH:]
                if batch := [(key, claimed) for key, claimed in batch if not claimed.done()]:
                    await self._claim_batch(batch)
        finally:
            queue.claiming -= 1

    async def _claim_batch(self, batch: _Claims, *, replacing: bool = False) -> None:
        keys = [key for key, _ in batch]
        job = self._in_thread(self._store.claim_many, keys, replacing=replacing)
        try:
            claims = await asyncio.shield(asyncio.wrap_future(job))
        except asyncio.CancelledError:  # the loop ends: nobody waits any more
            job.add_done_callback(lambda _: self._release(keys))
            raise
        except Exception as error:
            _fail(batch, error)
        else:
            self._grant(batch, claims)

    def _grant(self, batch: _Claims, claims: Sequence[KeyClaim]) -> None:
        unused = []
        for (key, claimed), claim in zip(batch, claims, strict=True):
            if not claimed.done():
                claimed.set_result(claim)
            elif claim.leased:  # whoever asked was cancelled
                unused.append(key)
        self._release(unused)

    def _release(self, keys: Sequence[bytes]) -> None:
        if keys and self._remote:
            with contextlib.suppress(RuntimeError):  # the pool is closed: they end by themselves
                self._in_thread(self._store.release_many, keys)
        elif keys:
            self._store.release_many(keys)

    def _write_turn(self, loop: asyncio.AbstractEventLoop, queue: _Queue) -> None:
        """Write what waits, unless that takes waiting."""
        if queue.writer is not None or not queue.rows:
            return
        rows, waiters = queue.rows, queue.waiters
        queue.rows, queue.waiters = [], []
        error: BaseException | None = None
        try:
            self._put(rows, wait=False)
        except BusyError:
            queue.rows, queue.waiters = rows, waiters
            queue.writer = loop.create_task(self._write_waiting(queue))
            return
        except Exception as failed:
            error = failed
        self._settle(rows, waiters, error)

    async def _write_waiting(self, queue: _Queue) -> None:
        """Write what waits, batch by batch, in a thread."""
        try:
            while queue.rows:
                if self._remote:
                    await asyncio.sleep(self._delay)
                job, settle = self._begin(queue)
                try:
                    with contextlib.suppress(Exception):  # `settle` notes it
                        await asyncio.shield(asyncio.wrap_future(job))
                finally:
                    settle()
        except asyncio.CancelledError:
            if queue.rows:  # the loop is being torn down, the rows are paid for
                self._begin(queue)[1]()
            raise
        finally:
            queue.writer = None

    def _begin(self, queue: _Queue) -> tuple[Future[None], Callable[[], None]]:
        """Begin to write what waits; returns the job, and what waits for it and notes how it went."""
        rows, waiters = queue.rows, queue.waiters
        queue.rows, queue.waiters = [], []
        job = self._in_thread(self._put, rows)
        return job, lambda: self._settle(rows, waiters, job.exception())

    def _settle(self, rows: list[KeyedRow], waiters: list[asyncio.Future[None]], error: BaseException | None) -> None:
        self.waiting -= len(rows)
        if error is None:
            self.stored += len(rows)
        else:
            self._unsaved += rows
            self.failure = error if isinstance(error, StoreError) else StoreError(f"the cache failed: {error!r}")
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _put(self, rows: list[KeyedRow], *, wait: bool = True) -> None:
        self.beside += self._store.put_many(rows, wait=wait, claimed=True)

    def _in_thread(self, work: Callable[..., Any], *values: Any, **more: Any) -> Future[Any]:
        if self._pid != os.getpid():  # a fork has neither the threads nor a lock that can be trusted
            self._threads, self._lock, self._pid = None, threading.Lock(), os.getpid()
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_AT_ONCE + 1, thread_name_prefix="judge-eval-cache")
            return self._threads.submit(work, *values, **more)


def _fail(batch: _Claims, error: Exception) -> None:
    for _, claimed in batch:
        if not claimed.done():
            claimed.set_exception(error)
