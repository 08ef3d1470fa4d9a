"""Which claims a candidate won and lost."""

from __future__ import annotations

from itertools import product

from judge_eval.compare.comparison import ClaimsMoved
from judge_eval.schema import Trace
from judge_eval.views.findings import claims_sentences, moved_claims_sentence
from tests.support.claims import claimed, espresso, run_by_claims
from tests.support.serving import judge, rows

COVERS = {"+": "covered", ".": "missed", "~": "missed", "!": "unknown"}


def moved(before: list[Trace], after: list[Trace]) -> ClaimsMoved:
    """Compare two runs judged by claims."""
    (result,) = run_by_claims(before).compare(run_by_claims(after)).claims
    return result


def test_every_way_a_claim_can_move_is_counted_once() -> None:
    """Won, lost, covered or missed in both; not known where a verdict is missing in one of them."""
    pairs = list(product(COVERS, repeat=2))
    before = [claimed(f"q{n}", {"c": first}) for n, (first, _) in enumerate(pairs)]
    after = [claimed(f"q{n}", {"c": other}, okay=["c"]) for n, (_, other) in enumerate(pairs)]
    result = moved(before, after)
    kinds = [{COVERS[first], COVERS[other]} for first, other in pairs]
    assert result.covered == kinds.count({"covered"}) == 1
    assert result.missed == kinds.count({"missed"}) == 4
    assert (result.lost, result.won) == (2, 2)
    assert result.unknown == sum("unknown" in kind for kind in kinds) == 7
    assert result.lost_vital == 2  # as the baseline calls it
    assert [item.kind for item in result.changes] == ["lost", "lost", "won", "won"]
    assert {(item.before, item.after) for item in result.changes} == {("+", "."), ("+", "~"), (".", "+"), ("~", "+")}
    assert moved_claims_sentence(result) == (
        "claims: 2 lost (2 vital), 2 won (2 vital), of 9 known in both; share covered 0.333 before, "
        "0.333 after, +0.000 [-0.468, +0.468]; 7 unknown in one run"
    )


def test_other_claims_are_not_paired() -> None:
    """A claim with another text is another claim; a trace that could not be split is counted."""
    before = [claimed("a", {"c": "+", "d": "+"}), claimed("b", {"c": "+"}), claimed("z", {"c": "."})]
    after = [
        claimed("a", {"c": ".", "d": "."}, texts={"c": "Edited."}),
        claimed("b", {"c": "+"}, split=False),
        claimed("z", {"c": "."}),
    ]
    result = moved(before, after)
    assert (result.lost, result.unpaired, result.not_judged, result.missed) == (1, 2, 1, 1)
    assert moved_claims_sentence(result).endswith("; 2 in only one run; 1 trace not judged by claims in one run")


def test_vital_claims_that_were_lost_stand_first() -> None:
    """Then other lost ones, then those won."""
    before = [claimed("a", {"c": ".", "d": "+", "e": "+"}, okay=["d"])]
    after = [claimed("a", {"c": "+", "d": ".", "e": "."}, okay=["d"])]
    result = moved(before, after).changes
    assert [(item.kind, item.vital, item.text[:7]) for item in result] == [
        ("lost", True, "Claim e"),
        ("lost", False, "Claim d"),
        ("won", True, "Claim c"),
    ]


def test_runs_without_claims_compare_as_before() -> None:
    """No word of claims; several candidates have a sentence each, under their names."""
    run = judge(rows()[:3])
    assert run.compare(judge(rows()[:3])).claims == ()
    first, other = run_by_claims(espresso(), label="one"), run_by_claims(espresso(), label="other")
    compared = run_by_claims(espresso()).compare(first, other)
    assert [line.candidate for line in compared.claims] == [1, 2]
    assert claims_sentences(compared)[1].startswith("other, claims: 0 lost")
    assert "other, claims: 0 lost" in compared._repr_html_()
