"""What users of comparison, panels and probes write, checked by mypy --strict and never run."""

from pathlib import Path
from typing import assert_type

from judge_eval import EvalRun, Evaluator, Member, Panel, Pointwise
from judge_eval.compare.comparison import Comparison, Difference
from judge_eval.data.labels import read_labels
from judge_eval.runs.folder.records import Intervals
from judge_eval.runs.scoring.calibrating import JudgeCalibration, read_calibration
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.stats import Interval
from judge_eval.study.agree import Agreement, Reliability, agree
from judge_eval.study.calibrate import Calibration, calibrate, fit_probabilities
from judge_eval.study.correct import Correction, correct
from judge_eval.trials import Assurance, ProbeReport, probe


def trusted(run: EvalRun, other: EvalRun) -> None:
    result = run.compare(other, metrics=["AP@5"])
    assert_type(result, Comparison)
    assert_type(result["AP@5"], Difference)
    assert_type(result["AP@5"].interval, Interval | None)
    labels = read_labels("labels.csv")
    assert_type(agree(run, labels), Agreement)
    assert_type(agree(run, other), Agreement)
    assert_type(correct(run, labels, ["AP@5"]), Correction)
    assert_type(calibrate(run, labels), Calibration)
    assert_type(agree(run, labels).reliability, Reliability | None)
    learnt = fit_probabilities(run, labels, method="isotonic").calibration
    assert_type(learnt, JudgeCalibration)
    assert_type(rescore(run, ["SoftP@5"], calibration=learnt), EvalRun)
    assert_type(rescore(run, ["P@5"], calibration=read_calibration(Path("threshold.json"))), EvalRun)
    assert_type(probe("data.jsonl", "fake/overlap", probes=["injection"]), ProbeReport)
    assert_type(probe("data.jsonl", "fake/overlap")["out-of-scope"].assurance, Assurance | None)


def panels() -> None:
    panel = Panel([Member("a", Pointwise(), "a"), Member("b", Pointwise("relevance/binary"), "b")], vote="mean")
    Evaluator({"a": "fake/overlap", "b": "fake/always"}, judge=panel, intervals=Intervals(method="bca"))
    Evaluator("fake/hash", repeat=3, vote="median")
