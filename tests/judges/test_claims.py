"""Judging by claims: rows are read strictly, verdicts follow from them by the stated rule."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.judges.claims import COUNTED, NO_CLAIMS, grade_of_supports
from judge_eval.judges.judge import make_judge
from judge_eval.schema import BINARY, GRADED, Claim, ClaimSupport
from tests.support.claiming import (
    BORN,
    BREAD,
    CLAIMS,
    DIRECTED,
    ONE_BY_ONE,
    REFERENCE,
    cell,
    judged,
    row,
    rows,
    said,
    split,
    trace,
)
from tests.support.driving import drive


@pytest.mark.parametrize("mode", ["claims", "claims-list"])
def test_rows_become_supports_and_verdicts(mode: Any) -> None:
    """Each chunk keeps its row with checked quotes; grade, reason and evidence follow from it."""
    cells = [
        row(cell(1, "full", "that Anna Berg directed")),
        row(cell(3, "full", "in 1932"), cell(2, "full", "born in Uppsala")),
        row(),
    ]
    answers = [[*map(said, cells)]] if mode == "claims" else [[rows(*cells)]]
    judgment, rounds = drive(make_judge("support/binary", mode), trace(DIRECTED, BORN, BREAD, " "), answers)
    assert [len(round_) for round_ in rounds] == [3 if mode == "claims" else 1]
    first, second, third, blank = judgment.outcomes
    assert [o.grade for o in judgment.outcomes[:3]] == [1, 1, 0]
    assert blank.why == "empty"
    assert first.supports == (
        ClaimSupport(claim="1", support="full", quote="that Anna Berg directed", quote_found=True),
    )
    assert first.evidence == "that Anna Berg directed"
    assert first.evidence_found
    assert first.reason == f'{COUNTED}supports 1 of 3 claims; states "Anna Berg directed The Long Harvest".'
    assert [(s.claim, s.support, s.quote_found) for s in second.supports] == [("2", "full", True), ("3", "full", False)]
    assert second.evidence == "born in Uppsala"
    assert third.supports == ()
    assert third.reason == f"{COUNTED}supports none of 3 claims."
    assert third.evidence == ""
    assert judgment.claims.claims == CLAIMS
    assert judgment.claims.together == {}
    assert {id_ for call in judgment.calls for id_ in call.chunk_ids} == {"c1", "c2", "c3"}


def test_the_split_comes_first_and_is_told() -> None:
    """Without claims the reference is split, then the chunks are judged; the calls name all of it."""
    bare = trace(BORN, claims=None)
    answers = [[split(REFERENCE)], [said(row(cell(1, "full", "born in Uppsala")))]]
    judgment, rounds = drive(ONE_BY_ONE, bare, answers)
    assert [request.claims for (request,) in rounds] == [(), (REFERENCE,)]
    assert [call.key for call in judgment.calls] == [request.digest.hex() for (request,) in rounds]
    assert judgment.outcomes[0].relevant
    assert bare.claims is None


RULE = [
    ({}, 0, 0),
    ({"3": "contradicts"}, 0, 1),
    ({"3": "partial"}, 1, 2),
    ({"1": "full"}, 1, 2),
    ({"1": "full", "2": "partial"}, 1, 2),
    ({"1": "full", "2": "full"}, 1, 3),
    ({"1": "full", "2": "full", "3": "contradicts"}, 1, 3),
    ({"1": "contradicts", "3": "full"}, 1, 2),
]


@pytest.mark.parametrize(("kinds", "binary", "graded"), RULE)
def test_the_rule_from_rows_to_grades(kinds: dict[str, Any], binary: int, graded: int) -> None:
    """Binary: any support; graded: every vital claim fully, any support, a contradiction, nothing."""
    supports = [ClaimSupport(claim=claim, support=kind) for claim, kind in kinds.items()]
    assert grade_of_supports(supports, CLAIMS, BINARY) == binary
    assert grade_of_supports(supports, CLAIMS, GRADED) == graded
    okay = [claim.model_copy(update={"vital": False}) for claim in CLAIMS]
    assert grade_of_supports(supports, okay, GRADED) == min(graded, 2)


@given(st.dictionaries(st.sampled_from("123"), st.sampled_from(["full", "partial", "contradicts"])))
def test_more_support_never_lowers_a_grade(kinds: dict[str, Any]) -> None:
    """Turning a cell from nothing or partial to full lowers neither grade; both agree on relevance."""
    supports = [ClaimSupport(claim=claim, support=kind) for claim, kind in kinds.items()]
    for claim in "123":
        if kinds.get(claim) != "contradicts":
            better = [item for item in supports if item.claim != claim]
            better.append(ClaimSupport(claim=claim, support="full"))
            for scale in (BINARY, GRADED):
                assert grade_of_supports(better, CLAIMS, scale) >= grade_of_supports(supports, CLAIMS, scale)
    binary, graded = (grade_of_supports(supports, CLAIMS, scale) for scale in (BINARY, GRADED))
    assert (binary >= BINARY.relevant) == (graded >= GRADED.relevant)


def test_the_scale_costs_no_second_call() -> None:
    """Binary and graded verdicts follow from one row: what is asked is the same."""
    binary, graded = make_judge("support/binary", "claims"), make_judge("support/graded", "claims")
    assert (binary.scale, graded.scale) == (BINARY, GRADED)
    (first,), (other,) = (next(judge.plan(trace(BORN))) for judge in (binary, graded))
    assert first.digest == other.digest
    assert make_judge("support/graded", "claims", relevant=3).scale.relevant == 3
    assert make_judge("claims/support", "claims").scale == BINARY


def test_ids_and_vitality_change_no_request() -> None:
    """Renaming a claim or calling it vital asks nothing again; another text does."""
    renamed = tuple(c.model_copy(update={"id": f"k{c.id}", "vital": not c.vital}) for c in CLAIMS)
    reworded = (*CLAIMS[:2], CLAIMS[2].model_copy(update={"text": "She was born in 1931."}))
    asked = [next(ONE_BY_ONE.plan(trace(BORN, claims=claims)))[0].digest for claims in (CLAIMS, renamed)]
    assert asked[0] == asked[1]
    assert next(ONE_BY_ONE.plan(trace(BORN, claims=reworded)))[0].digest != asked[0]


def test_a_contradiction_is_no_support() -> None:
    """It is kept with its quote, and named in the reason; the chunk is not relevant."""
    outcome = judged(cell(2, "contradicts", "born in Uppsala"))
    assert not outcome.relevant
    assert outcome.evidence == "born in Uppsala"
    assert "supports none of 3 claims; contradicts" in outcome.reason
    assert judged(cell(2, "contradicts", "born in Uppsala"), scale="graded").grade == 1


def test_a_reference_without_claims_judges_nothing() -> None:
    """No chunk has a verdict, and each says why; nothing is 0, nothing is 1."""
    judgment, rounds = drive(ONE_BY_ONE, trace(BORN, BREAD, claims=()), [])
    assert rounds == []
    assert [(o.why, o.detail) for o in judgment.outcomes] == [("unjudged", NO_CLAIMS)] * 2
    assert judgment.claims.claims == ()


@pytest.mark.parametrize("mode", ["claims", "claims-list"])
@pytest.mark.parametrize("count", [1, 40])
def test_few_and_many_claims(mode: Any, count: int) -> None:
    """One claim or forty: each is numbered, each can be answered, and the cap has room for all."""
    claims = tuple(Claim(id=f"k{n}", text=f"Fact {n} holds.") for n in range(1, count + 1))
    full = row(*(cell(n, "full", "Anna Berg was born") for n in range(1, count + 1)))
    reply = said(full) if mode == "claims" else rows(full)
    judgment, rounds = drive(make_judge("support/graded", mode), trace(BORN, claims=claims), [[reply]])
    assert judgment.outcomes[0].grade == 3
    assert len(judgment.outcomes[0].supports) == count
    assert rounds[0][0].max_tokens >= 64 * count
    assert f"{count}. Fact {count} holds." in rounds[0][0].messages[1].content
    assert len(judgment.outcomes[0].reason) < 400


def test_claims_in_another_language_than_the_chunks() -> None:
    """Texts of any script go in and out unchanged; a quote is looked for in the chunk's own words."""
    claims = (Claim(id="1", text="アンナ・ベルイはウプサラで生まれた。"),)
    outcome = drive(ONE_BY_ONE, trace(BORN, claims=claims), [[said(row(cell(1, "full", "born in Uppsala")))]])[0]
    assert outcome.outcomes[0].evidence_found
    assert "アンナ・ベルイはウプサラで生まれた" in outcome.outcomes[0].reason


def test_known_verdicts_keep_their_rows() -> None:
    """What is there already is not asked again, counts for what is covered, and stays as it is."""
    answers = [[said(row(cell(1, "full", "Anna Berg directed"))), said(row(cell(2, "full", "Uppsala in 1931")))]]
    whole, _ = drive(ONE_BY_ONE, trace(DIRECTED, BORN), answers)
    known = {"c1": whole.outcomes[0]}
    again, rounds = drive(ONE_BY_ONE, trace(DIRECTED, BORN), [[answers[0][1]]], known)
    assert [request.chunk_ids for request in rounds[0]] == [("c2",)]
    assert again.outcomes == whole.outcomes
    assert again.claims == whole.claims


def test_equal_chunks_are_asked_about_once() -> None:
    """They share a row."""
    judgment, rounds = drive(ONE_BY_ONE, trace(BORN, BORN), [[said(row(cell(2, "full", "born in Uppsala")))]])
    assert len(rounds[0]) == 1
    assert judgment.outcomes[0].supports == judgment.outcomes[1].supports != ()


def test_an_empty_retrieval_is_split_all_the_same() -> None:
    """What the reference claims is known though nothing was retrieved, so that recall can be 0."""
    judgment, rounds = drive(ONE_BY_ONE, trace(claims=None), [[split(REFERENCE)]])
    assert len(rounds) == 1
    assert len(judgment.claims.claims) == 1
    assert judgment.outcomes == judgment.calls == ()
