"""Asks a backend only for what a store does not hold, and hands rows to the store in batches."""

import asyncio
import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary, WeakMethod

from judge_eval.errors import CallError, MissError, StoreError
from judge_eval.llm.backend import Backend, Identity, Wrapper, is_outdated
from judge_eval.llm.cache.store import BusyError, KeyClaim, KeyedRow, Store
from judge_eval.spelling import option
from judge_eval.wire import Completion, Request

_ONLINE = f"run once without {option('offline', True)}"

_REPAIRED = ("stop", "length")  # the finishes of a reply for which a judge may ask for a repair
_KEPT = 30.0  # seconds for which a lease is kept for a repair that may never come
_ON_THEIR_WAY = 64  # rows on their way behind a network, above which the next one is waited for
_Lease = Literal["kept", "ended", "written"]
"""A lease is kept for a repair, ended here, or ended by the row that is on its way."""
_Outcome: TypeAlias = Completion | Exception | None  # None: the call was cancelled


note_waiting: ContextVar[WeakMethod[Callable[[int], None]] | None] = ContextVar("judge_eval waiting", default=None)
"""What is called with 1 when a request of this task begins to wait for another process, and with -1 when it ends.

It is held weakly: an open socket keeps the context in which it was opened, and would keep what keeps the socket."""


@contextlib.contextmanager
def _waiting_for_others() -> Iterator[None]:
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
    """Completions that were not written because no verdict could be read from them."""
    shared: int = 0
    """Requests answered by an equal one that was in flight."""
    corrupt: int = 0
    """Rows of the store that were refused."""
    beside: int = 0
    """Answers that were paid for although another process had asked, or answered, by the time they came."""


def cache_key(identity: Identity, request_digest: bytes) -> bytes:
    """Return the 32 bytes a completion is stored under: the SHA-256 of who answers and what is asked."""
    return hashlib.sha256(identity.digest + request_digest).digest()


class Cached(Wrapper):
    """A backend that asks another one only for what its store does not hold; `aclose` closes the store.

    The key covers who answers and everything asked. A backend without an identity is passed through and never
    stored. Equal requests in flight are one call, in this process and (where the store can lease keys) among
    processes, for which `patience` seconds are waited. `offline`: a miss is an error.

    A completion is returned once its row is written; behind a network, while its row is on its way with a few others at
    most, for which it waits `delay` seconds. If it cannot be written it is returned all the same, for it is paid; every
    later call raises the `StoreError` (`failure`) before it is made, and `aclose` tries once more.

    The accepted answer to a repair (`request.origin`) is stored under the key of the first request, so that
    the next run finds it at its first question. The lease of that key is kept until the repair, so that
    others wait for the outcome; a repair that another process has paid for is not asked for again.
    """

    def __init__(
        self, inner: Backend, store: Store, *, offline: bool = False, delay: float = 0.005, patience: float = 600.0
    ) -> None:
        super().__init__(inner)
        self.store, self.offline = store, offline
        self._remote = store.remote
        self._batched = Batched(store, delay=delay)
        self._patience = patience
        self._kept: dict[bytes, asyncio.TimerHandle] = {}  # leases kept for a repair, and what ends them
        self._bad: set[tuple[bytes, int]] = set()
        self.tells_refused = True
        """Whether rows that the store refuses count here; False where another cache around it counts them."""
        self.request_id: Callable[[bytes, Completion], str] | None = None
        """What knows the server's name of the request behind a stored answer, which no row holds."""
        self._counts = CacheCounts()
        self._corrupt_before = store.corrupt
        self._read_only: bool | None = None

    @property
    def failure(self) -> StoreError | None:
        """Why completions are not being written, where they are not."""
        return self._batched.failure

    @property
    def counts(self) -> CacheCounts:
        """What the cache did so far (a copy)."""
        refused = self.store.corrupt - self._corrupt_before if self.tells_refused else 0
        corrupt = len(self._bad) + refused
        beside = self._counts.beside + self._batched.beside
        return replace(self._counts, stored=self._batched.stored, corrupt=corrupt, beside=beside)

    def key(self, request: Request) -> bytes | None:
        """32 bytes over who answers and what is asked; None where nothing is stored."""
        identity = self.inner.identity
        return None if identity is None else cache_key(identity, request.digest)

    def peek(self, requests: Sequence[Request]) -> list[Completion | None]:
        """Look up many requests at once; None where a call is needed."""
        completions: list[Completion | None] = [None] * len(requests)
        identity = self.inner.identity
        if identity is None:
            return completions
        places = [place for place, request in enumerate(requests) if request.origin is None]
        keys = [cache_key(identity, requests[place].digest) for place in places]
        for place, key, row in zip(places, keys, self.store.get_many(keys), strict=True):
            completions[place] = self._decode(key, row)
        return completions

    async def complete(self, request: Request) -> Completion:
        """Answer from the store, from an equal request in flight, or by asking."""
        key = self.key(request)
        if key is None:
            return await self.inner.complete(request)
        loop = asyncio.get_running_loop()
        flights = self._batched.queue(loop).flights
        while (flight := flights.get(key)) is not None:
            # Shielded: a cancelled follower does not cancel the call or its other followers.
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
        """Write what waits, in a second try if the first fails, then close the store and the backend."""
        try:
            for key in list(self._kept):
                self._let_go(key)
            await self._batched.aclose()
        finally:
            await self.inner.aclose()

    async def _find_or_ask(self, request: Request, key: bytes, paid: list[Completion]) -> Completion:
        if not self._may_ask():
            hit = self._decode(key, self.store.get_many((key,))[0]) if request.origin is None else None
            if hit is None:
                raise self._refusal(request)
            return hit
        first = request.first
        root = key if first is request else self.key(first) or key
        kept = self._kept.pop(root, None)
        leased = kept is not None
        if kept is not None:
            kept.cancel()
        else:
            # A stored answer to the question answers its repair too, if it can be read.
            leased, hit = await self._claim(root, None if first is request else request.accepts)
            if hit is not None:
                return hit
        lease: _Lease = "ended"
        written: asyncio.Future[None] | None = None
        try:
            lease, written = await self._pay(request, root, paid, leased=leased)
        finally:
            if leased and lease == "kept":
                self._kept[root] = asyncio.get_running_loop().call_later(_KEPT, self._let_go, root)
            elif leased and lease == "ended":
                self._batched.release(root)
        if written is not None and (not self._remote or self._batched.waiting > _ON_THEIR_WAY):
            await written
        return paid[0]

    async def _claim(self, key: bytes, accepts: Callable[[Completion], bool] | None) -> tuple[bool, Completion | None]:
        """Find an answer, or lease the key (True), waiting for another process as long as patience lasts."""
        leased, hit = await self._claim_once(key, accepts)
        if leased or hit is not None:
            return leased, hit
        loop = asyncio.get_running_loop()
        until, wait = loop.time() + self._patience, 0.005
        with _waiting_for_others():
            while hit is None and not leased and loop.time() < until:
                await asyncio.sleep(wait - loop.time() % wait)  # those who wait look together
                wait = min(wait * 2, 0.16 if self._remote else 0.04)
                leased, hit = await self._claim_once(key, accepts)
        return leased, hit

    async def _claim_once(
        self, key: bytes, accepts: Callable[[Completion], bool] | None
    ) -> tuple[bool, Completion | None]:
        """Find an answer, or lease the key (True), unless another process has the lease."""
        value, leased, refused = await self._batched.claim(key)
        hit = self._decode(key, value)
        if hit is not None and (accepts is None or accepts(hit)):
            if leased:
                self._batched.release(key)
            return False, hit
        if not leased and (refused or value is not None):  # a row that answers nothing
            leased = (await self._batched.claim(key, replacing=True)).leased
        return leased, None

    def _let_go(self, key: bytes) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            kept.cancel()
            self._batched.release(key)

    async def _pay(
        self, request: Request, root: bytes, paid: list[Completion], *, leased: bool
    ) -> tuple[_Lease, "asyncio.Future[None] | None"]:
        """Ask and store; returns what becomes of the lease, where there is one, and what ends with the row written."""
        self._counts.misses += 1
        loop = asyncio.get_running_loop()
        begun = loop.time()
        completion = await self.inner.complete(request)
        paid.append(completion)
        kept = request.kept(completion)
        self._counts.rejected += kept is not completion
        if kept is None:
            return ("kept" if request.origin is None and completion.finish in _REPAIRED else "ended"), None
        try:
            row = kept.encode()
        except ValueError:  # numbers that no reader would take
            self._counts.rejected += 1
            return "ended", None
        if not self._remote and (not leased or loop.time() - begun > self._patience):
            # Others may have lost patience, and asked too.
            other = self._decode(root, self.store.get_many((root,))[0])
            if other is not None and (request.accepts is None or request.accepts(other)):
                self._counts.beside += 1
                return "ended", None
        # No await between the answer and the row: a cancellation cannot come between them.
        return "written", self._batched.write(root, row)

    def _decode(self, key: bytes, value: bytes | None) -> Completion | None:
        if value is None:
            return None
        try:
            completion = Completion.decode(value)
        except ValueError:
            self._bad.add((key, hash(value)))
            return None
        if is_outdated(self.inner, completion):
            return None
        self._counts.hits += 1
        if self.request_id is not None:
            completion = replace(completion, request_id=self.request_id(key, completion))
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
            f"be lost: make it writable, name another folder with {option('cache')}, or use no cache "
            "(`cache=False`, `--cache none`)"
        )


_AT_ONCE = 4  # so many batches of claims may be on their way; what comes meanwhile waits and shares the next
_BATCH = 1000
_Claims: TypeAlias = list[tuple[bytes, "asyncio.Future[KeyClaim]"]]


@dataclass
class _Queue:
    """What waits in one event loop, and the tasks that work on it."""

    flights: dict[bytes, asyncio.Future[_Outcome]] = field(default_factory=dict)
    """How the calls of a cache end that have begun, by key."""
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
        queue = self.queue(loop)
        claimed: asyncio.Future[KeyClaim] = loop.create_future()
        if replacing:
            self._start(loop, queue, self._claim_batch([(key, claimed)], replacing=True))
            return claimed
        queue.claims.append((key, claimed))
        if queue.claiming < (_AT_ONCE if self._remote else 1):
            queue.claiming += 1
            self._start(loop, queue, self._claim_waiting(queue))  # begins when all who are about to ask have asked
        return claimed

    def release(self, key: bytes) -> None:
        """Give a lease back; nobody waits for it."""
        self._release([key])

    def write(self, key: bytes, value: bytes) -> asyncio.Future[None]:
        """Hand over a row, to be written even if nobody waits; the future is done then, or on `failure`."""
        loop = asyncio.get_running_loop()
        queue = self.queue(loop)
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
        queue = self.queue(loop)
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

    def queue(self, loop: asyncio.AbstractEventLoop) -> _Queue:
        """Return what waits in an event loop."""
        queue = self._queues.get(loop)
        if queue is None:
            queue = self._queues[loop] = _Queue()
        return queue

    def _start(self, loop: asyncio.AbstractEventLoop, queue: _Queue, work: Any) -> None:
        task = loop.create_task(work)
        queue.tasks.add(task)
        task.add_done_callback(queue.tasks.discard)

    async def _claim_waiting(self, queue: _Queue) -> None:
        try:
            while queue.claims:
                batch, queue.claims = queue.claims[:_BATCH], queue.claims[_BATCH:]
                if batch := [(key, claimed) for key, claimed in batch if not claimed.done()]:
                    await self._claim_batch(batch)
        finally:
            queue.claiming -= 1

    async def _claim_batch(self, batch: _Claims, *, replacing: bool = False) -> None:
        keys = [key for key, _ in batch]
        try:
            if not self._remote:
                claims = self._store.claim_many(keys, replacing=replacing)
            else:
                job = self._in_thread(self._store.claim_many, keys, replacing=replacing)
                try:
                    claims = await asyncio.shield(asyncio.wrap_future(job))
                except asyncio.CancelledError:  # the loop ends: nobody waits any more
                    job.add_done_callback(lambda _: self._release(keys))
                    raise
        except Exception as error:
            for _, claimed in batch:
                if not claimed.done():
                    claimed.set_exception(error)
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
