"""Whether a judge knows when it does not know: chunks out of scope, false references, baits."""

from __future__ import annotations

import numpy as np
import pytest

from judge_eval import Completion, FakeBackend, Request
from judge_eval.errors import RefusedError
from judge_eval.llm.fake import rules
from judge_eval.stats import mean_interval, proportion_interval
from judge_eval.trials import build_cases
from tests.support.doubting import DOUBTS, gold_of, probed, rows, sure_reply, surely
from tests.support.notes import note_sentences


def test_a_judge_that_accepts_everything_is_found_by_each() -> None:
    """Every case of every kind is reported, with Wilson's interval and the chunks that were accepted."""
    outcome = probed("fake/always")
    assert [result.probe for result in outcome.results] == DOUBTS
    for result in outcome.results:
        assert result.n > 30
        assert result.fooled == result.n
        expected = proportion_interval(result.n, result.n).interval
        assert expected is not None
        assert result.rate.interval == (expected.low, expected.high)
        assert result.false_positives == result.chunks
        assert (result.failed, result.rejected_before) == (0, 0)
        assert result.assurance is None
    assert (outcome["nothing-relevant"].chunks or 0) > 2 * outcome["nothing-relevant"].n
    assert outcome["length-bait"].flips == outcome["echo-bait"].flips == 0


@pytest.mark.parametrize("labelled", [True, False])
def test_a_judge_that_knows_is_found_by_none(labelled: bool) -> None:
    """One that accepts what people did under the reference as it was, and nothing else, has no fault."""
    right = {t.id: (t.reference, {c.text for c in t.chunks if c.label}) for t in rows()}

    def perfect(request: Request) -> str:
        reference, accepted = right[request.trace_id.partition("~")[0]]
        sound = [p.text in accepted and request.reference == reference for p in request.passages]
        opinions = [
            rules.Opinion(int(fine), p.text[:60].strip(), "Known.")
            for fine, p in zip(sound, request.passages, strict=True)
        ]
        return rules.reply_text(request, opinions)

    outcome = probed(FakeBackend(perfect, keep=0), data=rows(labelled=labelled))
    for result in outcome.results:
        assert result.n > 30
        assert (result.fooled, result.false_positives, result.failed, result.rejected_before) == (0, 0, 0, 0)
    assert (outcome.labelled > 0) is labelled
    assert set(outcome["nothing-relevant"].variants) == {"own" if labelled else "other"}


def test_accepting_is_told_with_its_probability() -> None:
    """Mean, accepted and their mean are those of the probabilities given."""
    given_ = {t.id: 0.05 + 0.9 * place / 40 for place, t in enumerate(rows())}
    outcome = probed(surely(lambda source, name, _: given_[source] if name else 0.9), "out-of-scope")
    result = outcome["out-of-scope"]
    sure = result.assurance
    values = np.array([given_[t.id] for t in rows()])
    assert sure is not None
    assert (sure.n, sure.untold, result.n) == (len(values), 0, len(values))
    assert sure.mean.value == pytest.approx(values.mean())
    expected = mean_interval(values, limits=(0.0, 1.0)).interval
    assert expected is not None
    assert sure.mean.interval == pytest.approx((expected.low, expected.high))
    assert sure.accepted == result.fooled == sum(values >= 0.5)
    assert sure.accepted_mean == pytest.approx(values[values >= 0.5].mean())


def test_baits_are_compared_with_the_bare_chunk() -> None:
    """A verdict that crosses the threshold from the bare chunk is a flip."""
    moves = {"random": 0.3, "length-bait": 0.8, "echo-bait": 0.4}
    result = probed(surely(lambda _, name, __: moves.get(name, 0.1)), "length-bait", "echo-bait")
    length, echo = result["length-bait"], result["echo-bait"]
    assert length.flips == length.fooled == length.n
    assert echo.flips == echo.fooled == 0
    assert echo.assurance is not None
    assert (echo.assurance.accepted, echo.assurance.accepted_mean) == (0, None)


def test_a_chunk_counts_as_accepted_under_both_only_where_it_was_accepted_before() -> None:
    """Chunks that the judge rejects under the true reference are counted apart and are in no rate."""
    odd = {t.id for place, t in enumerate(rows()) if place % 2}

    def believe(source: str, name: str, _: Request) -> float:
        before = 0.9 if source in odd else 0.2
        return {"gold": before, "negated-reference": 0.8}.get(name, 0.1)

    result = probed(surely(believe), "other-reference", "negated-reference")
    other, denied = result["other-reference"], result["negated-reference"]
    gold = gold_of(rows())
    assert denied.n == denied.fooled == len(odd & gold.keys())
    assert denied.rejected_before == len(gold.keys() - odd)
    assert denied.flips is None
    assert (other.fooled, other.n + other.rejected_before) == (0, len(gold))


def test_where_nothing_is_relevant_a_trace_counts_once() -> None:
    """One accepted chunk makes the trace a fault; chunks are counted beside, and their mean by trace."""
    outcome = probed(surely(lambda _, name, r: 0.95 if "c1" in r.chunk_ids and name else 0.1), "nothing-relevant")
    result = outcome["nothing-relevant"]
    assert result.fooled == result.n == result.false_positives
    assert result.chunks is not None
    assert result.assurance is not None
    assert result.assurance.mean.n == result.chunks > result.n
    assert result.assurance.mean.traces == result.n
    assert result.examples[0].after == 1


def test_a_listwise_judge_that_takes_the_best_of_a_bad_lot_is_found() -> None:
    """What it rejected beside a relevant chunk is put to it again without that chunk."""

    def best(request: Request) -> str:
        return rules.reply_text(request, [rules.Opinion(int(not k), "x") for k in range(len(request.passages))])

    result = probed(FakeBackend(best, keep=0), "nothing-relevant", mode="listwise", data=rows(labelled=False))[
        "nothing-relevant"
    ]
    assert result.rate.value == 1.0
    assert set(result.variants) == {"own"}
    assert result.false_positives == result.n


def test_what_cannot_be_told_is_not_told() -> None:
    """Verdicts without a probability are counted; failed cases are in no rate and no mean."""

    def some(request: Request) -> Completion | str | Exception:
        if request.trace_id < "docs-010":
            return RefusedError("no") if request.trace_id.endswith("~out-of-scope") else "{}"
        reply = sure_reply(request, 0.7)
        return reply.text if request.trace_id < "docs-020" else reply

    result = probed(FakeBackend(some, keep=0), "out-of-scope")["out-of-scope"]
    sure = result.assurance
    assert sure is not None
    assert result.failed == 9
    assert (sure.untold, sure.n) == (10, result.n - 10)
    assert sure.mean.value == pytest.approx(0.7)


def test_a_judge_that_reads_no_reference_is_given_no_false_one() -> None:
    """Under a prompt on the question alone a false reference changes nothing: left out, and said."""
    result = probed("fake/overlap", prompt="relevance/binary")
    assert {r.probe for r in result.results} == set(DOUBTS) - {"other-reference", "negated-reference"}
    assert any("other-reference, negated-reference" in warning for warning in note_sentences(result.warnings))
    assert not any("not probed" in warning for warning in note_sentences(probed("fake/overlap").warnings))


def test_a_judge_of_answers_is_given_a_false_answer() -> None:
    """Where the prompt reads the answer, that is what is replaced and denied."""
    traces = [t.model_copy(update={"answer": t.reference, "reference": None}) for t in rows()]
    result = probed("fake/always", "negated-reference", data=traces, prompt="utilisation/binary")
    assert result["negated-reference"].n > 30
    cases = list(build_cases(traces, gold_of(rows()), names=["negated-reference"], stated=["answer"]))
    answers = {t.id: t.answer for t in traces}
    for case in cases:
        assert (case.trace.answer or "").endswith(answers[case.source] or "?")
        assert case.trace.answer != answers[case.source]
