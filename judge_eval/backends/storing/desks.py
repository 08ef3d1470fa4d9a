"""Desks: where one asks for a key and learns what is stored under it, or that one may ask the judge."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakKeyDictionary

from judge_eval.backends.storing.store import Claiming, KeyClaim, Leasing, Store

_AT_ONCE = 4
"""So many batches of claims may be on their way; what comes meanwhile waits and shares the next."""
_BATCH = 1000


class Desk(Protocol):
    """Claims keys of a store, from an event loop."""

    async def claim(self, key: bytes) -> KeyClaim:
        """Look a key up, and lease it where there is no row.

        Raises:
            StoreError: The store cannot be read or written.
        """
        ...

    async def lease(self, key: bytes) -> bool:
        """Lease a key though there is a row, which shall be replaced."""
        ...

    def release(self, key: bytes) -> None:
        """Give a lease back, soon."""
        ...

    async def aclose(self) -> None:
        """Wait for what is on its way."""
        ...


def make_desk(store: Store) -> Desk:
    """Make the desk that suits a store: one that batches where a network lies between."""
    return FarDesk(store) if isinstance(store, Claiming) else NearDesk(store)


class NearDesk:
    """Claims keys of a store on this machine, at once; where the store leases nothing, each is granted.

    Args:
        store: Where rows are kept.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._leases = store if isinstance(store, Leasing) else None  # asked once: this is slow to ask

    async def claim(self, key: bytes) -> KeyClaim:
        """Lease a key, then look it up: whoever held it before may just have stored the answer."""
        leased = self._leases is None or self._leases.take_lease(key)
        return KeyClaim(self._store.get_many((key,))[0], leased)

    async def lease(self, key: bytes) -> bool:
        """Lease a key."""
        return self._leases is None or self._leases.take_lease(key)

    def release(self, key: bytes) -> None:
        """Give a lease back."""
        if self._leases is not None:
            self._leases.release_lease(key)

    async def aclose(self) -> None:
        """Nothing is on its way."""


@dataclass
class _Line:
    """Who waits in one event loop."""

    waiting: list[tuple[bytes, asyncio.Future[KeyClaim]]] = field(default_factory=list)
    called: bool = False
    under_way: int = 0


class FarDesk:
    """Claims keys of a store behind a network, in one round trip for all who ask meanwhile.

    Args:
        store: Where rows are kept.
    """

    def __init__(self, store: Claiming) -> None:
        self._store = store
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()
        self._threads: ThreadPoolExecutor | None = None
        self._pid = os.getpid()

    async def claim(self, key: bytes) -> KeyClaim:
        """Look a key up, and lease it where there is no row.

        Raises:
            StoreError: The store cannot be read or written.
        """
        loop = asyncio.get_running_loop()
        line = self._lines.setdefault(loop, _Line())
        claimed: asyncio.Future[KeyClaim] = loop.create_future()
        line.waiting.append((key, claimed))
        self._call(line, loop)
        return await claimed

    async def lease(self, key: bytes) -> bool:
        """Lease a key."""
        job = self._pool().submit(self._store.take_lease, key)
        try:
            return await asyncio.shield(asyncio.wrap_future(job))
        except asyncio.CancelledError:
            # Taken for someone who has left, it would be held as long as this process lives.
            job.add_done_callback(lambda _: self._store.release_lease(key))
            raise

    def release(self, key: bytes) -> None:
        """Give a lease back; nobody waits for it."""
        self._pool().submit(self._store.release_many, [key])

    async def aclose(self) -> None:
        """Wait for what is on its way."""
        threads, self._threads = self._threads, None
        if threads is not None and self._pid == os.getpid():
            await asyncio.to_thread(threads.shutdown)

    def _call(self, line: _Line, loop: asyncio.AbstractEventLoop) -> None:
        if line.waiting and not line.called and line.under_way < _AT_ONCE:
            line.called = True
            loop.call_soon(self._send, line, loop)  # after all who are about to ask have asked

    def _send(self, line: _Line, loop: asyncio.AbstractEventLoop) -> None:
        line.called = False
        batch, line.waiting = line.waiting[:_BATCH], line.waiting[_BATCH:]
        batch = [(key, claimed) for key, claimed in batch if not claimed.cancelled()]
        if not batch:
            return
        line.under_way += 1
        job = self._pool().submit(self._store.claim_many, [key for key, _ in batch])

        def settle(job: Future[list[KeyClaim]]) -> None:
            try:
                loop.call_soon_threadsafe(self._settle, line, loop, batch, job)
            except RuntimeError:  # the loop was closed meanwhile
                self._give_back([(key, True) for key, _ in batch])

        job.add_done_callback(settle)
        self._call(line, loop)

    def _settle(
        self,
        line: _Line,
        loop: asyncio.AbstractEventLoop,
        batch: Sequence[tuple[bytes, asyncio.Future[KeyClaim]]],
        job: Future[list[KeyClaim]],
    ) -> None:
        line.under_way -= 1
        self._call(line, loop)
        error = job.exception()
        for place, (_, claimed) in enumerate(batch):
            if claimed.done():
                continue
            if error is not None:
                claimed.set_exception(error)
            else:
                claimed.set_result(job.result()[place])
        if error is None:
            left = zip(batch, job.result(), strict=True)
            self._give_back([(key, claim.leased) for (key, to), claim in left if to.cancelled()])

    def _give_back(self, leases: Sequence[tuple[bytes, bool]]) -> None:
        """Release what was leased for those who have left."""
        keys = [key for key, leased in leases if leased]
        if keys:
            with contextlib.suppress(RuntimeError):  # the pool is closed: they end by themselves
                self._pool().submit(self._store.release_many, keys)

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None or self._pid != os.getpid():  # no thread survives a fork
            self._threads = ThreadPoolExecutor(_AT_ONCE + 1, thread_name_prefix="judge-eval-store")
            self._pid = os.getpid()
        return self._threads
