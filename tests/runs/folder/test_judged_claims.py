"""What is known of a claim from what each chunk says of it."""

from __future__ import annotations

from itertools import product

import pytest

from judge_eval.runs.folder.judgedclaims import CLAIM_SIGNS, JudgedClaim, judged_claims
from judge_eval.schema import Claim, ClaimsJudged, ClaimSupport, NoVerdict, Verdict
from judge_eval.views.claims import claims_in_words, cover_sentence, cover_word, needed_first
from tests.support.claims import SAID, claimed, espresso, outcome_of

BY_SIGN = {sign: answers for answers, sign in CLAIM_SIGNS.items()}


def judged(signs: str, together: object = "unasked") -> JudgedClaim:
    """Make a claim of a sign a rank."""
    supports = tuple(
        ClaimSupport(claim="c", support=SAID[sign]) if sign in SAID else None if sign == "!" else "none"
        for sign in signs
    )
    asked = together != "unasked"
    claim = Claim(id="c", text="It is so.")
    return JudgedClaim(claim, supports, asked, together if isinstance(together, bool) else None)


@pytest.mark.parametrize(
    ("signs", "together", "cover", "word"),
    [
        ("+", "unasked", "covered", "covered"),
        (".!x+", "unasked", "covered", "covered"),
        ("~~", True, "covered", "covered together"),
        ("~!", True, "covered", "covered together"),
        ("~~", False, "partly", "partly covered"),
        ("~.", "unasked", "partly", "partly covered"),
        ("~.", None, "unknown", "not known"),
        ("..!", "unasked", "unknown", "not known"),
        ("~!", False, "unknown", "not known"),
        ("x.", "unasked", "missing", "not covered"),
        ("", "unasked", "missing", "not covered"),
    ],
)
def test_one_rule_says_whether_a_claim_is_covered(signs: str, together: object, cover: str, word: str) -> None:
    """In full by one chunk or by all together; what a missing verdict leaves open is not known."""
    first = judged(signs, together)
    assert (first.cover, cover_word(first), first.signs) == (cover, word, signs)


def test_not_known_is_what_the_missing_verdicts_could_change() -> None:
    """A claim is covered, or not covered, exactly where every way to fill the gaps says so."""
    for signs in product(".~+x!", repeat=3):
        row = "".join(signs)
        gaps = row.count("!")
        ways = [judged(row.replace("!", "{}").format(*fill)) for fill in product(".~+x", repeat=gaps)]
        covers = {item.cover == "covered" for item in ways}
        cover = judged(row).cover
        assert (cover == "unknown") == (len(covers) == 2)
        assert cover == "unknown" or {cover == "covered"} == covers


def test_the_signs_of_a_trace_come_from_its_verdicts() -> None:
    """A chunk without a verdict, or whose verdict says nothing of claims, has no sign of its own."""
    trace = espresso()[1]
    outcomes = [outcome_of(trace, rank) for rank in range(3)]
    result = judged_claims(ClaimsJudged(claims=trace.claims or ()), outcomes)
    assert result is not None
    assert [item.signs for item in result] == ["+!.", ".!."]
    assert result[0].ranks("full") == (1,)
    assert result[0].ranks(None) == (2,)
    silent = Verdict(chunk_id="a", grade=1, relevant=True)
    failed = NoVerdict(chunk_id="b", why="refused")
    (first,) = judged_claims(ClaimsJudged(claims=(Claim(id="c", text="So."),)), [silent, failed]) or ()
    assert first.signs == "!!"
    assert judged_claims(None, outcomes) is None


def test_what_is_missing_stands_first() -> None:
    """Missing, partly, not known, covered; of each the vital ones, else the reference's order."""
    trace = claimed("q", {"a": "+", "b": ".", "c": "~", "d": ".", "e": "!"}, okay=["b"], texts={"d": "D is so."})
    rows = [outcome_of(claimed("q", {name: s}), 0) for name, s in {"a": "+", "c": "~"}.items()]
    supports = tuple(item for row in rows if row.kind == "verdict" for item in row.supports or ())
    verdict = Verdict(chunk_id="q-1", grade=1, relevant=True, supports=supports)
    claims = judged_claims(ClaimsJudged(claims=trace.claims or (), together={"e": None}), [verdict]) or ()
    assert [item.claim.id for item in needed_first(claims)] == ["d", "b", "c", "e", "a"]
    assert cover_sentence(claims) == "1 of 5 claims covered; 2 not covered; 1 partly covered; 1 not known"
    assert claims_in_words(claims)[1] == "not covered (vital): D is so."
    assert cover_sentence([]) == "the reference makes no claim"
