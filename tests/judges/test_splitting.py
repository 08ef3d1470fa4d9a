"""References become claims: quoted, complete or named as incomplete, once for all that is retrieved."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval import Trace
from judge_eval.errors import CallError
from judge_eval.judges import Claims, Splitting
from judge_eval.judges.parsing import Problem
from judge_eval.judges.splitting import read_split
from judge_eval.quotes import stands_in, telling_words, uncovered
from judge_eval.schema import Claim
from judge_eval.wire import Completion
from tests.support.claiming import QUERY, REFERENCE, split
from tests.support.driving import drive

WHOLE = split(
    ("Anna Berg directed The Long Harvest", "Anna Berg directed The Long Harvest."),
    ("she was born in Uppsala", "Anna Berg was born in Uppsala."),
    ("in 1931", "Anna Berg was born in 1931."),
)


def trace(*texts: str, **more: Any) -> Trace:
    """Make a trace of the common question."""
    return Trace.parse({"id": "t", "query": QUERY, "reference": REFERENCE, "chunks": list(texts), **more})


def claims_of(judgment: Any) -> list[tuple[str, str]]:
    """Return ids and texts of the claims that a trace was judged by."""
    return [(claim.id, claim.text) for claim in judgment.claims.claims]


def test_claims_are_numbered_in_their_order() -> None:
    """A readable reply is asked for once; ids run from 1, quotes are kept, vital as the judge says."""
    judgment, rounds = drive(Splitting(), trace("any"), [[WHOLE]])
    assert len(rounds) == 1
    assert claims_of(judgment) == [
        ("1", "Anna Berg directed The Long Harvest."),
        ("2", "Anna Berg was born in Uppsala."),
        ("3", "Anna Berg was born in 1931."),
    ]
    assert all(stands_in(REFERENCE, claim.quote) and claim.vital for claim in judgment.claims.claims)


def test_what_is_asked_follows_from_question_and_reference_alone() -> None:
    """Chunks, id, tags and depth change nothing: one cache entry serves every retriever, K and run."""
    first = Splitting().request(trace("one", "two"))
    other = Splitting().request(trace("three", id="other", tags=["x"], answer="An answer."))
    assert first.digest == other.digest
    assert first.messages == other.messages
    assert Splitting().request(trace(reference=REFERENCE + " ")).digest != first.digest
    assert Splitting().request(trace(query=QUERY + " ")).digest != first.digest
    for judge in (Claims(), Claims("claims/support-list"), Claims(scale="graded", sample=2)):
        (request,) = next(judge.plan(trace("one")))
        assert request.digest == first.digest


BAD = {
    "a quote that is not there": split(("born in Lund", "Anna Berg was born in Lund.")),
    "an empty quote": split(("", "Anna Berg was born.")),
    "an empty claim": split(("in 1931", " ")),
    "a missing field": split({"quote": "in 1931", "claim": "Born in 1931."}),
    "a field too many": split({"quote": "in 1931", "claim": "1931.", "vital": True, "id": "7"}),
    "vital as a word": split({"quote": "in 1931", "claim": "1931.", "vital": "perhaps"}),
    "a claim that is a number": split({"quote": "in 1931", "claim": 1931, "vital": True}),
    "an entry that is a text": Completion('{"claims": ["Anna"]}'),
    "no list": Completion('{"claims": {}}'),
    "another object": Completion('{"verdict": true}'),
    "prose": Completion("There are three claims."),
    "too many": Completion(
        json.dumps({"claims": [{"quote": "in 1931", "claim": f"C {n}", "vital": True} for n in range(1001)]})
    ),
}


@pytest.mark.parametrize("reply", BAD.values(), ids=BAD)
def test_an_unusable_reply_is_repaired_once_and_then_named(reply: Completion) -> None:
    """The problem is named in one more request; then there are no claims, and no chunk has a verdict."""
    judgment, rounds = drive(Claims(), trace("a text", "another"), [[reply], [reply]])
    assert [len(round_) for round_ in rounds] == [1, 1]
    again = rounds[1][0]
    assert again.origin is rounds[0][0]
    assert again.follow_up[0].content == reply.text[:4000]
    assert "That answer cannot be used: " in again.follow_up[1].content
    assert judgment.claims is None
    assert [outcome.why for outcome in judgment.outcomes] == ["unparsable"] * 2
    assert all(o.detail.startswith("the reference could not be split") for o in judgment.outcomes)
    assert not rounds[0][0].accepts(reply)
    mended, _ = drive(Splitting(), trace("a text"), [[reply], [WHOLE]])
    assert len(mended.claims.claims) == 3


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Completion("", "refusal"), "refused"),
        (CallError("gone"), "unreachable"),
        (CallError("spent", why="budget"), "budget"),
    ],
)
def test_a_failed_split_says_why(reply: Any, why: str) -> None:
    """What declined, failed or may not be paid is the reason of every chunk, never an invented claim."""
    judgment, rounds = drive(Claims(), trace("a text", " "), [[reply]])
    assert len(rounds) == 1
    assert [outcome.why for outcome in judgment.outcomes] == [why, why]
    assert judgment.claims is None


def test_a_truncated_split_is_asked_again_with_a_larger_cap() -> None:
    """The cap is doubled, once."""
    _, rounds = drive(Splitting(), trace("a"), [[Completion("<think>", "length")], [WHOLE]])
    assert rounds[1][0].max_tokens == 2 * rounds[0][0].max_tokens


def test_a_split_that_leaves_most_out_gets_a_second_look() -> None:
    """Where most words stand in no quote the rest is named, and the more complete answer counts."""
    poor = split(("in 1931", "Anna Berg was born in 1931."))
    judgment, rounds = drive(Splitting(), trace("a"), [[poor], [WHOLE]])
    assert "Anna Berg directed The Long Harvest" in rounds[1][0].follow_up[1].content
    assert rounds[1][0].origin is None  # so that either answer is kept, and paid once
    assert len(judgment.claims.claims) == 3
    for worse in (Completion("no"), split(), CallError("gone"), poor):
        judgment, rounds = drive(Splitting(), trace("a"), [[poor], [worse]])
        assert claims_of(judgment) == [("1", "Anna Berg was born in 1931.")]
        assert len(rounds) == 2


def test_a_small_rest_is_taken_as_it_is() -> None:
    """A claim left out costs no second look; what is left can be named."""
    most = split(("Anna Berg directed The Long Harvest", "A."), ("was born in Uppsala", "B."))
    judgment, rounds = drive(Splitting(), trace("a"), [[most]])
    assert len(rounds) == 1
    assert uncovered(REFERENCE, [claim.quote for claim in judgment.claims.claims]) == ["in 1931"]


def test_claims_that_say_the_same_are_one() -> None:
    """Equal texts, in whatever case and spacing, count once; the first one's quote stays."""
    read = read_split(split(("in 1931", "Born in  1931"), ("1931", "born in 1931")), REFERENCE)
    assert not isinstance(read, Problem)
    assert read == (Claim(id="1", text="Born in 1931", quote="in 1931"),)


def test_a_reference_may_claim_nothing() -> None:
    """An empty list is an answer that is kept; where the reference has words, after a second look."""
    judgment, rounds = drive(Splitting(), trace("a", reference="?!"), [[split()]])
    assert len(rounds) == 1
    assert judgment.claims.claims == ()
    assert rounds[0][0].accepts(split())
    judgment, rounds = drive(Splitting(), trace("a"), [[split()], [split()]])
    assert judgment.claims.claims == ()
    judgment, _ = drive(Splitting(), trace("a"), [[split()], [WHOLE]])
    assert len(judgment.claims.claims) == 3


UNCOVERED = [
    ("The oven is hot, and the bread is old.", ["oven is hot", "bread is old"], []),
    ("The oven is hot, and the bread is old.", ["The oven is hot"], ["and the bread is old"]),
    ("It is so.", [], []),
    ("Yes", [], []),
    ("Uppsala", [], ["Uppsala"]),
    ("„Der Ofen“ ist heiß.", ['"Der Ofen" ist heiß'], []),
    ("a b c d", ["b c"], ["d"]),
    ("番茄是红的。很甜。", ["番茄是红的"], ["很甜"]),
    ("", ["x"], []),
]


@pytest.mark.parametrize(("text", "quotes", "rest"), UNCOVERED)
def test_what_no_quote_holds_is_named(text: str, quotes: list[str], rest: list[str]) -> None:
    """Stretches are verbatim; white space, punctuation and words that say nothing alone are no rest."""
    assert uncovered(text, quotes) == rest


@given(st.text("ab .,", max_size=40), st.lists(st.text("ab .", max_size=8), max_size=4))
def test_the_rest_stands_in_the_text_and_in_no_quote(text: str, quotes: list[str]) -> None:
    """Every stretch is a piece of the text, in order; the whole text quoted leaves none; quotes only help."""
    rest = uncovered(text, quotes)
    at = 0
    for piece in rest:
        at = text.index(piece, at) + len(piece)
    assert uncovered(text, [text]) == [] or not stands_in(text, text)
    before = sum(map(telling_words, uncovered(text, [])))
    assert sum(map(telling_words, rest)) <= before == telling_words(text)


def test_a_trace_with_claims_is_not_split() -> None:
    """Claims that a dataset or a file brings are used as they are; the reference is not asked about."""
    given_claims = trace("a").model_copy(update={"claims": (Claim(id="x", text="X."),)})
    (request,) = next(Claims().plan(given_claims))
    assert request.claims == ("X.",)
