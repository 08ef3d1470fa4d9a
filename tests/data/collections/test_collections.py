from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from judge_eval.data.reading import open_dataset
from judge_eval.errors import DataError

FORMATS = Path(__file__).parents[3] / "fixtures" / "formats"


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    """A BEIR folder with a run, to be changed."""
    return Path(shutil.copytree(FORMATS / "beir", tmp_path / "beir"))


@pytest.mark.parametrize("name", ["beir", "trec"])
def test_folders_are_joined(name: str) -> None:
    """Topics, run, judgments and corpus become traces: texts by id, grades as labels, the pool's count."""
    first, second = open_dataset(FORMATS / name)
    assert (first.id, first.query) == ("q1", "When does the Brunnfeld hut close for the winter?")
    assert [(chunk.id, chunk.score, chunk.label) for chunk in first.chunks] == [
        ("h1", 0.91, None),
        ("h2", 0.84, 1),
        ("h3", 0.42, None),
    ]
    assert first.chunks[1].text.startswith("The season ends")
    assert (first.relevant_total, second.relevant_total) == (1, 2)


def test_a_run_finds_its_collection() -> None:
    """A run named alone takes the other parts from its own folder, or from the folder given as the corpus."""
    beside = list(open_dataset(FORMATS / "trec" / "run.txt"))
    elsewhere = list(open_dataset(FORMATS / "trec" / "run.txt", corpus=FORMATS / "beir"))
    assert [trace.digest for trace in beside] == [trace.digest for trace in elsewhere]


def test_order_is_trec_evals(beir: Path) -> None:
    """Chunks stand by score, ties by id descending, whatever rank the run claims; depth cuts after that."""
    (beir / "run.trec").write_text("q1 Q0 h1 1 0.5 t\nq1 Q0 h3 2 0.5 t\nq1 Q0 h2 3 0.9 t\n")
    first = next(open_dataset(beir))
    assert [chunk.id for chunk in first.chunks] == ["h2", "h3", "h1"]
    assert [chunk.id for chunk in next(open_dataset(beir, depth=2)).chunks] == ["h2", "h3"]


def test_a_query_the_run_forgot_counts(beir: Path) -> None:
    """A judged query that the retriever answered with nothing is a trace without chunks, not left out."""
    (beir / "run.trec").write_text("q1 Q0 h1 1 0.5 t\n")
    assert [(trace.id, len(trace.chunks)) for trace in open_dataset(beir)] == [("q1", 1), ("q2", 0)]


def test_without_a_run_nothing_is_made_up(beir: Path) -> None:
    """A collection without a run is an error with the way out: the judged documents, when asked for."""
    (beir / "run.trec").unlink()
    with pytest.raises(DataError, match=r"no retriever's run here.*format=.judged"):
        list(open_dataset(beir))
    first = next(open_dataset(beir, format="judged"))
    assert [(chunk.id, chunk.label) for chunk in first.chunks] == [("h2", 1)]
    (beir / "run.json").write_text(json.dumps({"q1": {"h1": 0.1, "h2": 0.9}}))
    assert [chunk.id for chunk in next(open_dataset(beir)).chunks] == ["h2", "h1"]


def test_embedding_qa_is_a_collection(tmp_path: Path) -> None:
    """LlamaIndex' embedding QA holds queries, corpus and judgments; a run beside it is joined."""
    path = Path(shutil.copy(FORMATS / "llama_index_qa.json", tmp_path))
    with pytest.raises(DataError, match="no retriever's run here"):
        list(open_dataset(path))
    assert [trace.relevant_total for trace in open_dataset(path, format="judged")] == [1, 2]
    (tmp_path / "run.trec").write_text("q1 Q0 h2 1 0.5 t\n")
    assert [chunk.label for chunk in next(open_dataset(path)).chunks] == [1]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("run.trec", "q9 Q0 h1 1 1 t\n", r"no query 'q9' in .*queries.jsonl"),
        ("run.trec", "q1 Q0 nine 1 1 t\n", r"query 'q1': no chunk 'nine' in the corpus"),
        ("run.trec", "q1 Q0 h1 1 1 t\nq1 Q0 h1 2 1 t\n", r"run.trec:2: document 'h1' occurs twice"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\th1\tx\n", r"test.tsv:2: grade: 'x' is not a whole number"),
        ("queries.jsonl", '{"_id": "q1"}\n', r"queries.jsonl:1: a query is an id with a text"),
        ("corpus.jsonl", "nothing\n", r"corpus.jsonl:1: not JSON"),
    ],
)
def test_what_is_wrong_with_a_part_is_named(file: str, content: str, message: str, beir: Path) -> None:
    """An id that points nowhere or a part that cannot be read is named with its file."""
    (beir / file).write_text(content)
    with pytest.raises(DataError, match=message):
        list(open_dataset(beir))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("topics.tsv", "q1\tWhen?\nq2\tHow?\n"),
        ("queries.tsv", "query_id\ttext\nq1\tWhen?\nq2\tHow?\n"),
        (
            "topics.xml",
            '<topics><topic number="q1"><query>When?</query></topic><topic number="q2">How?</topic></topics>',
        ),
        ("topics.txt", "<top><num>Number: q1</num><title>When?</title></top>\n<top>\n<num>q2\n<desc>\nHow?\n</top>"),
        ("queries.json", '[{"qid": "q1", "query": "When?"}, {"qid": "q2", "query": "How?"}]'),
    ],
)
def test_topics_come_in_many_files(name: str, content: str, beir: Path) -> None:
    """Questions are read from tables, from TREC's tags and from JSON."""
    (beir / "queries.jsonl").unlink()
    (beir / name).write_text(content)
    assert [trace.query for trace in open_dataset(beir)] == ["When?", "How?"]


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("queries.jsonl", '{"_id": "q1", "text": "When?"}\n\n{"_id": "q1", "text": "How?"}\n', "line 1 and in line 3"),
        ("queries.jsonl", '{"_id": 1, "text": "When?"}\n{"_id": "1", "text": "How?"}\n', "line 1 and in line 2"),
        ("queries.csv", 'qid,query\nq1,When?\nq2,"Who\nwas it?"\nq1,How?\n', "line 2 and in line 5"),
        ("queries.json", '[{"_id": "q1", "text": "When?"},\n{"_id": "q1", "text": "How?"}]', r"\[0\] and in \[1\]"),
        ("topics.tsv", "q1\tWhen?\nq2\tWho?\nq1\tHow?\n", "line 1 and in line 3"),
        ("topics.txt", "q1: When?\nq1: How?\n", "line 1 and in line 2"),
        (
            "topics.xml",
            '<topics>\n<topic number="q1"><query>When?</query></topic>\n<topic number="q1">How?</topic></topics>',
            "line 2 and in line 3",
        ),
        (
            "topics.txt",
            "<top><num>Number: q1</num><title>When?</title></top>\n<top>\n<num>q1\n<desc>\nHow?\n</top>",
            "line 1 and in line 2",
        ),
    ],
)
def test_two_queries_with_one_id_are_an_error(name: str, content: str, lines: str, beir: Path) -> None:
    """Documents would be judged against the wrong question; the message names both places."""
    (beir / "queries.jsonl").unlink()
    (beir / name).write_text(content)
    with pytest.raises(DataError, match=f"the query id '(q1|1)' occurs twice, in {lines}"):
        list(open_dataset(beir))


def test_two_judgments_of_one_document_are_an_error(beir: Path) -> None:
    """In the three columns of BEIR as in TREC's four, a second grade does not replace the first."""
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t0\nq1\td1\t1\n")
    with pytest.raises(DataError, match=r"test\.tsv:3: document 'd1' occurs twice for query 'q1'"):
        list(open_dataset(beir))


def test_queries_may_bring_references(beir: Path) -> None:
    """A query's reference answer, where the file holds one, is the trace's."""
    rows = [{"_id": "q1", "text": "When?", "reference": "In October."}, {"_id": "q2", "text": "How?"}]
    (beir / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [trace.reference for trace in open_dataset(beir)] == ["In October.", None]


def test_graded_judgments_need_a_threshold(beir: Path) -> None:
    """Grades above 1 leave the number of relevant chunks unknown until somebody says which grades count."""
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\th1\t1\nq1\th2\t3\nq2\tl1\t2\n")
    assert [trace.relevant_total for trace in open_dataset(beir)] == [None, None]
    assert [trace.relevant_total for trace in open_dataset(beir, relevant=2)] == [1, 1]
    assert [chunk.label for chunk in next(open_dataset(beir)).chunks] == [1, 3, None]
