"""All that could change an answer is in its key, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from judge_eval.llm.backend import Identity
from judge_eval.llm.cache.cached import Cached
from judge_eval.llm.http.openai import create
from judge_eval.wire import Message, Passage, Request
from tests.support.cache_doubles import IDENTITY, Counting, MemoryStore, PlainForm, ask, readable
from tests.support.caching import complete_all

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
    left: tuple[Identity, Request], other: tuple[Identity, Request]
) -> None:
    """Two questions to two backends share a key if and only if both are the same."""
    keys = [Cached(Counting(identity=who), MemoryStore()).key(what) for who, what in (left, other)]
    assert (keys[0] == keys[1]) == (left == other)


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


def test_one_number_has_one_key() -> None:
    """`0` and `0.0`, `1` and `1.0` are the same parameter, also inside others."""
    for spelled, plain in (("0.0", "0"), ("1.0", "1"), ("1e1", "10"), ('{"a":[2.0]}', '{"a":[2]}')):
        keys = [
            Cached(Counting(identity=replace(IDENTITY, params=(("x", text),))), MemoryStore()).key(BASE)
            for text in (spelled, plain)
        ]
        assert keys[0] == keys[1], spelled
    for text in ("0.5", '"1.0"', "1.0.0", "NaN", "1e999", "true"):
        assert replace(IDENTITY, params=(("x", text),)).params == (("x", text),)


def test_the_query_of_an_address_is_part_of_the_key() -> None:
    """Two deployments do not share answers, and the query is in no field that is shown."""
    identities = [
        create("m", base_url=f"http://127.0.0.1:1/{path}").identity
        for path in ("v1", "v1?deployment=a", "v1?deployment=b", "/v1", "v1/")
    ]
    keys = [Cached(Counting(identity=who), MemoryStore()).key(BASE) for who in identities]
    assert len(set(keys)) == 3
    assert keys[0] == keys[3] == keys[4]
    assert "deployment" not in repr(identities)
    assert {who.base_url for who in identities} == {"http://127.0.0.1:1/v1"}
