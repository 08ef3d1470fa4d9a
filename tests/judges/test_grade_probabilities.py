"""The probabilities of the grades: kept by graded judges, read again from every form, used by metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator, GradeTable, parse_metric
from judge_eval.errors import JudgeEvalError
from judge_eval.export.formats import write_as
from judge_eval.judges.panel import combine
from judge_eval.judges.token_confidence import Confidence
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.schema import BINARY, GRADED, Verdict
from tests.support.serving import rows

ENDCG = "ENDCG@3"


def judged(out: Path | None = None, **settings: Any) -> EvalRun:
    """Judge eight traces by an offline decision model with four levels."""
    how: dict[str, Any] = {"mode": "decision", "prompt": "support/graded", "cache": False}
    with Evaluator("fake/overlap", metrics=[ENDCG, "NDCG@3"], **how) as evaluator:
        return evaluator.evaluate(rows()[:8], out=out, **settings)


def verdicts(run: EvalRun) -> list[Verdict]:
    """Return all verdicts of a run."""
    return [outcome for result in run.results for outcome in result.outcomes if outcome.kind == "verdict"]


def test_a_graded_verdict_keeps_them_and_a_binary_one_does_not() -> None:
    """One for each grade, 1 in all; probability of relevance and mean grade follow from them."""
    run = judged()
    for verdict in verdicts(run):
        result = verdict.grade_probabilities
        assert result is not None
        assert len(result) == 4
        assert sum(result) == pytest.approx(1)
        assert verdict.confidence == pytest.approx(sum(result[2:]))
        assert verdict.expected_grade == pytest.approx(sum(g * p for g, p in enumerate(result)))
    assert any(0 < max(v.grade_probabilities or ()) < 1 for v in verdicts(run))
    with Evaluator("fake/overlap", mode="decision", cache=False) as evaluator:
        assert {v.grade_probabilities for v in verdicts(evaluator.evaluate(rows()[:2]))} == {None}


def test_the_metric_takes_them() -> None:
    """ENDCG of a run is that of its verdicts' probabilities, and not NDCG of its grades."""
    run = judged()
    moved = 0
    for result in run.results:
        chances = [o.grade_probabilities for o in result.outcomes if o.kind == "verdict"]
        grades = [o.grade for o in result.outcomes if o.kind == "verdict"]
        table = GradeTable.from_rows([grades], maximum=3, relevant=2, chances=[chances])
        assert result.scores[ENDCG] == parse_metric(ENDCG).compute(table)[0]
        moved += result.scores[ENDCG] != result.scores["NDCG@3"]
    assert moved >= 4


def test_a_stored_run_has_them_again(tmp_path: Path) -> None:
    """Loaded from its folder a run has the same probabilities, and is scored again to the same numbers."""
    run = judged(tmp_path)
    assert run.folder is not None
    again = EvalRun.load(run.folder)
    assert verdicts(again) == verdicts(run)
    assert rescore(again, [ENDCG]).aggregates[ENDCG] == run.aggregates[ENDCG]
    assert rescore(again, ["ENDCG@2"], relevant=3).aggregates["ENDCG@2"].mean is not None


def test_a_run_of_before_is_read_and_not_guessed_at(tmp_path: Path) -> None:
    """Lines without the field are read; EDCG is theirs, and ENDCG is refused with what to do."""
    run = judged(tmp_path)
    old = run.replace(run.manifest, [_without(result) for result in run.results])
    assert {v.grade_probabilities for v in verdicts(old)} == {None}
    assert rescore(old, ["EDCG@3"]).aggregates["EDCG@3"] == rescore(run, ["EDCG@3"]).aggregates["EDCG@3"]
    with pytest.raises(JudgeEvalError, match=r"not one of each grade.*gain=binary"):
        rescore(old, [ENDCG])
    assert rescore(old, ["ENDCG(gain=binary)@3"]).aggregates["ENDCG(gain=binary)@3"].mean is not None


def _without(result: Any) -> Any:
    document = json.loads(result.model_dump_json())
    for outcome in document["outcomes"]:
        del outcome["grade_probabilities"]
    return type(result).model_validate_json(json.dumps(document))


def test_a_panel_has_the_mean_of_its_members() -> None:
    """A member that told none is sure of its grade; one that keeps a mean alone leaves nothing to say."""

    def said(grade: int, *told: float, mean: float | None = None) -> Verdict:
        return Verdict(
            chunk_id="c", grade=grade, relevant=grade >= 2, grade_probabilities=told or None,
            expected_grade=sum(g * p for g, p in enumerate(told)) if told else mean,
        )  # fmt: skip

    first, plain, old = said(2, 0.0, 0.25, 0.75, 0.0), said(3), said(3, mean=2.5)
    both = combine("c", [first, plain], GRADED, "median", 1)
    assert both.kind == "verdict"
    assert both.grade_probabilities == pytest.approx((0, 0.125, 0.375, 0.5))
    assert both.expected_grade == pytest.approx(0.125 + 2 * 0.375 + 3 * 0.5)
    unknown = combine("c", [first, old], GRADED, "median", 1)
    assert unknown.kind == "verdict"
    assert unknown.grade_probabilities is None
    assert Confidence.of([1, 3], BINARY) == Confidence(0.75, 0.75, None)


@pytest.mark.parametrize("told", [(0.5, 1.5), (-0.1, 1.1)])
def test_what_is_no_probability_is_no_record(told: tuple[float, ...]) -> None:
    """A file that holds a number beyond 0 to 1 is refused, as it is for every other probability."""
    with pytest.raises(ValueError, match="grade_probabilities"):
        Verdict(chunk_id="c", grade=1, relevant=True, grade_probabilities=told)


def test_tables_have_a_column_of_lists(tmp_path: Path) -> None:
    """Parquet and both kinds of frames hold a list a verdict, null where there is none."""
    parquet = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("pandas")
    run = judged()
    expected = [list(v.grade_probabilities or ()) for v in verdicts(run)]
    write_as(run, tmp_path / "run.parquet")
    table = parquet.read_table(tmp_path / "run.parquet")
    assert table.column("grade_probabilities").to_pylist() == expected
    assert [list(item) for item in run.verdicts_frame()["grade_probabilities"]] == expected
    pytest.importorskip("polars")
    assert run.verdicts_frame("polars")["grade_probabilities"].to_list() == expected
