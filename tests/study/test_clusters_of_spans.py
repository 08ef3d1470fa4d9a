"""Retrievals of one agent trace belong together, without a flag."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator
from judge_eval.data.labels import Labels
from judge_eval.study.agree import agree
from judge_eval.study.correct import correct
from judge_eval.views.note_sentences import note_sentence


def spans(path: Path, traces: int, each: int) -> Path:
    """Write OpenInference spans: so many retrievals of each agent trace."""
    with path.open("w", encoding="utf-8") as file:
        for n in range(traces * each):
            attributes: dict[str, Any] = {
                "openinference.span.kind": "RETRIEVER",
                "input.value": f"What is {n}?",
                "retrieval.documents": [
                    {"document.id": f"d{k}", "document.content": f"Thing {n} is {k * n % 5}."} for k in range(3)
                ],
            }
            context = {"span_id": f"s{n:03d}", "trace_id": f"t{n // each:03d}"}
            span = {"name": "retrieve", "context": context, "attributes": attributes}
            file.write(json.dumps(span) + "\n")
    return path


def judged(path: Path) -> EvalRun:
    """Judge a file of spans offline."""
    with Evaluator("fake/hash", prompt="relevance/binary", metrics=["P@3"], cache=False) as evaluator:
        return evaluator.evaluate(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> EvalRun:
    """36 spans of 12 traces."""
    return judged(spans(tmp_path_factory.mktemp("spans") / "spans.jsonl", 12, 3))


def test_spans_are_clustered_by_their_trace(run: EvalRun) -> None:
    """36 spans of 12 traces are 12 clusters to a mean, a comparison, a correction and an agreement."""
    assert run.aggregate("P@3").n == 36
    assert run.aggregate("P@3").clusters == 12
    assert run.compare(run)["P@3"].clusters == 12
    keys = {(r.trace_id, o.chunk_id): o for r in run.results for o in r.outcomes}
    labels = Labels({key: int(o.kind == "verdict" and o.relevant) for key, o in keys.items()})
    assert agree(run, labels).figures["kappa"].traces == 12
    half = Labels({key: label for key, label in labels.grades.items() if key[0] < "s018"})
    assert "18 labelled traces in 6 clusters" in note_sentence(correct(run, half).means["P@3"].warnings[0])


def test_traces_of_one_span_stand_for_themselves(tmp_path: Path) -> None:
    """Where no two spans share a trace the intervals are those of independent traces."""
    run = judged(spans(tmp_path / "spans.jsonl", 12, 1))
    assert run.aggregate("P@3").clusters is None
    assert run.compare(run)["P@3"].clusters is None
