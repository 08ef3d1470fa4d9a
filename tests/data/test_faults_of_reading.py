from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval.data.options import ReadOptions
from judge_eval.data.reading import open_dataset
from judge_eval.data.remarks import Remarks
from judge_eval.errors import ConfigError, DataError
from tests.support.odd_files import read

FORMATS = Path(__file__).parents[2] / "fixtures" / "formats"


def write(folder: Path, rows: Any, name: str = "x.jsonl") -> Path:
    """Write records: a list as JSON Lines, anything else as JSON."""
    path = folder / name
    text = "".join(json.dumps(row) + "\n" for row in rows) if isinstance(rows, list) else json.dumps(rows)
    path.write_text(text)
    return path


def remarks_on(path: Path, **options: Any) -> tuple[str, ...]:
    """Read a file and return what is said of it."""
    remarks = Remarks()
    list(open_dataset(path, on_remark=remarks.add, **options))
    return remarks.sentences()


OLD_TESTSET = {
    "question": "When does the hut close?",
    "contexts": ["The season ends in October."],
    "ground_truth": "In October.",
    "evolution_type": "simple",
    "metadata": [{"source": "hut.md"}],
    "episode_done": True,
}
TESTSET = {
    "user_input": "When does the hut close?",
    "reference_contexts": ["The season ends in October."],
    "reference": "In October.",
    "synthesizer_name": "single_hop_specific_query_synthesizer",
}
GOLDEN = {
    "input": "When does the hut close?",
    "actual_output": None,
    "expected_output": "In October.",
    "context": ["The season ends in October."],
    "retrieval_context": None,
    "source_file": "hut.md",
}


@pytest.mark.parametrize(
    ("record", "advice", "maps"),
    [
        (OLD_TESTSET, 'map={"chunks": "contexts"}', {"chunks": "contexts"}),
        (
            {key: value for key, value in OLD_TESTSET.items() if key != "evolution_type"},
            'map={"chunks": "contexts"}',
            {"query": "question", "chunks": "contexts", "reference": "ground_truth"},
        ),
        (TESTSET, 'map={"chunks": "reference_contexts"}', {"chunks": "reference_contexts"}),
        (
            {**TESTSET, "retrieved_contexts": None},
            'map={"chunks": "reference_contexts"}',
            {"chunks": "reference_contexts"},
        ),
        (
            GOLDEN,
            'map={"query": "input", "chunks": "context", "reference": "expected_output"}',
            {"query": "input", "chunks": "context", "reference": "expected_output"},
        ),
        (
            {key: value for key, value in GOLDEN.items() if key != "retrieval_context"},
            'map={"query": "input", "chunks": "context", "reference": "expected_output"}',
            {"chunks": "context"},
        ),
        (
            {
                "input": "When does the hut close?",
                "expectedOutput": "In October.",
                "context": ["The season ends in October."],
            },
            'map={"query": "input", "chunks": "context", "reference": "expectedOutput"}',
            {"query": "input", "chunks": "context", "reference": "expectedOutput"},
        ),
    ],
)
def test_what_a_question_was_made_from_is_no_retrieval(
    record: dict[str, Any], advice: str, maps: dict[str, str], tmp_path: Path
) -> None:
    """Testsets and goldens hold no retrieval: they are refused with the maps that judge them anyway."""
    path = write(tmp_path, [record])
    with pytest.raises(DataError, match=r"x.jsonl:1: .*no retrieved chunks") as caught:
        read(path)
    assert advice in str(caught.value)
    [trace] = read(path, map=maps)
    assert (trace.query, trace.reference) == ("When does the hut close?", "In October.")
    assert [chunk.text for chunk in trace.chunks] == ["The season ends in October."]


def test_a_testset_that_was_filled_in_is_read_when_told(tmp_path: Path) -> None:
    """A retriever may have filled the contexts of a testset; the format then says so."""
    with pytest.raises(DataError, match='format="ragas-old"'):
        read(write(tmp_path, [OLD_TESTSET]))
    [trace] = read(write(tmp_path, [OLD_TESTSET]), format="ragas-old")
    assert [chunk.text for chunk in trace.chunks] == ["The season ends in October."]


@pytest.mark.parametrize(
    ("record", "format"),
    [
        ({"user_input": "q?", "mine": ["a"], "reference": "r"}, "ragas"),
        ({"user_input": "q?", "mine": ["a"], "retrieved_contexts": ["b"], "reference": "r"}, "ragas"),
        ({"input": "q?", "mine": ["a"], "expected_output": "r"}, "deepeval"),
        ({"input": "q?", "mine": ["a"], "retrieval_context": ["b"], "expected_output": "r"}, "deepeval"),
        ({"question": "q?", "mine": ["a"], "ground_truth": "r"}, "ragas-old"),
        ({"question": "q?", "mine": ["a"], "answer": "r"}, "qa"),
        ({"query": "q?", "mine": ["a"], "documents": ["b"], "reference": "r"}, "documents"),
    ],
)
def test_mapped_chunks_beside_a_format(record: dict[str, Any], format: str, tmp_path: Path) -> None:
    """`--map chunks=...` counts beside `--format`: the chunks are those, all else is read as ever."""
    [trace] = read(write(tmp_path, [record]), format=format, map={"chunks": "mine"})
    assert ([chunk.text for chunk in trace.chunks], trace.query, trace.reference) == (["a"], "q?", "r")


def test_mapped_questions_beside_a_format(tmp_path: Path) -> None:
    """`--map query=...` counts beside `--format` too, whatever stands under the format's own key."""
    record = {"user_input": "original?", "rewritten": "q?", "retrieved_contexts": ["a"]}
    [trace] = read(write(tmp_path, [record]), format="ragas", map={"query": "rewritten"})
    assert trace.query == "q?"


def test_of_several_truths_the_first_is_taken_and_said(tmp_path: Path) -> None:
    """Of several ground truths the first is the reference, the others are kept, and a remark says so."""
    row = {"question": "q?", "contexts": ["a"], "answer": "x", "ground_truths": ["one", "two"]}
    path = write(tmp_path, [{**row, "ground_truths": ["only"]}, row, {**row, "question": "q2?"}])
    only, first, _ = read(path)
    assert (only.reference, first.reference) == ("only", "one")
    assert first.metadata["ground_truths"] == ["one", "two"]
    assert remarks_on(path) == (
        "of several `ground_truths` the first is the reference; all are kept as metadata "
        "(2 records, the first on line 2)",
    )


@pytest.mark.parametrize(
    ("record", "where"),
    [
        ({"query": "q?", "reference": ["r", "s"], "chunks": ["a"]}, "reference"),
        ({"query": ["q?"], "chunks": ["a"]}, "query"),
        ({"query": "q?", "chunks": [{"id": "c", "text": ["a"]}]}, r"chunks\[0\].text"),
        ({"user_input": "q?", "retrieved_contexts": ["a"], "reference": ["r"]}, "reference"),
        ({"user_input": ["q?", 1], "retrieved_contexts": ["a"]}, "user_input"),
    ],
)
def test_a_list_where_a_text_is_meant_is_named(record: Any, where: str, tmp_path: Path) -> None:
    """A list in a text's place is called a list, at its field."""
    with pytest.raises(DataError, match=rf"x.jsonl:1: {where}: (holds a list, not a text|a conversation)"):
        read(write(tmp_path, [record]))


def test_an_item_of_a_list_can_be_mapped(tmp_path: Path) -> None:
    """A path goes into lists by place, so that one of several answers is taken."""
    path = write(tmp_path, [{"query": "q?", "answers": ["one", "two"], "chunks": ["a"]}])
    assert read(path, map={"reference": "answers.1"})[0].reference == "two"


@pytest.mark.parametrize("shape", ["ours", "ragas", "deepeval"])
def test_numbers_as_ids_and_references_are_text(shape: str, tmp_path: Path) -> None:
    """A number that stands for an id or an answer is the text of that number; whole ones have no fraction."""
    records: dict[str, Any] = {
        "ours": {"id": 7, "query": "q?", "reference": 42, "answer": 1.5, "chunks": [{"id": 3.0, "text": "a"}]},
        "ragas": {
            "id": 7.0,
            "user_input": "q?",
            "reference": 42,
            "response": 1.5,
            "retrieved_contexts": [{"id": 3, "text": "a"}],
        },
        "deepeval": {
            "id": 7,
            "input": "q?",
            "expected_output": 42.0,
            "actual_output": 1.5,
            "retrieval_context": [{"id": 3.0, "text": "a"}],
        },
    }
    [trace] = read(write(tmp_path, [records[shape]]))
    assert (trace.id, trace.reference, trace.answer, trace.chunks[0].id) == ("7", "42", "1.5", "3")


def test_a_truth_value_is_no_text(tmp_path: Path) -> None:
    """True is no number: as a reference it is an error, since nobody knows how it would be spelled."""
    with pytest.raises(DataError, match=r"x.jsonl:1: reference: "):
        read(write(tmp_path, [{"query": "q?", "reference": True, "chunks": ["a"]}]))


SAME = {"query": "q?", "reference": "r", "chunks": ["a"]}


@pytest.mark.parametrize("name", ["x.jsonl", "x.json"])
def test_equal_records_get_numbered_ids(name: str, tmp_path: Path) -> None:
    """Records that read alike and have no id are numbered, the same each time, with one remark."""
    rows = [SAME, {**SAME, "query": "other?"}, SAME, SAME]
    path = tmp_path / name
    path.write_text(json.dumps(rows) if name == "x.json" else "".join(json.dumps(row) + "\n" for row in rows))
    first, other, second, third = read(path)
    assert [second.id, third.id] == [f"{first.id}-2", f"{first.id}-3"]
    assert first.digest == second.digest != other.digest
    [answers] = remarks_on(path)
    assert answers.startswith("reads like an earlier one; its id was given a number (2 records, the first")


def test_given_ids_that_stand_twice_are_named_by_both_lines(tmp_path: Path) -> None:
    """For an id that was given twice the error names both lines, and skipping leaves the later one out."""
    first, two = {"id": "q1", **SAME}, {"id": "q1", **SAME, "query": "other?"}
    path = write(tmp_path, [first, {"id": "q2", **SAME}, two])
    with pytest.raises(DataError, match=r"x.jsonl:3: id: the trace id 'q1' occurs twice, here and on line 1"):
        read(path)
    errors: list[DataError] = []
    assert [t.query for t in read(path, on_invalid="skip", on_skip=errors.append)] == ["q?", "q?"]
    assert [error.line for error in errors] == [3]
    rows = [{"id": "q1", "user_input": "q?", "retrieved_contexts": ["a"]}] * 2
    with pytest.raises(DataError, match=r"x.jsonl:2: id: .* here and on line 1"):
        read(write(tmp_path, rows))


def test_an_unknown_path_lists_the_nearest_three(tmp_path: Path) -> None:
    """Of sixty keys the message names the three that are nearest to the one that is not there."""
    row = {f"column_{n}": n for n in range(60)} | {"gold_answer": "r", "gold_text": "t", "golden": "g"}
    with pytest.raises(DataError, match="hold no 'gold_anwser'") as caught:
        read(write(tmp_path, [row]), map={"reference": "gold_anwser"})
    assert "'gold_answer'" in str(caught.value)
    assert str(caught.value).count("'") == 2 * 4


def test_an_unknown_field_inside_chunks_is_advised() -> None:
    """A field of a chunk that does not exist is refused before anything is read, with those that do."""
    with pytest.raises(ConfigError, match=r"no field 'chunks.txt'; did you mean 'chunks.text'"):
        read(Path("x.jsonl"), map={"chunks.txt": "body"})


def test_options_are_given_once() -> None:
    """Options and keywords beside each other are refused: one of them would be passed over."""
    with pytest.raises(ConfigError, match="give `reader` or depth, not both"):
        open_dataset("x.jsonl", ReadOptions(format="ragas"), depth=3)
    with pytest.raises(ConfigError, match="no option 'dept' for reading; did you mean 'depth'"):
        open_dataset("x.jsonl", dept=3)  # type: ignore[call-arg]
