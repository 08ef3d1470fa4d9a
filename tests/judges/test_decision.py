"""The plan of judging by a decision model: what is asked, and what becomes of each answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.errors import BudgetError, CallError, ConfigError, PromptError, RefusedError, TransientError
from judge_eval.judges.decision import MOST_CHARACTERS, Decision, weighed
from judge_eval.judges.judge import make_judge
from judge_eval.schema import BINARY, GRADED, NoVerdict, Scale, Verdict
from judge_eval.wire import Completion, DecisionAnswer, Reply, Request
from tests.support.asking_decisions import BINARY_PROMPT, GRADED_PROMPT, form, sure
from tests.support.driving import drive, trace_of

REFUSED = DecisionAnswer((), "refused", "declined")
ODD = DecisionAnswer((), "unparsable", "odd")


def answers(*each: float | DecisionAnswer) -> Completion:
    """Make a completion of probabilities and of whole answers."""
    rows = [item if isinstance(item, DecisionAnswer) else sure(item).answers[0] for item in each]
    return Completion("", answers=tuple(rows))


def told(judgment: Any) -> list[Any]:
    """Return the probability of each outcome, or why there is none."""
    return [item.why if isinstance(item, NoVerdict) else item.confidence for item in judgment.outcomes]


def test_one_request_holds_a_traces_questions() -> None:
    """Distinct chunks are asked together, blank ones never, equal ones once, known ones not again."""
    known = {"c5": Verdict(chunk_id="c5", grade=1, relevant=True, reason="known")}
    trace = trace_of("one", " \n", "two", "one", "five")
    judgment, rounds = drive(Decision(), trace, [[sure(0.9, 0.2)]], known)
    ((request,),) = rounds
    assert [passage.text for passage in request.passages] == ["one", "two"]
    assert request.chunks_by_passage() == [("c1", "c4"), ("c3",)]
    grades = [outcome.grade for outcome in judgment.outcomes if outcome.kind == "verdict"]
    assert grades == [1, 0, 1, 1]
    assert told(judgment)[1] == "empty"
    assert judgment.outcomes[4] == known["c5"]
    assert [call.chunk_ids for call in judgment.calls] == [("c1", "c4", "c3")]


def test_there_is_no_reason_and_no_quote() -> None:
    """They are absent, not empty: a decision model gives neither."""
    judgment, _ = drive(Decision(), trace_of("one"), [[sure(0.9)]])
    (verdict,) = judgment.outcomes
    wanted = Verdict(
        chunk_id="c1",
        grade=1,
        relevant=True,
        reason=None,
        evidence=None,
        instruction_in_chunk=None,
        confidence=0.9,
        expected_grade=0.9,
    )
    assert verdict.model_dump() == wanted.model_dump()
    assert verdict.kind == "verdict"
    assert verdict.explanation == "no reason: the judge gives none"


def test_a_declined_question_is_that_chunks_alone() -> None:
    """It is not asked again; the others stand."""
    judgment, rounds = drive(Decision(), trace_of("one", "two", "three"), [[answers(0.9, REFUSED, 0.1)]])
    assert told(judgment) == [0.9, "refused", 0.1]
    assert len(rounds) == 1


def test_an_answer_of_no_use_is_asked_once_more_and_alone() -> None:
    """Only the questions without an answer are asked again, once."""
    first, second = [answers(0.9, ODD, 0.1)], [answers(0.7)]
    judgment, rounds = drive(Decision(), trace_of("one", "two", "three"), [first, second])
    assert told(judgment) == [0.9, 0.7, 0.1]
    assert [passage.text for passage in rounds[1][0].passages] == ["two"]
    judgment, rounds = drive(Decision(), trace_of("one", "two"), [[answers(ODD, 0.9)], [answers(ODD)]])
    assert told(judgment) == ["unparsable", 0.9]
    assert len(rounds) == 2


@pytest.mark.parametrize("count", [0, 1, 3, 4])
def test_as_many_answers_as_questions(count: int) -> None:
    """Any other number of answers is nobody's."""
    judgment, rounds = drive(Decision(), trace_of("one", "two"), [[sure(*[0.9] * count)]] * 2)
    assert told(judgment) == ["unparsable"] * 2
    assert len(rounds) == 2
    assert f"{count} answers to 2 questions" in str(judgment.outcomes[0])


@pytest.mark.parametrize(
    "shares",
    [(0.0, 0.0), (0.5,), (0.2, 0.3, 0.5), (0.0, 1.2), (-0.2, 1.2), (math.nan, 1.0), (0.5, math.inf),
     (0.9, 0.9), ("0.1", "0.9"), (None, 1.0), (0.4, 0.4)],
)  # fmt: skip
def test_what_is_no_probability_of_the_grades_is_no_verdict(shares: tuple[Any, ...]) -> None:
    """Also where a backend of one's own, or a file edited by hand, says so: never a number, never a crash."""
    judge, odd = Decision(), Completion("", answers=(DecisionAnswer(shares), *sure(0.9).answers))
    judgment, _ = drive(judge, trace_of("one", "two"), [[odd], [Completion("", answers=odd.answers[:1])]])
    assert told(judgment) == ["unparsable", 0.9]
    assert not judge.accepts(Completion("", answers=odd.answers[:1]))


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (RefusedError("no"), "refused"),
        (BudgetError("spent"), "budget"),
        (CallError("gone"), "unreachable"),
        (TransientError("late"), "unreachable"),
        (Completion("yes, it is relevant"), "unparsable"),
    ],
)
def test_a_call_that_fails_is_no_verdict(reply: Reply, why: str) -> None:
    """Of all its chunks, and of no other request's."""
    judge = Decision(most=2)
    judgment, _ = drive(
        judge, trace_of("one", "two", "three"), [[reply, sure(0.8)], [reply] if why == "unparsable" else []]
    )
    assert told(judgment) == [why, why, 0.8]


def test_what_is_kept() -> None:
    """A completion with a verdict, where nothing is still to be had; one without any never."""
    judge = Decision()
    assert judge.accepts(answers(0.9))
    assert judge.accepts(answers(0.9, REFUSED))
    assert judge.accepts(answers(0.9, ODD))  # asked for in a request of its own
    assert not judge.accepts(answers(REFUSED, ODD))
    assert not judge.accepts(answers(0.9, DecisionAnswer((), "unreachable", "gone")))
    assert not judge.accepts(answers(0.9, DecisionAnswer((), "budget", "spent")))
    assert not judge.accepts(Completion("text"))
    assert not Decision(GRADED_PROMPT).accepts(answers(0.9))


@pytest.mark.parametrize("most", [1, 3, 10])
def test_questions_are_packed_by_count(most: int) -> None:
    """No request holds more than was allowed, and together they hold all."""
    trace = trace_of(*map(str, range(10)))
    _, rounds = drive(Decision(most=most), trace, lambda r: sure(*[0.5] * len(r.passages)))
    (round_,) = rounds
    assert [len(request.passages) for request in round_] == [min(most, 10 - n) for n in range(0, 10, most)]
    assert [p.text for request in round_ for p in request.passages] == list(map(str, range(10)))


def test_questions_are_packed_by_size() -> None:
    """Long chunks go in requests of their own, even one that is larger than allowed."""
    half = "x" * (MOST_CHARACTERS // 2)
    texts = ["a" + half, "b" + half, "c" * (2 * MOST_CHARACTERS), "d", "e"]
    _, rounds = drive(Decision(), trace_of(*texts), lambda r: sure(*[0.5] * len(r.passages)))
    assert [[p.text[0] for p in request.passages] for request in rounds[0]] == [["a"], ["b"], ["c"], ["d", "e"]]


def test_requests_of_one_chunk_each() -> None:
    """The layout `request` asks one chunk a call, as samples and layouts keep to keys of their own."""
    trace = trace_of("one", "two")
    requests: dict[Any, Request] = {}
    for layout in ("question", "input", "request"):
        round_ = next(Decision(layout=layout).plan(trace))  # type: ignore[arg-type]
        assert [len(r.passages) for r in round_] == ([1, 1] if layout == "request" else [2])
        requests[layout] = round_[0]
    requests["sample"] = next(Decision(sample=1).plan(trace))[0]
    assert len({request.digest for request in requests.values()}) == 4


GRADES = st.lists(st.integers(0, 100), min_size=4, max_size=4).filter(any)


@given(GRADES, st.integers(1, 3))
def test_the_grade_is_the_lower_median(weights: Sequence[int], relevant: int) -> None:
    """At least half lies at or below it, less than half below; relevant where that is likelier than not."""
    total = sum(weights)
    shares = [weight / total for weight in weights]
    scale = Scale.parse({**GRADED.model_dump(), "relevant": relevant})
    grade, token_confidence = weighed(shares, scale)
    assert 2 * sum(weights[: grade + 1]) >= total
    assert 2 * sum(weights[:grade]) < total
    assert (grade >= relevant) == (2 * sum(weights[relevant:]) > total)
    assert token_confidence.confidence == pytest.approx(sum(weights[relevant:]) / total)
    assert token_confidence.expected_grade == pytest.approx(sum(n * w for n, w in enumerate(weights)) / total)
    assert 0 <= token_confidence.confidence <= 1
    assert token_confidence.expected_grade is not None
    assert 0 <= token_confidence.expected_grade <= 3


@pytest.mark.parametrize(
    ("shares", "grade"),
    [((0.5, 0.5), 0), ((0.49, 0.51), 1), ((1.0, 0.0), 0), ((0.0, 1.0), 1), ((0.501, 0.5), 0), ((0.5, 0.505), 1)],
)
def test_ties_of_two_decimals(shares: tuple[float, ...], grade: int) -> None:
    """A tie is not more likely relevant than not."""
    assert weighed(shares, BINARY)[0] == grade


def test_prompts_and_modes_that_do_not_fit() -> None:
    """A prompt of another kind, an unknown layout or a quote required say so before anything is asked."""
    with pytest.raises(PromptError, match="is pointwise; the mode asked for is decision"):
        Decision("support/binary")
    with pytest.raises(ConfigError, match="no layout 'chunk'"):
        Decision(layout="chunk")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="most"):
        Decision(most=0)
    with pytest.raises(ConfigError, match="quotes nothing"):
        make_judge("support/binary", "decision", evidence="required")
    for mode in ("pointwise", "listwise"):
        with pytest.raises((PromptError, ConfigError)):
            make_judge("support/decision", mode)


def test_names_of_prompts_go_over() -> None:
    """`support/binary` means its decision prompt there, in the same scale and with the version asked for."""
    for given_name, wanted in (
        ("support/binary", "support/decision"),
        ("relevance/graded", "relevance/decision-graded"),
        ("support/decision-graded@1", "support/decision-graded"),
    ):
        judge = make_judge(given_name, "decision")
        assert isinstance(judge, Decision)
        assert judge.form.prompt.id == wanted


def test_what_the_judge_says_of_itself() -> None:
    """Prompt, layout and packing stand in a run's manifest; the threshold moves the scale."""
    judge = Decision(GRADED_PROMPT, layout="input", relevant=1, most=7)
    replies = judge.describe()
    assert (replies["mode"], replies["layout"], replies["most"]) == ("decision", "input", 7)
    assert replies["prompt"]["digest"] == form(GRADED_PROMPT, "input").digest.hex()
    assert judge.scale.relevant == 1
    assert Decision(BINARY_PROMPT).needs == ("reference",)
    assert Decision("relevance/decision").needs == ()
