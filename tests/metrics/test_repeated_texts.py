"""Texts that stand at several ranks, and ideal lists of the top K alone, by their definitions."""

from __future__ import annotations

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval import Evaluator, FakeBackend, GradeTable, Trace, parse_metric
from judge_eval.errors import MetricError
from judge_eval.views.run_remarks import remarks_of


def test_a_repeated_text_takes_its_rank_and_brings_nothing() -> None:
    """Relevant, its repeat, relevant: P@3 is 2/3 for 3/3, and AP@3 (1 + 2/3) / 2 for 1."""
    table = GradeTable.from_rows([[1, 1, 1]], repeats=[[False, True, False]])
    values = {name: parse_metric(name).compute(table)[0] for name in ("P@3", "AP@3")}
    assert values == {"P@3": 1.0, "AP@3": 1.0}
    assert parse_metric("P(dedup=text)@3").compute(table)[0] == pytest.approx(2 / 3)
    assert parse_metric("AP(dedup=text)@3").compute(table)[0] == pytest.approx((1 + 2 / 3) / 2)
    assert parse_metric("MAP(dedup=text)").compute(table)[0] == pytest.approx((1 + 2 / 3) / 2)
    assert "v_i = 0 there" in parse_metric("P(dedup=text)@3").definition
    assert "counts at each of its ranks" in parse_metric("P@3").definition


def test_a_failed_verdict_of_a_repeat_changes_nothing() -> None:
    """Whatever it would have been, it counts as not relevant; that of a first chunk leaves no value."""
    table = GradeTable.from_rows([[1, None, 0], [None, 1, 0]], repeats=[[False, True, False]] * 2)
    values = parse_metric("P(dedup=text)@3").compute(table).tolist()
    assert values[0] == 1 / 3
    assert values[1] != values[1]


def test_a_table_must_know_which_texts_repeat() -> None:
    """Where it does not, the metric has no value and says so."""
    with pytest.raises(MetricError, match="which chunks repeat an earlier text is not known"):
        parse_metric("AP(dedup=text)@3").compute(GradeTable.from_rows([[1, 1]]))


def test_a_run_counts_repeats_and_scores_them_once() -> None:
    """Equal title and text under two ids: said in the summary, counted once where that is asked for."""
    chunks = [
        {"id": "a", "text": "Same."},
        {"id": "b", "text": "Same.", "title": "Other"},
        {"id": "c", "text": "Same."},
        {"id": "d", "text": "Same. "},
    ]
    trace = Trace.parse({"id": "t", "query": "q", "reference": "r", "chunks": chunks})
    judge = FakeBackend.table({"a": True, "b": True, "c": True, "d": False})
    with Evaluator(judge, metrics=["P@4", "P(dedup=text)@4", "AP(dedup=text)@4"], cache=False) as evaluator:
        run = evaluator.evaluate([trace])
    assert run["P@4"] == 3 / 4
    assert run["P(dedup=text)@4"] == 2 / 4
    assert run["AP(dedup=text)@4"] == 1.0
    assert run.manifest.tally.repeated == 1
    assert any(
        r.text.startswith("1 chunk reads like an earlier one of the same trace") for r in remarks_of(run.manifest)
    )


def dcg(grades: list[int]) -> float:
    """The sum of grade / log2(rank + 1)."""
    return sum(grade / log2(rank + 1) for rank, grade in enumerate(grades, 1))


@given(row=st.lists(st.integers(0, 3), max_size=9), k=st.integers(1, 6))
def test_the_ideal_list_of_the_top_alone(row: list[int], k: int) -> None:
    """`ideal=top` divides by the DCG of the top K sorted, the default by that of all retrieved."""
    table = GradeTable.from_rows([row], maximum=3, relevant=2)
    for name, best in (("NDCG(ideal=top)", sorted(row[:k], reverse=True)), ("NDCG", sorted(row, reverse=True))):
        ideal = dcg(best[:k])
        expected = dcg(row[:k]) / ideal if ideal else 0.0
        assert parse_metric(f"{name}@{k}").compute(table)[0] == pytest.approx(expected, abs=1e-12)


def test_the_definition_says_how_far_the_ideal_looks() -> None:
    """The default looks below K, `ideal=top` does not, and a perfect top is exactly 1."""
    assert "all retrieved chunks, those below K too" in parse_metric("NDCG@2").definition
    assert "the top K alone" in parse_metric("NDCG(ideal=top)@2").definition
    table = GradeTable.from_rows([[1, 1, 3]], maximum=3, relevant=2)
    assert parse_metric("NDCG(ideal=top)@2").compute(table)[0] == 1.0
    assert parse_metric("NDCG@2").compute(table)[0] < 1.0
    failed = GradeTable.from_rows([[1, 1, None]], maximum=3, relevant=2)
    assert parse_metric("NDCG(ideal=top)@2").compute(failed)[0] == 1.0
