"""Files as they lie in public repositories, written small: none of them may become a wrong number."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval.data.files.jsonl import write_jsonl
from judge_eval.data.memory import rows_in_memory
from judge_eval.data.options import ReadOptions
from judge_eval.data.reading import open_dataset, read_memory
from judge_eval.data.remarks import NO_PASSAGES, REFERENCE_IS_FILE, Remarks, looks_like_id
from judge_eval.errors import CallError, DataError
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import Evaluator
from judge_eval.llm.options import Options
from judge_eval.schema import Trace

QUESTIONS = [
    {"query": "When does the hut open?", "reference": "In June."},
    {"query": "Who keeps the hut?", "reference": "Anna."},
]
MISSING = r"chunks: this field is required; give what was retrieved, or \[\] if nothing was"


def saved(folder: Path, name: str, content: Any) -> Path:
    """Write a file: text as it is, rows of a `.csv` or `.jsonl`, anything else as JSON."""
    path = folder / name
    if isinstance(content, str):
        path.write_text(content)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, list(content[0]))
            table.writeheader()
            table.writerows(content)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in content))
    else:
        path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("golden.csv", QUESTIONS, {}),
        ("golden.jsonl", QUESTIONS, {}),
        ("golden.json", {"queries": QUESTIONS}, {}),
        ("null.jsonl", [{**row, "chunks": None} for row in QUESTIONS], {}),
        ("blank.csv", [{**row, "chunks": ""} for row in QUESTIONS], {}),
        ("mapped.jsonl", [{**QUESTIONS[0], "hits": ["a"]}, QUESTIONS[1]], {"map": {"chunks": "hits"}}),
        ("depth.jsonl", QUESTIONS, {"depth": 3}),
    ],
)
def test_questions_without_chunks_are_no_empty_retrievals(
    tmp_path: Path, name: str, content: Any, options: Any
) -> None:
    """Chunks that are left out, null or an empty cell are an error: only `[]` is an empty retrieval."""
    path = saved(tmp_path, name, content)
    with pytest.raises(DataError, match=MISSING) as caught:
        list(open_dataset(path, ReadOptions(**options)))
    assert (caught.value.line is None) == (name == "golden.json")


def test_rows_in_memory_without_chunks_are_no_empty_retrievals() -> None:
    """A frame or a list without `chunks` is an error for each row, as a file is, and so is a `Trace`."""
    pandas = pytest.importorskip("pandas")
    for data in (QUESTIONS, pandas.DataFrame(QUESTIONS)):
        rows = rows_in_memory(data)
        assert rows is not None
        outcomes = [read.outcome for read in read_memory(rows)]
        assert all(isinstance(each, DataError) and each.field == "chunks" for each in outcomes), outcomes
    with pytest.raises(DataError, match=MISSING):
        Trace.parse(QUESTIONS[0])
    with pytest.raises(ValueError, match="chunks"):
        Trace(query="q")  # type: ignore[call-arg]


def test_an_explicit_empty_list_is_an_empty_retrieval(tmp_path: Path) -> None:
    """`[]` is read as a trace without chunks, and is written as `[]` again."""
    empty = [{**row, "chunks": []} for row in QUESTIONS]
    as_cells = saved(tmp_path, "x.csv", [{**row, "chunks": "[]"} for row in QUESTIONS])
    for path in (saved(tmp_path, "x.jsonl", empty), as_cells):
        traces = list(open_dataset(path))
        assert [trace.chunks for trace in traces] == [(), ()]
        write_jsonl(traces, copy := tmp_path / "copy.jsonl")
        assert list(open_dataset(copy)) == traces


NAMES = ["hut-rules.pdf", "opening_hours.md", "Annual report 2023.docx"]
TEXTS = ["We open in June and close in October.", "Parking is free.", "The hut has 40 beds."]
TWO_LISTS = {
    "question": "When does the hut open?",
    "expected_answer": "hut-rules.pdf",
    "retrieved_documents": NAMES,
    "retrieved_chunks": [{"filename": n, "content": t} for n, t in zip(NAMES, TEXTS, strict=True)],
}


def test_two_lists_that_may_hold_the_chunks_are_asked_about(tmp_path: Path) -> None:
    """Nothing is guessed: the error names both lists as options, and each can be chosen."""
    path = saved(tmp_path, "x.jsonl", [TWO_LISTS])
    with pytest.raises(DataError, match="2 fields may hold the chunks; name one: ") as caught:
        list(open_dataset(path))
    for name in ("retrieved_documents", "retrieved_chunks"):
        assert f'map={{"chunks": "{name}"}}' in str(caught.value)
    [trace] = open_dataset(path, map={"chunks": "retrieved_chunks"})
    assert [chunk.text for chunk in trace.chunks] == TEXTS
    rows = rows_in_memory([TWO_LISTS])
    assert rows is not None
    with pytest.raises(DataError, match="2 fields may hold the chunks"):
        list(read_memory(rows))


URLS = ["https://example.org/rules", "https://example.org/hours"]
OTHERS = ["The hut was built in 1902.", "A warden lives there."]


@pytest.mark.parametrize(
    ("record", "names"),
    [
        ({"question": "q?", "context": OTHERS, "documents": TEXTS}, ("context", "documents")),
        ({"question": "q?", "context": "The hut was built in 1902.", "documents": TEXTS}, ("context", "documents")),
        ({"question": "q?", "contexts": TEXTS, "context": OTHERS, "ground_truth": "a"}, ("contexts", "context")),
        ({"question": "q?", "documents": str(TEXTS), "hits": json.dumps(OTHERS)}, ("documents", "hits")),
        ({"question": "q?", "documents": TEXTS, "source_documents": OTHERS}, ("documents", "source_documents")),
    ],
)
def test_any_two_fields_that_may_hold_the_chunks_are_named(
    tmp_path: Path, record: dict[str, Any], names: tuple[str, ...]
) -> None:
    """A field called `context` and a cell that spells a list are asked about, too, and each can be chosen."""
    cells = {key: cell if isinstance(cell, str) else json.dumps(cell) for key, cell in record.items()}
    with (table := tmp_path / "x.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, cells)
        writer.writeheader()
        writer.writerow(cells)
    for path in (table, saved(tmp_path, "x.jsonl", [record])):
        with pytest.raises(DataError, match="2 fields may hold the chunks; name one: ") as caught:
            list(open_dataset(path))
        for name in names:
            assert f'map={{"chunks": "{name}"}}' in str(caught.value)
        [trace] = open_dataset(path, map={"chunks": "documents" if "documents" in record else "contexts"})
        assert [chunk.text for chunk in trace.chunks] == TEXTS


def test_a_list_that_is_written_by_columns_may_hold_the_chunks(tmp_path: Path) -> None:
    """An object of lists of one length, as data frames write it, is asked about beside a list."""
    record = {"question": "q?", "documents": TEXTS, "hits": {"text": OTHERS, "rank": [1, 2]}}
    with pytest.raises(DataError, match="2 fields may hold the chunks; name one: "):
        list(open_dataset(saved(tmp_path, "x.jsonl", [record])))


def test_a_list_of_urls_is_never_the_list_of_chunks(tmp_path: Path) -> None:
    """It is metadata beside a list of texts; alone it is refused, unless a corpus has the texts of the URLs."""
    for record in (
        {"question": "q?", "contexts": TEXTS, "documents": URLS, "ground_truth": "a"},
        {"question": "q?", "documents": URLS, "source_documents": TEXTS},
        {"question": "q?", "documents": TEXTS, "retrieved_docs": URLS},
    ):
        [trace] = open_dataset(saved(tmp_path, "x.jsonl", [record]))
        assert [chunk.text for chunk in trace.chunks] == TEXTS
        assert URLS in trace.metadata.values()
    path = saved(tmp_path, "x.jsonl", [{"question": "q?", "documents": URLS, "context": TEXTS}])
    with pytest.raises(DataError, match=r'`documents` holds URLs, not passages; .*map=\{"chunks": "context"\}'):
        list(open_dataset(path))
    [trace] = open_dataset(path, map={"chunks": "context"})
    assert [chunk.text for chunk in trace.chunks] == TEXTS
    path = saved(tmp_path, "x.jsonl", [{"question": "q?", "documents": URLS}])
    with pytest.raises(DataError, match="`documents` holds URLs, not passages; give their texts with `corpus`"):
        list(open_dataset(path))
    corpus = saved(tmp_path, "corpus.jsonl", [{"id": u, "text": t} for u, t in zip(URLS, TEXTS, strict=False)])
    [trace] = open_dataset(path, corpus=corpus)
    assert [chunk.text for chunk in trace.chunks] == TEXTS[:2]


def test_a_retriever_s_output_with_two_lists_is_asked_about(tmp_path: Path) -> None:
    """In a traced run, too, the first of two lists is not guessed, and a list of URLs is passed over."""

    def traces(outputs: Any, **options: Any) -> list[Trace]:
        run = {"run_type": "retriever", "inputs": {"query": "q?"}, "outputs": outputs}
        return list(open_dataset(saved(tmp_path, "x.jsonl", [run]), **options))

    with pytest.raises(DataError, match="`documents` and `context` may hold the chunks"):
        traces({"documents": TEXTS, "context": OTHERS})
    where = {"query": "inputs.query", "chunks": "outputs.context"}
    for [trace] in (
        traces({"documents": URLS, "context": TEXTS}),
        traces({"documents": [{"page_content": text} for text in TEXTS], "context": TEXTS}),
        traces({"documents": OTHERS, "context": TEXTS}, map=where),
    ):
        assert [chunk.text for chunk in trace.chunks] == TEXTS


@pytest.mark.parametrize(
    "record",
    [
        {"question": "q?", "context": "\n\n".join(TEXTS), "documents": TEXTS},
        {"question": "q?", "contexts": TEXTS, "ground_truth": "a", "gold_passages": TEXTS[:1], "context_ids": NAMES},
        {"user_input": "q?", "retrieved_contexts": TEXTS, "reference_contexts": TEXTS, "retrieved_context_ids": NAMES},
        {"input": "q?", "retrieval_context": TEXTS, "context": TEXTS[:1], "expected_output": "a"},
        {"question": "q?", "documents": TEXTS, "docs": TEXTS, "relevant_documents": NAMES},
        {"query": "q?", "chunks": TEXTS, "hits": NAMES},
    ],
)
def test_lists_beside_the_chunks_are_not_asked_about(tmp_path: Path, record: Any) -> None:
    """Reference texts, ids, equal lists, and what is not called a retrieval leave no doubt."""
    [trace] = open_dataset(saved(tmp_path, "x.jsonl", [record]))
    assert [chunk.text for chunk in trace.chunks] == TEXTS


IDS = [
    *NAMES, "doc_12", "q1-c3", "7067032", "3f2b8c1e-1111-4222-8333-444455556666", "corpus/a/b", "/srv/notes",
    "https://example.org/page", "../a.txt", "MED-10", "c7", "chunk#4", "d41d8cd98f00b204e9800998ecf8427e",
]  # fmt: skip
NO_IDS = [
    *TEXTS, "Paris", "and/or", "3.5", "$450", "2024年六月", "没有空格的中文段落2023年。", "Yes.", "", "10%",
    "He said: see report.pdf for the rest of it, please",
]  # fmt: skip


def test_what_looks_like_an_id() -> None:
    """One word with digits, a number, a path, an address or a file's name; texts and short answers do not."""
    assert [text for text in IDS if not looks_like_id(text)] == []
    assert [text for text in NO_IDS if looks_like_id(text)] == []


def rows_of_ids(count: int, real: int) -> list[dict[str, Any]]:
    """Make traces whose chunks are file names, and some with passages."""
    texts = [NAMES] * count + [TEXTS] * real
    return [{"query": f"q{n}?", "reference": "r", "chunks": each} for n, each in enumerate(texts)]


class CountingBackend:
    """A backend that may cost something."""

    identity = None

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, request: Any) -> Any:
        """Count, and answer nothing of use."""
        self.calls += 1
        raise CallError("no answer here")

    async def aclose(self) -> None:
        """Nothing is open."""


def judged(data: Any, **options: Any) -> tuple[CountingBackend, EvalRun]:
    """Judge with a backend that may cost something."""
    backend = CountingBackend()
    reader = ReadOptions(**options)
    with Evaluator(backend, cache=False, options=Options(attempts=1)) as evaluator:
        try:
            return backend, evaluator.evaluate(data, reader=reader)
        except DataError:
            assert backend.calls == 0
            raise


REFUSED = r"in \d+ of \d+ traces? the texts of all chunks look like ids or file names; name where the texts are"


@pytest.mark.parametrize("door", ["file", "mapped", "list", "frame", "stream", "traces"])
def test_ids_in_the_place_of_passages_are_not_paid_for(tmp_path: Path, door: str) -> None:
    """No call is made for file names in a file, under `map`, in a list, a frame, a stream and in `Trace`s."""
    rows, options = rows_of_ids(3, 0), {}
    data: Any = rows
    if door == "file":
        data = saved(tmp_path, "x.jsonl", rows)
    elif door == "mapped":
        data = saved(tmp_path, "x.jsonl", [{"q": r["query"], "reference": "r", "hits": NAMES} for r in rows])
        options = {"map": {"query": "q", "chunks": "hits"}}
    elif door == "frame":
        data = pytest.importorskip("pandas").DataFrame(rows)
    elif door == "stream":
        data = iter(rows)
    elif door == "traces":
        data = [Trace.parse(row) for row in rows]
    with pytest.raises(DataError, match=REFUSED) as caught:
        judged(data, **options)
    assert "yes_ids" in str(caught.value)
    if door == "stream":
        data = iter(rows)
    backend, run = judged(data, **options, yes_ids=True)
    assert backend.calls == 9
    if door != "stream":
        assert any(NO_PASSAGES in remark for remark in run.manifest.dataset.remarks)


def test_a_few_texts_that_look_like_ids_are_a_remark(tmp_path: Path) -> None:
    """Below a tenth of the traces a remark counts them; a judge that costs nothing refuses nothing."""
    backend, run = judged(saved(tmp_path, "x.jsonl", rows_of_ids(1, 11)))
    assert (backend.calls, len(run.results)) == (36, 12)
    assert run.manifest.dataset.remarks == (f"{NO_PASSAGES} (1 record on line 1)",)
    with Evaluator("fake/overlap", cache=False) as free:
        assert len(free.evaluate(rows_of_ids(2, 0)).results) == 2


def test_a_reference_that_is_a_file_name_is_a_remark(tmp_path: Path) -> None:
    """The reader is told of it; nothing is refused, since a question may ask for a file."""
    remarks = Remarks()
    list(
        open_dataset(saved(tmp_path, "x.jsonl", [TWO_LISTS]), map={"chunks": "retrieved_chunks"}, on_remark=remarks.add)
    )
    assert remarks.sentences() == (f"{REFERENCE_IS_FILE} (1 record on line 1)",)


WORDS = ["nan", "None", "null", "N/A", "<NA>", "NaN"]


@pytest.mark.parametrize("door", ["csv", "jsonl", "list", "frame", "stream"])
@pytest.mark.parametrize("field", ["reference", "query"])
def test_missing_values_that_became_words_are_refused(tmp_path: Path, door: str, field: str) -> None:
    """References and questions that read `nan` are counted and refused before any call, unless they are kept."""
    rows: Any = [{"query": f"When {n}?", "reference": "In June.", "chunks": json.dumps(TEXTS)} for n in range(12)]
    for place, word in enumerate(WORDS):
        rows[2 * place][field] = word
    if door == "csv":
        with (data := tmp_path / "x.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        rows = [{**row, "chunks": TEXTS} for row in rows]
        data = saved(tmp_path, "x.jsonl", rows) if door == "jsonl" else rows
    if door == "frame":
        data = pytest.importorskip("pandas").DataFrame(rows)
    what, count = ("question", "12") if field == "query" else ("reference", "12")
    refused = f"6 of {count} {what}s read `nan` or `None` or `null`"
    if door == "stream":
        data, refused = iter(rows), f"1 of 1 {what} read `nan`"
    with pytest.raises(DataError, match=refused) as caught:
        judged(data)
    assert "keep_words" in str(caught.value)
    _, run = judged(iter(rows) if door == "stream" else data, keep_words=True)
    assert len(run.results) == 12


def test_words_that_hold_more_than_a_missing_value_are_kept(tmp_path: Path) -> None:
    """A longer answer with such a word, an answer of the generator and a `Trace` made by hand are nobody's gap."""
    rows = [{"query": "Who sings?", "reference": "None of them.", "answer": "N/A", "chunks": TEXTS}]
    assert judged(saved(tmp_path, "x.jsonl", rows))[0].calls == 3
    assert judged([Trace.parse({**rows[0], "reference": "None"})])[0].calls == 3


LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
AZURE = {"inputs.query": "When?", "inputs.ground_truth": "June", "inputs.context": TEXTS, "outputs.score": 4}
FRAME = {"query": "When?", "reference": "June", "chunks": TEXTS}
SQUAD = {
    "title": "Hut",
    "paragraphs": [
        {
            "context": "The hut opens in June.",
            "qas": [
                {"id": "a", "question": "When?", "answers": [{"text": "June"}], "is_impossible": False},
                {"id": "b", "question": "Who sings?", "answers": [], "is_impossible": True},
            ],
        }
    ],
}
ADVICE: list[tuple[str, Any, str]] = [
    ("azure.jsonl", [AZURE], r'map=\{"query": "inputs.query", "chunks": "inputs.context"'),
    ("azure.json", {"rows": [AZURE], "metrics": {}}, r'map=\{"query": "inputs.query", "chunks": "inputs.'),
    ("own.jsonl", [{"frage": "When?", "treffer": TEXTS}], r'map=\{"query": "frage", "chunks": "treffer"\}'),
    ("qrels.txt", "1 0 d1 1\n1 0 d2 0\n", "a qrels file: grades by query and document"),
    ("test.tsv", "query-id\tcorpus-id\tscore\n1\td1\t1\n", "a qrels file: grades by query and document"),
    ("run.trec", "1 Q0 d1 1 3.5 bm25\n", "run.trec is a TREC run, which needs its queries and its corpus"),
    ("lfs.jsonl", LFS, "a Git LFS pointer, not the file itself; run `git lfs pull`"),
    ("lfs.parquet", LFS, "a Git LFS pointer"),
    ("lfs.csv", LFS, "a Git LFS pointer"),
    ("~$book.xlsx", "\x05Anna" + " " * 50, "the lock file that Excel writes beside an open workbook"),
    ("link.json", {"testRunLink": "https://example.org/1"}, "only the link to a test run"),
    ("image.jsonl", [{**FRAME, "chunks": [{"id": "1", "image_url": "a.png"}]}], r"an image \(image_url\) "),
    ("part.jsonl", [{**FRAME, "chunks": [{"type": "image", "source": {}}]}], r"an image \(type\) "),
    ("keyed.json", {"q1": {"f": "When?", "t": TEXTS}, "q2": {"f": "Who?", "t": TEXTS}}, r'records="\*"'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "advice"), ADVICE, ids=[name for name, _, _ in ADVICE])
def test_the_error_says_what_the_file_is_and_what_to_do(tmp_path: Path, name: str, content: Any, advice: str) -> None:
    """Files that are no dataset, and records under other keys, are named with the next step."""
    path = saved(tmp_path, name, content)
    with Evaluator("fake/overlap", cache=False) as evaluator, pytest.raises(DataError, match=advice):
        evaluator.evaluate(path)


def test_the_guess_of_keys_reads_the_file(tmp_path: Path) -> None:
    """The `map` of the message can be used as it stands, keys with dots included."""
    with pytest.raises(DataError) as caught:
        list(open_dataset(path := saved(tmp_path, "x.jsonl", [AZURE])))
    guess = json.loads(str(caught.value).split("map=")[1].split("}")[0] + "}")
    [trace] = open_dataset(path, map=guess)
    assert (trace.query, trace.reference, len(trace.chunks)) == ("When?", "June", 3)


def test_records_by_id_are_read(tmp_path: Path) -> None:
    """`records="*"` takes the values of an object; their keys are the ids."""
    content = {"q1": {"f": "When?", "t": TEXTS}, "q2": {"f": "Who?", "t": []}}
    path = saved(tmp_path, "x.json", content)
    traces = list(open_dataset(path, records="*", map={"query": "f", "chunks": "t"}))
    assert [(trace.id, trace.query) for trace in traces] == [("q1", "When?"), ("q2", "Who?")]
    rows = rows_in_memory([content])
    assert rows is not None
    options = ReadOptions(records="*", map={"query": "f", "chunks": "t"})
    assert [read.outcome for read in read_memory(rows, options)] == traces


@pytest.mark.parametrize("name", ["x.json", "x.jsonl"])
def test_pretty_printed_objects_one_after_another_are_read(tmp_path: Path, name: str) -> None:
    """Objects of several lines are read as records, each with its line; a fault ends the reading."""
    text = "\n".join(json.dumps({**FRAME, "id": f"q{n}"}, indent=2) for n in range(3))
    assert [trace.id for trace in open_dataset(saved(tmp_path, name, text))] == ["q0", "q1", "q2"]
    with pytest.raises(DataError, match=r"x.jsonl?:\d+: not JSON: "):
        list(open_dataset(saved(tmp_path, name, text + "\n{\n  bad")))


def test_unanswerable_questions_need_no_reference(tmp_path: Path) -> None:
    """Nobody is asked about them, and they are counted apart."""
    path = saved(tmp_path, "squad.json", {"data": [SQUAD]})
    with Evaluator("fake/overlap", cache=False) as evaluator:
        run = evaluator.evaluate(path)
    assert [result.trace_id for result in run.results] == ["a", "b"]
    assert run.manifest.unanswerable is not None
    assert (run.aggregates["AP@5"].n, run.manifest.unanswerable.traces) == (1, 1)


def beir(folder: Path, corpus: list[Any], qrels: str) -> Path:
    """Write a BEIR folder with a run."""
    (folder / "qrels").mkdir()
    saved(folder, "corpus.jsonl", corpus)
    saved(folder, "queries.jsonl", [{"_id": "1", "text": "When?"}, {"_id": "2", "text": "Who?"}])
    saved(folder, "qrels/test.tsv", "query-id\tcorpus-id\tscore\n" + qrels)
    saved(folder, "run.trec", "1 Q0 d1 1 3.5 x\n2 Q0 d7 1 3.5 x\n")
    return folder


def test_a_collection_with_unknown_queries_and_documents_can_be_skipped(tmp_path: Path) -> None:
    """A judged query that is not among the queries, or a document not in the corpus, costs no other."""
    folder = beir(tmp_path, [{"_id": "d1", "abstract": ["We open", "in June."]}], "1\td1\t1\n9\td1\t1\n")
    faults: list[DataError] = []
    [trace] = open_dataset(folder, on_invalid="skip", on_skip=faults.append)
    assert (trace.id, trace.chunks[0].text) == ("1", "We open in June.")
    assert [fault.message.partition(";")[0].partition(" in ")[0] for fault in faults] == [
        "no chunk 'd7'",
        "no query '9'",
    ]
    with pytest.raises(DataError, match="no chunk 'd7' in the corpus"):
        list(open_dataset(folder))
