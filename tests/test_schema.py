from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from judge_eval.errors import DataError
from judge_eval.record import Record
from judge_eval.runs.folder.records import Aggregate, Dataset, Manifest, Tally, TraceResult
from judge_eval.schema import Call, Chunk, Judgment, NoVerdict, Scale, Trace, Verdict

RECORDS = (
    Chunk, Trace, Scale, Verdict, NoVerdict, Call, Judgment, TraceResult, Aggregate, Dataset, Tally, Manifest,
)  # fmt: skip


@dataclass
class ContextChunk:
    """The shape another evaluator gives its chunks."""

    document: str
    relevance: float | None = None


@pytest.mark.parametrize("record", RECORDS)
def test_records_are_frozen_and_closed(record: type[Record]) -> None:
    """No record takes an unknown field, and none can be changed after it is made."""
    assert record.model_config["frozen"]
    assert record.model_config["extra"] == "forbid"
    assert record.model_config["allow_inf_nan"] is False
    with pytest.raises(DataError):
        record.parse({"nobody_knows": 1})


def test_a_trace_cannot_be_changed() -> None:
    """Fields cannot be set, and neither can those of its chunks."""
    trace = Trace(query="q", chunks=(Chunk(id="a", text="t"),))
    with pytest.raises(ValidationError, match="frozen"):
        trace.query = "other"  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        trace.chunks[0].text = "other"  # type: ignore[misc]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    "build",
    [
        lambda x: {"query": "q", "chunks": [{"text": "t", "score": x}]},
        lambda x: {"query": "q", "chunks": [], "metadata": {"a": x}},
        lambda x: {"query": "q", "chunks": [], "metadata": {"a": [{"b": [1, x]}]}},
        lambda x: {"query": "q", "chunks": [{"text": "t", "metadata": {"a": x}}]},
    ],
)
def test_no_nan_or_infinity_gets_in(build: Any, number: float) -> None:
    """NaN and infinity are refused wherever they stand, metadata included."""
    with pytest.raises(DataError, match="must be a finite number, not NaN or infinity"):
        Trace.parse(build(number))


def test_no_nan_in_what_the_judge_gives() -> None:
    """Confidence, means, intervals and scores hold no NaN."""
    nan = float("nan")
    with pytest.raises(DataError):
        Verdict.parse({"chunk_id": "a", "grade": 1, "relevant": True, "confidence": nan})
    with pytest.raises(DataError):
        Aggregate.parse({"mean": nan, "n": 1, "n_failed": 0})
    with pytest.raises(DataError):
        Aggregate.parse({"mean": 1.0, "n": 1, "n_failed": 0, "bounds": (0.0, nan)})


def test_missing_ids_are_made() -> None:
    """A chunk's id is made from its position, a trace's from its content."""
    trace = Trace.parse({"query": "q", "chunks": ["a", {"text": "b"}, {"id": "mine", "text": "c"}]})
    assert [chunk.id for chunk in trace.chunks] == ["c1", "c2", "mine"]
    assert trace.id == f"t-{trace.digest[:12]}"
    assert Trace.parse({"query": "q", "chunks": ["a"]}).id != trace.id


def test_ids_are_unique() -> None:
    """An id that occurs twice is refused, made ones included."""
    with pytest.raises(DataError, match="chunks: the id 'x' occurs twice"):
        Trace.parse({"query": "q", "chunks": [{"id": "x", "text": "a"}, {"id": "x", "text": "b"}]})
    with pytest.raises(DataError, match="chunks: the id 'c2' occurs twice"):
        Trace.parse({"query": "q", "chunks": [{"id": "c2", "text": "a"}, "b"]})


@pytest.mark.parametrize(
    "chunk",
    [
        {"id": "c1", "text": "t", "score": 0.5},
        {"document": "t", "relevance": 0.5},
        ContextChunk("t", 0.5),
        Chunk(text="t", score=0.5),
    ],
)
def test_other_shapes_of_chunks(chunk: object) -> None:
    """Plain data, `ContextChunk(document, relevance)` as object or data, and bare chunks are read."""
    (result,) = Trace.parse({"query": "q", "chunks": [chunk]}).chunks
    assert result == Chunk(id="c1", text="t", score=0.5)


def test_plain_strings_are_chunks() -> None:
    """A string is a chunk's text; a tuple of them is a list."""
    assert Trace.parse({"query": "q", "chunks": ("a", "b")}).chunks[1] == Chunk(id="c2", text="b")
    assert Trace.parse({"query": "q", "chunks": [ContextChunk("t")]}).chunks[0].score is None


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({}, "data.jsonl:7: query: this field is required (and 1 more error in this record)"),
        ({"query": "q"}, "data.jsonl:7: chunks: this field is required; give what was retrieved, or [] if nothing was"),
        (
            {"query": "q", "chunks": None},
            "data.jsonl:7: chunks: this field is required; give what was retrieved, or [] if nothing was",
        ),
        ({"query": " ", "chunks": []}, "data.jsonl:7: the query is empty; a judge needs the question"),
        ({"query": 3, "chunks": []}, "data.jsonl:7: query: holds a number, not a text"),
        (
            {"query": "q", "chunks": [], "notes": []},
            "data.jsonl:7: notes: unknown field; remove it or put it into `metadata`",
        ),
        (
            {"query": "q", "chunks": [{"text": "a"}, {"txt": "b"}]},
            "data.jsonl:7: chunks[1].text: this field is required (and 1 more error in this record)",
        ),
        ({"query": "q", "chunks": ["a", 3]}, "data.jsonl:7: chunks[1]: holds a number, not an object"),
        ({"query": "q", "chunks": "abc"}, "data.jsonl:7: chunks: holds a text, not a list"),
        ({"query": "q", "chunks": [], "relevant_total": -1}, "data.jsonl:7: relevant_total: must be at least 0"),
        (
            {"query": "q\ud800", "chunks": []},
            "data.jsonl:7: query: holds half of a character (a lone surrogate); replace it",
        ),
        (
            {"query": "q", "chunks": [], "metadata": {"a": "\udfff"}},
            "data.jsonl:7: metadata.a.str: holds half of a character (a lone surrogate); replace it",
        ),
    ],
)
def test_errors_name_file_line_and_field(data: dict[str, Any], told: str) -> None:
    """The message says where, which field and what to do."""
    with pytest.raises(DataError) as caught:
        Trace.parse(data, file="data.jsonl", line=7)
    assert str(caught.value) == told


def test_the_digest_covers_what_a_judge_may_see() -> None:
    """Text, order, titles, ids and None against empty change a trace's digest; labels do not."""
    base: dict[str, Any] = {"id": "t", "query": "q", "chunks": [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}]}
    digest = Trace.parse(base).digest
    others = [
        {"query": "Q"},
        {"reference": ""},
        {"answer": ""},
        {"reference": "q"},
        {"chunks": base["chunks"][::-1]},
        {"chunks": base["chunks"][:1]},
        {"chunks": [{"id": "a", "text": "x", "title": ""}, base["chunks"][1]]},
        {"chunks": [{"id": "z", "text": "x"}, base["chunks"][1]]},
    ]
    digests = [Trace.parse({**base, **other}).digest for other in others]
    assert len({digest, *digests}) == len(others) + 1
    same = {
        "id": "u",
        "tags": ["t"],
        "metadata": {"a": 1},
        "relevant_total": 3,
        "chunks": [{"id": "a", "text": "x", "score": 1, "label": 1, "metadata": {"k": 1}}, base["chunks"][1]],
    }
    assert Trace.parse({**base, **same}).digest == digest


def test_a_threshold_lies_on_its_scale() -> None:
    """What counts as relevant cannot be above the highest grade."""
    with pytest.raises(DataError, match="above the highest grade 3"):
        Scale.parse({"name": "graded", "maximum": 3, "relevant": 4})


@given(
    st.text(min_size=1).filter(str.strip),
    st.lists(st.text(), max_size=4),
    st.dictionaries(st.text(), st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)),
)
def test_a_trace_survives_its_file(query: str, texts: list[str], metadata: dict[str, Any]) -> None:
    """What is written as JSON is read back equal, with the same digest."""
    trace = Trace.parse({"query": query, "chunks": texts, "metadata": metadata})
    back = Trace.model_validate_json(trace.model_dump_json())
    assert back == trace
    assert back.digest == trace.digest


def test_outcomes_are_told_apart_by_their_kind() -> None:
    """A judgment reads verdicts and missing verdicts back as what they are."""
    outcomes = (Verdict(chunk_id="a", grade=1, relevant=True), NoVerdict(chunk_id="b", why="refused"))
    judgment = Judgment(trace_id="t", outcomes=outcomes)
    assert Judgment.model_validate_json(judgment.model_dump_json()) == judgment
    assert judgment.failed == 1
    with pytest.raises(DataError):
        NoVerdict.parse({"chunk_id": "b", "why": "bored"})
