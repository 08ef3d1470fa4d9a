"""Objects of other tools, and of users, are read by their fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from judge_eval import Evaluator, ReadOptions, Trace, evaluate
from judge_eval.data.memory import rows_in_memory
from judge_eval.data.reading import read_memory
from judge_eval.errors import DataError

WANTED = ("When do you open?", "At nine.", ["We open at nine.", "Park here."])


@dataclass
class LikeATestCase:
    """The fields of DeepEval's test case."""

    input: str
    expected_output: str | None = None
    actual_output: str | None = None
    retrieval_context: list[str] = field(default_factory=list)


class LikeASample(BaseModel):
    """The fields of a sample of ragas."""

    user_input: str
    reference: str | None = None
    response: str | None = None
    retrieved_contexts: list[str] | None = None
    rubrics: dict[str, str] | None = None


class LikeATurn(BaseModel):
    """The fields of a turn of DeepEval's."""

    role: str
    content: str
    retrieval_context: list[str] | None = None


class LikeAConversation(BaseModel):
    """The fields of DeepEval's `ConversationalTestCase`."""

    turns: list[LikeATurn]
    scenario: str | None = None
    expected_outcome: str | None = None
    name: str | None = None


class Owned(BaseModel):
    """What a user made."""

    question: str
    ground_truth: str
    contexts: list[str]


class LikeADataset(BaseModel):
    """What ragas keeps samples in."""

    samples: list[LikeASample]


class Arrow:
    """One column, which Arrow can read, but not as a table."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pytest.importorskip("pyarrow").chunked_array([["When?"]]).__arrow_c_stream__(requested_schema)


class Hit(BaseModel):
    """A chunk of a user's own."""

    body: str


class Plain:
    """A class without declared fields."""

    def __init__(self) -> None:
        self.query, self.reference, self.chunks, self._cache = WANTED[0], WANTED[1], WANTED[2], object()


class Slotted:
    """What `attrs` makes."""

    __slots__ = ("chunks", "query", "reference")
    __attrs_attrs__ = tuple(SimpleNamespace(name=name) for name in ("query", "reference", "chunks"))

    def __init__(self, query: str, reference: str, chunks: list[str]) -> None:
        self.query, self.reference, self.chunks = query, reference, chunks


@dataclass
class LikeGoldens:
    """What DeepEval keeps test cases in."""

    goldens: list[LikeATestCase]
    test_cases: list[LikeATestCase]


QUERY, REFERENCE, TEXTS = WANTED
CASE = LikeATestCase(QUERY, REFERENCE, None, TEXTS)
SAMPLE = LikeASample(user_input=QUERY, reference=REFERENCE, retrieved_contexts=TEXTS)
OWN = Owned(question=QUERY, ground_truth=REFERENCE, contexts=TEXTS)


def read(data: Any, options: ReadOptions | None = None) -> list[Trace]:
    """Read data in memory as `evaluate` does."""
    rows = rows_in_memory(data)
    assert rows is not None
    outcomes = [row.outcome for row in read_memory(rows, options)]
    for fault in outcomes:
        if isinstance(fault, DataError):
            raise fault
    return [outcome for outcome in outcomes if isinstance(outcome, Trace)]


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (CASE, 1),
        (SAMPLE, 1),
        (OWN, 1),
        ([CASE, CASE], 2),
        ((OWN, OWN, OWN), 3),
        (LikeADataset(samples=[SAMPLE, SAMPLE]), 2),
        (LikeGoldens([], [CASE]), 1),
        (LikeGoldens([CASE, CASE], []), 2),
        ({"question": [QUERY] * 2, "ground_truth": [REFERENCE] * 2, "contexts": [TEXTS] * 2}, 2),
        ({"question": QUERY, "ground_truth": REFERENCE, "contexts": TEXTS}, 1),
        (
            {
                "question": {0: QUERY, 1: QUERY},
                "ground_truth": {0: REFERENCE, 1: REFERENCE},
                "contexts": {0: TEXTS, 1: TEXTS},
            },
            2,
        ),
        (Plain(), 1),
        ([Plain(), SimpleNamespace(query=QUERY, reference=REFERENCE, chunks=TEXTS)], 2),
        (Slotted(QUERY, REFERENCE, TEXTS), 1),
        (SimpleNamespace(samples=[SimpleNamespace(eval_sample=SAMPLE, synthesizer_name="x")]), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_fields_are_read_as_a_file_of_the_tool_is(data: Any, count: int) -> None:
    """Each gives the traces of its rows; fields that hold nothing are left out."""
    traces = read(data)
    assert [(t.query, t.reference, [chunk.text for chunk in t.chunks]) for t in traces] == [WANTED] * count
    assert all("rubrics" not in trace.metadata for trace in traces)


def test_a_stream_of_objects_is_read() -> None:
    """A generator may yield them."""
    with Evaluator("fake/overlap", cache=False) as evaluator:
        run = evaluator.evaluate(each for each in (SAMPLE, SAMPLE))
    assert [result.trace.query for result in run.results] == [QUERY] * 2


@pytest.mark.parametrize("wrap", [lambda case: case, lambda case: [case], lambda case: LikeGoldens([], [case])])
def test_a_conversation_of_objects_is_read_turn_by_turn(wrap: Any) -> None:
    """Each user turn with a retrieval is a trace, with what was said before it, as in a file."""
    case = LikeAConversation(
        name="hours",
        turns=[
            LikeATurn(role="user", content=QUERY),
            LikeATurn(role="assistant", content=REFERENCE, retrieval_context=TEXTS),
            LikeATurn(role="user", content="And on Sundays?"),
            LikeATurn(role="assistant", content="No.", retrieval_context=["On Sundays we are closed."]),
        ],
    )
    first, second = read(wrap(case))
    assert [first.query, first.answer, [chunk.text for chunk in first.chunks]] == [QUERY, REFERENCE, TEXTS]
    assert second.query == "And on Sundays?"
    assert [(turn.role, turn.content) for turn in second.history] == [("user", QUERY), ("assistant", REFERENCE)]
    assert {trace.metadata["session_id"] for trace in (first, second)} == {"hours"}


def test_fields_of_objects_in_a_list_of_chunks_can_be_mapped() -> None:
    """A chunk that is an object without a text under a known name is read like a mapping."""
    row = {"query": QUERY, "reference": REFERENCE, "chunks": [Hit(body=text) for text in TEXTS]}
    assert [chunk.text for chunk in read([row], ReadOptions(map={"chunks.text": "body"}))[0].chunks] == TEXTS
    with pytest.raises(DataError, match="the keys found are: body"):
        read([row])


def test_rows_of_a_frame_with_their_labels_are_rows() -> None:
    """What `iterrows` yields, a label and a row, is read as the row."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"query": [QUERY] * 2, "reference": [REFERENCE] * 2, "chunks": [TEXTS] * 2})
    assert len(read(list(frame.iterrows()))) == 2


def test_columns_of_unequal_length_are_no_table() -> None:
    """A mapping whose columns differ in length is refused, with the lengths."""
    with pytest.raises(DataError, match="columns differ in length: question 2, ground_truth 1, contexts 1"):
        read({"question": [QUERY] * 2, "ground_truth": [REFERENCE], "contexts": [TEXTS]})


@pytest.mark.parametrize("data", [LikeADataset(samples=[]), LikeGoldens([], []), iter([])])
def test_data_without_rows_are_empty(data: Any, tmp_path: Path) -> None:
    """There is nothing in them to judge, as in an empty list, and no run is kept."""
    with pytest.raises(DataError, match="there is no trace to judge"):
        evaluate(data, "fake/overlap", cache=False, out=tmp_path)
    assert not list(tmp_path.iterdir())


NEEDS_PYARROW = pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed")


class Iterated(SimpleNamespace):
    """A document whose fields can be gone through, as those of a pydantic model can."""

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(vars(self).items())


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (Iterated(page_content="We open."), "^is a retrieved document without its question"),
        ('[{"query": "When?"}]', "^is a text, and no file has this name; give what it holds, such as `json.loads"),
        ('{"query": "When?"}\n{"query": "Where?"}', "^is a text, and no file has this name"),
        pytest.param(Arrow(), "^is an Arrow: cannot be read as a table", marks=NEEDS_PYARROW),
    ],
    ids=["document", "json", "lines", "arrow"],
)
def test_what_is_given_in_place_of_rows_is_named(data: Any, told: str) -> None:
    """A document, a text of data and one column of a table are called what they are."""
    with pytest.raises(DataError, match=told) as caught:
        evaluate(data, "fake/overlap", cache=False)
    assert len(str(caught.value)) < 400


@dataclass
class Unknown:
    """An object of no known shape."""

    speed: int


@pytest.mark.parametrize("data", [Unknown(1), [Unknown(1)], object()])
def test_what_cannot_be_read_says_what_can(data: Any) -> None:
    """The message names what to give."""
    with pytest.raises(DataError, match=r"give|--map|speed"):
        read(data)
