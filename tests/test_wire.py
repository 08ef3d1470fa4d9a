from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.prompts import load_form
from judge_eval.wire import Completion, Message, Passage, Request, TokenLogprob, Usage

BASE = Request(
    form=load_form("support/binary"),
    query="q",
    passages=(Passage("one"),),
    max_tokens=100,
    reference="r",
    trace_id="t",
    chunk_ids=("a",),
)


@pytest.mark.parametrize(
    "change",
    [
        {"form": load_form("support/graded")},
        {"query": "Q"},
        {"passages": (Passage("two"),)},
        {"passages": (Passage("one", "title"),)},
        {"passages": (Passage("one", ""),)},
        {"passages": (Passage("one"), Passage("one"))},
        {"passages": ()},
        {"max_tokens": 101},
        {"reference": None},
        {"reference": ""},
        {"reference": "R"},
        {"answer": ""},
        {"answer": "r", "reference": None},
        {"sample": 1},
        {"follow_up": (Message("user", "again"),)},
        {"follow_up": (Message("assistant", "again"),)},
    ],
)
def test_what_could_change_the_answer_changes_the_digest(change: dict[str, Any]) -> None:
    """Each field that is asked with is part of the digest; None and empty differ."""
    assert replace(BASE, **change).digest != BASE.digest


@pytest.mark.parametrize(
    "change",
    [
        {"trace_id": "u"},
        {"chunk_ids": ("b", "c")},
        {"accepts": lambda _: True},
        {"origin": BASE},
        {"form": load_form("support/binary")},
    ],
)
def test_what_is_not_asked_does_not(change: dict[str, Any]) -> None:
    """The names of trace and chunks are no part of the question, so another trace may share the answer."""
    assert replace(BASE, **change).digest == BASE.digest


def test_a_passage_and_a_message_never_pass_for_each_other() -> None:
    """Parts of different kinds do not collide, however they are arranged."""
    shapes = [
        replace(BASE, passages=(Passage("x"),), follow_up=(Message("user", "y"),)),
        replace(BASE, passages=(Passage("x"), Passage("y", "user")), follow_up=()),
        replace(BASE, passages=(), follow_up=(Message("user", "x"), Message("user", "y"))),
        replace(BASE, passages=(Passage("x", "user"),), follow_up=(Message("user", "y"),)),
    ]
    assert len({request.digest for request in shapes}) == len(shapes)


COUNT = st.integers(0, 2**40)
TEXT = st.text()
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
COMPLETIONS = st.builds(
    Completion,
    TEXT,
    st.sampled_from(["stop", "length", "refusal", "filter"]),
    st.builds(Usage, COUNT, COUNT, COUNT, COUNT),
    TEXT,
    st.lists(TEXT, max_size=3).map(tuple),
    st.lists(
        st.builds(TokenLogprob, TEXT, NUMBER, st.lists(st.tuples(TEXT, NUMBER), max_size=2).map(tuple)),
        max_size=3,
    ).map(tuple),
)


@given(COMPLETIONS)
def test_a_completion_survives_being_stored(completion: Completion) -> None:
    """What was encoded is decoded equal, and says that it was stored."""
    back = Completion.decode(completion.encode())
    assert back == completion
    assert back.cached
    assert not completion.cached


@given(st.binary() | st.text().map(str.encode) | st.from_regex(r"\[[\[\]\",0-9a-z]*\]").map(str.encode))
def test_other_bytes_are_no_completion(data: bytes) -> None:
    """Whatever else stands in a store is a `ValueError`, never another exception and never an answer."""
    with pytest.raises(ValueError, match="not a stored completion"):
        Completion.decode(data)


def test_usage_adds_up() -> None:
    """Usages are added and taken from each other field by field."""
    one, other = Usage(1, 2, 3, 4), Usage(10, 20, 30, 40)
    assert one + other == Usage(11, 22, 33, 44)
    assert one + other - other == one
