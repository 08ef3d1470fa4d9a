"""Objects of other tools, and of users, are read by their fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from judge_eval import Evaluator, Trace
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


class Owned(BaseModel):
    """What a user made."""

    question: str
    ground_truth: str
    contexts: list[str]


class LikeADataset(BaseModel):
    """What ragas keeps samples in."""

    samples: list[LikeASample]


@dataclass
class LikeGoldens:
    """What DeepEval keeps test cases in."""

    goldens: list[LikeATestCase]
    test_cases: list[LikeATestCase]


QUERY, REFERENCE, TEXTS = WANTED
CASE = LikeATestCase(QUERY, REFERENCE, None, TEXTS)
SAMPLE = LikeASample(user_input=QUERY, reference=REFERENCE, retrieved_contexts=TEXTS)
OWN = Owned(question=QUERY, ground_truth=REFERENCE, contexts=TEXTS)


def read(data: Any) -> list[Trace]:
    """Read data in memory as `evaluate` does."""
    rows = rows_in_memory(data)
    assert rows is not None
    outcomes = [row.outcome for row in read_memory(rows)]
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


def test_columns_of_unequal_length_are_no_table() -> None:
    """A mapping whose columns differ in length is refused as a row, by the name of its field."""
    with pytest.raises(DataError, match="question"):
        read({"question": [QUERY] * 2, "ground_truth": [REFERENCE], "contexts": [TEXTS]})


@dataclass
class Unknown:
    """An object of no known shape."""

    speed: int


@pytest.mark.parametrize("data", [Unknown(1), [Unknown(1)], object()])
def test_what_cannot_be_read_says_what_can(data: Any) -> None:
    """The message names what to give."""
    with pytest.raises(DataError, match=r"give|--map|speed"):
        read(data)
