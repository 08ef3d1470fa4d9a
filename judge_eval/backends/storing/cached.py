"""The cache around a backend: what was paid for once is never paid for again."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from judge_eval.backends.base import Backend, Identity, Wrapper
from judge_eval.backends.storing.commit import Committer
from judge_eval.backends.storing.store import Leasing, Store
from judge_eval.errors import CallError, MissError, StoreError
from judge_eval.wire import Completion, Request

_ONLINE = "run once without --offline"

T = TypeVar("T")
_Outcome: TypeAlias = Completion | Exception | None  # None: whoever was asking was cancelled
_Flights: TypeAlias = dict[bytes, "asyncio.Future[_Outcome]"]


@dataclass
class CacheCounts:
    """What the cache did; all counts are >= 0."""

    hits: int = 0
    """Requests answered from the store."""
    misses: int = 0
    """Requests for which the backend was asked."""
    stored: int = 0
    """Completions written."""
    rejected: int = 0
    """Completions from which no verdict could be read, and which were not written for that."""
    shared: int = 0
    """Requests answered by an equal one that was in flight."""
    corrupt: int = 0
    """Rows of the store that were refused."""


def cache_key(identity: Identity, request_digest: bytes) -> bytes:
    """Return the 32 bytes a completion is stored under: the SHA-256 of who answers and what is asked."""
    return hashlib.sha256(identity.digest + request_digest).digest()


class Cached(Wrapper):
    """A backend that asks another one only for what its store does not hold.

    The key covers who answers and everything asked. A backend without an identity is passed through
    and never stored. Equal requests in flight are one call, in this process and (where the store can
    lease keys) among processes.

    A completion is returned once its row is written. If it cannot be written it is returned all the
    same, for it is paid, but every later call raises the `StoreError` before it is made (`failure`
    tells it too), and `aclose` tries once more.

    A repair (`request.origin`) is always asked, and its accepted answer is stored under the key of the
    request that started it, so that the next run finds it at its first question.

    Args:
        inner: Whom to ask.
        store: Where completions are kept; closed by `aclose`.
        offline: Whether a miss is an error instead of a call.
        delay: Seconds a written row may wait for others, to share a transaction with them.
        patience: Seconds to wait for another process that is asking for the same, before asking too.
    """

    def __init__(
        self,
        inner: Backend,
        store: Store,
        *,
        offline: bool = False,
        delay: float = 0.005,
        patience: float = 600.0,
    ) -> None:
        super().__init__(inner)
        self.store, self.offline = store, offline
        self._threads: ThreadPoolExecutor | None = None
        self._pid = os.getpid()
        self._far = bool(getattr(store, "far", False))
        self._leases = store if isinstance(store, Leasing) else None  # asked once: this is slow to ask
        self._patience = patience
        self._committer = Committer(store, delay=delay)
        self._flights: WeakKeyDictionary[asyncio.AbstractEventLoop, _Flights] = WeakKeyDictionary()
        self._counts = CacheCounts()
        self._corrupt_before = store.corrupt
        self._read_only: bool | None = None

    @property
    def failure(self) -> StoreError | None:
        """Why completions are not being written, where they are not."""
        return self._committer.failure

    @property
    def counts(self) -> CacheCounts:
        """What the cache did so far (a copy)."""
        corrupt = self._counts.corrupt + self.store.corrupt - self._corrupt_before
        return replace(self._counts, stored=self._committer.stored, corrupt=corrupt)

    def key(self, request: Request) -> bytes | None:
        """32 bytes over who answers and what is asked; None where nothing is stored."""
        identity = self.inner.identity
        return None if identity is None else cache_key(identity, request.digest)

    def peek(self, requests: Sequence[Request]) -> list[Completion | None]:
        """Look up many requests at once; None where a call is needed.

        Raises:
            StoreError: The store cannot be read.
        """
        completions: list[Completion | None] = [None] * len(requests)
        identity = self.inner.identity
        if identity is None:
            return completions
        places = [place for place, request in enumerate(requests) if request.origin is None]
        rows = self.store.get_many([cache_key(identity, requests[place].digest) for place in places])
        for place, row in zip(places, rows, strict=True):
            if row is not None:
                completions[place] = self._decode(row)
        return completions

    async def complete(self, request: Request) -> Completion:
        """Answer from the store, from an equal request in flight, or by asking.

        Raises:
            MissError: `offline`, and the store does not hold the answer.
            StoreError: The store cannot be read or written.
            CallError: The call brought no completion.
            FatalCallError: No call can succeed.
        """
        key = self.key(request)
        if key is None:
            return await self.inner.complete(request)
        loop = asyncio.get_running_loop()
        flights = self._flights.setdefault(loop, {})
        while (flight := flights.get(key)) is not None:
            # Shielded: a follower that is cancelled takes neither the leader nor its siblings with it.
            outcome = await asyncio.shield(flight)
            if outcome is not None:
                self._counts.shared += 1
                if isinstance(outcome, Exception):
                    raise outcome
                return outcome
        flight = flights[key] = loop.create_future()
        outcome = None
        paid: list[Completion] = []
        try:
            outcome = await self._find_or_ask(request, key, paid)
            return outcome
        except Exception as error:
            outcome = error
            raise
        finally:
            del flights[key]
            # Cancelled after the call: its row is on its way, so nobody need ask again.
            flight.set_result(outcome or (paid[0] if paid else None))

    async def aclose(self) -> None:
        """Write what waits, then close the store and the backend.

        Raises:
            StoreError: Paid completions could not be written, in a second try either.
        """
        try:
            await self._committer.aclose()
        finally:
            threads, self._threads = self._threads, None
            if threads is not None and self._pid == os.getpid():
                threads.shutdown(wait=False)
            await self.inner.aclose()

    async def _find_or_ask(self, request: Request, key: bytes, paid: list[Completion]) -> Completion:
        if not self._may_ask():
            hit = self._look_up(key) if request.origin is None else None
            if hit is None:
                raise self._refusal(request)
            return hit
        if request.origin is not None:
            return await self._pay(request, key, paid)
        leases = self._leases
        leased = leases is not None and await self._lease(leases, key)
        try:
            # Looked up with the lease in hand: whoever held it before may just have stored the answer.
            hit = await self._do(self._look_up, key)
            if hit is None and leases is not None and not leased:
                leased, hit = await self._await_other(leases, key)
            return hit if hit is not None else await self._pay(request, key, paid)
        finally:
            if leases is not None and leased:
                await self._do(leases.release_lease, key)

    async def _do(self, work: Callable[[bytes], T], key: bytes) -> T:
        """Do something with the store: at once where it is near, in a thread where it is far."""
        return await asyncio.wrap_future(self._pool().submit(work, key)) if self._far else work(key)

    async def _lease(self, leases: Leasing, key: bytes) -> bool:
        if not self._far:
            return leases.take_lease(key)
        job = self._pool().submit(leases.take_lease, key)
        try:
            return await asyncio.shield(asyncio.wrap_future(job))
        except asyncio.CancelledError:
            # Taken for someone who has left, it would be held as long as this process lives.
            job.add_done_callback(lambda _: leases.release_lease(key))
            raise

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None or self._pid != os.getpid():  # no thread survives a fork
            self._threads, self._pid = (
                ThreadPoolExecutor(4, thread_name_prefix="judge-eval-store"),
                os.getpid(),
            )
        return self._threads

    async def _await_other(self, leases: Leasing, key: bytes) -> tuple[bool, Completion | None]:
        """Wait while another process asks; returns whether the lease was won, and the other's answer."""
        loop = asyncio.get_running_loop()
        until, wait = loop.time() + self._patience, 0.005
        while loop.time() < until:
            await asyncio.sleep(wait)
            wait = min(wait * 1.5, 0.05)
            leased = await self._lease(leases, key)
            hit = await self._do(self._look_up, key)
            if leased or hit is not None:
                return leased, hit
        return False, None

    async def _pay(self, request: Request, key: bytes, paid: list[Completion]) -> Completion:
        self._counts.misses += 1
        completion = await self.inner.complete(request)
        paid.append(completion)
        if request.accepts is not None and not request.accepts(completion):
            self._counts.rejected += 1
            return completion
        root = request
        while root.origin is not None:
            root = root.origin
        try:
            row = completion.encode()
        except ValueError:  # a lone surrogate in the reply: no file can hold it
            self._counts.rejected += 1
            return completion
        # No await between the answer and the row: a cancellation cannot come between them.
        await self._committer.add(key if root is request else self.key(root) or key, row)
        return completion

    def _look_up(self, key: bytes) -> Completion | None:
        row = self.store.get_many((key,))[0]
        return None if row is None else self._decode(row)

    def _decode(self, row: bytes) -> Completion | None:
        try:
            completion = Completion.decode(row)
        except ValueError:
            self._counts.corrupt += 1
            return None
        self._counts.hits += 1
        return completion

    def _may_ask(self) -> bool:
        if self._read_only is None:
            self._read_only = self.store.info().read_only
        return not (self.offline or self._read_only or self.failure is not None)

    def _refusal(self, request: Request) -> Exception:
        """Say, before anything is paid, why it may not be asked for or could not be kept."""
        if self.failure is not None:
            return StoreError(str(self.failure))
        if request.origin is not None:  # its first answer stands
            return CallError("the answer was not asked for again: the cache is offline or read-only")
        if self.offline:
            return MissError("the cache", request.trace_id, request.chunk_ids, _ONLINE)
        return StoreError(
            f"{self.store.info().path}: the cache cannot be written and does not hold the answer for trace "
            f"{request.trace_id!r}, chunks {', '.join(map(repr, request.chunk_ids))}; what is paid for would "
            "be lost: make it writable, name another folder with --cache, or use --no-cache"
        )
