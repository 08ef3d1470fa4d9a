import json
from pathlib import Path

from judge_eval import Evaluator, FakeBackend
from judge_eval.wire import Request
from tests.support.replies import fields

MARKUP = 'if a < b && c > d: print("<b>")'


def test_text_reaches_the_judge_unescaped() -> None:
    """Markup in a question, a reference or a chunk stands in the prompt as it is, never as HTML entities."""
    seen: list[str] = []

    def answer(request: Request) -> str:
        seen.append(request.messages[-1].content)
        return json.dumps(fields(False))

    trace = {"query": MARKUP, "reference": MARKUP, "chunks": [MARKUP]}
    Evaluator(FakeBackend(answer), cache=False).evaluate(trace)
    assert len(seen) == 1
    assert seen[0].count(MARKUP) == 3
    assert "&lt;" not in seen[0]


def test_an_array_in_a_row_stays_in_its_trace(tmp_path: Path) -> None:
    """An unknown field that holds an array is metadata of one trace, not several traces."""
    row = {"id": "a", "query": "q", "reference": "r", "chunks": ["x"], "variants": ["one", "two", "three"]}
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps(row) + "\n")
    run = Evaluator("fake/never", metrics=["AP@5"], cache=False).evaluate(path)
    assert [result.trace_id for result in run.results] == ["a"]
    assert run.results[0].trace.metadata == {"variants": ["one", "two", "three"]}
