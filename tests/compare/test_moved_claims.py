"""Which claims a candidate won and lost."""

from __future__ import annotations

from itertools import product

from judge_eval.compare.moved_claims import ClaimsMoved
from judge_eval.schema import Trace
from tests.support.claims import claimed, espresso, run_by_claims
from tests.support.serving import judge, rows

COVERS = {"+": "covered", ".": "missed", "~": "missed", "!": "unknown"}


def moved(before: list[Trace], after: list[Trace]) -> ClaimsMoved:
    """Compare two runs judged by claims."""
    (told,) = run_by_claims(before).compare(run_by_claims(after)).claims
    return told


def test_every_way_a_claim_can_move_is_counted_once() -> None:
    """Won, lost, covered or missed in both; not known where a verdict is missing in one of them."""
    pairs = list(product(COVERS, repeat=2))
    before = [claimed(f"q{n}", {"c": one}) for n, (one, _) in enumerate(pairs)]
    after = [claimed(f"q{n}", {"c": other}, okay=["c"]) for n, (_, other) in enumerate(pairs)]
    told = moved(before, after)
    kinds = [{COVERS[one], COVERS[other]} for one, other in pairs]
    assert told.covered == kinds.count({"covered"}) == 1
    assert told.missed == kinds.count({"missed"}) == 4
    assert (told.lost, told.won) == (2, 2)
    assert told.unknown == sum("unknown" in kind for kind in kinds) == 7
    assert told.lost_vital == 2  # as the baseline calls it
    assert [one.kind for one in told.changes] == ["lost", "lost", "won", "won"]
    assert {(one.before, one.after) for one in told.changes} == {("+", "."), ("+", "~"), (".", "+"), ("~", "+")}
    assert told.sentence == (
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
    told = moved(before, after)
    assert (told.lost, told.unpaired, told.not_judged, told.missed) == (1, 2, 1, 1)
    assert told.sentence.endswith("; 2 in only one run; 1 trace not judged by claims in one run")


def test_vital_claims_that_were_lost_stand_first() -> None:
    """Then other lost ones, then those won."""
    before = [claimed("a", {"c": ".", "d": "+", "e": "+"}, okay=["d"])]
    after = [claimed("a", {"c": "+", "d": ".", "e": "."}, okay=["d"])]
    told = moved(before, after).changes
    assert [(one.kind, one.vital, one.text[:7]) for one in told] == [
        ("lost", True, "Claim e"),
        ("lost", False, "Claim d"),
        ("won", True, "Claim c"),
    ]


def test_runs_without_claims_compare_as_before() -> None:
    """No word of claims; several candidates have a sentence each, under their names."""
    run = judge(rows()[:3])
    assert run.compare(judge(rows()[:3])).claims == ()
    one, other = run_by_claims(espresso(), label="one"), run_by_claims(espresso(), label="other")
    compared = run_by_claims(espresso()).compare(one, other)
    assert [told.candidate for told in compared.claims] == [1, 2]
    assert compared.claims_told[1].startswith("other, claims: 0 lost")
    assert "other, claims: 0 lost" in compared._repr_html_()
