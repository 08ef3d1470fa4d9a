from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from judge_eval import Evaluator, FakeBackend, GradeTable, Trace, parse_metric
from judge_eval.errors import DataError, MetricError
from judge_eval.runs.scoring.rescore import rescore


def test_udcg_by_hand() -> None:
    """Relevant 1 * (1 - a), else -0.333 * (1 - a), over all passages; an unknown one counts in n, no passage is 0."""
    table = replace(GradeTable.from_rows([[1, 0, 1], [0, 0], []]), abstains=np.array([0.1, 0.4, np.nan, 0.0, 1.0]))
    values = parse_metric("UDCG").compute(table)
    assert values[0] == pytest.approx(1 / (1 + 2.718281828459045 ** -((0.9 - 0.333 * 0.6) / 3)))
    assert values[1] == pytest.approx(1 / (1 + 2.718281828459045 ** (0.333 / 2)))
    assert values[2] == 0
    assert parse_metric("UDCG@1").compute(table)[0] == pytest.approx(1 / (1 + 2.718281828459045**-0.9))


def test_udcg_without_probabilities_is_refused() -> None:
    """A trace whose chunks say nothing of the reader is an error before a call, with what is missing."""
    trace = Trace(id="q", query="When?", reference="In May.", chunks=["In May."])
    with (
        Evaluator("fake/overlap", metrics=["UDCG@3"], cache=False) as evaluator,
        pytest.raises(DataError, match="no_res_prob"),
    ):
        evaluator.evaluate([trace])


def test_harm_is_the_share_of_the_lowest_grade() -> None:
    """Grade 0 of a scale of 3 misleads; another scale has no such grade, and a failed verdict gives bounds."""
    table = GradeTable.from_rows([[0, 2, 0, 1], [1, 2], []], relevant=2, maximum=2)
    assert parse_metric("Harm@3").compute(table).tolist() == [2 / 3, 0, 0]
    low, high, exact = parse_metric("Harm@2").bounds(GradeTable.from_rows([[0, None]], relevant=2, maximum=2))
    assert (low[0], high[0], exact[0]) == (0.5, 1.0, True)
    with pytest.raises(MetricError, match="a scale of 3"):
        parse_metric("Harm@3").compute(GradeTable.from_rows([[0, 1]], maximum=1))


def test_the_fake_judge_finds_planted_distractors() -> None:
    """With `support/harm` the chunk with another number misleads, the right one helps, another subject is neutral."""
    trace = Trace(
        id="q1",
        query="How long is the warranty of the pump?",
        reference="The warranty of the pump lasts 24 months.",
        chunks=[
            {"id": "wrong", "text": "The warranty of the pump lasts 12 months."},
            {"id": "right", "text": "The warranty of the pump lasts 24 months from delivery."},
            {"id": "other", "text": "Our kitchen serves lunch from noon."},
            {"id": "denied", "text": "The warranty of the pump does not last 24 months."},
        ],
    )
    with Evaluator("fake/overlap", prompt="support/harm", metrics=["Harm@4", "P@4"], cache=False) as evaluator:
        run = evaluator.evaluate([trace])
    assert [outcome.grade for outcome in run.results[0].outcomes if outcome.kind == "verdict"] == [0, 2, 1, 0]
    assert (run["Harm@4"], run["P@4"]) == (0.5, 0.25)
    assert run.aggregate("Harm@4").definition.startswith("Harm@4")


@pytest.mark.parametrize("name", ["Harm", "Harm@2", "UDCG", "UDCG@2"])
def test_bounds_are_the_extremes_over_all_completions(name: str) -> None:
    """Bounds equal a brute force over all completions, also if rows differ in the reader's probabilities only."""
    rng = np.random.default_rng(27)
    rows = [[None if rng.random() < 0.4 else int(rng.integers(3)) for _ in range(4)] for _ in range(12)] * 2
    reader = np.where(rng.random(96) < 0.15, np.nan, rng.random(96))
    metric = parse_metric(name)
    low, high, exact = metric.bounds(replace(GradeTable.from_rows(rows, relevant=2, maximum=2), abstains=reader))
    for place, row in enumerate(rows):
        filled = [list(each) for each in product(*(range(3) if grade is None else [grade] for grade in row))]
        table = GradeTable.from_rows(filled, relevant=2, maximum=2)
        values = metric.compute(replace(table, abstains=np.tile(reader[4 * place : 4 * place + 4], len(filled))))
        assert (low[place], high[place]) == pytest.approx((values.min(), values.max()), abs=1e-12)
    assert exact.all()


def test_bounds_of_many_failed_verdicts_are_exact() -> None:
    """A grade moves the value one way only, so 40 failed verdicts need two completions."""
    table = GradeTable.from_rows([[None] * 40], relevant=2, maximum=2)
    low, high, exact = parse_metric("UDCG").bounds(replace(table, abstains=np.zeros(40)))
    assert (low[0], high[0], exact[0]) == pytest.approx((1 / (1 + np.exp(0.333)), 1 / (1 + np.exp(-1)), True))


def test_harm_of_a_judge_by_claims_counts_contradictions() -> None:
    """Harm@K of a judge by claims is Conflict@K under its own name, in a run and in a score of it."""
    trace = Trace(
        id="q",
        query="How long?",
        reference="It lasts 24 months.",
        claims=[{"id": "1", "text": "It lasts 24 months."}],
        chunks=[{"id": text, "text": text} for text in ("12 months.", "24 months.", "Lunch is at noon.")],
    )
    answers = {"12 months.": {"claims": {1: "contradicts"}}, "24 months.": {"claims": {1: "full"}}}
    backend = FakeBackend.table(answers, default=0)
    metrics = ["Harm@2", "Conflict@2", "Harm"]
    with Evaluator(backend, mode="claims", metrics=metrics, cache=False) as evaluator:
        run = evaluator.evaluate([trace])
    assert run.results[0].scores == {"Harm@2": 0.5, "Conflict@2": 0.5, "Harm": pytest.approx(1 / 3)}
    assert rescore(run, ["Harm@1"])["Harm@1"] == 1
    assert "contradict" in run.aggregate("Harm@2").definition
