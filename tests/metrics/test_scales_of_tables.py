"""Metrics and thresholds follow the scale of a table."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from judge_eval import Evaluator, Trace
from judge_eval.errors import DataError, MetricError
from judge_eval.metrics import GradeTable, parse_metric
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.schema import Scale
from tests.support.scales import FIVE, ONE_TO_FIVE, drawn, judge_on, judged, names, traces


@FIVE
def test_a_gain_is_what_a_grade_is_above_the_lowest(scale: Scale) -> None:
    """A table on any scale has the values of the same table counted from 0, failed verdicts included."""
    low, least, high = scale.minimum, scale.relevant, scale.maximum
    rows: list[list[int | None]] = [[high, None, low, least], [low, low, low], [least, None]]
    shifted = [[None if grade is None else grade - scale.minimum for grade in row] for row in rows]
    pool = [[high, low, least] for _ in rows]
    table = GradeTable.on_scale(rows, scale.grades, least, rest=pool)
    below = [[grade - low for grade in row] for row in pool]
    plain = GradeTable.from_rows(shifted, relevant=least - low, maximum=high - low, rest=below)
    for name in (*names(scale), "NDCG(ideal=judged)@5", "bpref"):
        own = name.replace(f"rel={scale.maximum}", f"rel={high - low}")
        result, expected = parse_metric(name).bounds(table), parse_metric(own).bounds(plain)
        assert result.low.tolist() == expected.low.tolist()
        assert result.high.tolist() == expected.high.tolist()


def test_a_grade_below_the_scale_is_an_error() -> None:
    """Neither a grade nor a least relevant one lies below the lowest grade; the message names the place."""
    with pytest.raises(MetricError, match="trace a, rank 2: 0 is below the lowest grade, 1"):
        GradeTable.on_scale([[1, 0]], range(1, 6), 4, ids=["a"])
    with pytest.raises(MetricError, match="trace 0, rest: 0 is below the lowest grade, 1"):
        GradeTable.on_scale([[1, 1]], range(1, 6), 4, rest=[[0]])
    table = GradeTable.on_scale([[1, 5]], range(1, 6), 4)
    with pytest.raises(MetricError, match=r"rel=1 must be above the scale's lowest grade, 1"):
        parse_metric("P(rel=1)@2").compute(table)


@FIVE
def test_another_threshold_moves_relevance_and_probabilities(scale: Scale, tmp_path: Path) -> None:
    """`score --relevant` sums the probabilities of the grades from it on; off the scale it is refused."""
    if len(scale.grades) > 10:
        run = drawn(tmp_path, scale)
    else:
        run = judged(judge_on(tmp_path, "decision", scale), scale, "fake/overlap")
    moved = rescore(run, ["P@5", "NDCG@5"], relevant=scale.maximum)
    for before, after in zip(run.results, moved.results, strict=True):
        for was, now in zip(before.outcomes, after.outcomes, strict=True):
            assert was.kind == now.kind == "verdict"
            assert now.relevant == (was.grade == scale.maximum)
            if was.grade_probabilities is not None:
                assert now.confidence == pytest.approx(was.grade_probabilities[-1])
    for wrong in (scale.minimum, scale.maximum + 1):
        with pytest.raises(DataError, match="relevant"):
            rescore(run, ["P@5"], relevant=wrong)


def test_a_pool_serves_a_scale_that_holds_its_grades(tmp_path: Path) -> None:
    """People's grades of the rest count as gains too; a pool with a 0 is not on the scale 1-5."""
    judge = judge_on(tmp_path, "pointwise", ONE_TO_FIVE)
    pool = {"c0": 5, "c1": 1, "never": 5, "found": 3}
    fitting = [trace.model_copy(update={"id": "a"}) for trace in traces(1)]
    fitting = [Trace.parse({**fitting[0].model_dump(), "pool": {"grades": pool, "maximum": 5}})]
    with Evaluator("fake/always", judge=judge, metrics=["NDCG(ideal=judged)@10"], cache=False) as evaluator:
        run = evaluator.evaluate(fitting)
        ideal = sum(gain / math.log2(rank + 1) for rank, gain in enumerate([4] * 7 + [2], 1))
        dcg = sum(4 / math.log2(rank + 1) for rank in range(1, 7))
        assert run["NDCG(ideal=judged)@10"] == pytest.approx(dcg / ideal)
        other = Trace.parse({**fitting[0].model_dump(), "pool": {"grades": {**pool, "none": 0}, "maximum": 5}})
        with pytest.raises(DataError, match="the pool's grades go from 0 to 5, the judge's from 1 to 5"):
            evaluator.evaluate([other])
