from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from judge_eval.data import catalog
from judge_eval.data.reading import open_dataset
from judge_eval.data.shapes.shape import keys_of
from judge_eval.runs.columns.graded_trace import cluster_of
from judge_eval.schema import Trace

FORMATS = Path(__file__).parents[3] / "fixtures" / "formats"
sys.path.insert(0, str(FORMATS / "make"))
from data import ROWS  # noqa: E402  (what every script in fixtures/formats/make writes)

sys.path.pop(0)

TEXTS = [[text for _, text, _ in row["chunks"]] for row in ROWS]
IDS = [[key for key, _, _ in row["chunks"]] for row in ROWS]
SCORES = [[score for _, _, score in row["chunks"]] for row in ROWS]
NUMBERED = [[f"c{n}" for n in range(1, len(texts) + 1)] for texts in TEXTS]
HEAVY = [
    "ragas",
    "deepeval",
    "llama_index",
    "langchain_core",
    "langsmith",
    "haystack",
    "phoenix",
    "mlflow",
    "opentelemetry",
    "langfuse",
    "datasets",
    "pandas",
    "polars",
    "pyarrow",
    "numpy",
    "openai",
    "diskcache",
    "msgspec",
    "tenacity",
]
CORPUS = {"corpus": FORMATS / "corpus.jsonl"}
BARS = {"list_sep": "|"}

# File, shape, options, and what it carries beside question and texts: ids, scores, reference, answer.
FILES: list[tuple[str, str, dict[str, Any], str]] = [
    ("ragas.jsonl", "ragas", {}, "ira"),
    ("ragas.csv", "ragas", {}, "ira"),
    ("ragas_pandas.csv", "ragas", {}, "ira"),
    ("ragas_old.jsonl", "ragas-old", {}, "ra"),
    ("ragas_old_result.csv", "ragas-old", {}, "ra"),
    ("deepeval.json", "deepeval", {}, "ra"),
    ("deepeval.jsonl", "deepeval", BARS, "ra"),
    ("deepeval.csv", "deepeval", BARS, "ra"),
    ("deepeval_run.json", "deepeval", {}, "ra"),
    ("llama_index_nodes.jsonl", "documents", {}, "isra"),
    ("langchain.jsonl", "documents", {}, "ir"),
    ("langchain_dumpd.jsonl", "documents", {}, "ir"),
    ("langsmith_runs.jsonl", "langsmith", {}, "i"),
    ("langsmith_traces.jsonl", "langsmith", {}, "i"),
    ("haystack.jsonl", "documents", {}, "isr"),
    ("haystack_flat.jsonl", "documents", {}, "isr"),
    ("haystack_answers.jsonl", "documents", {}, "isa"),
    ("openinference.jsonl", "openinference", {}, "i"),
    ("phoenix_spans.jsonl", "openinference", {}, "is"),
    ("phoenix_nested.jsonl", "openinference", {}, "is"),
    ("phoenix_frame.jsonl", "openinference", {}, "is"),
    ("phoenix_frame.csv", "openinference", {}, "is"),
    ("otlp_protobuf.json", "openinference", {}, "is"),
    ("otlp.json", "openinference", {}, "is"),
    ("otel_genai.jsonl", "otel-genai", CORPUS, "is"),
    ("mlflow.jsonl", "mlflow", {}, "ira"),
    ("mlflow_frame.csv", "mlflow", {}, "ira"),
    ("langfuse_observations.jsonl", "langfuse", {}, "i"),
    ("langfuse_items.jsonl", "langfuse", {}, "r"),
    ("lynxius.json", "lynxius", {}, "sr"),
    ("hotpotqa.json", "hotpotqa", {}, "ir"),
    ("promptfoo.csv", "promptfoo", {}, "r"),
    ("promptfoo_results.csv", "promptfoo", {}, "q"),
]


def check(traces: list[Trace], carries: str) -> None:
    """See that the traces hold what the scripts wrote."""
    assert [trace.query for trace in traces] == [row["question"] for row in ROWS]
    assert [[chunk.text for chunk in trace.chunks] for trace in traces] == TEXTS
    assert [[chunk.id for chunk in trace.chunks] for trace in traces] == (IDS if "i" in carries else NUMBERED)
    if "s" in carries:
        assert [[chunk.score for chunk in trace.chunks] for trace in traces] == SCORES
    references = [row["reference"] if "r" in carries else None for row in ROWS]
    assert [trace.reference for trace in traces] == references
    given = "answer" if "a" in carries else "question" if "q" in carries else None  # an echo answers with the question
    assert [trace.answer for trace in traces] == [row[given] if given else None for row in ROWS]


@pytest.mark.parametrize(("file", "shape", "options", "carries"), FILES, ids=[row[0] for row in FILES])
def test_files_of_the_tools_are_read(file: str, shape: str, options: dict[str, Any], carries: str) -> None:
    """Every tool's file is recognised without a word and gives the texts, ranks and answers that went in."""
    check(list(open_dataset(FORMATS / file, **options)), carries)


@pytest.mark.parametrize(("file", "shape", "options", "carries"), FILES, ids=[row[0] for row in FILES])
def test_a_forced_format_reads_the_same(file: str, shape: str, options: dict[str, Any], carries: str) -> None:
    """`--format` with the right name changes nothing."""
    check(list(open_dataset(FORMATS / file, format=shape, **options)), carries)


@pytest.mark.foreign
@pytest.mark.parametrize(("file", "shape", "options", "carries"), FILES, ids=[row[0] for row in FILES])
def test_shapes_stand_in_any_container(
    file: str, shape: str, options: dict[str, Any], carries: str, tmp_path: Path
) -> None:
    """A file's records give the same as JSON array, JSON Lines, CSV with JSON in the cells, and Parquet."""
    import csv

    import pyarrow
    import pyarrow.parquet

    text = (FORMATS / file).read_text()
    if file.endswith(".csv"):
        with (FORMATS / file).open(newline="") as lines:
            records = list(csv.DictReader(lines))
    elif file.endswith(".jsonl"):
        records = [json.loads(line) for line in text.splitlines()]
    else:
        whole = json.loads(text)
        records = whole if isinstance(whole, list) else whole.get("testCases", [whole])
    as_lines, as_array = tmp_path / "x.jsonl", tmp_path / "x.json"
    as_lines.write_text("".join(json.dumps(record) + "\r\n" for record in records), encoding="utf-8-sig")
    as_array.write_text(json.dumps(records, indent=1), encoding="utf-8-sig")
    check(list(open_dataset(as_lines, **options)), carries)
    check(list(open_dataset(as_array, **options)), carries)
    if shape in ("langfuse", "openinference", "otel-genai", "mlflow", "langsmith", "hotpotqa"):
        return  # their objects inside objects have no place in a table
    if file == "lynxius.json":
        records = records[0]["data"]
    columns = list(records[0])
    table = tmp_path / "x.tsv"
    with table.open("w", newline="", encoding="utf-8-sig") as out:
        writer = csv.writer(out, delimiter="\t", lineterminator="\r\n")
        writer.writerow(columns)
        for record in records:
            cells = (record[name] for name in columns)
            writer.writerow([cell if isinstance(cell, str) else json.dumps(cell) for cell in cells])
    check([t.model_copy() for t in open_dataset(table, **options)], carries)
    as_parquet = tmp_path / "x.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(_without_empty_objects(records)), as_parquet)
    check(list(open_dataset(as_parquet, **options)), carries)


def _without_empty_objects(value: Any) -> Any:
    """Parquet has no type for an object without fields."""
    if isinstance(value, dict):
        return {k: _without_empty_objects(v) for k, v in value.items() if v != {}}
    return [_without_empty_objects(v) for v in value] if isinstance(value, list) else value


def test_every_shape_is_alone_on_its_fixture() -> None:
    """No fixture fits two shapes, and every shape of the catalog has a fixture or a test of its own."""
    for file, shape, _, _ in FILES:
        if file.endswith(".jsonl"):
            keys = keys_of(json.loads((FORMATS / file).read_text().splitlines()[0]))
            assert [s.name for s in catalog.BUILT_IN.values() if s.fits(keys)] == [shape], file
    elsewhere = {"judge-eval", "qa", "langchain-chain", "llama-index-rag", "ragas-testset"}
    elsewhere |= {"ragchecker", "autorag", "financebench", "crag", "rgb", "squad"}  # test_published_files
    elsewhere |= {"wice", "attributionbench", "nomiracl", "clapnq", "nuggets"}  # test_labelled_sets
    elsewhere |= {"conversations", "mtrag"}  # test_conversations
    assert {shape for _, shape, _, _ in FILES} | elsewhere == set(catalog.BUILT_IN)


def test_ids_say_which_chunks_are_relevant() -> None:
    """Reference ids of ragas become labels of the chunks they name and the number of relevant chunks."""
    first = next(open_dataset(FORMATS / "ragas.jsonl"))
    assert [chunk.label for chunk in first.chunks] == [None, 1, None]
    assert first.relevant_total == 1


def test_spans_are_named_for_annotations() -> None:
    """A trace read from a span keeps the span's id, without the 0x that some exporters write."""
    first = next(open_dataset(FORMATS / "openinference.jsonl"))
    assert first.metadata["span_id"] == first.id
    assert len(first.id) == 16


def test_a_retrieval_chain_is_read(tmp_path: Path) -> None:
    """LangChain's chain output: `context` holds documents, `answer` is the generated one."""
    path = tmp_path / "chain.jsonl"
    row = {"input": "q?", "context": [{"page_content": "t", "id": "d1", "metadata": {}}], "answer": "a"}
    path.write_text(json.dumps(row))
    [trace] = open_dataset(path)
    assert (trace.query, trace.chunks[0].id, trace.answer) == ("q?", "d1", "a")


def test_trace_trees_are_walked(tmp_path: Path) -> None:
    """A LangSmith run or a Langfuse trace with retrievals inside gives one trace for each."""
    docs = {"documents": [{"page_content": "t"}]}
    inner = {"run_type": "retriever", "id": "r1", "inputs": {"query": "q1"}, "outputs": docs}
    smith = {"run_type": "chain", "inputs": {"x": 1}, "outputs": {}, "id": "r0", "child_runs": [inner]}
    path = tmp_path / "smith.json"
    path.write_text(json.dumps([smith]))
    assert [(t.id, t.query) for t in open_dataset(path)] == [("r1", "q1")]
    observed = [
        {"id": "o1", "type": "SPAN", "name": "vector-retrieval", "input": "q2", "output": ["t"]},
        {"id": "o2", "type": "SPAN", "name": "other", "input": "x", "output": ["t"]},
    ]
    path.write_text(json.dumps({"id": "t1", "input": "q2", "output": "an answer", "observations": observed}))
    [trace] = open_dataset(path)
    assert (trace.id, trace.query, trace.answer) == ("o1", "q2", "an answer")
    assert trace.metadata["traceId"] == "t1"


def test_ids_of_the_tracing_tools_are_kept(tmp_path: Path) -> None:
    """What scores need to find their way back is in the metadata; a LangSmith project is no conversation."""
    [seen, _] = open_dataset(FORMATS / "langfuse_observations.jsonl")
    ids = {"traceId": "74321e3f4456fc76cf57c78ec475e7fe", "span_id": "484e9f8b19f4de72"}
    assert ids.items() <= seen.metadata.items()
    whole = {"id": "t1", "input": "q?", "output": ["text"], "observations": []}
    (tmp_path / "trace.json").write_text(json.dumps(whole))
    [trace] = open_dataset(tmp_path / "trace.json")
    assert trace.metadata["traceId"] == "t1"
    assert "span_id" not in trace.metadata
    run = json.loads((FORMATS / "langsmith_traces.jsonl").read_text().splitlines()[0])
    child = {**run["child_runs"][0], "session_id": "01a1fd47-0000-755c-8fe5-6d5f0e351f27"}
    (tmp_path / "run.json").write_text(json.dumps([{**run, "child_runs": [child]}]))
    [trace] = open_dataset(tmp_path / "run.json")
    assert trace.metadata == {
        "name": "retrieve",
        "run_id": child["id"],
        "trace_id": run["id"],
        "project_id": child["session_id"],
        "start_time": child["start_time"],
    }
    assert cluster_of(trace, "cluster") == run["id"]


def test_reading_imports_no_framework() -> None:
    """Reading every fixture leaves the tools and heavy libraries unimported."""
    script = f"""
import sys
from pathlib import Path
from judge_eval.data.reading import open_dataset
home, count = Path({str(FORMATS)!r}), 0
for name, options in {[(file, options) for file, _, options, _ in FILES if "genai" not in file]!r}:
    count += sum(1 for _ in open_dataset(home / name, **options))
print(count, [name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{2 * len(FILES) - 2} []"
