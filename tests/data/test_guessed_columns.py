"""Tables with columns of people's own: advice never names gold passages, numbers or a system's own answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator
from judge_eval.data.catalog import likely_map
from judge_eval.data.reading import open_dataset
from judge_eval.data.remarks import Remarks
from judge_eval.errors import DataError
from judge_eval.spelling import option
from tests.support.command import FIXTURES

COLUMNS = FIXTURES / "formats" / "columns"
TEXTS = ["We open in June and close in October.", "Parking is free."]
ANSWER = "In June."


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("numbered", {"query": "question", "chunks": "retrieved_cont*", "reference": "gold_answer"}),
        ("numbered_many", {"query": "query_text", "chunks": "context_*", "reference": "ideal"}),
        ("golden_alone", {"query": "question", "reference": "expected_answer"}),
        ("golden_beside", {"query": "input_text", "chunks": "retrieved", "reference": "target"}),
        ("expected_sources", {"query": "user_question", "chunks": "search_hits", "reference": "ground_truth_answer"}),
        ("evidence", {"query": "question", "reference": "golden_answer"}),
        ("numbers", {"query": "question", "reference": "ground_truth"}),
        ("files", {"query": "question", "reference": "gold_answer"}),
        ("log", {"query": "prompt_text", "chunks": "retrieved"}),
        ("session", {"query": "user_query", "chunks": "search_chunks"}),
        ("judged", {"query": "question_text", "chunks": "retrieved", "reference": "ideal_answer"}),
        ("tokens", {"query": "prompt", "chunks": "retrieved", "reference": "expected"}),
    ],
)
def test_advice_names_the_right_columns(name: str, advice: dict[str, str]) -> None:
    """The error offers these columns and no other, says if none holds chunks, and what it offers is read."""
    path = COLUMNS / f"{name}.csv"
    with pytest.raises(DataError) as caught:
        list(open_dataset(path))
    message = str(caught.value)
    assert f"perhaps with {option('map', advice)}, or give" in message
    assert ("no field seems to hold what was retrieved" in message) == ("chunks" not in advice)
    if "chunks" in advice:
        [trace] = open_dataset(path, map=advice)
        assert len(trace.chunks) == (11 if name == "numbered_many" else 2)
        assert trace.reference == (ANSWER if "reference" in advice else None)


Q, A, LISTS = "user_question", "In June.", ["It opens in June and closes again in October.", "Parking is free."]


@pytest.mark.parametrize(
    ("fields", "advice"),
    [
        *(({Q: "When?", "hits": LISTS, name: A}, {"query": Q, "chunks": "hits", "reference": name}) for name in (
            "expected_output", "expected_response", "reference_output", "ideal_response", "correct_answer",
            "human_answer", "true_answer", "answer",
        )),
        *(({Q: "When?", "hits": LISTS, name: A}, {"query": Q, "chunks": "hits"}) for name in (
            "llm_answer", "model_answer", "system_answer", "assistant_answer", "rag_answer", "response", "model_output",
        )),
        *(({Q: "When?", "hits": LISTS, "answer": A, name: "x"}, {"query": Q, "chunks": "hits"}) for name in (
            "model_name", "created_at", "trace_id", "timestamp", "user_id", "thread_id",
        )),
        *(({Q: "When?", name: LISTS, "gold": A}, {"query": Q, "reference": "gold"}) for name in (
            "supporting_passages", "retrieval_gt", "correct_docs", "human_contexts", "positive_ctxs", "evidence_list",
        )),
        ({Q: "When?", "retrieval_gt": [["d1"]]}, {"query": Q}),
        ({Q: "When?", "tags": ["open", "June"], "gold": A}, {"query": Q, "reference": "gold"}),
        ({Q: "When?", "dialog": [{"role": "user", "content": "Hi."}], "gold": A}, {"query": Q, "reference": "gold"}),
        ({"request": "When?", "request_id": "7", "found": LISTS}, {"query": "request", "chunks": "found"}),
        ({"user_q": "When?", "hits": LISTS, "is_correct": "True", "score": "1"}, {"query": "user_q", "chunks": "hits"}),
    ],
    ids=lambda value: ",".join(value) if "query" not in value else None,
)  # fmt: skip
def test_names_that_nobody_listed_are_guessed_with_care(fields: dict[str, Any], advice: dict[str, str]) -> None:
    """What a system wrote is never offered as the reference, nor gold passages, labels and messages as chunks."""
    assert likely_map([fields]) == advice


def test_a_field_that_cannot_be_guessed_is_said(tmp_path: Path) -> None:
    """The advice says for which of question and chunks it names none, and who can find chunks."""
    path = tmp_path / "x.jsonl"
    for record, told in (
        ({"subject": "When?", "kb_hits": LISTS}, "; no field seems to hold the question"),
        (
            {Q: "When?", "gold": A},
            "; no field seems to hold what was retrieved, which `retriever` (`--retriever`) can find",
        ),
    ):
        path.write_text(json.dumps(record) + "\n", encoding="utf-8")
        with pytest.raises(DataError) as caught:
            list(open_dataset(path))
        assert told in str(caught.value)


def test_a_misspelt_field_is_offered(tmp_path: Path) -> None:
    """A field of ours with a slip is part of the advice: without it the advice could not be followed."""
    path = tmp_path / "x.jsonl"
    path.write_text('{"qery": "When?", "chunks": ["We open in June."], "reference": "In June."}\n', encoding="utf-8")
    advice = {"query": "qery", "chunks": "chunks", "reference": "reference"}
    with pytest.raises(DataError) as caught:
        list(open_dataset(path))
    assert f"perhaps with {option('map', advice)}, or give" in str(caught.value)
    assert len(list(open_dataset(path, map=advice))) == 1


def test_numbered_columns_are_joined_in_the_order_of_their_numbers() -> None:
    """Ten stands after nine, an empty cell is left out, and the columns are no metadata."""
    [trace] = open_dataset(COLUMNS / "numbered_many.csv", map={"query": "query_text", "chunks": "context_*"})
    assert [chunk.text for chunk in trace.chunks] == [f"Passage {n} of it." for n in range(1, 12)]
    assert trace.metadata == {"ideal": ANSWER}
    [short] = open_dataset(COLUMNS / "numbered.csv", map={"query": "question", "chunks": "retrieved_cont*"})
    assert [chunk.text for chunk in short.chunks] == TEXTS
    with pytest.raises(DataError, match=r"the first records hold no 'passage\*'"):
        list(open_dataset(COLUMNS / "numbered.csv", map={"query": "question", "chunks": "passage*"}))


@pytest.mark.parametrize("name", ["gold_answers", "gold_answer", "target"])
def test_names_of_references_are_known(name: str) -> None:
    """A table of a known format has its reference under each of these names; of several answers the first counts."""
    remarks = Remarks()
    [trace] = open_dataset(COLUMNS / f"{name}.csv", on_remark=remarks.add)
    assert (trace.reference, [chunk.text for chunk in trace.chunks]) == (ANSWER, TEXTS)
    assert trace.answer == ("It opens in May." if name == "gold_answer" else None)


def test_the_commonest_header_is_one_question() -> None:
    """`question,answer,contexts`: the error asks whether `answer` is generated or expected, and each can be said."""
    with pytest.raises(DataError, match=r"2 formats fit.*the generated answer.*the expected answer"):
        list(open_dataset(COLUMNS / "common.csv"))
    [generated] = open_dataset(COLUMNS / "common.csv", format="ragas-old")
    [expected] = open_dataset(COLUMNS / "common.csv", format="qa")
    assert (generated.answer, generated.reference) == (expected.reference, expected.answer)


def test_printed_documents_have_advice_of_their_own() -> None:
    """A cell with the printed form of documents is not taken for a text, and the error says what to write."""
    with pytest.raises(DataError, match=r"contexts: holds printed objects \(Document\).*page_content for document"):
        list(open_dataset(COLUMNS / "printed.csv"))


@pytest.mark.parametrize(
    ("field", "advice"),
    [
        ("", 'if no trace has one, `prompt="relevance/binary"` (`--prompt relevance/binary`) needs none'),
        (', "gold_answer": "In June."', 'perhaps with `map={"reference": "gold_answer"}`'),
        (', "gold_answers": ["In June."]', 'perhaps with `map={"reference": "gold_answers.0"}`'),
    ],
)
def test_a_missing_reference_does_not_end_in_dropping_all(tmp_path: Path, field: str, advice: str) -> None:
    """The error names the column that may hold it, or a prompt that needs none."""
    path = tmp_path / "x.jsonl"
    path.write_text('{"query": "q?", "chunks": ["We open in June."]' + field + "}\n", encoding="utf-8")
    with Evaluator("fake/overlap", cache=False) as evaluator, pytest.raises(DataError) as caught:
        evaluator.evaluate(path)
    assert advice in str(caught.value)
