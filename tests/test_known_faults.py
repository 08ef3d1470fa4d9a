"""Faults that were reported publicly of this kind of program, each with the test that shows it is not one of ours."""

import json
import re
from pathlib import Path

import pytest

from judge_eval import Evaluator, FakeBackend
from judge_eval.wire import Request
from tests.support.replies import fields

MARKUP = 'if a < b && c > d: print("<b>")'

NEGOTIATION, POINTWISE = "llm/chat/test_negotiation.py", "judges/test_pointwise.py"
LOCAL = "llm/test_local_model.py"
REPORTS = [
    # What only looks like a verdict, or is one in another form.
    ("vibrantlabsai/ragas", 2829, "judges/test_quoted_objects.py", "what_only_looks_like_a_verdict_is_asked_again"),
    ("vibrantlabsai/ragas", 1874, "judges/test_parsing.py", "an_object_in_single_quotes_is_read"),
    ("IBM/ai4rag", 107, "judges/test_parsing.py", "a_verdict_with_one_meaning_is_read"),
    # Grammars in which a model goes on to its cap, and thoughts that take it.
    ("jundot/omlx", 2990, POINTWISE, "a_cut_reply_without_thoughts_gets_no_larger_cap"),
    ("google-gemini/cookbook", 1288, POINTWISE, "a_loop_is_given_up_although_the_model_reasons"),
    ("tobert/kaibo", 75, POINTWISE, "truncated_twice_is_no_verdict"),
    # Servers that ask for days, stream unasked, or refuse a long text.
    ("earendil-works/pi", 3671, "cli/test_long_waits.py", "a_wait_of_days_ends_the_run"),
    ("decolua/9router", 4122, "llm/chat/test_events.py", "a_server_that_streams_costs_one_call_for_each_chunk"),
    ("ggml-org/llama.cpp", 19774, NEGOTIATION, "a_text_that_is_too_long_is_no_objection_to_the_form"),
    ("The-PR-Agent/pr-agent", 2456, NEGOTIATION, "published_objections"),
    # Weights beside a model, two questions with one id, a database that says nothing.
    ("huggingface/sentence-transformers", 3913, LOCAL, "the_files_of_weights_are_those_that_onnx_names"),
    ("SuDIS-ZJU/nlcTables", 5, "data/collections/test_collections.py", "two_queries_with_one_id_are_an_error"),
    ("psycopg/psycopg2", 561, "llm/storing/test_silent_database.py", "a_silent_database_is_left_in_time"),
    # Files of results without all their lines.
    ("xoai/sage-wiki", 124, "batch/test_native_batches.py", "a_file_without_all_its_lines_is_not_taken"),
]


@pytest.mark.parametrize(("repository", "number", "file", "name"), REPORTS)
def test_a_reported_fault_has_a_test(repository: str, number: int, file: str, name: str) -> None:
    """The test that follows a report is there; who renames it changes the table, too."""
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", repository)
    assert number > 0
    assert f"def test_{name}(" in (Path(__file__).parent / file).read_text(encoding="utf-8")


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
