"""The most frequent reason of failed verdicts is named with one example, in every record and medium."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judge_eval import Evaluator, FakeBackend, Trace
from judge_eval.errors import RefusedError
from judge_eval.export.text import as_markdown
from judge_eval.runs.folder.records import FailureExample
from judge_eval.runs.judging.merge import merge
from judge_eval.views.run_remarks import remarks_of
from judge_eval.wire import Completion, Request
from tests.support.replies import fields

TRACES = [
    Trace.parse(
        {"id": f"t{k}", "query": "q", "reference": "r", "chunks": [{"id": f"c{j}", "text": f"{k} {j}"} for j in (0, 1)]}
    )
    for k in range(4)
]
REPLIES = {
    "0 0": RefusedError("not this"),
    "1 0": json.dumps(fields("maybe")),
    "1 1": json.dumps(fields("perhaps")),
    "2 0": "it does support",
    "3 1": json.dumps(fields("it's both")),
}


def answer(request: Request) -> str | Completion:
    """Answer by the chunk's text."""
    reply = REPLIES.get(request.passages[0].text, json.dumps(fields(True)))
    if isinstance(reply, Exception):
        raise reply
    return reply


def test_the_most_frequent_reason_is_named_with_its_first_chunk(tmp_path: Path) -> None:
    """Details that differ in what they quote are one reason; the example is the first in the order of the data."""
    run = Evaluator(FakeBackend(answer), metrics=["AP@5"], cache=False).evaluate(TRACES, out=tmp_path)
    expected = FailureExample(
        why="unparsable", detail="\"verdict\" must be true or false, not 'maybe'", trace_id="t1", chunk_id="c0", count=3
    )
    assert run.manifest.tally.failures == {"refused": 1, "unparsable": 4}
    assert run.manifest.tally.example == expected
    remark = "most frequent reason: unparsable (3 of 5), first in chunk c0 of trace t1: " + expected.detail
    assert remark in [each.text for each in remarks_of(run.manifest)]
    assert "most frequent reason: unparsable (3 of 5)" in as_markdown(run)


def test_shards_are_counted_together(tmp_path: Path) -> None:
    """The example of a merged run is that of one run of all traces, whatever was most frequent in each shard."""
    evaluator = Evaluator(FakeBackend(answer), metrics=["AP@5"], cache=False)
    whole = evaluator.evaluate(TRACES)
    data = tmp_path / "data.jsonl"
    data.write_text("".join(trace.model_dump_json() + "\n" for trace in TRACES))
    parts = [evaluator.evaluate(data, out=tmp_path / f"p{k}", shard=(k, 2)).folder for k in (1, 2)]
    merged = merge([part for part in parts if part], tmp_path / "all")
    assert merged.manifest.tally.example == whole.manifest.tally.example


@pytest.mark.parametrize("reply", ["x" * 5000, ""])
def test_an_example_is_short(reply: str) -> None:
    """A long detail is cut; a run without failures names no example."""

    def refuse(_: Request) -> Completion:
        raise RefusedError(reply)

    run = Evaluator(FakeBackend(refuse), cache=False).evaluate(TRACES)
    example = run.manifest.tally.example
    assert example is not None
    assert len(example.detail) <= 200
    assert Evaluator("fake/overlap", cache=False).evaluate(TRACES).manifest.tally.example is None
