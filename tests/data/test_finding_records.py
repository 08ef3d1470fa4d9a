from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval.data.files.jsonfile import path_of, steps_of
from judge_eval.data.reading import open_dataset
from judge_eval.errors import ConfigError, DataError
from judge_eval.schema import Trace

RAGAS = [{"user_input": f"q{n}?", "retrieved_contexts": ["a", "b"]} for n in range(3)]
HOME = [{"frage": f"q{n}?", "treffer": [{"inhalt": {"text": "a"}, "nr": n}]} for n in range(3)]
MAPS = {"query": "frage", "chunks": "treffer", "chunks.text": "inhalt.text"}
QUERIES = ["q0?", "q1?", "q2?"]


def write(folder: Path, value: Any, name: str = "x.json") -> Path:
    """Write JSON."""
    path = folder / name
    path.write_text(json.dumps(value, indent=1))
    return path


def queries(path: Path, **options: Any) -> list[str]:
    """Read the questions of a file."""
    return [trace.query for trace in open_dataset(path, **options)]


@pytest.mark.parametrize(
    "document",
    [
        {"results": RAGAS, "metrics": {"ap": [1, 2]}},
        {"testRunData": {"n": 1, "testCases": RAGAS, "scores": [{"metric": "x"}]}},
        {"a": {"b": {"c": {"d": RAGAS}}}},
        [{"topic": "one", "questions": RAGAS[:1]}, {"topic": "two", "questions": RAGAS[1:]}],
        {"runs": [{"name": "one", "cases": RAGAS}, {"name": "two", "cases": []}]},
        {"config": {"steps": [{"name": "x"}, {"name": "y"}]}, "out": {"rows": RAGAS}},
    ],
)
def test_the_one_list_that_fits_is_found(document: Any, tmp_path: Path) -> None:
    """Records are found wherever their list stands, other lists beside it or not."""
    assert queries(write(tmp_path, document)) == QUERIES


@pytest.mark.parametrize(
    "document", [{"ergebnis": {"faelle": HOME}}, [{"thema": "x", "fragen": HOME}], {"data": HOME, "x": [{"y": 1}]}]
)
def test_a_home_made_list_is_found_by_the_map(document: Any, tmp_path: Path) -> None:
    """A list whose objects hold what is mapped is the list of records."""
    assert queries(write(tmp_path, document), map=MAPS) == QUERIES


def test_several_lists_are_named(tmp_path: Path) -> None:
    """Where two lists fit nothing is guessed: the error names both, and `records` chooses."""
    path = write(tmp_path, {"runs": {"new": RAGAS, "old": RAGAS[:1]}})
    with pytest.raises(DataError, match=r'2 lists of records fit; .*: .records="runs.new".*, .records="runs.old"'):
        queries(path)
    assert queries(path, records="runs.old") == ["q0?"]
    assert queries(path, records="runs.new") == QUERIES


def test_lists_that_do_not_fit_are_named_with_their_keys(tmp_path: Path) -> None:
    """Where no list fits the error names those that were found, with their keys and the way out."""
    path = write(tmp_path, {"faelle": HOME, "meta": {"autoren": [{"name": "x"}]}})
    with pytest.raises(
        DataError, match=r"the lists found: faelle \(frage, treffer\); .*meta.autoren \(name\)"
    ) as caught:
        queries(path)
    assert "`records`" in str(caught.value)
    assert 'map={"query": ' in str(caught.value)
    assert queries(path, records="faelle", map=MAPS) == QUERIES


def test_a_path_at_which_no_list_stands(tmp_path: Path) -> None:
    """A wrong path is an error that names the nearest and what was found."""
    path = write(tmp_path, {"runs": {"new": RAGAS}})
    with pytest.raises(DataError, match=r"records=.runs.nwe.. .*: there is no list there; the nearest: 'runs.new'"):
        queries(path, records="runs.nwe")
    csv = tmp_path / "x.csv"
    csv.write_text("user_input,retrieved_contexts\nq?,[]\n")
    with pytest.raises(ConfigError, match=r"records=.runs..*: .*x.csv holds its records in one place"):
        queries(csv, records="runs")


def test_a_named_list_in_every_item(tmp_path: Path) -> None:
    """`[]` goes into each item of a list; in JSON Lines the path stands in every line."""
    path = write(tmp_path, [{"q": RAGAS[:2], "other": RAGAS}, {"q": RAGAS[2:], "other": []}])
    assert queries(path, records="[].q") == QUERIES
    lines = tmp_path / "x.jsonl"
    lines.write_text("".join(json.dumps({"run": {"cases": [item]}}) + "\n" for item in RAGAS))
    assert queries(lines, records="run.cases") == QUERIES


def test_faults_in_a_found_list_are_placed(tmp_path: Path) -> None:
    """A bad record is named by the whole way to it, and skipping goes on after it."""
    bad = [RAGAS[0], {"user_input": "q?", "retrieved_contexts": 5}, RAGAS[2]]
    path = write(tmp_path, {"a": [{"cases": bad}]})
    with pytest.raises(DataError, match=r"x.json: a\[0\].cases\[1\].retrieved_contexts: holds a number"):
        queries(path)
    assert queries(path, on_invalid="skip") == ["q0?", "q2?"]


def test_a_torn_file_is_told(tmp_path: Path) -> None:
    """A fault of JSON behind the records is told."""
    path = tmp_path / "x.json"
    path.write_text('{"a": {"cases": ' + json.dumps(RAGAS) + '}, "b": nope}')
    with pytest.raises(DataError, match=r"x.json:1: not JSON"):
        queries(path)


def test_one_record_is_one_record(tmp_path: Path) -> None:
    """An object that fits is a record, whatever lists it holds; so is one of our own with a fault."""
    record = {"query": "q?", "chunks": [{"text": "a", "user_input": "x", "retrieved_contexts": []}]}
    assert queries(write(tmp_path, record)) == ["q?"]
    with pytest.raises(DataError, match=r"x.json: query: this field is required"):
        queries(write(tmp_path, {"reference": "r", "chunks": [{"text": "a"}]}))


@pytest.mark.foreign
def test_a_worksheet_is_named(tmp_path: Path) -> None:
    """In a workbook `records` is a worksheet's name."""
    import openpyxl

    workbook = openpyxl.Workbook()
    for title in ("Sheet", "More"):
        sheet = workbook[title] if title in workbook else workbook.create_sheet(title)
        sheet.append(["user_input", "retrieved_contexts"])
        sheet.append([f"in {title}?", '["a"]'])
    workbook.save(tmp_path / "x.xlsx")
    with pytest.raises(DataError, match=r'records="Sheet". .*records="More"'):
        queries(tmp_path / "x.xlsx")
    assert queries(tmp_path / "x.xlsx", records="More") == ["in More?"]


@pytest.mark.parametrize("path", ["a", "a.b", "a[].b", "[].a", "a[][].b", "a.b[].c[].d"])
def test_paths_read_as_they_are_written(path: str) -> None:
    """A path that is shown can be given back."""
    assert path_of(steps_of(path)) == path


def chunks_of(path: Path, **options: Any) -> list[tuple[str, str, float | None, int | None]]:
    """Read the chunks of the first trace."""
    trace: Trace = next(open_dataset(path, **options))
    return [(chunk.id, chunk.text, chunk.score, chunk.label) for chunk in trace.chunks]


def test_maps_reach_into_chunks(tmp_path: Path) -> None:
    """Text, id, score, label and title of chunks may be called anything, inside objects too."""
    hit = {"inhalt": {"text": "a"}, "nr": 7, "naehe": 0.5, "gut": 1, "seite": "T", "rest": "kept"}
    path = write(tmp_path, [{"frage": "q?", "treffer": [hit]}])
    inside = {"chunks.id": "nr", "chunks.score": "naehe", "chunks.label": "gut", "chunks.title": "seite"}
    assert chunks_of(path, map=MAPS | inside) == [("7", "a", 0.5, 1)]
    [trace] = open_dataset(path, map=MAPS | inside)
    assert trace.chunks[0].title == "T"
    assert trace.chunks[0].metadata["rest"] == "kept"


def test_chunks_of_a_known_format_are_reached_into(tmp_path: Path) -> None:
    """The map inside chunks counts in every format."""
    path = write(tmp_path, [{"user_input": "q?", "retrieved_contexts": [{"body": "a", "text": "not this"}]}])
    assert chunks_of(path, map={"chunks.text": "body"})[0][1] == "a"


def test_a_wrong_key_inside_chunks_is_told(tmp_path: Path) -> None:
    """A key that no chunk holds is an error with the nearest, for the text at once, for others at the end."""
    path = write(tmp_path, [{"frage": "q?", "treffer": [{"inhalt": "a", "naehe": 1}]}])
    with pytest.raises(
        DataError, match=r"chunks\[0\]: .map=\{.chunks.text.: .inhlt.\}. .*: it holds no 'inhlt'; the nearest: 'inhalt'"
    ):
        chunks_of(path, map={"query": "frage", "chunks": "treffer", "chunks.text": "inhlt"})
    maps = {"query": "frage", "chunks": "treffer", "chunks.text": "inhalt", "chunks.score": "naeh"}
    with pytest.raises(
        DataError, match=r"map=\{.chunks.score.: .naeh.\}. .*: the chunks hold no 'naeh'; the nearest: 'naehe'"
    ):
        list(open_dataset(path, map=maps))


def test_chunks_by_columns(tmp_path: Path) -> None:
    """An object of lists of one length is a list of chunks."""
    path = write(tmp_path, [{"query": "q?", "chunks": {"text": ["a", "b"], "score": [0.5, 0.25]}}])
    assert chunks_of(path) == [("c1", "a", 0.5, None), ("c2", "b", 0.25, None)]


def test_one_text_is_one_chunk_when_told(tmp_path: Path) -> None:
    """A text in a list's place is refused with what to say, and with `none` it is one chunk."""
    path = write(tmp_path, [{"question": "q?", "contexts": "One text, | undivided.", "ground_truth": "r"}])
    with pytest.raises(DataError, match=r'list_sep="none". .* where it is one chunk'):
        chunks_of(path)
    assert chunks_of(path, list_sep="none") == [("c1", "One text, | undivided.", None, None)]
    listed = write(tmp_path, [{"question": "q?", "contexts": '["a", "b"]', "ground_truth": "r"}])
    assert [text for _, text, *_ in chunks_of(listed, list_sep="none")] == ["a", "b"]


ROWS = """qid,question,pid,passage,score,gold,answer,lang
7,q7?,p1,first,0.5,1,an answer,de
8,q8?,p1,other,0.5,0,,en
7,q7?,p2,second,0.25,0,,de
"""


def grouped(folder: Path, text: str = ROWS, **options: Any) -> list[Trace]:
    """Read rows of one passage."""
    path = folder / "x.csv"
    path.write_text(text)
    return list(open_dataset(path, group_by="qid", **options))


def test_rows_of_one_passage_become_traces(tmp_path: Path) -> None:
    """Rows with one value are a trace, wherever they stand; what is the same in all is the trace's."""
    maps = {"chunks.label": "gold"}
    text = ROWS.replace(",gold,", ",label,")
    first, second = grouped(tmp_path, text)
    assert (first.id, first.query, first.answer, first.metadata) == ("7", "q7?", "an answer", {"lang": "de"})
    assert [(c.id, c.text, c.score, c.label) for c in first.chunks] == [
        ("p1", "first", 0.5, 1),
        ("p2", "second", 0.25, 0),
    ]
    assert (second.id, len(second.chunks)) == ("8", 1)
    assert [t.chunks[0].label for t in grouped(tmp_path, map=maps)] == [1, 0]


def test_a_rank_orders_the_passages(tmp_path: Path) -> None:
    """Where every row of a trace has a rank the passages stand by it."""
    text = "qid,query,passage,rank\n7,q?,second,2\n7,q?,tenth,10\n7,q?,first,1\n"
    [trace] = grouped(tmp_path, text)
    assert [chunk.text for chunk in trace.chunks] == ["first", "second", "tenth"]


def test_rows_that_contradict_each_other(tmp_path: Path) -> None:
    """Two questions under one value are an error that names both lines."""
    text = ROWS.replace("7,q7?,p2", "7,another?,p2")
    with pytest.raises(DataError, match=r"x.csv:2: question: line 4 differs from line 2, in rows of one trace"):
        grouped(tmp_path, text)
    assert [trace.id for trace in grouped(tmp_path, text, on_invalid="skip")] == ["8"]


def test_a_row_without_the_key(tmp_path: Path) -> None:
    """A row that belongs to no trace is an error at its line; a key that no row has names the nearest."""
    with pytest.raises(DataError, match=r"x.csv:4: .group_by=.qid.. .*: this row holds none"):
        grouped(tmp_path, ROWS.replace("7,q7?,p2", ",q7?,p2"))
    path = tmp_path / "x.csv"
    with pytest.raises(DataError, match=r"x.csv:2: .group_by=.qdi..*the nearest keys: 'qid'"):
        list(open_dataset(path, group_by="qdi"))


def test_a_map_beside_the_key_to_group_by_is_checked(tmp_path: Path) -> None:
    """What is mapped of rows must be there; what is mapped inside chunks is taken from each row."""
    with pytest.raises(DataError, match=r"map=\{.query.: .frage.\}. .*: the first records hold no 'frage'"):
        grouped(tmp_path, map={"query": "frage"})
    text = ROWS.replace("question", "frage").replace("passage", "stelle")
    first, _ = grouped(tmp_path, text, map={"query": "frage", "chunks.text": "stelle", "chunks.id": "pid"})
    assert (first.query, [chunk.text for chunk in first.chunks]) == ("q7?", ["first", "second"])


def test_rows_of_one_passage_are_recognised(tmp_path: Path) -> None:
    """A table of passages without a word is an error that says how to group them."""
    path = tmp_path / "x.csv"
    path.write_text(ROWS)
    with pytest.raises(DataError, match=r"where a row is a chunk, say .group_by=.qid."):
        queries(path)
