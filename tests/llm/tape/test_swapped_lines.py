"""A line of a cassette answers only the request that it shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judge_eval import Evaluator
from judge_eval.errors import DataError
from judge_eval.evaluator import Options

SAME = "The same first hundred characters of two passages, which nobody can tell apart by what is shown. " * 2
TRACES = [
    {
        "id": "t1",
        "query": "Which?",
        "reference": "Basil grows here.",
        "chunks": [
            {"id": "a", "text": SAME + "Basil grows here."},
            {"id": "b", "text": SAME + "A stone."},
            {"id": "c", "text": "Nothing at all."},
        ],
    },
    {
        "id": "t2",
        "query": "Where?",
        "reference": "Basil grows here.",
        "chunks": [{"id": "a", "text": "Basil grows here."}],
    },
]
TWIN = {**TRACES[1], "id": "t3", "chunks": [{"id": "z", "text": "Basil grows here."}]}


def record(path: Path, *traces: object) -> list[dict[str, object]]:
    """Record the traces, and return the lines."""
    with Evaluator("fake/overlap", cache=False, options=Options(record=path)) as evaluator:
        evaluator.evaluate(list(traces))
    return [json.loads(line) for line in path.read_text().splitlines()]


def replay(path: Path, *traces: object) -> list[bool | None]:
    """Judge the traces from the cassette."""
    with Evaluator("fake/overlap", cache=False, options=Options(replay=path)) as evaluator:
        run = evaluator.evaluate(list(traces))
    return [outcome.kind == "verdict" and outcome.relevant for r in run.results for outcome in r.outcomes]


@pytest.mark.parametrize(("first", "other"), [(1, 2), (1, 3), (1, 4), (3, 4)])
def test_a_line_with_another_key_is_refused(tmp_path: Path, first: int, other: int) -> None:
    """Swapped keys end the replay, whether the lines differ in question, passage or ids alone."""
    path = tmp_path / "tape.jsonl"
    rows = record(path, *TRACES)
    assert replay(path, *TRACES) == [True, False, False, True]
    rows[first]["key"], rows[other]["key"] = rows[other]["key"], rows[first]["key"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match="has the key of a request about trace"):
        replay(path, *TRACES)


def test_what_a_line_shows_is_what_was_asked(tmp_path: Path) -> None:
    """A changed question or passage is refused; a line that shows none is taken."""
    path = tmp_path / "tape.jsonl"
    rows = record(path, TRACES[1])
    for name in ("asked", "passage"):
        for shown in ("something else", None):
            row = {**rows[1], name: shown}
            if shown is None:
                del row[name]
            path.write_text("".join(json.dumps(each) + "\n" for each in (rows[0], row)))
            if shown is None:
                assert replay(path, TRACES[1]) == [True]
            else:
                with pytest.raises(DataError, match="it was changed"):
                    replay(path, TRACES[1])


def test_traces_that_ask_the_same_share_a_line(tmp_path: Path) -> None:
    """A request that another trace made too has one line, with the ids of the first; it answers both."""
    path = tmp_path / "tape.jsonl"
    assert len(record(path, TRACES[1], TWIN)) == 2
    assert replay(path, TRACES[1], TWIN) == [True, True]
    assert replay(path, TWIN) == [True]
