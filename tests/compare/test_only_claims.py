"""Traces in which a claim was won or lost and no verdict changed; and those that make no claim."""

from __future__ import annotations

import pytest

from judge_eval import EvalRun
from judge_eval.cli.printing.output import show_comparison
from judge_eval.compare.compare import compare
from judge_eval.compare.comparison import ClaimsMoved, Comparison
from judge_eval.compare.gate import check_drops, gate_limits
from judge_eval.compare.options import Gates
from judge_eval.export.ci_reports import pull_request_comment
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.comparepage import compare_page
from judge_eval.pages.rows import Table
from judge_eval.stats import mean_interval
from judge_eval.views.comparison import change_in_words
from judge_eval.views.findings import headlines, moved_claims_sentence
from judge_eval.views.gate_sentences import check_sentence
from tests.support.blocks_of_pages import tables_in
from tests.support.claims import claimed, run_by_claims
from tests.support.notes import note_sentences

BEFORE = {
    "same": {"c": "+.", "d": "~."},
    "lost": {"c": "+.", "d": "+."},
    "both": {"c": "+.", "d": ".."},
    "verdict": {"c": "+.", "d": ".+"},
}
AFTER = {
    "same": {"c": "+.", "d": ".."},
    "lost": {"c": "+.", "d": "~."},
    "both": {"c": "~.", "d": "+."},
    "verdict": {"c": "+.", "d": ".."},
}


def run_of(signs: dict[str, dict[str, str]], label: str = "run") -> EvalRun:
    """Judge traces by their signs."""
    return run_by_claims([claimed(name, each) for name, each in signs.items()], label=label)


@pytest.fixture(scope="module")
def record() -> Comparison:
    """Compare a run with one in which claims moved, under metrics that do not see it."""
    return compare(run_of(BEFORE, "main"), run_of(AFTER, "pr"))


def test_a_trace_in_which_only_claims_moved_is_named_as_such(record: Comparison) -> None:
    """It is counted and described; one without a claim won or lost is not; a verdict that flipped leads."""
    assert record.changed == ({"claims": 2, "verdicts": 1},)
    values = {change.trace_id: (change.kind, change_in_words(change)) for change in record.traces}
    assert values == {
        "lost": ("claims", "1 claim lost"),
        "both": ("claims", "1 claim lost, 1 claim won"),
        "verdict": ("verdicts", "verdict flipped, 1 claim lost"),
    }


def test_scores_that_moved_with_a_claim_are_told_as_the_claim() -> None:
    """A metric over claims sees it too: the trace is named once, by what it is."""
    result = compare(run_of(BEFORE), run_of(AFTER), metrics=["AP@2", "ClaimRecall@2"])
    assert result.changed == ({"claims": 2, "verdicts": 1},)
    (lost,) = (change for change in result.traces if change.trace_id == "lost")
    assert (lost.kind, lost.differences) == ("claims", {"AP@2": 0.0, "ClaimRecall@2": -0.5})


def test_everybody_is_shown_them(record: Comparison, capsys: pytest.CaptureFixture[str]) -> None:
    """On the terminal, in Markdown, in a notebook, and on the page with its cards and counts."""
    show_comparison(record)
    output = capsys.readouterr().out
    assert "3 traces changed (claim won or lost: 2, verdict flipped: 1)" in output
    for text in (output, pull_request_comment(None, record, []), record._repr_html_()):
        assert "1 claim lost, 1 claim won" in text
    sides = ComparedRuns(Table(run_of(BEFORE)), Table(run_of(AFTER)))
    assert compare_page(sides)["changes"] == {"same": 1, "claims": 2, "verdicts": 1}
    cards = {card["id"]: card for card in sides.in_full(sides.changed)}
    assert (cards["lost"]["change"], len(tables_in(cards["both"]["claims"])[0])) == ("claims", 2)


def moved(before: EvalRun, after: EvalRun) -> ClaimsMoved:
    """Return what became of the claims."""
    (result,) = compare(before, after).claims
    return result


def test_the_share_covered_has_an_interval_by_trace() -> None:
    """It is that of the house for differences between -1 and 1 in clusters, each trace being one."""
    signs = [("+..", "+++"), ("+++", "..+"), ("+", "."), ("++", "+."), ("+.+.", "+.+."), ("..", "+.")]
    before, after = (
        {f"q{n}": {f"c{k}": sign for k, sign in enumerate(pair[side])} for n, pair in enumerate(signs)}
        for side in (0, 1)
    )
    share = moved(run_of(before), run_of(after)).share
    pairs = [(n, x == "+", y == "+") for n, pair in enumerate(signs) for x, y in zip(*pair, strict=True)]
    wanted = mean_interval(
        [float(y) - float(x) for _, x, y in pairs], clusters=[n for n, *_ in pairs], limits=(-1.0, 1.0)
    )
    assert share is not None
    assert wanted.interval is not None
    assert share.interval == (wanted.interval.low, wanted.interval.high)
    assert share.before == pytest.approx(sum(x for _, x, _ in pairs) / len(pairs))
    assert share.after == pytest.approx(sum(y for *_, y in pairs) / len(pairs))
    assert share.difference == pytest.approx(share.after - share.before)
    result = moved_claims_sentence(moved(run_of(before), run_of(after)))
    assert "; share covered 0.600 before, 0.533 after, -0.067 [" in result


def test_of_one_trace_there_is_no_interval() -> None:
    """Claims of one trace are no independent draws; nor is there a share where none is known in both."""
    result = moved(run_of({"q": {"c": "+", "d": "+"}}), run_of({"q": {"c": "+", "d": "."}}))
    assert result.share is not None
    assert result.share.interval is None
    assert "-0.500 without an interval" in moved_claims_sentence(result)
    none = moved(run_of({"q": {"c": "!"}}), run_of({"q": {"c": "+"}}))
    assert none.share is None


def test_traces_that_belong_together_are_one_cluster() -> None:
    """Where the run has clusters, an interval that took each trace for itself would be too narrow."""
    made = [[claimed(f"q{n}", {"c": sign}, cluster=n // 10) for n in range(40)] for sign in ("+", ".")]
    result = moved(run_by_claims(made[0]), run_by_claims([*made[1][:20], *made[0][20:]]))
    assert result.share is not None
    assert result.share.clusters == 4


def many(empty: int) -> list[EvalRun]:
    """Make two equal runs of 30 traces with claims and some without, whose chunks have their verdicts."""
    data = [claimed(f"q{n}", {"c": "+."}) for n in range(30)]
    data += [claimed(f"none{n}", {}, chunks=["a", "b"]) for n in range(empty)]
    return [run_by_claims(data, label=label) for label in ("main", "pr")]


def test_no_claims_are_no_failure() -> None:
    """Traces that have nothing to measure are counted apart, as the run counts them, and said so."""
    before, after = many(10)
    result = compare(before, after, metrics=["AP@2", "ClaimRecall@2"])
    recall = result["ClaimRecall@2"]
    assert (recall.n, recall.n_excluded, recall.n_undefined) == (30, 0, 10)
    assert result["AP@2"].n_undefined == 0
    note = "10 traces have no claim that ClaimRecall@2 could measure, and no part in the comparison"
    assert note in note_sentences(result.notes)
    assert "have no value" not in headlines(result)[0]


def test_failures_stay_failures() -> None:
    """A trace with a failed verdict is open, and one without claims is not taken for it."""
    signs = {f"q{n}": {"c": "+."} for n in range(12)}
    after = [claimed(name, {"c": "!." if name == "q3" else "+."}) for name in signs]
    before = [claimed(name, each) for name, each in signs.items()]
    empty = claimed("none", {}, chunks=["a"])
    result = compare(run_by_claims([*before, empty]), run_by_claims([*after, empty]), metrics=["ClaimRecall@2"])[
        "ClaimRecall@2"
    ]
    assert (result.n, result.n_open, result.n_excluded, result.n_undefined) == (12, 1, 0, 1)


def test_a_gate_is_not_left_open_by_traces_without_claims() -> None:
    """A quarter of traces without claims is no quarter of unknown values: the limit is shown to be kept."""
    before, after = many(10)
    result = compare(before, after, metrics=["ClaimRecall@2"])
    (check,) = check_drops(result, gate_limits(Gates(max_drop=("ClaimRecall@2=0.3",))))
    assert check.outcome == "passed", check_sentence(check)
