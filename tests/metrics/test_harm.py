from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from judge_eval import Evaluator, GradeTable, Trace, parse_metric
from judge_eval.errors import DataError, MetricError


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
