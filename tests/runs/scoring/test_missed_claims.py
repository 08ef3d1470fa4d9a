"""Which claims a run misses most, and how honest its counts are about what is not known."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval import EvalRun
from judge_eval.metrics import GradeTable
from judge_eval.metrics.families.coverage import claim_recall, sufficiency
from judge_eval.runs.folder.judgedclaims import judged_claims
from judge_eval.runs.scoring.missedclaims import ClaimsMissed, CoverCounts, missed_claims
from judge_eval.runs.scoring.scorer import claims_of_judged
from judge_eval.views.run import covered_sentence, missed_frequency
from tests.support.claims import claimed, espresso, run_by_claims
from tests.support.serving import judge, rows


def missed(run: EvalRun) -> ClaimsMissed:
    """Return what a run misses, which was judged by claims."""
    result = missed_claims(run.results)
    assert result is not None
    return result


def test_the_most_missed_stand_first() -> None:
    """By the share of traces, then by their number; of equals the vital ones, else as they come."""
    result = missed(run_by_claims(espresso()))
    listed = [(item.text, item.counts.missed, item.counts.known, item.traces) for item in result.missed]
    assert listed == [
        ("Claim c2 of What is in a flat white?", 2, 2, ("q3", "q4")),
        ("Between 18 and 20 grams of coffee go into a double shot.", 1, 1, ("q1",)),
        ("The shot takes 25 to 30 seconds.", 1, 1, ("q1",)),
        ("The water has about 93 degrees.", 1, 1, ("q1",)),
    ]
    assert [missed_frequency(item) for item in result.missed[:2]] == [
        "in 2 of 2 traces",
        "in 1 of 1 trace (1 partly covered)",
    ]
    assert result.distinct == 4


def test_what_is_not_known_is_in_no_share() -> None:
    """A missing verdict, a failed split and a reference without claims are counted apart."""
    data = [
        *(claimed(f"q{n}", {"c": signs}, query="Same?", tags=["a"]) for n, signs in enumerate("+..!")),
        claimed("none", {}, chunks=["A text."]),
        claimed("lost", {"c": "."}, split=False),
    ]
    result = missed(run_by_claims(data))
    assert result.counts == CoverCounts(covered=1, missing=2, unknown=1)
    (first,) = result.missed
    assert missed_frequency(first) == "in 2 of 3 traces (1 more not known)"
    assert first.counts.missed_share == 2 / 3
    assert (result.traces, result.without_claims, result.not_judged) == (5, 1, 1)
    assert covered_sentence(result) == (
        "1 of 3 claims covered (vital: 1 of 3; 1 more not known, as verdicts are missing; "
        "1 trace without a claim; 1 trace not judged by claims)"
    )
    (tag,) = result.tags
    assert tag.counts.covered_share == 1 / 3
    unknown = missed(run_by_claims([claimed("q", {"c": "!"})]))
    assert unknown.counts.covered_share is None
    assert unknown.missed == ()


def test_a_run_that_was_not_judged_by_claims_says_nothing() -> None:
    """None, and only the results up to the first verdict are read."""
    run = judge(rows()[:3])
    assert missed_claims(run.results) is None
    left = iter(run.results)
    assert missed_claims(left) is None
    assert next(left).trace_id == run.results[1].trace_id
    assert missed_claims([]) is None


SIGNS = st.text(".~+x!", min_size=2, max_size=2)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.dictionaries(st.sampled_from("xyz"), SIGNS)), max_size=6))
def test_the_counts_are_those_of_the_claims(made: list[tuple[str, dict[str, str]]]) -> None:
    """Over all claims, over the vital ones, by tag and by distinct claim, the same claims are counted."""
    data = [
        claimed(f"q{n}", claims, chunks=["One.", "Two."], query=f"{tag}?", tags=[tag], okay=["z"])
        for n, (tag, claims) in enumerate(made)
    ]
    run = run_by_claims(data) if data else None
    if run is None:
        return
    each = [item for r in run.results for item in judged_claims(r.claims, r.outcomes) or ()]
    counts = Counter(item.cover for item in each)
    result = missed(run)
    assert result.counts == CoverCounts.of(counts)
    assert result.vital == CoverCounts.of(Counter(item.cover for item in each if item.claim.vital))
    for field in ("covered", "partly", "missing", "unknown"):
        assert sum(getattr(tag.counts, field) for tag in result.tags) == counts[field]
    assert sum(item.counts.missed for item in result.missed) == counts["partly"] + counts["missing"]
    shares = [item.counts.missed_share or 0 for item in result.missed]
    assert shares == sorted(shares, reverse=True)


@given(st.lists(st.dictionaries(st.sampled_from("wxyz"), st.text(".~+x", min_size=3, max_size=3)), min_size=1))
def test_metrics_and_words_go_by_one_rule(made: list[dict[str, str]]) -> None:
    """A trace suffices exactly where every vital claim is told to be covered, alone or together."""
    data = [
        claimed(
            f"q{n}", claims, chunks=["One.", "Two.", "Three."], okay=["z"],
            together={name: n % 2 == 0 for name in claims if "~" in claims[name]},
        )
        for n, claims in enumerate(made)
    ]  # fmt: skip
    results = run_by_claims(data).results
    table = claims_of_judged([(r.trace, r.outcomes) for r in results], [r.claims for r in results])
    grades = GradeTable.from_rows([[0] * 3] * len(data), claims=table)
    for place, result in enumerate(results):
        each = judged_claims(result.claims, result.outcomes) or ()
        vital = [item for item in each if item.claim.vital]
        whole = sufficiency(grades)[place]
        assert math.isnan(whole) if not vital else whole == all(item.cover == "covered" for item in vital)
        recall = claim_recall(grades)[place]
        alone = [bool(item.ranks("full")) for item in each]
        assert math.isnan(recall) if not each else recall == pytest.approx(sum(alone) / len(alone))
