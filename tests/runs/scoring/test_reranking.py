from __future__ import annotations

from pathlib import Path

from judge_eval import EvalRun, Trace, import_verdicts
from judge_eval.runs.folder.records import Reranking
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.views.run_remarks import remarks_of

GRADES = {"q0": [0, 1, 1], "q1": [0, 0, 0], "q2": [1, 0, None]}


def judged(metrics: list[str], out: Path | None = None) -> EvalRun:
    """Make a run of three questions; a verdict of the last is missing."""
    traces = [Trace(id=q, query=q, chunks=[{"id": f"{q}-{n}", "text": f"{q} {n}"} for n in range(3)]) for q in GRADES]
    grades = {(q, f"{q}-{n}"): grade for q, row in GRADES.items() for n, grade in enumerate(row) if grade is not None}
    return import_verdicts(grades, traces, metrics=metrics, out=out)


def told(run: EvalRun) -> list[str]:
    """Return what is said of a perfect reranker."""
    return [remark.sentence for remark in remarks_of(run.manifest) if remark.about == "reranking"]


def test_a_run_says_what_a_perfect_reranker_would_reach(tmp_path: Path) -> None:
    """AP of [0, 1, 1] is 7/12 and would be 1; q1 has nothing relevant; q2 with its failed verdict is left out."""
    run = judged(["P@2", "AP@3"], tmp_path)
    expected = Reranking(metric="AP@3", mean=(7 / 12) / 2, perfect=0.5, traces=2, nothing_relevant=1)
    assert run.manifest.reranking == expected
    assert run.folder is not None
    assert EvalRun.load(run.folder).manifest.reranking == expected
    assert told(run) == [
        "a perfect reranker of the same chunks would reach AP@3 0.500 from 0.292; 0.500 is lost because nothing "
        "relevant was retrieved (1 of 2 traces); this is of the 2 traces without a failed verdict."
    ]


def test_metrics_that_no_order_makes_perfect_are_passed_over() -> None:
    """Precision, and what needs to know all that exists, say nothing; other metrics take their place."""
    run = judged(["P@2", "AP(dedup=text)@3"])
    assert (run.manifest.reranking, told(run)) == (None, [])
    other = rescore(run, ["P@2", "MRR"]).manifest.reranking
    assert other is not None
    assert (other.metric, other.mean, other.perfect) == ("MRR", 0.25, 0.5)
