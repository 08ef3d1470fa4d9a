"""Equal requests at once are one call, whoever leads it, leaves it or closes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from judge_eval.errors import CallError, FatalCallError, RefusedError
from judge_eval.llm.cache import disk
from judge_eval.llm.cache.cached import CacheCounts, Cached
from judge_eval.llm.cache.disk import DiskStore
from judge_eval.wire import Completion, Request
from tests.support.cache_doubles import Counting, Held, MemoryStore, ask
from tests.support.caching import complete_all


def test_twenty_equal_requests_are_one_call() -> None:
    """Equal requests at once share a call; each gets the answer, and one row is written."""
    backend, store = Counting(wait=0.02), MemoryStore()
    cached = Cached(backend, store)
    result = complete_all(cached, *[ask() for _ in range(20)])
    assert [c.text for c in result] == ["yes why?"] * 20
    assert len(backend.asked) == 1
    assert store.puts == [[cached.key(ask())]]
    assert cached.counts == CacheCounts(misses=1, stored=1, shared=19)


@pytest.mark.parametrize("error", [CallError("no"), RefusedError("no"), FatalCallError("no"), ValueError("bug")])
def test_a_failed_call_fails_its_equals_and_is_forgotten(error: Exception) -> None:
    """All who wait for a call that failed get its error; the next one is asked again; nothing is stored."""

    def fail(request: Request) -> str:
        raise error

    backend, store = Counting(fail, wait=0.01), MemoryStore()
    cached = Cached(backend, store)

    async def run() -> list[Completion | BaseException]:
        return await asyncio.gather(*(cached.complete(ask()) for _ in range(5)), return_exceptions=True)

    assert asyncio.run(run()) == [error] * 5
    assert len(backend.asked) == 1
    assert store.rows == {}
    backend.answer = lambda _: "yes"
    assert complete_all(cached, ask())[0].text == "yes"


def test_a_cancelled_leader_leaves_its_followers_an_answer() -> None:
    """When whoever asked is cancelled, one of those who waited asks, and the others still share."""
    backend = Held()
    cached = Cached(backend, MemoryStore())

    async def run() -> list[Completion | BaseException]:
        tasks = [asyncio.create_task(cached.complete(ask())) for _ in range(4)]
        await backend.called.wait()
        tasks[0].cancel()
        backend.may_answer.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, *others = asyncio.run(run())
    assert isinstance(first, asyncio.CancelledError)
    assert [c.text for c in others if isinstance(c, Completion)] == ["yes, slow"] * 3
    assert len(backend.asked) == 2


def test_a_cancelled_follower_disturbs_nobody() -> None:
    """When one who waits is cancelled, the call goes on for the rest."""
    backend = Held()
    cached = Cached(backend, MemoryStore())

    async def run() -> list[Completion | BaseException]:
        tasks = [asyncio.create_task(cached.complete(ask())) for _ in range(4)]
        await backend.called.wait()
        tasks[2].cancel()
        backend.may_answer.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    result = asyncio.run(run())
    assert [type(c) for c in result] == [Completion, Completion, asyncio.CancelledError, Completion]
    assert len(backend.asked) == 1


def test_a_cancellation_after_the_call_loses_nothing_paid(tmp_path: Path) -> None:
    """Cancelled between the answer and its row, even with the event loop ending, the row is written."""
    backend = Counting()
    cached = Cached(backend, DiskStore(tmp_path), delay=30.0)

    async def run() -> None:
        task = asyncio.create_task(cached.complete(ask()))
        follower = asyncio.create_task(cached.complete(ask()))
        while not backend.asked:
            await asyncio.sleep(0)
        for _ in range(20):  # turns of the loop, in which the answer comes and its row waits for company
            await asyncio.sleep(0)
        task.cancel()
        assert (await follower).text == "yes why?"

    asyncio.run(run())
    assert len(backend.asked) == 1
    assert Cached(Counting(), DiskStore(tmp_path)).peek([ask()]) != [None]


def test_close_writes_what_waits(tmp_path: Path) -> None:
    """Closing writes the rows that wait for company, and the cache can be used again after."""

    async def run() -> None:
        cached = Cached(Counting(), DiskStore(tmp_path))
        task = asyncio.create_task(cached.complete(ask()))
        await asyncio.sleep(0.001)
        await cached.aclose()
        await task
        await cached.complete(ask("more"))
        await cached.aclose()
        await cached.aclose()

    asyncio.run(run())
    assert None not in Cached(Counting(), DiskStore(tmp_path)).peek([ask(), ask("more")])


def test_rows_share_transactions() -> None:
    """A hundred answers at once are written in a few transactions, each row once."""
    store = MemoryStore()
    complete_all(Cached(Counting(), store), *[ask(f"q{n}") for n in range(100)])
    assert len(store.rows) == 100
    assert sum(map(len, store.puts)) == 100
    assert len(store.puts) <= 5


def test_a_closed_cache_has_nothing_left_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing ends the timer too: nothing touches the store once it is closed."""
    monkeypatch.setattr(disk, "_SYNCED", 0.05)
    synced: list[bool] = []
    closed = asyncio.Event()
    real = DiskStore.sync

    def sync(store: DiskStore) -> None:
        synced.append(closed.is_set())
        real(store)

    monkeypatch.setattr(DiskStore, "sync", sync)

    async def run() -> None:
        cached = Cached(Counting(), DiskStore(tmp_path))
        await cached.complete(ask())
        await cached.aclose()
        closed.set()
        await asyncio.sleep(0.3)

    asyncio.run(run())
    assert synced
    assert not any(synced)
