import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.errors import BudgetError, DataError, PromptError, RefusedError, TransientError, UnknownNameError
from judge_eval.judges import Judge, Pointwise
from judge_eval.judges.questions import BLANK, LARGER_CAP
from judge_eval.schema import Judgment, NoVerdict, Verdict
from judge_eval.wire import Completion, Reply, Request, Usage
from tests.support.driving import drive, trace_of
from tests.support.replies import graded, one

JUDGE = Pointwise("support/binary")
YES, NO = one(True, "first"), one(False)
GARBAGE = Completion("I am not sure.")
CUT = Completion('{"evidence": "', "length", Usage(9, 512, reasoning_tokens=500))


def whys(judgment: Judgment) -> list[str]:
    """Tell each outcome in a word."""
    return [str(o.grade) if o.kind == "verdict" else o.why for o in judgment.outcomes]


def test_it_is_a_judge() -> None:
    """The class keeps the protocol, and everything that could change a verdict is described."""
    judge: Judge = JUDGE
    assert isinstance(judge, Judge)
    assert judge.needs == ("reference",)
    assert judge.describe()["prompt"]["id"] == "support/binary"
    assert set(judge.describe()) == {"mode", "prompt", "scale", "max_tokens", "sample", "evidence"}


def test_one_wave_asks_about_every_chunk() -> None:
    """All chunks are asked about in one round, in rank order, each in a request of its own."""
    judgment, rounds = drive(JUDGE, trace_of("first", "second", "third"), [[YES, NO, NO]])
    assert whys(judgment) == ["1", "0", "0"]
    assert [request.passages[0].text for request in rounds[0]] == ["first", "second", "third"]
    assert [request.chunk_ids for request in rounds[0]] == [("c1",), ("c2",), ("c3",)]
    first = cast(Verdict, judgment.outcomes[0])
    assert (first.relevant, first.evidence, first.evidence_found, first.reason) == (True, "first", True, "Because.")


def test_an_invented_quote_is_kept_and_told() -> None:
    """A quote that does not stand in the chunk leaves the verdict and says so."""
    judgment, _ = drive(JUDGE, trace_of("first"), [[one(True, "elsewhere")]])
    assert cast(Verdict, judgment.outcomes[0]).evidence_found is False


def test_nothing_retrieved_costs_nothing() -> None:
    """A trace without chunks makes no request and has a judgment without outcomes."""
    judgment, rounds = drive(JUDGE, trace_of(), [])
    assert (rounds, judgment.outcomes) == ([], ())


def test_blank_chunks_cost_nothing() -> None:
    """A chunk without text has no verdict, or is irrelevant where the user says so, and nobody is asked."""
    judgment, rounds = drive(JUDGE, trace_of(" \n", "", "first"), [[YES]])
    assert whys(judgment) == ["empty", "empty", "1"]
    assert len(rounds[0]) == 1
    judgment, rounds = drive(JUDGE.with_blank("irrelevant"), trace_of(" \n", "", "first"), [[YES]])
    assert whys(judgment) == ["0", "0", "1"]
    assert cast(Verdict, judgment.outcomes[0]).reason == BLANK
    assert len(rounds[0]) == 1


def test_equal_chunks_are_asked_about_once() -> None:
    """Chunks with the same text and title share a request; another title makes another one."""
    trace = trace_of("first", {"id": "x", "text": "first"}, {"id": "y", "text": "first", "title": "T"})  # type: ignore[arg-type]
    judgment, rounds = drive(JUDGE, trace, [[YES, NO]])
    assert [request.chunk_ids for request in rounds[0]] == [("c1", "x"), ("y",)]
    assert whys(judgment) == ["1", "1", "0"]
    assert [outcome.chunk_id for outcome in judgment.outcomes] == ["c1", "x", "y"]
    assert len(judgment.calls) == 2


def test_known_verdicts_are_not_asked_for() -> None:
    """What is known from before is taken as it is."""
    known = {"c2": Verdict(chunk_id="c2", grade=1, relevant=True, reason="before")}
    judgment, rounds = drive(JUDGE, trace_of("first", "second"), [[NO]], known)
    assert [request.chunk_ids for request in rounds[0]] == [("c1",)]
    assert judgment.outcomes[1] == known["c2"]


def test_an_unreadable_reply_is_repaired_once() -> None:
    """The repair shows the reply and names the problem; its answer is stored under the first question."""
    judgment, rounds = drive(JUDGE, trace_of("first", "second"), [[GARBAGE, NO], [YES]])
    assert whys(judgment) == ["1", "0"]
    (repair,) = rounds[1]
    assert repair.origin is rounds[0][0]
    assert repair.follow_up[0].content == GARBAGE.text
    assert "no JSON object" in repair.follow_up[1].content
    assert judgment.calls[0].key == rounds[0][0].digest.hex()


def test_a_repair_that_fails_too_is_no_verdict() -> None:
    """After one repair the chunk has no verdict, with the reason."""
    judgment, rounds = drive(JUDGE, trace_of("first"), [[GARBAGE], [GARBAGE]])
    assert whys(judgment) == ["unparsable"]
    assert len(rounds) == 2
    assert "no JSON object" in cast(NoVerdict, judgment.outcomes[0]).detail


def test_a_truncated_reply_is_asked_for_with_a_larger_cap() -> None:
    """The same question is asked once more with a larger cap, and with nothing added to it."""
    judgment, rounds = drive(JUDGE, trace_of("first"), [[CUT], [YES]])
    assert whys(judgment) == ["1"]
    (again,) = rounds[1]
    assert again.max_tokens == rounds[0][0].max_tokens * LARGER_CAP
    assert again.follow_up == ()
    assert again.origin is rounds[0][0]


LOOP = '{"evidence": "The sauce is made of tomatoes", "reason": "' + "The chunk says so, and it is right. " * 40

CAPPED = "the reply ended at the cap of 512 tokens"


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ('{"evidence": "' + " ".join(map(str, range(300))), CAPPED),
        ('{"evidence": "', CAPPED),
        (LOOP, "the model repeats itself"),
        (LOOP[:-20], "the model repeats itself"),
        ("So: " + "The answer is: <reference 4380> At noon.\n\n" * 5, "the model repeats itself"),
        ("It is hot, and ready at noon. " * 2 + "Then it is cold, and so is the dough.", CAPPED),
        ("\n" * 400, "the model repeats itself"),
        (f"<think>{LOOP}", "the model repeats itself"),
    ],
)
def test_a_cut_reply_without_thoughts_gets_no_larger_cap(text: str, detail: str) -> None:
    """A reply that filled its cap with visible text, or repeats itself, would fill a larger cap as well."""
    cut = Completion(text, "length", Usage(9, 512))
    judgment, rounds = drive(JUDGE, trace_of("first"), [[cut]])
    assert whys(judgment) == ["truncated"]
    assert cast(NoVerdict, judgment.outcomes[0]).detail == detail
    assert len(rounds) == 1


@pytest.mark.parametrize(
    "cut",
    [
        Completion("", "length", Usage(9, 512)),
        Completion("<think>Let me see", "length", Usage(9, 512)),
        Completion('<think>It does.</think>{"evi', "length", Usage(9, 512)),
        Completion('{"evi', "length", Usage(9, 512), reasoned=True),
        Completion('{"evi', "length", Usage(9, 512, reasoning_tokens=500)),
    ],
)
def test_a_reply_cut_in_its_thoughts_gets_a_larger_cap(cut: Completion) -> None:
    """Thoughts took the room of the answer."""
    judgment, rounds = drive(JUDGE, trace_of("first"), [[cut], [YES]])
    assert whys(judgment) == ["1"]
    assert rounds[1][0].max_tokens == rounds[0][0].max_tokens * LARGER_CAP


def test_a_loop_is_given_up_although_the_model_reasons() -> None:
    """Reasoning tokens do not make a repetition end."""
    loop = Completion(LOOP, "length", Usage(9, 512, reasoning_tokens=100))
    judgment, _ = drive(JUDGE, trace_of("first"), [[loop]])
    assert cast(NoVerdict, judgment.outcomes[0]).detail == "the model repeats itself"


def test_truncated_twice_is_no_verdict() -> None:
    """After the larger cap, twice the first, the chunk has no verdict, and the detail says what to set."""
    judgment, rounds = drive(JUDGE, trace_of("first"), [[CUT], [CUT]])
    assert whys(judgment) == ["truncated"]
    assert LARGER_CAP == 2
    detail = cast(NoVerdict, judgment.outcomes[0]).detail
    assert detail.startswith("the reply ended at the cap of 512 tokens, which thoughts took: set ")
    assert "(`--param reasoning_effort=low`)" in detail
    assert "raise `max_tokens` in a copy of the prompt" in detail
    assert len(rounds) == 2


@pytest.mark.parametrize("order", [(CUT, GARBAGE), (GARBAGE, CUT)])
def test_both_repairs_may_be_needed(order: tuple[Completion, Completion]) -> None:
    """A reply may be cut, then unreadable (or the other way round), and then well."""
    judgment, rounds = drive(JUDGE, trace_of("first"), [[order[0]], [order[1]], [YES]])
    assert whys(judgment) == ["1"]
    assert all(round_[0].origin is rounds[0][0] for round_ in rounds[1:])
    assert len(rounds) == 3


def test_a_positive_verdict_without_evidence_is_asked_again_once() -> None:
    """The better answer is taken: the one that quotes."""
    judgment, rounds = drive(JUDGE, trace_of("first"), [[one(True)], [YES]])
    assert cast(Verdict, judgment.outcomes[0]).evidence == "first"
    assert rounds[1][0].origin is None
    assert rounds[1][0].digest != rounds[0][0].digest
    judgment, rounds = drive(JUDGE, trace_of("first"), [[one(True)], [one(False)]])
    assert whys(judgment) == ["0"]
    judgment, rounds = drive(JUDGE, trace_of("first"), [[one(True)], [one(True)]])
    assert whys(judgment) == ["1"]
    assert len(rounds) == 2


@pytest.mark.parametrize("second", [GARBAGE, CUT, TransientError("gone"), Completion("", "refusal")])
def test_a_verdict_that_was_read_is_never_lost_to_a_second_question(second: Reply) -> None:
    """Where the second question brings nothing, the first verdict stands."""
    judgment, rounds = drive(JUDGE, trace_of("first"), [[one(True, reason="first")], [second]])
    verdict = cast(Verdict, judgment.outcomes[0])
    assert (verdict.grade, verdict.evidence_found, verdict.reason) == (1, None, "first")
    assert len(rounds) == 2


def test_a_negative_verdict_needs_no_evidence() -> None:
    """A negative verdict without a quote is not asked again."""
    assert len(drive(JUDGE, trace_of("first"), [[NO]])[1]) == 1


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Completion("", "refusal"), "refused"),
        (Completion("I cannot.", "filter"), "refused"),
        (RefusedError("a content filter"), "refused"),
        (TransientError("reset"), "unreachable"),
        (BudgetError("spent"), "budget"),
    ],
)
def test_what_cannot_be_mended_is_not_asked_again(reply: Reply, why: str) -> None:
    """A refusal, a dead server and a spent budget are no verdicts, and are not asked again."""
    judgment, rounds = drive(JUDGE, trace_of("first", "second"), [[reply, YES]])
    assert whys(judgment) == [why, "1"]
    assert len(rounds) == 1


def test_a_failed_repair_call_keeps_its_reason() -> None:
    """Where the call of the repair fails, its reason is told."""
    judgment, _ = drive(JUDGE, trace_of("first"), [[GARBAGE], [BudgetError("spent")]])
    assert whys(judgment) == ["budget"]


def test_hostile_names_and_details_can_be_kept() -> None:
    """Half a character in a server's model name or message does not end a run."""
    reply = Completion(YES.text, model="m\ud800")
    judgment, _ = drive(JUDGE, trace_of("first", "second"), [[reply, TransientError("\udfff")]])
    assert judgment.model_dump_json()


def test_the_threshold_can_be_moved() -> None:
    """`relevant` moves what counts as relevant, not what is asked, so nothing is paid again."""
    reply = Completion(json.dumps(graded(1, "first")))
    strict, rounds = drive(Pointwise("support/graded"), trace_of("first"), [[reply]])
    mild, same = drive(Pointwise("support/graded", relevant=1), trace_of("first"), [[reply]])
    assert [cast(Verdict, j.outcomes[0]).relevant for j in (strict, mild)] == [False, True]
    assert rounds[0][0].digest == same[0][0].digest
    with pytest.raises(DataError, match="above the highest grade 3"):
        Pointwise("support/graded", relevant=4)


def test_only_what_the_prompt_needs_is_sent() -> None:
    """A prompt without a reference neither sees it nor pays again when it changes."""
    trace = trace_of("first", answer="An answer.")
    (request,) = drive(Pointwise("relevance/binary"), trace, [[YES]])[1][0]
    assert (request.reference, request.answer) == (None, None)
    (request,) = drive(Pointwise("utilisation/binary"), trace, [[YES]])[1][0]
    assert (request.reference, request.answer) == (None, "An answer.")


def test_another_sample_is_another_question() -> None:
    """Samples are stored apart."""
    digests = {drive(Pointwise(sample=n), trace_of("first"), [[YES]])[1][0][0].digest for n in (0, 1)}
    assert len(digests) == 2


def test_a_prompt_of_the_other_mode_is_refused() -> None:
    """A listwise prompt does not judge pointwise, and a typo is advised."""
    with pytest.raises(PromptError, match="is listwise; the mode asked for is pointwise"):
        Pointwise("listwise/support/binary")
    with pytest.raises(UnknownNameError, match="did you mean 'support/binary'"):
        Pointwise("suport/binary")


REPLIES = st.sampled_from(
    [NO, GARBAGE, CUT, one(True), Completion("", "refusal"), TransientError("x"), BudgetError("y")]
)


@given(st.lists(st.sampled_from(["", " ", "a", "b", "c", "d"]), max_size=6), st.data())
def test_outcome_i_belongs_to_chunk_i(texts: list[str], data: st.DataObject) -> None:
    """Whatever is replied there are as many outcomes as chunks, in rank order, each about its own chunk."""

    def answer(request: Request) -> Reply:
        text = request.passages[0].text
        return data.draw(st.just(one(True, text, reason=f"about {text}")) | REPLIES)

    judgment, rounds = drive(JUDGE, trace_of(*texts), answer)
    assert [outcome.chunk_id for outcome in judgment.outcomes] == [f"c{n + 1}" for n in range(len(texts))]
    assert len(rounds) <= 4
    for text, outcome in zip(texts, judgment.outcomes, strict=True):
        if outcome.kind == "verdict" and outcome.evidence:
            assert outcome.reason == f"about {text}"
            assert outcome.evidence_found
