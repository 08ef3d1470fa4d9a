"""A store over a network: one round trip for a verdict, shared by those who ask together."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest

from judge_eval.errors import StoreError
from judge_eval.llm.cache.cached import Cached
from judge_eval.llm.cache.store import KeyClaim
from judge_eval.wire import Request
from tests.support.cache_doubles import Counting, MemoryStore, ask


class FarStore(MemoryStore):
    """A store behind a network: it counts what is sent there; its writes and its claims can be held up."""

    remote = True

    def __init__(self) -> None:
        super().__init__()
        self.claims: list[int] = []
        self.released: list[bytes] = []
        self.open, self.near = threading.Event(), threading.Event()
        self.open.set()
        self.near.set()

    def claim_many(self, keys: Sequence[bytes], *, replacing: bool = False) -> list[KeyClaim]:
        self.claims.append(len(keys))
        time.sleep(0.005)
        assert self.near.wait(60)
        return super().claim_many(keys, replacing=replacing)

    def put_many(self, items: Sequence[tuple[bytes, bytes]], *, wait: bool = True, claimed: bool = False) -> int:
        assert claimed
        assert self.open.wait(60)
        return super().put_many(items)

    def release_many(self, keys: Sequence[bytes]) -> None:
        self.released += keys


def test_a_verdict_over_a_network_waits_for_one_round_trip() -> None:
    """Asked one after another each verdict makes one claim; no slot waits for rows, up to a bound."""
    store = FarStore()
    cached = Cached(Counting(), store)
    store.open.clear()

    async def run() -> None:
        for n in range(64):
            await cached.complete(ask(f"q{n}"))
        assert store.claims == [1] * 64
        assert store.rows == {}
        blocked = asyncio.create_task(cached.complete(ask("more")))
        await asyncio.sleep(0.05)
        assert not blocked.done(), "what is paid for does not pile up while the store stands still"
        store.open.set()
        await blocked
        await cached.aclose()

    asyncio.run(run())
    assert len(store.rows) == 65
    assert store.released == []
    assert len(store.puts) < 10, "rows that wait share a statement"


def test_those_who_ask_together_share_a_round_trip() -> None:
    """A hundred questions at once are claimed in a few statements, answered rows are not asked again."""
    store = FarStore()

    async def run(backend: Counting) -> None:
        cached = Cached(backend, store)
        await asyncio.gather(*(cached.complete(ask(f"q{n}")) for n in range(100)))
        await cached.aclose()

    backends = [Counting(), Counting()]
    for backend in backends:
        asyncio.run(run(backend))
    assert [len(backend.asked) for backend in backends] == [100, 0]
    assert len(store.claims) <= 8


def test_a_claim_for_someone_who_has_left_is_given_back() -> None:
    """Whoever is cancelled while waiting for a claim, or whose call fails, leaves no lease behind."""
    store = FarStore()

    def fail(request: Request) -> str:
        raise StoreError("no")

    async def run() -> None:
        cached = Cached(Counting(fail), store)
        store.near.clear()
        task = asyncio.create_task(cached.complete(ask("left")))
        while not store.claims:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        store.near.set()
        with pytest.raises(StoreError):
            await cached.complete(ask("failed"))
        while len(store.released) < 2:
            await asyncio.sleep(0.001)
        await cached.aclose()
        assert set(store.released) == {cached.key(ask("left")), cached.key(ask("failed"))}
        assert len(store.released) == 2

    asyncio.run(run())
