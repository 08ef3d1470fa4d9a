"""Sets that people labelled, judged by counting words, as `validate-judge` measures them."""

from __future__ import annotations

from pathlib import Path

import pytest

from judge_eval import Evaluator
from judge_eval.data.labelled_sets import read_sets
from judge_eval.data.options import ReadOptions
from judge_eval.study.validation import validated_sets

pytestmark = pytest.mark.foreign


@pytest.mark.parametrize(("folder", "pairs", "least"), [("hotpotqa", 990, 0.40), ("clapnq", 2034, 0.70)])
def test_a_public_set_is_measured(folder: str, pairs: int, least: float, conformance_data: Path) -> None:
    """All labelled chunks whose question has a reference count; the intervals are by question."""
    (labelled,) = read_sets(conformance_data / folder, ReadOptions())
    with Evaluator("fake/overlap", prompt="support/binary", metrics=["RR"], cache=False) as evaluator:
        run = evaluator.evaluate(labelled.traces, on_invalid="skip")
    (row,) = validated_sets(run, labelled.name)
    assert (row.set, row.chunks, row.traces) == (folder, pairs, run.manifest.dataset.traces)
    assert row.kappa.value is not None
    assert row.kappa.interval is not None
    assert row.kappa.interval[0] < row.kappa.value < row.kappa.interval[1]
    assert row.kappa.value >= least
    assert row.auc is not None
    assert row.evidence_found is not None
