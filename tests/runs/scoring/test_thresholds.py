"""Another threshold over the verdicts of a run: probabilities follow it, or what needs them is refused."""

from __future__ import annotations

from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator
from judge_eval.errors import MetricError
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.schema import Verdict
from tests.support.serving import rows

OVER_RELEVANCE = ["SoftP@3", "SoftRR@3", "EAP@3", "ENDCG(gain=binary)@3"]
OTHERS = ["AP@3", "NDCG@3", "EDCG@3"]


def judged(**settings: Any) -> EvalRun:
    """Judge eight traces by an offline decision model that tells the probability of each grade."""
    how: dict[str, Any] = {"mode": "decision", "prompt": "support/graded", "cache": False, **settings}
    with Evaluator("fake/overlap", metrics=[*OVER_RELEVANCE, *OTHERS], **how) as evaluator:
        return evaluator.evaluate(rows()[:8])


def verdicts(run: EvalRun) -> list[Verdict]:
    """Return all verdicts of a run."""
    return [o for result in run.results for o in result.outcomes if o.kind == "verdict"]


def without_grades(run: EvalRun) -> EvalRun:
    """Return a run whose verdicts tell only the probability of being relevant."""
    results = []
    for result in run.results:
        outcomes = [o.model_copy(update={"grade_probabilities": None}) for o in result.outcomes]
        results.append(result.model_copy(update={"outcomes": tuple(outcomes)}))
    return run.replace(run.manifest, results)


@pytest.mark.parametrize("relevant", [1, 3])
def test_probabilities_follow_the_threshold(relevant: int) -> None:
    """Scored at another threshold a run is the one that was judged at it: P(relevant) = P(grade >= it)."""
    run, other = judged(), judged(relevant=relevant)
    scored = rescore(run, [*OVER_RELEVANCE, *OTHERS], relevant=relevant)
    assert [v.confidence for v in verdicts(scored)] == pytest.approx([v.confidence for v in verdicts(other)])
    assert [v.relevant for v in verdicts(scored)] == [v.relevant for v in verdicts(other)]
    for name in (*OVER_RELEVANCE, *OTHERS):
        assert scored[name] == pytest.approx(other[name]), name
    assert scored["SoftP@3"] != pytest.approx(run["SoftP@3"])
    assert [v.grade_probabilities for v in verdicts(scored)] == [v.grade_probabilities for v in verdicts(run)]


@pytest.mark.parametrize("metric", OVER_RELEVANCE)
def test_a_probability_of_another_threshold_serves_no_metric(metric: str) -> None:
    """Where only the probability at the old threshold is known, what is over probabilities is refused."""
    old = without_grades(judged())
    with pytest.raises(MetricError, match=r"probability of each grade.*leave .* out") as caught:
        rescore(old, [metric, "AP@3"], relevant=3)
    assert metric in str(caught.value)
    assert "AP@3" not in str(caught.value).replace(metric, "")
    assert rescore(old, [metric])[metric] is not None  # at its own threshold it stands


def test_other_metrics_go_on() -> None:
    """Grades serve any threshold, and mean grades do not depend on one."""
    run = judged()
    old, whole = rescore(without_grades(run), OTHERS, relevant=3), rescore(run, OTHERS, relevant=3)
    assert {name: old[name] for name in OTHERS} == {name: whole[name] for name in OTHERS}
    assert {v.confidence for v in verdicts(old)} == {None}


def test_verdicts_that_never_told_a_probability_count_as_they_were_decided() -> None:
    """Nothing is lost where nothing was told: a judge without probabilities is sure at any threshold."""
    plain = judged(mode="pointwise")
    assert {v.confidence for v in verdicts(plain)} == {None}
    assert rescore(plain, ["SoftP@3"], relevant=3)["SoftP@3"] == rescore(plain, ["P@3"], relevant=3)["P@3"]
