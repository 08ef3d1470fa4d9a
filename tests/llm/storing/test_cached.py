from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from judge_eval.errors import CallError, MissError, StoreError
from judge_eval.llm.backend import Backend
from judge_eval.llm.cache.cached import CacheCounts, Cached
from judge_eval.llm.cache.disk import DiskStore
from judge_eval.wire import Message, Request
from tests.support.cache_doubles import FORM, IDENTITY, Counting, MemoryStore, PlainForm, ask, readable
from tests.support.caching import complete_all


def test_cached_is_a_backend_that_can_be_peeked() -> None:
    """The cache fits both protocols and shows the identity of the backend inside."""
    cached = Cached(Counting(), MemoryStore())
    assert isinstance(cached, Backend)
    assert callable(cached.peek)
    assert cached.identity == IDENTITY


def test_a_second_run_asks_nobody(tmp_path: Path) -> None:
    """What was answered once is answered from the disk, in another cache and event loop, marked as cached."""
    first = Counting()
    cached = Cached(first, DiskStore(tmp_path))
    requests = [ask(f"q{n}") for n in range(40)]
    cold = complete_all(cached, *requests)
    asyncio.run(cached.aclose())
    assert len(first.asked) == 40
    assert first.closed == 1
    second = Counting()
    again = Cached(second, DiskStore(tmp_path))
    assert again.peek(requests) == cold
    assert complete_all(again, *requests) == cold
    assert all(c.cached for c in again.peek(requests) if c is not None)
    assert not any(c.cached for c in cold)
    assert second.asked == []
    assert cached.counts == CacheCounts(misses=40, stored=40)
    assert again.counts == CacheCounts(hits=120)
    asyncio.run(again.aclose())


def test_peek_answers_in_order_without_asking() -> None:
    """A look-up of many requests gives each its own answer, None where there is none, and asks nobody."""
    backend = Counting()
    cached = Cached(backend, MemoryStore())
    requests = [ask(f"q{n}") for n in range(6)]
    complete_all(cached, *requests[::2])
    result = cached.peek(requests)
    assert [c and c.text for c in result] == ["yes q0", None, "yes q2", None, "yes q4", None]
    assert cached.peek([]) == []
    assert len(backend.asked) == 3


def test_a_completion_counts_once_it_is_written(tmp_path: Path) -> None:
    """When `complete` returns, another process would find the row."""

    async def run() -> None:
        cached = Cached(Counting(), DiskStore(tmp_path))
        for n in range(5):
            await cached.complete(ask(f"q{n}"))
            other = Cached(Counting(), DiskStore(tmp_path))
            assert other.peek([ask(f"q{n}")]) != [None]
            await other.aclose()
        await cached.aclose()

    asyncio.run(run())


def test_a_backend_without_identity_is_never_stored() -> None:
    """A scripted backend is asked each time, even offline: it calls nobody."""
    backend, store = Counting(identity=None), MemoryStore()
    cached = Cached(backend, store, offline=True)
    complete_all(cached, ask())
    complete_all(cached, ask())
    assert len(backend.asked) == 2
    assert store.rows == {}
    assert cached.peek([ask()]) == [None]
    assert cached.key(ask()) is None


def test_garbage_is_never_stored() -> None:
    """An answer from which no verdict can be read is given back and asked for again the next time."""
    replies = iter(["perhaps", "yes"])
    backend, store = Counting(lambda _: next(replies)), MemoryStore()
    cached = Cached(backend, store)
    request = ask(accepts=readable)
    assert complete_all(cached, request)[0].text == "perhaps"
    assert store.rows == {}
    assert complete_all(cached, request)[0].text == "yes"
    assert complete_all(cached, request)[0].text == "yes"
    assert len(backend.asked) == 2
    assert cached.counts == CacheCounts(hits=1, misses=2, stored=1, rejected=1)


def test_a_repair_is_stored_where_the_next_run_begins() -> None:
    """A repair of a repair is found at the first question, and answers every later repair too."""
    replies = {"q": "hm", "again": "hmm", "and again": "yes"}
    backend = Counting(lambda r: replies[r.follow_up[-1].content if r.follow_up else r.query])
    store = MemoryStore()
    cached = Cached(backend, store)
    first = ask("q", accepts=readable)
    second = replace(first, follow_up=(Message("user", "again"),), origin=first)
    third = replace(first, follow_up=(Message("user", "and again"),), origin=second)
    for request in (first, second, third):
        complete_all(cached, request)
    assert list(store.rows) == [cached.key(first)]
    assert complete_all(cached, first)[0].text == "yes"
    assert len(backend.asked) == 3
    assert cached.peek([first, second, third])[1:] == [None, None]
    assert complete_all(cached, second)[0].text == "yes"
    assert len(backend.asked) == 3
    picky = replace(second, accepts=lambda completion: completion.text == "no")
    complete_all(cached, picky)
    assert len(backend.asked) == 4, "a stored answer that cannot be read is asked for again"


def test_damaged_rows_are_misses() -> None:
    """A row that is no completion is counted and asked for again."""
    backend, store = Counting(), MemoryStore()
    cached = Cached(backend, store)
    key = cached.key(ask())
    assert key is not None
    for row in (b"", b"null", b"[]", b'{"text":"yes"}', b'["yes","stop",[1,2,3,4],7]', b"\x80\x04"):
        store.rows[key] = row
        assert cached.peek([ask()]) == [None]
    assert cached.counts.corrupt == 6
    assert complete_all(cached, ask())[0].text == "yes why?"
    assert cached.peek([ask()]) != [None]


def test_a_reply_with_a_lone_surrogate_is_kept() -> None:
    """A reply with a lone surrogate, which UTF-8 cannot spell, is paid for: it is stored and found again."""
    cached = Cached(Counting(lambda _: "yes \ud800"), MemoryStore())
    assert complete_all(cached, ask())[0].text == "yes \ud800"
    (result,) = cached.peek([ask()])
    assert result is not None
    assert result.text == "yes \ud800"


def test_offline_names_what_is_missing() -> None:
    """Offline, a hit is a hit, and a miss asks nobody and names trace and chunks."""
    store = MemoryStore()
    complete_all(Cached(Counting(), store), ask())
    backend = Counting()
    cached = Cached(backend, store, offline=True)
    assert complete_all(cached, ask())[0].text == "yes why?"
    with pytest.raises(MissError, match=r"trace 't9', chunks 'c1', 'c2'.*offline=True") as caught:
        complete_all(cached, ask("new", trace_id="t9", chunk_ids=("c1", "c2")))
    assert (caught.value.trace_id, caught.value.chunk_ids) == ("t9", ("c1", "c2"))
    assert backend.asked == []


def test_offline_a_repair_is_a_failed_call() -> None:
    """Offline, asking again fails that call only: the first answer stands."""
    cached = Cached(Counting(), MemoryStore(), offline=True)
    with pytest.raises(CallError):
        complete_all(cached, ask(follow_up=(Message("user", "again"),), origin=ask()))


def test_a_read_only_store_is_told_before_anything_is_paid() -> None:
    """With a store that cannot be written hits are given, and a miss ends the run before its call."""
    store = MemoryStore()
    complete_all(Cached(Counting(), store), ask())
    store.read_only = True
    backend = Counting()
    cached = Cached(backend, store)
    assert complete_all(cached, ask())[0].text == "yes why?"
    with pytest.raises(StoreError, match="cannot be written"):
        complete_all(cached, ask("new"))
    assert backend.asked == []


def test_a_store_that_fails_stops_the_run_and_loses_no_answer() -> None:
    """Calls in flight are answered, no call is made after, and closing writes what could not be written."""
    backend, store = Counting(wait=0.01), MemoryStore()
    store.broken = True
    cached = Cached(backend, store)
    paid = complete_all(cached, *[ask(f"q{n}") for n in range(5)])
    assert [c.text for c in paid] == [f"yes q{n}" for n in range(5)]
    assert cached.failure is not None
    with pytest.raises(StoreError, match="no space left"):
        complete_all(cached, ask("more"))
    assert len(backend.asked) == 5
    assert cached.counts.stored == 0
    store.broken = False
    asyncio.run(cached.aclose())
    assert len(store.rows) == 5
    assert cached.counts.stored == 5
    assert cached.failure is None


def test_a_store_that_goes_on_failing_is_told_at_the_end() -> None:
    """If the last rows cannot be written, closing says how many answers are not in the cache."""
    store = MemoryStore()
    store.broken = True
    backend = Counting()
    cached = Cached(backend, store)
    complete_all(cached, ask("q1"), ask("q2"))
    with pytest.raises(StoreError, match="2 paid answers"):
        asyncio.run(cached.aclose())
    assert backend.closed == 1


def test_form_is_rendered_only_for_calls() -> None:
    """A hit never pays for rendering messages."""
    rendered: list[str] = []

    class Watching(PlainForm):
        def render(self, request: Request) -> tuple[Message, ...]:
            rendered.append(request.query)
            return FORM.render(request)

    say: Callable[[Request], str] = lambda request: f"yes {len(request.messages)}"  # noqa: E731
    store = MemoryStore()
    complete_all(Cached(Counting(say), store), ask(form=Watching()))
    complete_all(Cached(Counting(say), store), ask(form=Watching()))
    assert rendered == ["why?"]
