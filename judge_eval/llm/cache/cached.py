"""Asks a backend only for what a store does not hold."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias
from weakref import WeakKeyDictionary

from judge_eval.errors import CallError, MissError, StoreError
from judge_eval.llm.backend import Backend, Identity, Wrapper, is_outdated
from judge_eval.llm.cache.batched import Batched
from judge_eval.llm.cache.store import Store
from judge_eval.llm.waiting import waiting_for_others
from judge_eval.spelling import option
from judge_eval.wire import Completion, Request

_ONLINE = f"run once without {option('offline', True)}"

_REPAIRED = ("stop", "length")  # the finishes of a reply for which a judge may ask for a repair
_KEPT = 30.0  # seconds for which a lease is kept for a repair that may never come
_ON_THEIR_WAY = 64  # rows on their way behind a network, above which the next one is waited for
_Lease = Literal["kept", "ended", "written"]
"""A lease is kept for a repair, ended here, or ended by the row that is on its way."""
_Outcome: TypeAlias = Completion | Exception | None  # None: the call was cancelled
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
        self._flights: WeakKeyDictionary[asyncio.AbstractEventLoop, _Flights] = WeakKeyDictionary()
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
        flights = self._flights.get(loop)
        if flights is None:
            flights = self._flights[loop] = {}
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
        with waiting_for_others():
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
