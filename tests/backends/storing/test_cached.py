from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.backends.base import Backend, Identity, Peeking
from judge_eval.backends.storing.cached import CacheCounts, Cached
from judge_eval.backends.storing.disk import DiskStore
from judge_eval.errors import CallError, FatalCallError, MissError, RefusedError, StoreError
from judge_eval.wire import Completion, Message, Passage, Request
from tests.support.cache_doubles import FORM, IDENTITY, Counting, MemoryStore, PlainForm, ask, readable
from tests.support.caching import complete_all


def test_cached_is_a_backend_that_can_be_peeked() -> None:
    """The cache fits both protocols and shows the identity of the backend inside."""
    cached = Cached(Counting(), MemoryStore())
    assert isinstance(cached, Backend)
    assert isinstance(cached, Peeking)
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
    found = cached.peek(requests)
    assert [c and c.text for c in found] == ["yes q0", None, "yes q2", None, "yes q4", None]
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


BASE = ask("query", "text", reference="ref", answer="ans")


CHANGED_REQUESTS = {
    "form's text": replace(BASE, form=PlainForm(system="Judge well.")),
    "form's contract": replace(BASE, form=PlainForm(contract="grade")),
    "query": replace(BASE, query="query?"),
    "passage": replace(BASE, passages=(Passage("text."),)),
    "title": replace(BASE, passages=(Passage("text", "title"),)),
    "empty title": replace(BASE, passages=(Passage("text", ""),)),
    "two passages": replace(BASE, passages=(Passage("te"), Passage("xt"))),
    "reference": replace(BASE, reference="ref."),
    "no reference": replace(BASE, reference=None),
    "empty reference": replace(BASE, reference=""),
    "answer": replace(BASE, answer="ans."),
    "no answer": replace(BASE, answer=None),
    "reference for answer": replace(BASE, reference="ans", answer="ref"),
    "cap": replace(BASE, max_tokens=101),
    "sample": replace(BASE, sample=1),
    "follow-up": replace(BASE, follow_up=(Message("user", "again"),)),
    "follow-up's role": replace(BASE, follow_up=(Message("assistant", "again"),)),
}


CHANGED_BACKENDS = {
    "provider": replace(IDENTITY, provider="other"),
    "model": replace(IDENTITY, model="model-b"),
    "base URL": replace(IDENTITY, base_url="http://127.0.0.1:2/v1"),
    "parameter": replace(IDENTITY, params=(("temperature", "1"),)),
    "parameter's name": replace(IDENTITY, params=(("top_p", "0"),)),
    "one parameter more": replace(IDENTITY, params=(*IDENTITY.params, ("top_p", "1"))),
    "no parameter": replace(IDENTITY, params=()),
}


def test_all_that_could_change_an_answer_changes_the_key() -> None:
    """Model, base URL, parameters, texts, cap, sample and contract each have keys of their own."""
    keys = {"nothing": Cached(Counting(), MemoryStore()).key(BASE)}
    for name, request in CHANGED_REQUESTS.items():
        keys[name] = Cached(Counting(), MemoryStore()).key(request)
    for name, identity in CHANGED_BACKENDS.items():
        keys[name] = Cached(Counting(identity=identity), MemoryStore()).key(BASE)
    assert len(set(keys.values())) == len(keys)
    assert all(key is not None and len(key) == 32 for key in keys.values())


def test_what_cannot_change_an_answer_keeps_the_key() -> None:
    """The trace's and chunks' names and what is done with the answer are no part of the key."""
    cached = Cached(Counting(), MemoryStore())
    same = replace(BASE, trace_id="other", chunk_ids=("other",), accepts=readable)
    assert cached.key(same) == cached.key(BASE)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


anyone = st.builds(
    Identity,
    provider=texts,
    model=texts,
    base_url=texts,
    params=st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
)


anything = st.builds(
    Request,
    form=st.builds(PlainForm, system=texts, contract=texts),
    query=texts,
    passages=st.lists(st.builds(Passage, text=texts, title=st.none() | texts), max_size=2).map(tuple),
    max_tokens=st.integers(1, 3),
    reference=st.none() | texts,
    answer=st.none() | texts,
    sample=st.integers(0, 2),
    follow_up=st.lists(st.builds(Message, role=st.just("user"), content=texts), max_size=1).map(tuple),
)


@given(st.tuples(anyone, anything), st.tuples(anyone, anything))
def test_keys_are_equal_just_where_all_is_equal(
    one: tuple[Identity, Request], other: tuple[Identity, Request]
) -> None:
    """Two questions to two backends share a key if and only if both are the same."""
    keys = [Cached(Counting(identity=who), MemoryStore()).key(what) for who, what in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)


def test_another_model_never_gets_the_answers_of_the_first() -> None:
    """With one store, each changed backend and each changed request is asked anew."""
    store = MemoryStore()
    complete_all(Cached(Counting(), store), BASE)
    for request in CHANGED_REQUESTS.values():
        backend = Counting()
        complete_all(Cached(backend, store), request)
        assert len(backend.asked) == 1
    for identity in CHANGED_BACKENDS.values():
        backend = Counting(identity=identity)
        complete_all(Cached(backend, store), BASE)
        assert len(backend.asked) == 1


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
    (found,) = cached.peek([ask()])
    assert found is not None
    assert found.text == "yes \ud800"


def test_twenty_equal_requests_are_one_call() -> None:
    """Equal requests at once share a call; each gets the answer, and one row is written."""
    backend, store = Counting(wait=0.02), MemoryStore()
    cached = Cached(backend, store)
    found = complete_all(cached, *[ask() for _ in range(20)])
    assert [c.text for c in found] == ["yes why?"] * 20
    assert len(backend.asked) == 1
    assert store.puts == [[cached.key(ask())]]
    assert cached.counts == CacheCounts(misses=1, stored=1, shared=19)


@pytest.mark.parametrize(
    "error", [CallError("no"), RefusedError("no"), FatalCallError("no"), ValueError("bug")]
)
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
    backend = Counting(wait=0.02)
    cached = Cached(backend, MemoryStore())

    async def run() -> list[Completion | BaseException]:
        tasks = [asyncio.create_task(cached.complete(ask())) for _ in range(4)]
        await asyncio.sleep(0.005)
        tasks[0].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, *others = asyncio.run(run())
    assert isinstance(first, asyncio.CancelledError)
    assert [c.text for c in others if isinstance(c, Completion)] == ["yes why?"] * 3
    assert len(backend.asked) == 2


def test_a_cancelled_follower_disturbs_nobody() -> None:
    """When one who waits is cancelled, the call goes on for the rest."""
    backend = Counting(wait=0.02)
    cached = Cached(backend, MemoryStore())

    async def run() -> list[Completion | BaseException]:
        tasks = [asyncio.create_task(cached.complete(ask())) for _ in range(4)]
        await asyncio.sleep(0.005)
        tasks[2].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(run())
    assert [type(c) for c in found] == [Completion, Completion, asyncio.CancelledError, Completion]
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
        await asyncio.sleep(0.01)
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


def test_offline_names_what_is_missing() -> None:
    """Offline, a hit is a hit, and a miss asks nobody and names trace and chunks."""
    store = MemoryStore()
    complete_all(Cached(Counting(), store), ask())
    backend = Counting()
    cached = Cached(backend, store, offline=True)
    assert complete_all(cached, ask())[0].text == "yes why?"
    with pytest.raises(MissError, match=r"trace 't9', chunks 'c1', 'c2'.*--offline") as caught:
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
