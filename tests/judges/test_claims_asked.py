"""Who is asked about claims, with which prompts, and what is not asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from judge_eval import Evaluator
from judge_eval.errors import CallError, ConfigError, DataError, PromptError
from judge_eval.judges import Claims
from judge_eval.judges.judge import as_begun, make_judge, mode_for
from judge_eval.judges.panel import repeated
from judge_eval.llm.fake.fake_backend import FakeBackend
from judge_eval.llm.options import Options
from judge_eval.wire import Completion
from tests.support.claiming import BORN, BREAD, CLAIMS, DIRECTED, ONE_BY_ONE, QUERY, REFERENCE, decided, trace
from tests.support.driving import drive
from tests.support.raw_server import RawServer


def test_a_budget_reckons_with_what_every_cell_shares() -> None:
    """Some servers bill shared input for each question: of cells as of chunks, that is what may be taken."""
    (request,) = next(make_judge("support/binary", "claims-decision").plan(trace(DIRECTED)))
    rules, shared, *questions = request.messages
    assert len(questions) == len(CLAIMS)
    assert request.billed == (rules, shared) * len(questions) + tuple(questions)


def test_decision_models_answer_cell_by_cell() -> None:
    """One request a chunk, one statement a claim; likely ones are full support; nothing is quoted."""
    judge = make_judge("support/graded", mode_for("decisions/some", "claims"))
    answers = [[decided(0.9, 0.1, 0.5), decided(0.0, 0.51, 0.1)], [decided(0.8)]]
    judgment, rounds = drive(judge, trace(DIRECTED, BORN), answers)
    assert [[len(request.claims) for request in round_] for round_ in rounds] == [[3, 3], [1]]
    assert [[s.claim for s in o.supports] for o in judgment.outcomes] == [["1"], ["2"]]
    assert {s.quote_found for o in judgment.outcomes for s in o.supports} == {None}
    assert judgment.claims.together == {"3": True}
    assert [o.grade for o in judgment.outcomes] == [2, 2]
    assert {o.evidence for o in judgment.outcomes} == {None}
    asked = rounds[0][0].questionnaire
    assert asked is not None
    assert [item.data["claim"] for item in asked.questions] == [claim.text for claim in CLAIMS]
    assert asked.shared == {"question": QUERY, "chunk": {"text": DIRECTED}}
    both = rounds[1][0].questionnaire
    assert both is not None
    assert list(both.shared["chunks"]) == ["c1", "c2"]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (decided(0.9, None, 0.9), "refused"),
        (decided(0.9, 0.9), "unparsable"),
        (CallError("gone"), "unreachable"),
        (Completion("yes"), "unparsable"),
    ],
)
def test_a_cell_without_an_answer_leaves_its_chunk_open(reply: Any, why: str) -> None:
    """A row with a hole is no row: its chunk has no verdict, and says why."""
    judge = Claims("claims/decision")
    judgment, _ = drive(judge, trace(BORN), [[reply]])
    assert judgment.outcomes[0].why == why


def test_a_decision_model_splits_nothing() -> None:
    """It writes nothing, so claims must be there; the message says how to come by them."""
    with pytest.raises(DataError, match=r"cannot split .*\(judge-eval claims"):
        Claims("claims/decision").check_trace(trace(BORN, claims=None))
    with pytest.raises(ConfigError, match="quotes nothing"):
        make_judge("support/binary", "claims-decision", evidence="required")
    Claims("claims/decision").check_trace(trace(BORN, reference=None))


def test_without_claims_and_reference_nothing_is_asked() -> None:
    """Whoever drives the plan without a check gets no verdict, and says why."""
    for judge, text in ((Claims("claims/decision"), REFERENCE), (ONE_BY_ONE, None)):
        judgment, rounds = drive(judge, trace(BORN, claims=None, reference=text), [])
        assert rounds == []
        assert judgment.outcomes[0].why == "unjudged"


def test_a_trace_needs_a_reference_or_claims() -> None:
    """One of the two will do."""
    ONE_BY_ONE.check_trace(trace(BORN, reference=None))
    with pytest.raises(DataError, match="needs the reference, or claims"):
        ONE_BY_ONE.check_trace(trace(BORN, reference=" ", claims=None))


def test_prompts_of_other_modes_are_refused() -> None:
    """A wrong prompt, a panel of rows and a repeated one are told before a call."""
    with pytest.raises(PromptError, match="the mode asked for is claims"):
        make_judge("relevance/binary", "claims")
    with pytest.raises(PromptError, match="is claims; the mode asked for is pointwise"):
        make_judge("claims/support", "pointwise")
    with pytest.raises(PromptError, match="is claims-list; the mode asked for is claims"):
        make_judge("claims/support-list", "claims")
    with pytest.raises(ConfigError, match="not repeated"):
        repeated("support/binary", "claims", repeat=3)


@pytest.mark.parametrize("mode", ["claims", "claims-list", "claims-decision"])
def test_a_judge_keeps_the_prompts_it_began_with(mode: Any) -> None:
    """What it tells of itself makes it again, and is plain JSON."""
    judge = make_judge("support/graded", mode)
    result = judge.describe()
    assert json.loads(json.dumps(result)) == result
    assert result["mode"] == mode
    assert as_begun(judge, result).describe() == result


def test_a_table_scripts_rows() -> None:
    """The fake judge of tests takes rows from a table, and splits where nobody has."""
    table: dict[Any, Any] = {"c1": {"claims": {1: ("full", "Anna Berg directed")}}, "c2": True, "c3": False}
    evaluator = Evaluator(FakeBackend.table(table), mode="claims", cache=False)
    outcomes = evaluator.evaluate(trace(DIRECTED, BORN, BREAD)).results[0].outcomes
    assert [{s.claim: s.support for s in o.supports or ()} for o in outcomes if o.kind == "verdict"] == [
        {"1": "full"},
        {"1": "full", "2": "full", "3": "full"},
        {},
    ]
    assert evaluator.evaluate(trace(DIRECTED, claims=None)).results[0].claims is not None
    for odd in ({"claims": {9: "full"}}, {"claims": {1: "maybe"}}, {"claims": [1]}):
        with pytest.raises(ConfigError):
            Evaluator(FakeBackend.table({"c1": odd}), mode="claims", cache=False).evaluate(trace(BORN))


def test_cells_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of decision models is asked a statement a claim, chunk by chunk, then about all chunks."""
    pytest.importorskip("openai.types.decision_create_params", reason="the SDK is older than decision models")
    asked: list[dict[str, Any]] = []
    shares = {DIRECTED: [0.99, 0.02, 0.0], BORN: [0.0, 0.97, 0.4]}

    def answer(request: bytes) -> bytes:
        body = json.loads(request.partition(b"\r\n\r\n")[2])
        asked.append(body)
        outcome = json.dumps(body["input"])
        message = next((values for text, values in shares.items() if outcome.count(text) and len(asked) < 3), [0.7])
        rows = [
            {"type": "predicate", "name": f"c{number}", "probability": share} for number, share in enumerate(message, 1)
        ]
        usage = {"input_tokens": 9, "output_tokens": 0}
        text = json.dumps({"model": "m", "answers": rows, "usage": usage}).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n"
        return f"{head}Connection: close\r\n\r\n".encode() + text

    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    with RawServer(answer) as server:
        options = Options(params={"dialect": "openai"}, concurrency=1, base_url=server.url)
        with Evaluator("decisions/m", mode="claims", cache=False, options=options) as evaluator:
            (result,) = evaluator.evaluate(trace(DIRECTED, BORN)).results
    outcomes = [item for item in result.outcomes if item.kind == "verdict"]
    assert [{cell.claim for cell in item.supports or ()} for item in outcomes] == [{"1"}, {"2"}]
    assert result.claims is not None
    assert result.claims.together == {"3": True}
    names = [[question["name"] for question in body["questions"]] for body in asked]
    assert names == [["c1", "c2", "c3"], ["c1", "c2", "c3"], ["c1"]]
    assert BORN not in json.dumps(asked[0])
    assert CLAIMS[1].text in json.dumps(asked[0]["questions"][1])
    assert CLAIMS[1].text not in json.dumps(asked[0]["questions"][0])
