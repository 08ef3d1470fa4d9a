"""What `reader=` says of files it says of rows in memory: grouping, maps inside chunks, remarks."""

from __future__ import annotations

from typing import Any

import pytest

from judge_eval import ReadOptions
from judge_eval.errors import ConfigError, DataError
from judge_eval.schema import has_made_id
from tests.support.memory import KINDS, evaluated, made

FOREIGN = pytest.mark.foreign
PASSAGES = [
    {"qid": 7, "question": "q7?", "pid": 1, "passage": "first", "score": 0.5, "gold": "r7", "lang": "de"},
    {"qid": 8, "question": "q8?", "pid": 1, "passage": "other", "score": 0.5, "gold": "r8", "lang": "de"},
    {"qid": 7, "question": "q7?", "pid": 2, "passage": "second", "score": 0.25, "gold": "r7", "lang": "de"},
]
GROUPED = ReadOptions(group_by="qid", map={"reference": "gold"})
TABLES = [*KINDS, *(pytest.param(kind, marks=FOREIGN) for kind in ("polars", "arrow", "datasets"))]


@pytest.mark.parametrize("kind", TABLES)
def test_rows_of_one_passage_become_traces(kind: str) -> None:
    """A frame with a row a passage is judged by trace, as its file is."""
    first, second = evaluated(made(kind, PASSAGES), reader=GROUPED).results
    assert (first.trace.id, first.trace.query, first.trace.reference) == ("7", "q7?", "r7")
    assert [(c.id, c.text, c.score) for c in first.trace.chunks] == [("1", "first", 0.5), ("2", "second", 0.25)]
    assert (second.trace.id, len(second.trace.chunks)) == ("8", 1)


@FOREIGN
def test_a_grouped_frame_comes_back_by_trace() -> None:
    """Of rows that were grouped no one is a trace: the frame that comes back has a row a trace."""
    back = evaluated(made("pandas", PASSAGES), reader=GROUPED).to_pandas()
    assert back["id"].tolist() == ["7", "8"]
    assert back["query"].tolist() == ["q7?", "q8?"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("change", "reader", "told"),
    [
        ({"question": "else?"}, GROUPED, "row 0: question: row 2 differs from row 0, in rows of one trace"),
        ({"qid": None}, GROUPED, 'row 2: .group_by="qid".*: this row holds none'),
        ({}, ReadOptions(group_by="qdi"), 'row 0: .group_by="qdi".*: .*the nearest keys: .qid.'),
        (
            {},
            ReadOptions(group_by="qid", map={"reference": "golt"}),
            r'the first rows: .map=\{"reference": "golt"\}.*: the first records hold no .golt.; .*: .gold.',
        ),
        ({}, None, r'where a row is a chunk, say .group_by="qid"'),
    ],
)
def test_faults_of_grouped_rows_name_them(
    change: dict[str, Any], reader: ReadOptions | None, told: str, kind: str
) -> None:
    """A row that belongs to no trace, or contradicts another, is named."""
    rows = [*PASSAGES[:2], PASSAGES[2] | change]
    with pytest.raises(DataError, match=told):
        evaluated(made(kind, rows), reader=reader)


def test_grouped_rows_can_be_skipped() -> None:
    """Under `on_invalid="skip"` the traces that are whole are judged."""
    run = evaluated([*PASSAGES, {"question": "q?"}], reader=GROUPED, on_invalid="skip")
    assert ([result.trace_id for result in run.results], run.manifest.dataset.skipped) == (["7", "8"], 1)


def test_what_cannot_be_grouped() -> None:
    """A stream is never held in memory to be grouped, and traces are grouped already."""
    with pytest.raises(ConfigError, match=r"to group rows \(`group_by`\) give a list or a frame"):
        evaluated(iter(PASSAGES), reader=GROUPED)
    traces = [result.trace for result in evaluated(PASSAGES, reader=GROUPED).results]
    with pytest.raises(ConfigError, match="the data are traces already"):
        evaluated(traces, reader=GROUPED)


@pytest.mark.parametrize("kind", TABLES)
def test_maps_reach_into_chunks(kind: str) -> None:
    """Text, id and score of chunks may be called anything, in tables too."""
    row = {"q": "q?", "gold": "r", "hits": [{"body": {"text": "a"}, "nr": 7, "near": 0.5}]}
    maps = {"query": "q", "reference": "gold", "chunks": "hits", "chunks.text": "body.text"}
    inside = maps | {"chunks.id": "nr", "chunks.score": "near"}
    (result,) = evaluated(made(kind, [row]), reader=ReadOptions(map=inside)).results
    assert [(c.id, c.text, c.score) for c in result.trace.chunks] == [("7", "a", 0.5)]
    with pytest.raises(
        DataError, match=r'^row 0: chunks\[0\]: .map=\{"chunks.text": "bod"\}.*: it holds no .bod.; the nearest: .bod'
    ):
        evaluated(made(kind, [row]), reader=ReadOptions(map=inside | {"chunks.text": "bod"}))
    with pytest.raises(DataError, match=r'map=\{"chunks.score": "neer"\}.*: the chunks hold no .neer.; .*.near.'):
        evaluated(made(kind, [row]), reader=ReadOptions(map=inside | {"chunks.score": "neer"}))


def test_a_key_that_no_chunk_of_a_stream_held_is_said() -> None:
    """A stream is judged when its end is seen: what was not found is a remark, and no verdict is lost."""
    row = {"query": "q?", "reference": "r", "chunks": [{"text": "a", "near": 0.5}]}
    run = evaluated(iter([row]), reader=ReadOptions(map={"chunks.score": "neer"}))
    [answers] = run.manifest.dataset.remarks
    assert answers.startswith('`map={"chunks.score": "neer"}`')
    assert len(run.results) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_one_text_is_one_chunk_when_told(kind: str) -> None:
    """A text in a list's place is refused with what to say, and with `none` it is one chunk."""
    rows = [{"question": "q?", "contexts": "One text, | undivided.", "ground_truth": "r"}]
    with pytest.raises(DataError, match=r'list_sep="none".* where it is one chunk'):
        evaluated(made(kind, rows))
    (result,) = evaluated(made(kind, rows), reader=ReadOptions(list_sep="none")).results
    assert [chunk.text for chunk in result.trace.chunks] == ["One text, | undivided."]


def test_records_stand_inside_rows() -> None:
    """`records` is the path of a list in each row, as in each line of JSON Lines."""
    cases = [{"query": f"q{n}?", "reference": "r", "chunks": ["a"]} for n in range(3)]
    rows = [{"run": {"cases": cases[:2]}}, {"run": {"cases": cases[2:]}}]
    reader = ReadOptions(records="run.cases")
    for data in (rows, iter(rows)):
        assert [result.trace.query for result in evaluated(data, reader=reader).results] == ["q0?", "q1?", "q2?"]
    with pytest.raises(DataError, match=r"^row 0: run.cases\[1\].chunks: holds a number"):
        evaluated([{"run": {"cases": [cases[0], cases[1] | {"chunks": 5}]}}], reader=reader)
    with pytest.raises(DataError, match=r'^row 1: .records="run.cases".*: there is no list there'):
        evaluated([*rows[:1], {"ran": {}}], reader=reader)


@pytest.mark.parametrize("kind", [*TABLES, "stream"])
def test_remarks_reach_the_manifest(kind: str) -> None:
    """What is worth knowing of rows stands in the manifest, with the row it was first said of."""
    row = {"question": "q?", "contexts": ["a"], "answer": "x", "ground_truths": ["one", "two"]}
    rows = [row | {"question": "other?", "ground_truths": ["only"]}, row, row]
    run = evaluated(iter(rows) if kind == "stream" else made(kind, rows))
    several, equal = run.manifest.dataset.remarks
    assert several.startswith("of several `ground_truths` the first is the reference")
    assert several.endswith("(2 records, the first in row 1)")
    assert equal == "reads like an earlier one; its id was given a number (1 record in row 2)"
    assert [result.trace.reference for result in run.results] == ["only", "one", "one"]


def test_numbered_ids_are_made_ids() -> None:
    """Ids that were made from content are known as such, numbered or not; ids that were given are not."""
    row = {"query": "q?", "reference": "r", "chunks": ["a"]}
    traces = [result.trace for result in evaluated([row, row, row | {"id": "t-7"}]).results]
    assert [has_made_id(trace) for trace in traces] == [True, True, False]
