import json
import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from judge_eval.judges.parsing import without_surrogates
from judge_eval.judges.token_confidence import read_confidence
from judge_eval.llm.backend import Identity
from judge_eval.llm.cache.cached import cache_key
from judge_eval.prompts import load_form
from judge_eval.schema import BINARY, Call
from judge_eval.wire import Completion, DecisionAnswer, Message, Passage, Request, TokenLogprob, Usage, joined, sums_up

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
    st.lists(TEXT.filter(bool), max_size=3).map(tuple),
    st.lists(
        st.builds(TokenLogprob, TEXT, NUMBER, st.lists(st.tuples(TEXT, NUMBER), max_size=2).map(tuple)), max_size=3
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


GOOD = '["yes","stop",[1,2,0,0],"m",[]]'
BAD_ROWS = [
    '["yes","stop",[-5,1,0,0],"m",[]]', '["yes","stop",[1.5,1,0,0],"m",[]]',
    '["yes","stop",[true,1,0,0],"m",[]]',
    '["yes","stop",[1,2,0],"m",[]]', '["yes","stop",[1,2,0,0,0,0],"m",[]]', '["yes","stop","1234","m",[]]',
    '["yes","stop",{"1":1,"2":1,"3":1,"4":1},"m",[]]', f'["yes","stop",[{2**53 + 1},0,0,0],"m",[]]',
    f'["yes","stop",[1{"0" * 5000},0,0,0],"m",[]]', '["yes","stop",[NaN,0,0,0],"m",[]]',
    '["yes","done",[1,2,0,0],"m",[]]', '["yes",["stop"],[1,2,0,0],"m",[]]', '["yes",null,[1,2,0,0],"m",[]]',
    '[7,"stop",[1,2,0,0],"m",[]]', '["yes","stop",[1,2,0,0],7,[]]', '["yes","stop",[1,2,0,0],null,[]]',
    '["yes","stop",[1,2,0,0],"m","dropped"]', '["yes","stop",[1,2,0,0],"m",[["seed"]]]',
    '["yes","stop",[1,2,0,0],"m",{"seed":1}]', '["yes","stop",[1,2,0,0],"m",[],[["t",-1,[]]],7]',
    '["yes","stop",[1,2,0,0],"m",[],[["t",NaN,[]]]]', '["yes","stop",[1,2,0,0],"m",[],[["t",-Infinity,[]]]]',
    '["yes","stop",[1,2,0,0],"m",[],[["t",1e999,[]]]]', '["yes","stop",[1,2,0,0],"m",[],[["t","x",[]]]]',
    '["yes","stop",[1,2,0,0],"m",[],[[1,-1,[]]]]', '["yes","stop",[1,2,0,0],"m",[],[["t",-1,[["u"]]]]]',
    '["yes","stop",[1,2,0,0],"m",[],[["t",-1,["ab"]]]]',
    '["yes","stop",[1,2,0,0],"m",[],[["t",-1,{"ab":1}]]]',
    f'["yes","stop",[1,2,0,0],"m",[],[["t",-1{"0" * 400},[]]]]', '["yes","stop",[1,2,0,0],"m",[],null]',
    '["\\ud800","stop",[1,2,0,0],"m",[],NaN]', "[" * 100_000, '["\\ud800",' + "[" * 100_000,
    '{"text":"yes"}', "null", "7", "",
]  # fmt: skip


@pytest.mark.parametrize("row", BAD_ROWS, ids=lambda row: row[:60])
def test_a_strangers_row_of_another_shape_is_no_completion(row: str) -> None:
    """Types, ranges and depth of every field are checked: a row that is odd in one of them is refused."""
    assert Completion.decode(GOOD.encode()).usage == Usage(1, 2)
    with pytest.raises(ValueError, match="not a stored completion"):
        Completion.decode(row.encode())


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
FUZZED = int(os.environ.get("JUDGE_EVAL_TEST_FUZZED", "300"))


@seed(20261122)
@settings(max_examples=FUZZED)
@given(COMPLETIONS, st.lists(st.tuples(st.integers(0, 30), ODD), min_size=1, max_size=3))
def test_whatever_is_decoded_can_be_used_and_stored_again(
    completion: Completion, changes: list[tuple[int, Any]]
) -> None:
    """A row with other things in some of its places is refused, or is a completion like any other."""
    row = json.loads(completion.encode())
    for place, value in changes:
        target, at = row, place % len(row)
        while isinstance(target[at], list) and target[at] and place % 3:
            target, place = target[at], place // 3
            at = place % len(target)
        target[at] = value
    try:
        read = Completion.decode(json.dumps(row).encode())
    except ValueError:
        return
    assert Completion.decode(read.encode()) == read
    Call(
        key="0" * 64, chunk_ids=("c",), model=without_surrogates(read.model), finish=read.finish,
        input_tokens=read.usage.input_tokens, output_tokens=read.usage.output_tokens,
        dropped=read.dropped,
    ).model_dump_json()  # fmt: skip
    token_confidence = read_confidence(read, BINARY, 1)
    assert token_confidence is None or 0 <= token_confidence.confidence <= 1


def test_usage_adds_up() -> None:
    """Usages are added and taken from each other field by field."""
    first, other = Usage(1, 2, 3, 4), Usage(10, 20, 30, 40)
    assert first + other == Usage(11, 22, 33, 44)
    assert first + other - other == first


FROZEN = {
    "support/binary@2": (
        "e2e2c5eb64ba7ef790076c0655f87c8c3a07397380e89a5e164f2b9ae8d18920",
        "246efaa568a4b3915402ef2c391f400ede843294d311019ee328088929109676",
    ),
    "listwise/support/binary@2": (
        "6c050b6fafb347ba8066a70a2b29127ec8c8f6a305fba88d3c5b4ef6ffd30e64",
        "aa10e0827add9b60edf1242efd3a5bd49d611a59a583af8fe1ca852a6867df06",
    ),
}
"""The digests of requests, and the keys of their answers, which must not change."""


@pytest.mark.parametrize("prompt", FROZEN)
def test_keys_of_chat_requests_do_not_change(prompt: str) -> None:
    """Answers that were paid for are found: requests and keys are frozen."""
    titled = Passage("San Marzano.", "Sauce")
    passages = (titled, Passage("Basil.")) if prompt.startswith("listwise/") else (titled,)
    request = Request(load_form(prompt), "Which tomatoes?", passages, 300, reference="San Marzano.")
    who = Identity("openai", "m", "https://api.openai.com/v1", (("temperature", "0"),))
    assert (request.digest.hex(), cache_key(who, request.digest).hex()) == FROZEN[prompt]


def test_rows_of_chat_completions_do_not_change() -> None:
    """The form of a stored row is frozen, in both directions."""
    for completion, row in (
        (Completion("t", "stop", Usage(1, 2, 3, 4), "m", ("x",)), b'["t","stop",[1,2,3,4],"m",["x"]]'),
        (
            Completion("t", logprobs=(TokenLogprob("a", -0.5, (("b", -1.0),)),)),
            b'["t","stop",[0,0,0,0],"",[],[["a",-0.5,[["b",-1.0]]]]]',
        ),
    ):
        assert completion.encode() == row
        assert Completion.decode(row) == completion


SHARES = st.lists(st.floats(0, 1), min_size=2, max_size=10).map(tuple)
WHYS = st.sampled_from(["refused", "unparsable", "unreachable", "budget", "truncated"])
WORDS = st.text(st.characters(exclude_categories=["Cs"]))
ANSWERS = st.lists(SHARES.map(DecisionAnswer) | st.builds(DecisionAnswer, st.just(()), WHYS, WORDS), min_size=1).map(
    tuple
)


@given(ANSWERS)
def test_answers_come_back_as_they_were(answers: tuple[DecisionAnswer, ...]) -> None:
    """Probabilities to the last bit, reasons for there being none to the last letter."""
    completion = Completion("", model="m", answers=answers)
    assert Completion.decode(completion.encode()) == completion
    assert json.loads(completion.written)["c1"]


@pytest.mark.parametrize(
    "answer",
    [
        DecisionAnswer((1.2, 0.0)),
        DecisionAnswer((float("nan"), 0.5)),
        DecisionAnswer((float("inf"), 0.5)),
        DecisionAnswer((0.5,)),
        DecisionAnswer(("0.5", 0.5)),  # type: ignore[arg-type]
        DecisionAnswer((True, False)),
        DecisionAnswer((), "odd", "x"),  # type: ignore[arg-type]
        DecisionAnswer(),
        DecisionAnswer((), "refused", "\ud800"),
    ],
)
def test_what_is_no_answer_is_never_stored(answer: DecisionAnswer) -> None:
    """A backend of one's own may say anything; what would not be read again is not written."""
    with pytest.raises(ValueError, match=r"."):
        Completion("", answers=(answer,)).encode()


ODD_ROWS = ["[]", "7", "null", "[[]]", "[[0.5]]", "[[0.5,1.5]]", "[[true,false]]", '[["0.5",0.5]]',
            '[["gone",""]]', '[["refused",7]]', '[["refused"]]', '{"c1":[0.5,0.5]}', "[[NaN,1]]", "[[[],{}]]",
            '[[null,""]]', '[[0.5,0.5],7]', '[["refused","\\ud800"]]']  # fmt: skip


@pytest.mark.parametrize("row", ODD_ROWS)
def test_stored_answers_that_are_none_are_refused(row: str) -> None:
    """An edited row is no completion: never a number, never another error."""
    data = f'["","stop",[0,0,0,0],"m",[],[],{row}]'.encode()
    if row == "[]":
        assert Completion.decode(data).answers == ()
        return
    with pytest.raises(ValueError, match="not a stored completion"):
        Completion.decode(data)


@given(st.integers(2, 12), st.data())
def test_halves_ask_what_the_whole_asks(count: int, data: st.DataObject) -> None:
    """Passages in order, each with the chunks that hold it; the rest is the same."""
    held = tuple(data.draw(st.lists(st.integers(1, 3), min_size=count, max_size=count)))
    ids = tuple(f"c{n}" for n in range(sum(held)))
    passages = tuple(Passage(str(n)) for n in range(count))
    whole = replace(BASE, passages=passages, chunk_ids=ids, held_by=held)
    first, second = whole.halves()
    assert first.passages + second.passages == passages
    assert first.chunks_by_passage() + second.chunks_by_passage() == whole.chunks_by_passage()
    assert len({first.digest, second.digest, whole.digest}) == 3
    for half in (first, second):
        fresh = replace(BASE, passages=half.passages, chunk_ids=half.chunk_ids)
        assert half.digest == fresh.digest
        assert (half.query, half.trace_id, half.form) == (BASE.query, BASE.trace_id, BASE.form)


def test_one_passage_has_no_halves() -> None:
    """Nothing is asked of it but itself."""
    with pytest.raises(ValueError, match="no halves"):
        BASE.halves()


def test_joined_completions_add_up() -> None:
    """Answers in order, what was billed in sum, from a cache only where both are."""
    first = Completion("", usage=Usage(10, 0, 3), model="m", answers=(DecisionAnswer((0.1, 0.9)),))
    second = replace(first, answers=(DecisionAnswer((), "refused", "no"),), dropped=("x",), cached=True)
    both = joined(first, second)
    assert both.answers == first.answers + second.answers
    assert (both.usage, both.dropped, both.cached) == (Usage(20, 0, 6), ("x",), False)
    assert joined(second, second).cached


def test_sums_are_those_of_two_decimals() -> None:
    """Each probability may lie off by half a hundredth, and no more."""
    assert sums_up((0.33, 0.33, 0.33))
    assert sums_up((0.335, 0.335, 0.335))
    assert not sums_up((0.3, 0.3, 0.3))
    assert not sums_up((1.01, 0.0))
    assert not sums_up(())
