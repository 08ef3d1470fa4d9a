"""What chunks support together: asked of the set after the rows, none where it cannot be told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judge_eval import Chunk, Evaluator, Options, Trace
from judge_eval.errors import CallError
from judge_eval.eval_run import EvalRun
from judge_eval.judges import claim_questions, claims
from judge_eval.judges.judge import make_judge, mode_for, plan_of
from judge_eval.llm.fake.fake_backend import FakeBackend
from judge_eval.wire import Completion
from tests.support.claiming import BORN, CLAIMS, DIRECTED, ONE_BY_ONE, cell, decided, row, said, together, trace
from tests.support.driving import drive


def test_two_chunks_together() -> None:
    """A claim that no chunk covers alone, but one in part, is asked about over all chunks."""
    answers = [
        [said(row(cell(1, "full", "Anna Berg directed"))), said(row(cell(2, "partial", "born in Uppsala")))],
        [together((["Anna Berg directed", "born in Uppsala"], True))],
    ]
    judgment, rounds = drive(ONE_BY_ONE, trace(DIRECTED, BORN), answers)
    (request,) = rounds[1]
    assert request.claims == (CLAIMS[1].text,)
    assert [passage.text for passage in request.passages] == [DIRECTED, BORN]
    assert judgment.claims.together == {"2": True}  # claim 3 is touched by nobody, and not asked about
    assert judgment.calls[0].chunk_ids == ("c1", "c2")


TOGETHER = {
    "a quote that is nowhere": together((["words of nobody"], True)),
    "no quote": together(([], True)),
    "too few": said({"claims": []}),
    "an unknown claim": said({"claims": [{"id": 2, "quotes": [], "covered": False}]}),
    "a doubled claim": said({"claims": [{"id": 1, "quotes": [], "covered": False}] * 2}),
    "a word": together((["Anna Berg directed"], "perhaps")),
    "quotes that are a text": said({"claims": [{"id": 1, "quotes": "x", "covered": False}]}),
    "prose": Completion("They do."),
}


@pytest.mark.parametrize("bad", TOGETHER.values(), ids=TOGETHER)
def test_what_cannot_be_told_together_is_none(bad: Completion) -> None:
    """After one repair it has no verdict, and is no False; the chunks keep theirs."""
    parts = [said(row()), said(row(cell(2, "partial", "born in Uppsala")))]
    judgment, rounds = drive(ONE_BY_ONE, trace(DIRECTED, BORN), [parts, [bad], [bad]])
    assert [len(round_) for round_ in rounds] == [2, 1, 1]
    assert judgment.claims.together == {"2": None}
    assert judgment.failed == 0
    failed, _ = drive(ONE_BY_ONE, trace(DIRECTED, BORN), [parts, [CallError("gone")]])
    assert failed.claims.together == {"2": None}
    fine, _ = drive(ONE_BY_ONE, trace(DIRECTED, BORN), [parts, [bad], [together(([], False))]])
    assert fine.claims.together == {"2": False}


def test_a_part_of_the_set_denies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not all chunks fit into the question about the set, a no is not known to hold; a yes is."""
    far = "The harbour opens at nine. " * 4
    monkeypatch.setattr(claims, "MOST_TOGETHER", len(DIRECTED) + len(BORN))
    parts = [said(row()), said(row(cell(2, "partial", "born in Uppsala"))), said(row())]
    for covered in (False, True):
        answer = together((["born in Uppsala"], covered))
        judgment, rounds = drive(ONE_BY_ONE, trace(DIRECTED, BORN, far), [parts, [answer]])
        assert len(rounds[1][0].passages) == 2
        assert judgment.claims.together == {"2": covered or None}


def test_rows_outlive_a_stop_before_the_set_is_asked() -> None:
    """Where nobody keeps answers, rows that were paid are kept though the set's answer never came."""
    from judge_eval.engine import Item, OpenTraces

    asked: list[Any] = []
    backend = FakeBackend(lambda _: "")
    traces = OpenTraces(ONE_BY_ONE, backend, lambda state, places: asked.append((state, places)))
    traces.start([Item(0, trace(DIRECTED, BORN))])
    (state, places) = asked[0]
    parts = [said(row(cell(1, "full", "Anna Berg directed"))), said(row(cell(2, "partial", "born in")))]
    for place, reply in zip(places, parts, strict=True):
        traces.answer(state, place, reply, go_on=True)
    assert len(asked) == 2
    traces.salvage()
    (judged_trace,) = traces.take()
    assert judged_trace.judgment.failed == 0
    assert judged_trace.judgment.claims is not None
    assert judged_trace.judgment.claims.together == {"2": None}


def test_one_chunk_is_no_set() -> None:
    """Of a single passage, however often it was retrieved, nothing is asked together."""
    _, rounds = drive(ONE_BY_ONE, trace(BORN, BORN), [[said(row(cell(2, "partial", "born in Uppsala")))]])
    assert len(rounds) == 1


def in_part(request: Any) -> str:
    """Reply that each chunk supports one claim in part, and that all of them cover it."""
    if len(request.passages) > 1:
        return together((["Anna Berg directed", "born in Uppsala"], True)).text
    quote = "born in Uppsala" if "Uppsala" in request.passages[0].text else "Anna Berg directed"
    return said(row(cell(2, "partial", quote))).text


def judged(out: Path, calls: int | None, resume: bool, *texts: str) -> tuple[EvalRun, int]:
    """Judge a trace of these chunks by claims, without a cache; return the run and what was asked."""
    backend = FakeBackend(in_part)
    options = Options(attempts=1, max_calls=calls)
    with Evaluator(backend, judge=ONE_BY_ONE, cache=False, metrics=["P@2"], options=options) as evaluator:
        return evaluator.evaluate([trace(*texts)], out=out, resume=resume), backend.calls


def test_a_resume_asks_again_what_the_budget_left_unasked(tmp_path: Path) -> None:
    """A question about all chunks that failed leaves the run incomplete; a resume asks it, and no row."""
    begun, _ = judged(tmp_path, 2, False, DIRECTED, BORN)
    assert begun.results[0].claims is not None
    assert begun.results[0].claims.together == {"2": None}
    assert (begun.status, begun.manifest.tally.failed_verdicts) == ("incomplete", 0)
    resumed, asked = judged(tmp_path, None, True, DIRECTED, BORN)
    assert (resumed.id, resumed.status, asked) == (begun.id, "done", 1)
    whole, _ = judged(tmp_path / "whole", None, False, DIRECTED, BORN)
    assert resumed.results[0].claims == whole.results[0].claims
    assert resumed.results[0].calls == whole.results[0].calls
    assert judged(tmp_path, None, True, DIRECTED, BORN)[1] == 0


def test_a_no_about_a_part_of_the_set_is_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """If not all chunks fit into the question, asking again would bring the same answer."""
    monkeypatch.setattr(claims, "MOST_TOGETHER", len(DIRECTED) + len(BORN))
    shown = trace(DIRECTED, BORN, "The harbour opens at nine. " * 4)
    parts = [said(row()), said(row(cell(2, "partial", "born in Uppsala"))), said(row())]
    answered, _ = drive(ONE_BY_ONE, shown, [parts, [together(([], False))]])
    failed, _ = drive(ONE_BY_ONE, shown, [parts, [CallError("gone")]])
    assert answered.claims.together == failed.claims.together == {"2": None}
    assert ONE_BY_ONE.is_complete(shown, answered)
    assert not ONE_BY_ONE.is_complete(shown, failed)


def test_answers_about_the_set_are_not_paid_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the claims took several requests, a resume repeats those alone that failed."""
    monkeypatch.setattr(claim_questions, "MOST_CLAIMS", 2)
    judge = make_judge("support/graded", mode_for("decisions/some", "claims"))
    shown = trace(DIRECTED, BORN)
    rows = [decided(0.1, 0.1), decided(0.1), decided(0.1, 0.1), decided(0.1)]
    begun, _ = drive(judge, shown, [rows, [decided(0.1, 0.9), CallError("gone")]])
    assert begun.claims.together == {"1": False, "2": True, "3": None}
    plan = plan_of(judge, shown, begun)
    (request,) = next(plan)
    assert request.claims == (CLAIMS[2].text,)
    with pytest.raises(StopIteration) as stop:
        plan.send([decided(0.9)])
    assert stop.value.value.claims.together == {"1": False, "2": True, "3": True}


def test_the_offline_judge_covers_by_quotes_that_are_read() -> None:
    """`fake/overlap` counts no chunk whose best sentence is a single word, which is no evidence: its answer is read."""
    claim = "Anna Berg directed the film Emma in Uppsala in spring with two actors, a small budget and much luck."
    plays = Chunk(id="c1", text="Anna Berg plays the piano in a house near the river today.")
    traces = [Trace(query="Who?", claims=[claim], chunks=[plays, Chunk(id="c2", text="Emma. Luck.")])]
    with Evaluator("fake/overlap", mode="claims", cache=False) as evaluator:
        run = evaluator.evaluate(traces)
    assert [[cell.support for cell in outcome.supports] for outcome in run.results[0].outcomes] == [["partial"]] * 2
    assert run.results[0].claims.together == {"1": False}
    assert run.status == "done"
