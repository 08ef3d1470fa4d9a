import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.errors import BudgetError, ConfigError, PromptError, TransientError
from judge_eval.judges import Judge, Listwise
from judge_eval.judges.questions import LARGER_CAP
from judge_eval.schema import Judgment, Verdict
from judge_eval.wire import Completion, Reply, Request, Usage
from tests.support.driving import drive, trace_of
from tests.support.replies import entry, many, one

JUDGE = Listwise("listwise/support/binary")
FOUR = trace_of("one", "two", "three", "four")
GARBAGE = Completion("1 yes, 2 no")
CUT = Completion('{"verdicts": [', "length", Usage(9, 512, reasoning_tokens=500))
YES, NO = one(True, "pointwise"), one(False)


def grades(judgment: Judgment) -> list[int | str]:
    """Tell each outcome in a word."""
    return [o.grade if o.kind == "verdict" else o.why for o in judgment.outcomes]


def asked(rounds: list[list[Request]]) -> list[list[tuple[str, ...]]]:
    """Tell which passages were asked about, round by round."""
    return [[tuple(passage.text for passage in request.passages) for request in round_] for round_ in rounds]


def test_it_is_a_judge() -> None:
    """The class keeps the protocol; the prompt of its second question is part of its description."""
    judge: Judge = JUDGE
    assert isinstance(judge, Judge)
    assert judge.describe()["pointwise"]["prompt"]["id"] == "support/binary"


def test_one_request_judges_all() -> None:
    """All chunks are in one request; entries go by their ids, in any order."""
    reply = many(entry(3, False), entry(1), entry(4), entry(2, False))
    judgment, rounds = drive(JUDGE, FOUR, [[reply]])
    assert grades(judgment) == [1, 0, 0, 1]
    assert asked(rounds) == [[("one", "two", "three", "four")]]
    assert len(judgment.calls) == 1
    assert judgment.calls[0].chunk_ids == ("c1", "c2", "c3", "c4")


def test_nothing_and_blank_chunks_cost_nothing() -> None:
    """An empty list makes no request; blank chunks are not shown; equal ones are shown once."""
    assert drive(JUDGE, trace_of(), [])[1] == []
    assert drive(JUDGE, trace_of("", " "), [])[1] == []
    judgment, rounds = drive(JUDGE, trace_of("a", "", "a", "b"), [[many(entry(1), entry(2, False))]])
    assert asked(rounds) == [[("a", "b")]]
    assert grades(judgment) == [1, "empty", 1, 0]


def test_known_verdicts_are_not_asked_for() -> None:
    """What is known is not shown again."""
    known = {"c2": Verdict(chunk_id="c2", grade=1, relevant=True)}
    judgment, rounds = drive(JUDGE, trace_of("a", "b", "c"), [[many(entry(1, False), entry(2, False))]], known)
    assert asked(rounds) == [[("a", "c")]]
    assert grades(judgment) == [0, 1, 0]


@pytest.mark.parametrize(
    ("reply", "open_ones", "rest"),
    [
        (many(entry(1), entry(2)), ("three", "four"), [1, 1]),
        (many(entry(1), entry(3), entry(3, False), entry(4)), ("two", "three"), [1, 1]),
        (many(entry(1), entry(2, "maybe"), entry(3, 7), entry(4)), ("two", "three"), [1, 1]),
        (many(entry(2), entry(4)), ("one", "three"), [1, 1]),
    ],
)
def test_what_is_left_open_is_asked_pointwise(reply: Completion, open_ones: tuple[str, str], rest: list[int]) -> None:
    """Missing, doubled and off-scale entries are asked again one by one; no rank shifts."""
    judgment, rounds = drive(JUDGE, FOUR, [[reply], [NO, NO]])
    assert asked(rounds)[1] == [(open_ones[0],), (open_ones[1],)]
    texts = ["one", "two", "three", "four"]
    assert grades(judgment) == [0 if text in open_ones else 1 for text in texts]


@pytest.mark.parametrize("number", [0, 5, "2", None])
def test_an_unknown_id_is_an_error_never_a_shift(number: object) -> None:
    """A reply about a passage nobody asked about is repaired as a whole, then asked pointwise."""
    bad = many(entry(1), entry(2), entry(3), entry(4), entry(number))
    judgment, rounds = drive(JUDGE, FOUR, [[bad], [bad], [NO, YES, NO, NO]])
    assert grades(judgment) == [0, 1, 0, 0]
    assert "was not asked about" in rounds[1][0].follow_up[1].content
    assert [len(round_) for round_ in rounds] == [1, 1, 4]


def test_a_reply_with_seven_for_four_is_no_verdict_list() -> None:
    """Too many entries never score: the surplus ids were not asked about."""
    bad = many(*(entry(n) for n in range(1, 8)))
    judgment, _ = drive(JUDGE, FOUR, [[bad], [many(*(entry(n, False) for n in range(1, 5)))]])
    assert grades(judgment) == [0, 0, 0, 0]


def test_a_repair_is_stored_under_the_first_question() -> None:
    """The repaired reply is found at the first question by the next run."""
    judgment, rounds = drive(JUDGE, trace_of("a"), [[GARBAGE], [many(entry(1))]])
    assert rounds[1][0].origin is rounds[0][0]
    assert judgment.calls[0].key == rounds[0][0].digest.hex()


def test_a_truncated_reply_is_asked_for_with_a_larger_cap() -> None:
    """A cut list is asked for once with a larger cap, then pointwise."""
    judgment, rounds = drive(JUDGE, trace_of("a"), [[CUT], [CUT], [YES]])
    assert rounds[1][0].max_tokens == rounds[0][0].max_tokens * LARGER_CAP
    assert grades(judgment) == [1]


def test_the_cap_grows_with_the_list() -> None:
    """Every passage has room for its entry."""
    (few,), (more,) = (
        drive(JUDGE, trace_of(*"abcdefgh"[:n]), lambda r: many(*(entry(i + 1) for i in range(len(r.passages)))))[1][0]
        for n in (1, 8)
    )
    assert more.max_tokens - few.max_tokens == 7 * JUDGE.max_tokens


@pytest.mark.parametrize(
    ("reply", "why"),
    [(TransientError("x"), "unreachable"), (BudgetError("y"), "budget"), (Completion("", "refusal"), "refused")],
)
def test_a_failed_call_fails_all_its_chunks(reply: Reply, why: str) -> None:
    """A dead server, a spent budget or a refusal leaves every chunk of the request without a verdict."""
    judgment, rounds = drive(JUDGE, FOUR, [[reply]])
    assert grades(judgment) == [why] * 4
    assert len(rounds) == 1


def test_a_bare_positive_is_asked_pointwise_and_kept() -> None:
    """A positive entry without a quote is asked again by itself; where that fails, it stands."""
    first = many(entry(1, True, ""), entry(2))
    judgment, rounds = drive(JUDGE, trace_of("a", "b"), [[first], [YES]])
    assert asked(rounds)[1] == [("a",)]
    assert cast(Verdict, judgment.outcomes[0]).evidence == "pointwise"
    judgment, _ = drive(JUDGE, trace_of("a", "b"), [[first], [TransientError("x")]])
    assert grades(judgment) == [1, 1]
    judgment, _ = drive(JUDGE, trace_of("a", "b"), [[first], [GARBAGE]])
    assert grades(judgment) == [1, 1]


def test_long_lists_are_asked_in_windows() -> None:
    """A list longer than the window is asked in several requests of one round, none of them sharing ids."""
    judge = Listwise("listwise/support/binary", window=2)
    replies = [many(entry(1), entry(2, False)), GARBAGE, many(entry(1, False))]
    trace = trace_of("a", "b", "c", "d", "e")
    judgment, rounds = drive(judge, trace, [replies, [many(entry(1, False), entry(2))]])
    assert asked(rounds) == [[("a", "b"), ("c", "d"), ("e",)], [("c", "d")]]
    assert grades(judgment) == [1, 0, 0, 1, 0]
    with pytest.raises(ConfigError, match="window must be at least 2"):
        Listwise(window=1)


def test_a_pointwise_prompt_is_refused() -> None:
    """A pointwise prompt does not judge lists."""
    with pytest.raises(PromptError, match="is pointwise; the mode asked for is listwise"):
        Listwise("support/binary")


NUMBERS = st.integers(-1, 6) | st.sampled_from(["1", None, 1.0, True])
ENTRIES = st.builds(entry, NUMBERS, st.sampled_from([True, False, 1, "1", None]), st.sampled_from(["", "quote"]))
REPLIES = st.one_of(
    st.lists(ENTRIES, max_size=6).map(lambda items: many(*items)),
    st.sampled_from([GARBAGE, CUT, Completion("", "filter"), TransientError("x")]),
)


@given(st.lists(st.sampled_from(["", "a", "b", "c", "d", "e"]), max_size=6), st.data())
def test_no_reply_ever_shifts_a_rank(texts: list[str], data: st.DataObject) -> None:
    """Whatever is replied there are as many outcomes as chunks, each from an entry about that very chunk."""
    messages: dict[str, list[object]] = {}

    def answer(request: Request) -> Reply:
        if request.form.listwise:
            reply: Reply = data.draw(REPLIES)
            if isinstance(reply, Completion) and reply.text.startswith('{"verdicts": [{'):
                for item in json.loads(reply.text)["verdicts"]:
                    number = item["id"]
                    if type(number) is int and 1 <= number <= len(request.passages):
                        messages.setdefault(request.passages[number - 1].text, []).append(item["verdict"])
            return reply
        verdict = data.draw(st.booleans())
        messages.setdefault(request.passages[0].text, []).append(verdict)
        return one(verdict, "quote")

    judgment, _ = drive(Listwise(window=3), trace_of(*texts), answer)
    assert [outcome.chunk_id for outcome in judgment.outcomes] == [f"c{n + 1}" for n in range(len(texts))]
    for text, outcome in zip(texts, judgment.outcomes, strict=True):
        if outcome.kind == "verdict" and text:
            assert any(given == bool(outcome.grade) for given in messages[text])  # 1 means true
