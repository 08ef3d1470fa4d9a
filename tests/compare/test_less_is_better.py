"""Metrics of which less is better: wherever a change is weighed, a rise is for the worse."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from judge_eval import EvalRun
from judge_eval.compare.compare import compare
from judge_eval.compare.comparison import Comparison
from judge_eval.compare.gate import Limit, check_drops, check_under, gate_limits
from judge_eval.compare.options import Gates
from judge_eval.export.ci_reports import junit, pull_request_comment
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.comparepage import compare_page
from judge_eval.pages.matrixpage import SeveralRuns, matrix_page
from judge_eval.pages.rows import Table, sort_rows
from judge_eval.pages.runpage import run_page
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.views.comparison import finding_words
from judge_eval.views.gate_sentences import check_sentence
from tests.support.claims import claimed, run_by_claims

NAMES = ["Conflict@2", "Redundancy@2", "ClaimRecall@2"]
MANY = 30
CLEAN, WORSE = {"c": "+.", "d": ".+"}, {"c": "+x", "d": "+."}
"""Nothing contradicts or repeats; and one of two chunks contradicts a claim."""
REPEATED = {"c": "++", "d": ".."}


def run_of(kinds: list[dict[str, str]], label: str) -> EvalRun:
    """Judge a trace for each of some tables of signs."""
    data = [claimed(f"q{n:02d}", kind) for n, kind in enumerate(kinds)]
    return rescore(run_by_claims(data, label=label), NAMES)


@pytest.fixture(scope="module")
def runs() -> tuple[EvalRun, EvalRun]:
    """Make a baseline without conflicts, and a candidate with them in all traces but two."""
    after = [WORSE] * 14 + [REPEATED] * (MANY - 16) + [CLEAN] * 2
    return run_of([CLEAN] * MANY, "main"), run_of(after, "pr")


def test_a_rise_is_worse_in_every_figure(runs: tuple[EvalRun, EvalRun]) -> None:
    """Wins, losses and which way it went are told of what is better, not of what is higher."""
    before, after = runs
    record = compare(before, after)
    for name in NAMES[:2]:
        d = record[name]
        assert d.difference > 0
        assert (d.way, d.wins, d.less_is_better) == ("worse", 0, True)
        assert d.losses == 14
        assert finding_words(d) == "higher (worse)"
    assert record["ClaimRecall@2"].way == "worse"
    assert not record["ClaimRecall@2"].less_is_better
    assert record.openings[0].finding == "worse"
    back = compare(after, before)["Conflict@2"]
    assert (back.way, back.wins, back.losses) == ("better", 14, 0)
    assert finding_words(back) == "lower (better)"


@pytest.mark.parametrize("kind", ["max-rise", "non-inferior"])
def test_a_rise_breaks_a_limit_and_names_the_traces(runs: tuple[EvalRun, EvalRun], kind: str) -> None:
    """A limit on the loss fails by a rise, in words of a rise, with the traces that lost; a fall passes."""
    before, after = runs
    limits = [Limit.parse(kind, "Conflict@2=0.05")]  # type: ignore[arg-type]
    record = compare(before, after)
    (check,) = check_drops(record, limits)
    assert (check.outcome, check.passed) == ("failed", False)
    assert check.value == pytest.approx(record["Conflict@2"].difference)
    assert "Conflict@2 rose by 0." in check_sentence(check)
    assert check.interval == record["Conflict@2"].interval
    assert len(check.movers) == 5
    assert all(mover.differences["Conflict@2"] > 0 for mover in check.movers)
    assert "rose by" in junit([check])
    (kept,) = check_drops(compare(after, before), limits)
    assert kept.outcome == "passed"
    assert "Conflict@2 did not rise" in check_sentence(kept)
    assert "|" in pull_request_comment(None, record, [check])


def test_a_mean_that_must_not_be_above(runs: tuple[EvalRun, EvalRun]) -> None:
    """`fail-over` is an upper limit: above it fails, at it passes, and what failed could bring it over."""
    before, after = runs
    assert check_under(before, gate_limits(Gates(fail_under=("Conflict@2=0",))))[0].passed
    (check,) = check_under(after, gate_limits(Gates(fail_under=("Conflict@2=0.2",))))
    assert check.outcome == "failed"
    assert "over 0.2" in check_sentence(check)
    broken = run_of([CLEAN] * 20 + [{"c": "+!", "d": ".!"}], "broken")
    (open_,) = check_under(broken, gate_limits(Gates(fail_under=("Conflict@2=0.01",))))
    assert open_.outcome == "undecided"
    assert "could bring it up to 0.02" in check_sentence(open_)


@pytest.mark.parametrize(
    ("kind", "metric", "instead"),
    [
        ("fail-under", "Conflict@2", "fail-over"),
        ("max-drop", "Redundancy@2", "max-rise"),
        ("fail-over", "AP@5", "fail-under"),
        ("max-rise", "AP@5", "max-drop"),
    ],
)
def test_a_limit_keeps_a_metric_on_its_good_side(kind: str, metric: str, instead: str) -> None:
    """Either flag of a pair limits a metric on the side that is worse for it."""
    assert Limit.parse(kind, f"{metric}=0.2") == Limit(instead, metric, 0.2)  # type: ignore[arg-type]


def test_pages_hold_which_way_is_better(runs: tuple[EvalRun, EvalRun]) -> None:
    """The page of one run, of two and of several: each metric says it, and each difference which way."""
    before, after = runs
    sides = ComparedRuns(Table(before), Table(after))
    both = {m["name"]: m for m in compare_page(sides)["metrics"]}
    values = {m["name"]: m for m in run_page(sides.candidate, sides)["metrics"]}
    several = matrix_page(SeveralRuns([Table(run) for run in (before, after, run_of([CLEAN] * MANY, "x"))]))
    cells = {m["name"]: (m["less_is_better"], m["runs"][1]["pair"]["way"]) for m in several["metrics"]}
    for name in NAMES:
        fewer = name != "ClaimRecall@2"
        assert (both[name]["less_is_better"], both[name]["way"]) == (fewer, "worse")
        assert (values[name]["less_is_better"], values[name]["pair"]["way"]) == (fewer, "worse")
        assert cells[name] == (fewer, "worse")


def test_the_largest_loss_comes_first(runs: tuple[EvalRun, EvalRun]) -> None:
    """Traces sorted by what they lost: where less is better those that rose most."""
    before, after = runs
    sides = ComparedRuns(Table(before), Table(after))
    lost = sort_rows(sides.rows, "change", NAMES, "Conflict@2")
    assert [row.deltas["Conflict@2"] > 0 for row in lost] == [True] * 14 + [False] * 16
    won = sort_rows(sides.rows, "-change", NAMES, "Conflict@2")
    assert [row.deltas["Conflict@2"] > 0 for row in won] == [False] * 16 + [True] * 14
    assert sort_rows(sides.rows, "score", NAMES, "Conflict@2")[0].scores["Conflict@2"] == 0.0
    part = ComparedRuns(Table(before, 14), Table(after, 14))
    assert all(row.deltas["Conflict@2"] > 0 for row in part.rows)


def test_the_worst_traces_are_those_with_most(runs: tuple[EvalRun, EvalRun]) -> None:
    """What needs a look first is what a page holds of a large run."""
    _, after = runs
    assert {row.scores["Conflict@2"] for row in Table(after, 14).rows} == {0.5}


def test_a_mean_over_its_limit_names_the_highest_values(runs: tuple[EvalRun, EvalRun]) -> None:
    """The worst values of a metric of which less is better are the high ones."""
    (check,) = check_under(runs[1], [Limit.parse("fail-over", "Conflict@2=0.05")])
    assert [t.trace_id for t in check.worst] == [f"q{n:02d}" for n in range(5)]
    assert all((t.value or 0) > 0 for t in check.worst)


def test_movers_start_with_the_greatest_loss(runs: tuple[EvalRun, EvalRun]) -> None:
    """A comparison names the traces that lost most of a metric first."""
    record: Comparison = compare(*runs)
    moved = record.movers("Conflict@2", most=MANY)
    assert len(moved) == 14
    both = compare(run_of([WORSE, CLEAN], "a"), run_of([CLEAN, WORSE], "b"))
    assert [change.trace_id for change in both.movers("Conflict@2")] == ["q01", "q00"]


def test_assertions_in_tests_keep_it_down(
    runs: tuple[EvalRun, EvalRun], request: pytest.FixtureRequest, assert_metrics: Callable[..., EvalRun]
) -> None:
    """`assert_metrics` asks for at most a value where less is better; the message says so."""
    before, after = runs
    assert_metrics(before, {"Conflict@2": 0.1, "ClaimRecall@2": 0.9})
    with pytest.raises(AssertionError, match=r"Conflict@2 is 0\.2\d+, wanted at most 0\.1\d*: fails"):
        assert_metrics(after, {"Conflict@2": 0.1})
    request.node.user_properties.clear()
