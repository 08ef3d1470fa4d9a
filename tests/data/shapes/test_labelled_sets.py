"""Public labelled sets, in the form in which they are published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval.data.reading import open_dataset
from judge_eval.errors import DataError

WICE = {
    "label": "partially_supported", "supporting_sentences": [[0]], "claim": "Ann was born in 1950 in Rome.",
    "evidence": ["Ann was born in 1950.", "She paints."], "meta": {"id": "dev1", "claim_title": "Ann"},
}  # fmt: skip
ATTRIBUTION = {
    "id": "a1", "question": "Who wrote it?", "claim": "Ann wrote it.", "response": "Ann wrote it.", "src_dataset": "x",
    "references": ["Ann wrote it in 1990.", "It is long."], "attribution_label": "attributable",
}  # fmt: skip
MIRACL = {
    "query_id": "5", "query": "Wer ist Ann?",
    "positive_passages": [{"docid": "d1", "title": "Ann", "text": "Ann ist Malerin."}],
    "negative_passages": [{"docid": "d2", "title": "Bo", "text": "Bo singt."}],
}  # fmt: skip
CLAPNQ = {
    "id": "7", "input": "who is ann",
    "passages": [{"title": "Ann", "text": "Ann paints. Bo sings.", "sentences": ["Ann paints.", "Bo sings."]}],
    "output": [{"answer": "A painter.", "selected_sentences": ["Ann paints."], "meta": {}}],
}  # fmt: skip
NUGGETS = {
    "qid": "2024-1", "query": "who is ann", "run_id": "r1", "answer_text": "Ann paints.",
    "nuggets": [
        {"text": "Ann is a painter", "importance": "vital", "assignment": "support"},
        {"text": "Ann was born in Rome", "importance": "okay", "assignment": "not_support"},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("record", "labels", "reference"),
    [
        (WICE, [[2]], WICE["claim"]),
        (ATTRIBUTION, [[3]], "Ann wrote it."),
        (MIRACL, [[1, 0]], None),
        (CLAPNQ, [[1, 0]], "A painter."),
        (NUGGETS, [[3], [1]], "Ann is a painter"),
    ],
)
def test_a_set_is_recognised_and_its_labels_are_read(
    tmp_path: Path, record: dict[str, Any], labels: list[list[int]], reference: str | None
) -> None:
    """No format is named; each trace has the people's labels, and what its chunks are to support."""
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    traces = list(open_dataset(path))
    assert [[chunk.label for chunk in trace.chunks] for trace in traces] == labels
    assert traces[0].reference == reference


def test_an_unknown_label_is_named(tmp_path: Path) -> None:
    """The message has the field and the labels that there are."""
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps({**WICE, "label": "maybe"}) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="not_supported, partially_supported, supported"):
        list(open_dataset(path))
