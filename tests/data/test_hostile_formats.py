from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval.errors import ConfigError, DataError, UnknownNameError
from judge_eval.schema import Trace
from tests.support.odd_files import read, write

GOOD = {"user_input": "q?", "retrieved_contexts": ["a", "b"], "reference": "r"}


def ragas(**changes: Any) -> dict[str, Any]:
    """Return a good record with changes."""
    return {key: value for key, value in {**GOOD, **changes}.items() if value != "absent"}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (ragas(user_input="absent"), r":2: user_input: the question is missing"),
        (ragas(user_input=None), r":2: user_input: the question is missing"),
        (ragas(user_input="  "), r":2: user_input: the question is missing"),
        (ragas(user_input=7), r":2: user_input: holds a number, not a text"),
        (ragas(user_input=[{"role": "user"}]), r":2: user_input: a conversation"),
        (ragas(retrieved_contexts="absent"), r":2: retrieved_contexts: the list of retrieved chunks is missing"),
        (ragas(retrieved_contexts=None), r":2: retrieved_contexts: .* or \[\] if nothing was"),
        (ragas(retrieved_contexts=5), r":2: retrieved_contexts: holds a number, not a list"),
        (ragas(retrieved_contexts={"a": 1}), r":2: retrieved_contexts: holds an object, not a list"),
        (ragas(retrieved_contexts="one text"), r":2: retrieved_contexts: holds a text, not a list"),
        (ragas(retrieved_contexts=["a", None]), r":2: chunks\[1\]: is nothing; a chunk is a text"),
        (ragas(retrieved_contexts=["a", ["b"]]), r":2: chunks\[1\]: is a list"),
        (ragas(retrieved_contexts=[{"page_content": 3}]), r":2: chunks\[0\].page_content: holds a number"),
        (ragas(retrieved_contexts=[{"url": "x"}]), r":2: chunks\[0\]: no text; the keys found are: url"),
        (ragas(retrieved_contexts=[{"id": "x"}]), r":2: chunks\[0\]: has an id but no text; give `corpus`"),
        (ragas(retrieved_contexts=[{"text": "x", "score": "high"}]), r":2: chunks\[0\].score: "),
        (ragas(reference=["r"]), r":2: reference: holds a list, not a text"),
        (ragas(retrieved_context_ids=["x"]), r":2: retrieved_context_ids: 1 ids for 2 contexts"),
        (ragas(retrieved_context_ids=["x", "x"]), r":2: .*the id 'x' occurs twice"),
    ],
)
def test_a_bad_record_is_named_by_line_and_field(record: Any, message: str, tmp_path: Path) -> None:
    """What is wrong with a record is said with file, line and field; skipping goes on after it."""
    path = write(tmp_path, "x.jsonl", [GOOD, record, GOOD])
    with pytest.raises(DataError, match=message):
        read(path)
    errors: list[DataError] = []
    assert len(read(path, on_invalid="skip", on_skip=errors.append)) == 2
    assert [error.line for error in errors] == [2]


def test_nothing_retrieved_is_a_trace(tmp_path: Path) -> None:
    """An empty list says that nothing was retrieved: a trace without chunks."""
    [trace] = read(write(tmp_path, "x.jsonl", [ragas(retrieved_contexts=[])]))
    assert trace.chunks == ()


def test_the_response_or_the_gold_answer(tmp_path: Path) -> None:
    """`question, contexts, answer` fits two formats: the error names both; each reads it its way."""
    path = write(tmp_path, "x.jsonl", [{"question": "q?", "contexts": ["a"], "answer": "x"}])
    with pytest.raises(DataError, match=r"2 formats fit; .*format=.ragas-old.*format=.qa."):
        read(path)
    [old], [qa] = read(path, format="ragas-old"), read(path, format="qa")
    assert (old.answer, old.reference) == ("x", None)
    assert (qa.answer, qa.reference) == (None, "x")
    [mapped] = read(path, map={"reference": "answer"})
    assert (mapped.answer, mapped.reference) == (None, "x")


def test_mixed_shapes_are_not_guessed(tmp_path: Path) -> None:
    """A file of two shapes is refused; forced to one, records of the other are errors at their lines."""
    other = {"input": "q?", "retrieval_context": ["a"], "expected_output": "r"}
    path = write(tmp_path, "x.jsonl", [GOOD, other])
    with pytest.raises(DataError, match=r"2 formats fit; choose one: .format=.ragas.*format=.deepeval"):
        read(path)
    with pytest.raises(DataError, match=r":2: retrieved_contexts: the list of retrieved chunks is missing"):
        read(path, format="ragas")


def test_unknown_keys_are_named_with_the_nearest_shape(tmp_path: Path) -> None:
    """Where nothing fits the message holds the keys, the nearest format and the way out."""
    path = write(tmp_path, "x.jsonl", [{"user_input": "q?", "passages": ["a"], "reference": "r"}])
    with pytest.raises(DataError, match=r"keys: passages, reference, user_input; the nearest is ragas .*map="):
        read(path)
    assert read(path, map={"query": "user_input", "chunks": "passages"})[0].chunks[0].text == "a"


def test_our_own_faults_are_told_in_our_own_terms(tmp_path: Path) -> None:
    """A record of only our fields is ours, however broken; one with a strange field is not guessed."""
    with pytest.raises(DataError, match=r":1: query: this field is required"):
        read(write(tmp_path, "x.jsonl", [{"reference": "r"}]))
    with pytest.raises(DataError, match=r"no known format has these keys: passages, query"):
        read(write(tmp_path, "x.jsonl", [{"query": "q?", "passages": ["a"]}]))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"format": "raggas"}, UnknownNameError, "no format 'raggas'; did you mean 'ragas'"),
        ({"map": {"refrence": "reference"}}, ConfigError, "no field 'refrence'; did you mean 'reference'"),
        ({"map": {"answer": "respons"}}, DataError, "hold no 'respons'"),
        ({"format": "beir"}, DataError, "no queries here"),
    ],
)
def test_a_wrong_option_is_advised(options: Any, error: type, message: str, tmp_path: Path) -> None:
    """A misspelt format, field or key is an error with advice, before anything is read."""
    with pytest.raises(error, match=message):
        read(write(tmp_path, "x.jsonl", [GOOD]), **options)


def test_mapped_keys_go_into_objects(tmp_path: Path) -> None:
    """`--map` reaches into objects with dots, and what is not mapped is kept."""
    row = {"in": {"q": "q?"}, "out": {"docs": [{"content": "a"}]}, "gold": "r", "lang": "de"}
    path = write(tmp_path, "x.jsonl", [row])
    [trace] = read(path, map={"query": "in.q", "chunks": "out.docs", "reference": "gold"})
    assert (trace.query, trace.chunks[0].text, trace.reference) == ("q?", "a", "r")
    assert trace.metadata["lang"] == "de"


def test_json_inside_json(tmp_path: Path) -> None:
    """A list written as a text inside JSON is taken for the list it spells."""
    [trace] = read(write(tmp_path, "x.jsonl", [ragas(retrieved_contexts='["a", "b"]')]))
    assert [chunk.text for chunk in trace.chunks] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", b'[{"user_input": "q?",\n', r"x.json:2: not JSON"),
        (
            "x.json",
            b'[{"user_input": "q?", "retrieved_contexts": []},\n{"user_input": "\xff"}]',
            r"x.json:2: not UTF-8: .* byte 65",
        ),
        (
            "x.json",
            b'[{"user_input": "q?", "retrieved_contexts": []}] 3',
            r"x.json:1: not JSON: more follows after the end",
        ),
        ("x.json", b'[{"user_input": "q?", "retrieved_contexts": []},]', r"x.json:1: not JSON: "),
        (
            "x.json",
            b'[\n{"user_input": "q?", "retrieved_contexts": []}\n{}]',
            r"x.json:3: not JSON: Expecting ',' delimiter",
        ),
        (
            "x.json",
            b'{"samples":\n[{"user_input": "q?", "retrieved_contexts": []},\n{"a": nope}]}',
            r"x.json:3: not JSON",
        ),
        ("x.json", b'{"a" 1}', r"x.json:1: not JSON: Expecting ':' delimiter"),
        ("x.json", b"[" * 100_000, r"x.json: nested more than 64 deep"),
        ("x.json", b"[" + b"9" * 5000 + b"]", r"x.json: not JSON: Exceeds the limit"),
        ("x.json", b"3", r"x.json:1: a record is one JSON object"),
        ("x.json", b"[1, 2]", r"x.json: \[0\]: a record is one JSON object, not a number"),
        ("x.jsonl", b"nothing\n", r"x.jsonl:1: not JSON"),
        pytest.param("x.parquet", b"PAR1 but not really", r"x.parquet: not Parquet", marks=pytest.mark.foreign),
        ("nowhere/x.jsonl", None, r"cannot be read: No such file"),
    ],
)
def test_files_that_are_not_what_they_say(name: str, content: Any, message: str, tmp_path: Path) -> None:
    """A file that cannot be read at all is one error that names it."""
    path = tmp_path / name if content is None else write(tmp_path, name, content)
    with pytest.raises(DataError, match=message):
        read(path)


def test_records_of_an_array_are_named_by_place(tmp_path: Path) -> None:
    """A record of a JSON array is named by its place; skipping goes on after it. A torn file is refused."""
    records = [GOOD, ragas(reference=["r"]), GOOD]
    path = write(tmp_path, "x.json", json.dumps({"samples": records}, indent=1))
    with pytest.raises(DataError, match=r"x.json: samples\[1\].reference: holds a list, not a text"):
        read(path)
    assert len(read(path, on_invalid="skip")) == 2
    torn = write(tmp_path, "y.json", json.dumps(records)[:-1] + ', {"user_input": nope}, {}]')
    with pytest.raises(DataError, match=r"y.json:1: not JSON"):
        read(torn, on_invalid="skip")


def test_json_lines_under_the_name_of_json(tmp_path: Path) -> None:
    """What a file holds counts, not what it is called: lines in .json, an array in .jsonl."""
    assert len(read(write(tmp_path, "x.json", [GOOD, GOOD]))) == 2
    assert len(read(write(tmp_path, "x.jsonl", json.dumps([GOOD, GOOD], indent=1)))) == 2
    assert len(read(write(tmp_path, "y.json", json.dumps(GOOD, indent=1)))) == 1


def test_what_json_cannot_hold_is_left_out(tmp_path: Path) -> None:
    """NaN for a missing text is nothing; NaN, vectors and graphs never reach the metadata."""
    chunk = {"content": "a", "meta": {"x": float("nan"), "embedding": [0.1]}, "embedding": [0.1], "score": float("nan")}
    row = ragas(retrieved_contexts=[chunk], reference=float("nan"), loss=float("nan"), more={"y": float("inf")})
    [trace] = read(write(tmp_path, "x.jsonl", [row]))
    assert trace.reference is None
    assert trace.metadata == {"more": {"y": None}}
    assert (trace.chunks[0].score, trace.chunks[0].metadata) == (None, {"x": None})


def test_a_file_without_a_retrieval_says_so(tmp_path: Path) -> None:
    """Spans of which none is a retrieval are not an empty dataset but an error."""
    spans = [{"name": "llm", "attributes": {"openinference.span.kind": "LLM", "input.value": "q?"}}]
    with pytest.raises(DataError, match=r"1 records of the format openinference, but no retrieval in them"):
        read(write(tmp_path, "x.jsonl", spans))


def test_depth_cuts_every_trace(tmp_path: Path) -> None:
    """With `depth` only the first chunks are taken, whatever follows them."""
    path = write(tmp_path, "x.jsonl", [ragas(retrieved_contexts=["a", "b", None])])
    assert [chunk.text for chunk in read(path, depth=2)[0].chunks] == ["a", "b"]


def test_the_corpus_gives_texts_and_must_hold_them(tmp_path: Path) -> None:
    """Ids take text and title from the corpus; an id that is not in it is an error at its chunk."""
    corpus = write(tmp_path, "c.tsv", "_id\ttitle\ttext\nd1\tT\tone\nd2\t\ttwo\n")
    path = write(tmp_path, "x.jsonl", [ragas(retrieved_contexts=["d2", "d1"]), ragas(retrieved_contexts=["d3"])])
    with pytest.raises(DataError, match=r"x.jsonl:2: chunks\[0\]: no chunk 'd3' in the corpus .*c.tsv"):
        read(path, corpus=corpus)
    [trace] = read(path, corpus=corpus, on_invalid="skip")
    assert [(c.id, c.title, c.text) for c in trace.chunks] == [("d2", None, "two"), ("d1", "T", "one")]
    for text, message in (("_id\ttext\nd1\ta\nd1\tb\n", "'d1' occurs twice"), ("_id\ttext\n\ta\n", "no id")):
        with pytest.raises(DataError, match=message):
            read(path, corpus=write(tmp_path, "c.tsv", text))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.jsonl", [{"doc_id": 7, "contents": "one"}]),
        ("c.json", '{"7": "one"}'),
        ("c.json", '{"7": {"text": "one"}}'),
        ("c.json", '{"corpus": {"7": "one"}}'),
        ("c.csv", "id,text\n7,one\n"),
        ("c.tsv", "7\tone\n"),
    ],
)
def test_corpora_come_in_many_files(name: str, content: Any, tmp_path: Path) -> None:
    """A corpus may be JSON Lines, an object by id, CSV, or TSV without a header."""
    corpus = write(tmp_path, name, content)
    [trace] = read(write(tmp_path, "x.jsonl", [ragas(retrieved_contexts=[7])]), corpus=corpus)
    assert trace.chunks[0].text == "one"


def test_a_check_is_placed(tmp_path: Path) -> None:
    """What a prompt misses in a trace is told with the line it came from."""

    def check(trace: Trace) -> None:
        raise DataError("needs more", field="answer")

    with pytest.raises(DataError, match=r"x.csv:2: answer: needs more"):
        read(write(tmp_path, "x.csv", "user_input,retrieved_contexts,reference\nq?,[],r\n"), check=check)


def test_nesting_without_end_is_an_error(tmp_path: Path) -> None:
    """A record nested deeper than anyone can follow is an error at its line, not a crash."""
    for depth in (900, 50_000):
        deep = '{"user_input": "q?", "retrieved_contexts": [], "more": ' + "[" * depth + "]" * depth + "}\n"
        path = write(tmp_path, "x.jsonl", json.dumps(GOOD) + "\n" + deep)
        assert len(read(path, on_invalid="skip")) in (1, 2)


@pytest.mark.parametrize(
    ("cell", "reference"),
    [
        ("similar(0.8): At nine.", "At nine."),
        ("equals: At nine.", "At nine."),
        ("At nine: sharp.", "At nine: sharp."),
        ("llm-rubric: is polite", None),
        ("is-json", None),
        ("javascript: true", None),
        ("not-contains: x", None),
    ],
)
def test_promptfoo_assertions(cell: str, reference: str | None, tmp_path: Path) -> None:
    """Only what an assertion holds of an expected answer becomes the reference."""
    path = write(tmp_path, "x.csv", f"query,context,__expected\nq?,text,{cell}\n")
    assert [trace.reference for trace in read(path)] == [reference]
