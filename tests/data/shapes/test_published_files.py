from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from judge_eval.data import catalog
from judge_eval.data.reading import open_dataset
from judge_eval.data.remarks import Remarks
from judge_eval.errors import DataError
from judge_eval.schema import Trace

FORMATS = Path(__file__).parents[3] / "fixtures" / "formats"
sys.path.insert(0, str(FORMATS / "make"))
from data import ROWS  # noqa: E402  (what every script in fixtures/formats/make writes)

sys.path.pop(0)

TEXTS = [[text for _, text, _ in row["chunks"]] for row in ROWS]
IDS = [[key for key, _, _ in row["chunks"]] for row in ROWS]
GOLD = [[text for key, text, _ in row["chunks"] if key in row["relevant"]] for row in ROWS]
LABELS = [[int(key in row["relevant"]) for key, _, _ in row["chunks"]] for row in ROWS]
BY_PASSAGE = {"group_by": "query_id"}
MARCO = {"map": {"reference": "answers.0", "chunks": "passages", "chunks.label": "is_selected", "id": "query_id"}}

# File, shape, options, and what it carries beside question and texts: ids, reference, answer.
RETRIEVED: list[tuple[str, str, dict[str, Any], str]] = [
    ("deepeval_latest_test_run.json", "deepeval", {}, "ra"),
    ("ragchecker.json", "ragchecker", {}, "ira"),
    ("autorag.parquet", "autorag", {}, "ir"),
    ("crag.jsonl.bz2", "crag", {}, "r"),
    ("open_rag_eval.csv", "judge-eval", BY_PASSAGE, "a"),
    ("ms_marco.jsonl", "judge-eval", MARCO, "r"),
    ("ragas_pandas.xlsx", "ragas", {}, "ra"),
    ("frame_columns.json", "ragas", {}, "ra"),
    ("frame_index.json", "ragas", {}, "ra"),
    ("frame_split.json", "ragas", {}, "ra"),
    ("dataset_to_dict.json", "ragas", {}, "ra"),
    ("utf16.csv", "ragas", {}, "ra"),
    ("scars.csv", "ragas", {}, "ra"),
]
CHOSEN = ["financebench.jsonl", "rgb.json", "squad.json", "squad_flat.jsonl"]


def read(name: str, **options: Any) -> tuple[list[Trace], tuple[str, ...]]:
    """Read a fixture, with what is said of it."""
    remarks = Remarks()
    traces = list(open_dataset(FORMATS / name, on_remark=remarks.add, **options))
    return traces, remarks.sentences()


CASES = [
    pytest.param(*row, id=row[0], marks=pytest.mark.foreign if row[0].endswith(("parquet", "xlsx")) else ())
    for row in RETRIEVED
]


@pytest.mark.parametrize(("file", "shape", "options", "carries"), CASES)
def test_files_as_people_have_them(file: str, shape: str, options: dict[str, Any], carries: str) -> None:
    """Each file is known by its shape and gives the questions, texts, ranks and answers that went in."""
    for more in ({}, {"format": shape} if shape != "judge-eval" else {}):
        traces, remarks = read(file, **options, **more)
        assert [trace.query for trace in traces] == [row["question"] for row in ROWS]
        assert [[chunk.text for chunk in trace.chunks] for trace in traces] == TEXTS
        if "i" in carries:
            assert [[chunk.id for chunk in trace.chunks] for trace in traces] == IDS
        references = [row["reference"] if "r" in carries else None for row in ROWS]
        assert [trace.reference for trace in traces] == references
        assert [trace.answer for trace in traces] == [row["answer"] if "a" in carries else None for row in ROWS]
        assert remarks == ()


@pytest.mark.parametrize("file", CHOSEN)
def test_chosen_passages_are_labels_and_said_to_be_no_retrieval(file: str) -> None:
    """Passages that people chose are read with their labels, and a remark says that nobody retrieved them."""
    traces, [answers] = read(file)
    assert [trace.query for trace in traces] == [row["question"] for row in ROWS]
    assert [trace.reference for trace in traces] == [row["reference"] for row in ROWS]
    for trace, gold in zip(traces, GOLD, strict=True):
        labelled = [chunk.text for chunk in trace.chunks if chunk.label == 1]
        assert labelled == (gold[:1] if "squad" in file else gold)
        assert all(chunk.label is not None for chunk in trace.chunks)
    assert "in no retriever's ranking" in answers
    assert "2 records" in answers


@pytest.mark.foreign
def test_what_autorag_knows_beside_the_texts() -> None:
    """Ids, scores and known relevance come over."""
    [first, second], _ = read("autorag.parquet")
    assert [chunk.score for chunk in first.chunks] == [0.91, 0.84, 0.42]
    assert [[chunk.label for chunk in trace.chunks] for trace in (first, second)] == LABELS
    assert (first.id, first.relevant_total, second.relevant_total) == ("q1", 1, 2)


def test_what_tools_know_beside_the_texts() -> None:
    """Ids, titles and known relevance come over, and the rest is kept as metadata."""
    [first, _], _ = read("crag.jsonl.bz2")
    assert (first.id, first.chunks[0].title) == ("q1", "Page h1")
    assert first.chunks[0].metadata["page_url"] == "https://example.org/h1"
    assert "<html>" not in first.model_dump_json()
    [first, _], _ = read("ragchecker.json")
    assert first.id == "q1"
    [first, _], _ = read("financebench.jsonl")
    assert (first.id, first.relevant_total) == ("financebench_id_00000", 1)
    assert first.chunks[0].metadata == {"doc_name": "BRUNNFELD_2025", "evidence_page_num": 0}
    [first, _], _ = read("squad.json")
    assert (first.id, first.chunks[0].title) == ("q1", "Handbook")
    [first, _], _ = read("ms_marco.jsonl", **MARCO)
    assert (first.id, [chunk.label for chunk in first.chunks]) == ("0", LABELS[0])


@pytest.mark.parametrize(
    ("file", "maps"),
    [
        ("ragas_testset.jsonl", {"chunks": "reference_contexts"}),
        ("ragas_old_testset.csv", {"chunks": "contexts"}),
        ("deepeval_goldens.json", {"query": "input", "chunks": "context", "reference": "expected_output"}),
    ],
)
def test_testsets_as_their_tools_save_them(file: str, maps: dict[str, str]) -> None:
    """A testset is refused with its maps, and judged by them."""
    with pytest.raises(DataError, match="no retrieved chunks") as caught:
        read(file)
    assert f"map={json.dumps(maps)}" in str(caught.value)
    traces, _ = read(file, map=maps)
    assert [[chunk.text for chunk in trace.chunks] for trace in traces] == GOLD
    assert [trace.reference for trace in traces] == [row["reference"] for row in ROWS]


def one(folder: Path, record: dict[str, Any]) -> tuple[Trace, tuple[str, ...]]:
    """Read a single record."""
    path = folder / "x.jsonl"
    path.write_text(json.dumps(record))
    remarks = Remarks()
    [trace] = open_dataset(path, on_remark=remarks.add)
    return trace, remarks.sentences()


def test_alternative_answers_are_said(tmp_path: Path) -> None:
    """Of answers of which any will do the first is the reference, and a remark says so."""
    page = {"page_snippet": "a"}
    for record in (
        {"query": "q?", "search_results": [page], "answer": "one", "alt_ans": ["two"]},
        {"query": "q?", "retrieved_contents": ["a"], "retrieved_ids": ["c"], "generation_gt": ["one", "two"]},
        {"question": "q?", "context": "a", "answers": {"text": ["one", "two"], "answer_start": [0, 1]}},
        {"query": "q?", "positive": ["a"], "negative": [], "answer": [["one", "two"]]},
    ):
        trace, remarks = one(tmp_path, record)
        assert trace.reference == "one"
        assert any("the first is the reference" in message for message in remarks), record
        assert "two" in json.dumps(trace.metadata)


def test_parts_of_an_answer_stand_together(tmp_path: Path) -> None:
    """RGB's answers of several parts are all wanted, passages in groups are passages."""
    record = {"query": "q?", "positive": [["a", "b"], ["c"]], "negative": ["d"], "answer": ["one", ["two"]]}
    trace, _ = one(tmp_path, record)
    assert trace.reference == "one; two"
    assert [(chunk.text, chunk.label) for chunk in trace.chunks] == [("a", 1), ("b", 1), ("c", 1), ("d", 0)]
    assert trace.relevant_total == 3


def test_squad_questions_without_an_answer(tmp_path: Path) -> None:
    """A question that its paragraph does not answer has no reference, and the paragraph is not relevant."""
    question = {"id": "q", "question": "q?", "answers": [], "is_impossible": True}
    paragraph = {"context": "a", "qas": [question, {**question, "id": "p", "answers": [{"text": "r"}] * 3}]}
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"version": "v2.0", "data": [{"title": "T", "paragraphs": [paragraph]}]}))
    impossible, possible = open_dataset(path)
    assert (impossible.reference, impossible.chunks[0].label) == (None, 0)
    assert (possible.reference, possible.chunks[0].label) == ("r", 1)


def test_relevance_in_groups_leaves_the_total_open(tmp_path: Path) -> None:
    """Where one document of a group is enough nobody can say how many relevant ones there are."""
    record = {
        "query": "q?",
        "retrieved_contents": ["a", "b"],
        "retrieved_ids": ["1", "2"],
        "retrieval_gt": [["2", "3"], ["4"]],
    }
    trace, _ = one(tmp_path, record)
    assert ([chunk.label for chunk in trace.chunks], trace.relevant_total) == ([0, 1], None)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"query": "q?", "retrieved_contents": ["a", "b"], "retrieved_ids": ["1"]}, "retrieved_ids: 1 for 2"),
        ({"query": "q?", "search_results": [{"page_name": "x"}]}, r"search_results\[0\].page_snippet: "),
        ({"query": "q?", "search_results": ["x"]}, r"search_results\[0\]: is a text, not an object"),
        ({"question": "q?", "evidence": [{"doc_name": "d"}], "doc_name": "d"}, r"evidence\[0\].evidence_text: "),
        ({"query": "q?", "positive": "a", "negative": []}, "positive: holds a text, not a list"),
        ({"question": "q?", "context": ["a"], "answers": {"text": []}}, "context: holds a list, not a text"),
        ({"query": "q?", "retrieved_context": None}, "retrieved_context: the list of retrieved chunks is missing"),
    ],
)
def test_faults_of_published_files_are_named(record: Any, message: str, tmp_path: Path) -> None:
    """What is wrong with a record is said at its field."""
    with pytest.raises(DataError, match=rf"x.jsonl:1: {message}"):
        one(tmp_path, record)


def test_every_new_shape_is_alone() -> None:
    """None of the published files fits two shapes."""
    for file, shape, options, _ in RETRIEVED:
        if file.endswith(".jsonl") and not options:
            record = json.loads((FORMATS / file).read_text().splitlines()[0])
            assert [s.name for s in catalog.fitting([record])] == [shape]
