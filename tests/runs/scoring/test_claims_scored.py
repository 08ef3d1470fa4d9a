"""Runs judged by claims are scored, read again and scored anew; what was not judged so is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator, FakeBackend, limits
from judge_eval.compare.compare import compare
from judge_eval.compare.gate import Limit
from judge_eval.data.labels import Labels
from judge_eval.errors import DataError, MetricError
from judge_eval.eval_run import EvalRun
from judge_eval.metrics import parse_metric
from judge_eval.runs.judging.verify import verify
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.schema import BINARY
from judge_eval.study.correct import correct
from judge_eval.study.matching import labels_of
from judge_eval.views.findings import headlines
from judge_eval.views.run_remarks import remarks_of
from tests.support.claim_fixtures import CLAIMS, TrueJudge, case_of, claim_traces
from tests.support.command import Shell
from tests.support.naive_claims import naive
from tests.support.notes import note_sentences
from tests.support.runs import evaluator, traces

METRICS = [
    "ClaimRecall@5", "ClaimRecall(partial=half,of=vital)@5", "ClaimPrecision@3", "Sufficiency@5",
    "alpha-NDCG@5", "ERR-IA@5", "Novelty@3", "Redundancy@5", "Conflict@5", "NuggetRecall@5",
]  # fmt: skip
NO_CLAIMS, NO_VITAL = 3, 4
"""Traces of the fixture without a claim, and without a vital one."""


def nobody() -> FakeBackend:
    """A model that must not be asked."""

    def refuse(request: Any) -> Any:
        raise AssertionError(f"asked {request}")

    return FakeBackend(refuse)


def judged(out: Path | None, metrics: list[str] | None = None, *failing: str) -> EvalRun:
    """The run of the fixture by what is true, but for the chunks that fail."""
    judge = TrueJudge(frozenset(failing))
    made = Evaluator(nobody(), judge=judge, metrics=metrics or ["AP@5", *METRICS], cache=False)
    return made.evaluate(CLAIMS if out is not None else claim_traces(), out=out)


def test_a_run_by_claims_has_the_figures_of_the_formulas(tmp_path: Path) -> None:
    """Trace by trace; traces without a claim have no value, are counted, and are in no mean."""
    run = judged(tmp_path)
    cases = {trace.id: case_of(trace) for trace in claim_traces()}
    for name in METRICS:
        metric = parse_metric(name)
        expected = {trace: naive(metric, case) for trace, case in cases.items()}
        for result in run.results:
            assert result.scores[name] == pytest.approx(expected[result.trace_id], abs=1e-12)
            assert name not in result.bounds
        known = [value for value in expected.values() if value is not None]
        aggregate = run.aggregates[name]
        assert aggregate.mean == pytest.approx(sum(known) / len(known))
        vital = name in ("ClaimRecall(partial=half,of=vital)@5", "Sufficiency@5", "NuggetRecall@5")
        assert aggregate.n_undefined == (NO_VITAL if vital else NO_CLAIMS) == len(cases) - len(known)
        assert (aggregate.n, aggregate.n_failed) == (len(known), 0)
        assert aggregate.bounds == (pytest.approx(aggregate.mean), pytest.approx(aggregate.mean))
        assert aggregate.interval is not None
        assert "no-claims" not in aggregate.tags
        assert aggregate.tags["together"].n == 4
    assert run.aggregates["AP@5"].n_undefined == 0
    message = " ".join(remark.text for remark in remarks_of(run.manifest))
    assert "3 traces have no claim that ClaimRecall@5, ClaimPrecision@3" in message
    assert "4 traces have no claim that ClaimRecall(partial=half,of=vital)@5, Sufficiency@5" in message


@pytest.mark.slow
def test_a_finished_run_is_scored_by_claims_without_a_call(tmp_path: Path) -> None:
    """From its results as they stand in the folder, in Python and on the command line; its file fits them."""
    run = judged(tmp_path, ["AP@5"])
    assert run.folder is not None
    whole = judged(tmp_path / "whole")
    again = rescore(EvalRun.load(run.folder), METRICS)
    for name in METRICS:
        assert again.aggregates[name] == whole.aggregates[name]
    result = Shell(tmp_path)("score", str(run.folder), "--metrics", "alpha-NDCG@10,ERR_IA@10", "--json")
    assert result.code == 0, result
    aggregates = json.loads(result.out)["aggregates"]
    assert list(aggregates) == ["alpha-NDCG@10", "ERR-IA@10"]
    assert aggregates["alpha-NDCG@10"]["n_undefined"] == NO_CLAIMS
    shown = Shell(tmp_path)("score", str(run.folder), "--metrics", "ClaimRecall@5")
    assert "3 traces have no claim that ClaimRecall@5 could measure" in " ".join(shown.out.split())
    assert whole.folder is not None
    assert verify(whole.folder).findings == ()


@pytest.mark.slow
def test_a_failed_chunk_leaves_bounds_and_a_failed_split_the_range(tmp_path: Path) -> None:
    """Never a number: the row of the chunk is missing, or nobody knows the claims.

    Where all failed but the trace brings its claims, these are known.
    """
    given = claim_traces()
    given[2] = given[2].model_copy(update={"claims": None})
    judge = TrueJudge(failing=frozenset({"claims-001-1", "claims-002", "claims-003"}))
    made = Evaluator(nobody(), judge=judge, metrics=METRICS, cache=False)
    run = made.evaluate(given, out=tmp_path)
    first, second, third = run.results[0], run.results[1], run.results[2]
    assert {result.scores["ClaimRecall@5"] for result in (first, second, third)} == {None}
    assert first.bounds["ClaimRecall@5"] == (pytest.approx(1 / 3), 1.0)
    assert first.bounds["ClaimPrecision@3"] == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert first.bounds["Sufficiency@5"] == (0, 1)
    assert second.bounds["ClaimRecall@5"] == (0, 1)
    assert second.bounds["Novelty@3"] == (0, 1)
    assert third.bounds["ClaimRecall@5"] == (0, 1)
    assert third.bounds["Novelty@3"] == (0, limits.CLAIMS)
    assert run.results[3].scores["ClaimRecall@5"] == 1
    aggregate = run.aggregates["ClaimRecall@5"]
    assert (aggregate.n_failed, aggregate.n_undefined) == (3, NO_CLAIMS)
    assert aggregate.bounds is not None
    assert aggregate.mean is not None
    low, high = aggregate.bounds
    assert low < aggregate.mean < high
    assert run.folder is not None
    assert verify(run.folder).findings == ()
    again = rescore(EvalRun.load(run.folder), METRICS)
    assert [result.bounds for result in again.results] == [result.bounds for result in run.results]


def test_a_verdict_that_says_nothing_of_claims_is_a_missing_row() -> None:
    """In a trace that was judged by claims; as a chunk without a verdict is."""
    trace = claim_traces()[0]
    judgment = TrueJudge().judgment(trace)
    result = judgment.outcomes[0]
    assert result.kind == "verdict"
    silent = result.model_copy(update={"supports": None})
    outcomes = (silent, *judgment.outcomes[1:])
    scorer = Scorer(["ClaimRecall@5", "AP@5"], BINARY, by_claims=True)
    ((scores, bounds),) = scorer.score([(trace, outcomes)], claims=[judgment.claims])
    assert scores["ClaimRecall@5"] is None
    assert bounds == {"ClaimRecall@5": (pytest.approx(1 / 3), 1.0)}
    assert scores["AP@5"] is not None


def test_a_judge_that_does_not_go_by_claims_is_refused_before_the_first_call(tmp_path: Path) -> None:
    """In Python, in a dry run and on the command line: the metric is named, and no request was sent."""
    for metric in ("ClaimRecall@5", "alpha-NDCG@5", "NuggetRecall"):
        made = evaluator(nobody(), metrics=["AP@5", metric])
        with pytest.raises(DataError, match=r"it is not known which claims .* leave the metric out") as caught:
            made.evaluate(claim_traces())
        assert metric in str(caught.value)
        with pytest.raises(DataError, match="use a judge by claims"):
            made.plan(claim_traces())
    (tmp_path / "t.jsonl").write_bytes(CLAIMS.read_bytes())
    for more in (["--dry-run"], ["--out", "runs"]):
        result = Shell(tmp_path)("run", "t.jsonl", "--model", "fake/overlap", "--metrics", "AP@5,ClaimRecall@5", *more)
        assert result.code == 2, result
        assert "ClaimRecall@5: it is not known which claims" in " ".join(result.err.split())
    assert not (tmp_path / "runs").exists()


def test_a_run_that_was_not_judged_by_claims_cannot_be_scored_by_them(tmp_path: Path) -> None:
    """The first trace is named; a metric is not computed of what nobody asked."""
    judge = FakeBackend.table({}, default={"grade": 1, "evidence": "Text"})
    run = evaluator(judge).evaluate(traces(2), out=tmp_path)
    with pytest.raises(DataError, match=r"trace 'q0'.*ClaimRecall@3: it is not known which claims"):
        rescore(run, ["ClaimRecall@3"])
    outcomes = [(result.trace, result.outcomes) for result in run.results]
    with pytest.raises(MetricError, match="trace q0 was not judged by claims"):
        Scorer(["ClaimRecall@3"], BINARY).score(outcomes)
    failed: list[MetricError] = []
    scores = Scorer(["ClaimRecall@3", "AP@3"], BINARY).score(outcomes, failed)
    assert [first["ClaimRecall@3"] for first, _ in scores] == [None, None]
    assert [first["AP@3"] for first, _ in scores] == [1, 1]
    assert len(failed) == 1


@pytest.mark.slow
def test_runs_by_claims_are_compared_and_gated(tmp_path: Path) -> None:
    """As under any metric: pairs, an interval, limits whose values the metric can take."""
    run, other = judged(tmp_path / "a"), judged(tmp_path / "b", None, "claims-004-2")
    comparison = compare(run, other, metrics=["ClaimRecall@5"])
    assert comparison["ClaimRecall@5"].n == len(claim_traces()) - NO_CLAIMS
    assert (comparison["ClaimRecall@5"].wins, comparison["ClaimRecall@5"].losses) == (0, 0)
    assert str(Limit.parse("fail-under", "alpha-NDCG(alpha=0.3)@5=0.7").metric) == "alpha-NDCG(alpha=0.3)@5"


def test_where_less_is_better_a_rise_is_a_loss(tmp_path: Path) -> None:
    """A candidate with fewer conflicts is better; no limit keeps them up."""
    given = claim_traces()
    chosen = [trace for trace in given if any("contradicts" in row for row in case_of(trace).rows)] * 3
    names = ["Conflict@5"]
    before, after = (
        Evaluator(nobody(), judge=TrueJudge(without=words), metrics=names, cache=False).evaluate(
            [trace.model_copy(update={"id": f"{trace.id}/{n}"}) for n, trace in enumerate(chosen)]
        )
        for words in (frozenset[str](), frozenset({"contradicts"}))
    )
    comparison = compare(before, after)
    assert comparison["Conflict@5"].difference < 0
    assert comparison.openings[0].finding == "better"
    assert "won (0 lost)" in headlines(comparison)[0]
    assert compare(after, before).openings[0].finding == "worse"
    for kind in ("fail-under", "max-drop"):
        assert Limit.parse(kind, "Redundancy@5=0.2").kind in ("fail-over", "max-rise")


def test_people_who_grade_chunks_say_nothing_of_claims() -> None:
    """A correction leaves metrics over claims out with a note, and refuses one that is asked for."""
    run = judged(None, ["AP@5", "ClaimRecall@5"])
    labels = labels_of(run)
    some = Labels({key: grade for key, grade in labels.grades.items() if key[0] < "claims-030"})
    corrected = correct(run, some)
    assert list(corrected.means) == ["AP@5"]
    assert "1 metrics of claims are left out" in " ".join(note_sentences(corrected.notes))
    with pytest.raises(DataError, match=r"ClaimRecall@5 uses claims, but labels grade chunks"):
        correct(run, some, ["ClaimRecall@5"])
