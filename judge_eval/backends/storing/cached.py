"""The cache around a backend: what was paid for once is never paid for again."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias
from weakref import WeakKeyDictionary

from judge_eval.backends.base import Backend, Identity, Wrapper
from judge_eval.backends.storing.commit import Committer
from judge_eval.backends.storing.desks import FarDesk, make_desk
from judge_eval.backends.storing.store import Store
from judge_eval.errors import CallError, MissError, StoreError
from judge_eval.wire import Completion, Request

_ONLINE = "run once without --offline"

_REPAIRED = ("stop", "length")
"""How a reply ends that a judge may ask to have repaired."""
_KEPT = 30.0
"""Seconds for which a lease is kept for a repair that may never come."""
_ON_THEIR_WAY = 64
"""So many rows at most are on their way behind a network before the next one is waited for."""
_Lease = Literal["kept", "ended", "written"]
"""Of a lease: kept for a repair; ended here; or ended by the row that is on its way."""
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
    beside: int = 0
    """Answers that were paid for although somebody else had asked, or answered, by the time they came."""


def cache_key(identity: Identity, request_digest: bytes) -> bytes:
    """Return the 32 bytes a completion is stored under: the SHA-256 of who answers and what is asked."""
    return hashlib.sha256(identity.digest + request_digest).digest()


class Cached(Wrapper):
    """A backend that asks another one only for what its store does not hold.

    The key covers who answers and everything asked. A backend without an identity is passed through
    and never stored. Equal requests in flight are one call, in this process and (where the store can
    lease keys) among processes.

    A completion is returned once its row is written; behind a network, while its row is on its way, with
    a few others at most. If it cannot be written it is returned all the same, for it is paid, but every
    later call raises the `StoreError` before it is made (`failure` tells it too), and `aclose` tries once
    more.

    The accepted answer to a repair (`request.origin`) is stored under the key of the request that started
    it, so that the next run finds it at its first question. The lease of that key is kept from the first
    question to its repair, so that others wait for the outcome; a repair that somebody else has been
    given is not asked for again.

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
        self._desk = make_desk(store)
        self._far = isinstance(self._desk, FarDesk)
        self._patience = patience
        self._kept: dict[bytes, float] = {}  # leases kept for a repair, and until when
        self._bad: set[tuple[bytes, int]] = set()
        self.tells_refused = True
        """Whether rows that the store refuses count here; False where another cache around it counts them."""
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
        refused = self.store.corrupt - self._corrupt_before if self.tells_refused else 0
        corrupt = len(self._bad) + refused
        beside = self._counts.beside + self._committer.beside
        return replace(self._counts, stored=self._committer.stored, corrupt=corrupt, beside=beside)

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
        keys = [cache_key(identity, requests[place].digest) for place in places]
        for place, key, row in zip(places, keys, self.store.get_many(keys), strict=True):
            completions[place] = self._decode(key, row)
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
            for key in list(self._kept):
                self._let_go(key)
            await self._desk.aclose()
            await self._committer.aclose()
        finally:
            await self.inner.aclose()

    async def _find_or_ask(self, request: Request, key: bytes, paid: list[Completion]) -> Completion:
        if not self._may_ask():
            hit = self._decode(key, self.store.get_many((key,))[0]) if request.origin is None else None
            if hit is None:
                raise self._refusal(request)
            return hit
        first = _first(request)
        root = key if first is request else self.key(first) or key
        leased = self._kept.pop(root, None) is not None
        if not leased:
            # A stored answer to the question answers its repair too, if it can be read.
            leased, hit = await self._obtain(root, None if first is request else request.accepts)
            if hit is not None:
                return hit
        lease: _Lease = "ended"
        try:
            lease = await self._pay(request, root, paid, leased=leased)
            return paid[0]
        finally:
            if leased and lease == "kept":
                self._keep(root)
            elif leased and lease == "ended":
                self._desk.release(root)

    async def _obtain(
        self, key: bytes, accepts: Callable[[Completion], bool] | None
    ) -> tuple[bool, Completion | None]:
        """Find an answer, or lease the key, waiting while another process asks.

        Returns:
            Whether the key is leased, and the answer; neither where patience has run out.
        """
        loop = asyncio.get_running_loop()
        until, wait = loop.time() + self._patience, 0.005
        while True:
            value, leased, refused = await self._desk.claim(key)
            hit = self._decode(key, value)
            if hit is not None and (accepts is None or accepts(hit)):
                if leased:
                    self._desk.release(key)
                return False, hit
            if not leased and (refused or value is not None):  # a row that answers nothing
                leased = await self._desk.lease(key)
            if leased or loop.time() >= until:
                return leased, None
            await asyncio.sleep(wait)
            wait = min(wait * 1.5, 0.25 if self._far else 0.05)

    def _keep(self, key: bytes) -> None:
        """Keep a lease for the repair that may follow, for a while."""
        loop = asyncio.get_running_loop()
        self._kept[key] = loop.time() + _KEPT
        loop.call_later(_KEPT, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        for key, until in list(self._kept.items()):
            if until <= loop.time():
                self._let_go(key)

    def _let_go(self, key: bytes) -> None:
        if self._kept.pop(key, None) is not None:
            self._desk.release(key)

    async def _pay(self, request: Request, root: bytes, paid: list[Completion], *, leased: bool) -> _Lease:
        """Ask and store; returns what becomes of the lease, where there is one."""
        self._counts.misses += 1
        loop = asyncio.get_running_loop()
        begun = loop.time()
        completion = await self.inner.complete(request)
        paid.append(completion)
        if request.accepts is not None and not request.accepts(completion):
            self._counts.rejected += 1
            return "kept" if request.origin is None and completion.finish in _REPAIRED else "ended"
        try:
            row = completion.encode()
        except ValueError:  # numbers that no reader would take
            self._counts.rejected += 1
            return "ended"
        if not self._far and (not leased or loop.time() - begun > self._patience):
            # Others may have lost patience, and asked too.
            other = self._decode(root, self.store.get_many((root,))[0])
            if other is not None and (request.accepts is None or request.accepts(other)):
                self._counts.beside += 1
                return "ended"
        # No await between the answer and the row: a cancellation cannot come between them.
        written = self._committer.add(root, row)
        if not self._far or self._committer.waiting > _ON_THEIR_WAY:
            await written
        return "written" if self._far else "ended"

    def _decode(self, key: bytes, value: bytes | None) -> Completion | None:
        if value is None:
            return None
        try:
            completion = Completion.decode(value)
        except ValueError:
            self._bad.add((key, hash(value)))
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


def _first(request: Request) -> Request:
    """Return the question that a chain of repairs began with."""
    while request.origin is not None:
        request = request.origin
    return request
