"""Rows in memory are told by the code that tells files: the same records give the same traces."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval.data.memory import rows_in_memory
from judge_eval.data.options import ReadOptions
from judge_eval.data.reading import open_dataset, read_memory
from judge_eval.schema import Trace
from tests.data.shapes.test_foreign_formats import FILES, FORMATS

WHOLE = ("deepeval_run.json", "llama_index_rag.json", "lynxius.json", "otlp.json", "otlp_protobuf.json")
"""Files that are one object around their records."""
ROWS = [(name, options) for name, _, options, _ in FILES if name not in WHOLE]
ODD = {"hotpotqa.json", "langchain_dumpd.jsonl"}
"""Whose columns hold lists of several kinds, which typed tables refuse."""


def records_of(path: Path) -> list[dict[str, Any]]:
    """Read a file's records as anybody would."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".csv":
        return [{k: v or None for k, v in row.items()} for row in csv.DictReader(text.splitlines(keepends=True))]
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    return list(json.loads(text))


def pandas_frame(records: list[dict[str, Any]]) -> Any:
    """Make the frame that pandas makes of them."""
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(records)


def polars_frame(records: list[dict[str, Any]]) -> Any:
    """Make the frame that Polars makes of them."""
    polars = pytest.importorskip("polars")
    return polars.DataFrame(records, infer_schema_length=None)


def arrow_table(records: list[dict[str, Any]]) -> Any:
    """Make the table that PyArrow makes of them."""
    pyarrow = pytest.importorskip("pyarrow")
    names = dict.fromkeys(name for record in records for name in record)
    return pyarrow.table({name: [record.get(name) for record in records] for name in names})


def frame_of_arrow(records: list[dict[str, Any]]) -> Any:
    """Make the frame that a Parquet file is read as: lists are arrays, objects have each other's keys."""
    pytest.importorskip("pandas")
    return arrow_table(records).to_pandas()


def dataset(records: list[dict[str, Any]]) -> Any:
    """Make a `datasets.Dataset` of them."""
    datasets = pytest.importorskip("datasets")
    return datasets.Dataset(arrow_table(records))


def told(data: Any, options: dict[str, Any]) -> list[Trace]:
    """Tell the traces in rows, all of which hold some."""
    rows = rows_in_memory(data)
    assert rows is not None
    values = [read.outcome for read in read_memory(rows, ReadOptions(**options))]
    assert all(isinstance(item, Trace) for item in values), values
    return values  # type: ignore[return-value]


@pytest.mark.parametrize(("name", "options"), ROWS, ids=[name for name, _ in ROWS])
def test_a_list_of_records_is_told_like_its_file(name: str, options: dict[str, Any]) -> None:
    """The records of a file, as a list of mappings, give the traces of the file, to the last field."""
    records = records_of(FORMATS / name)
    assert told(records, options) == list(open_dataset(FORMATS / name, **options))


@pytest.mark.foreign
@pytest.mark.parametrize("make", [pandas_frame, frame_of_arrow, polars_frame, arrow_table, dataset])
@pytest.mark.parametrize(("name", "options"), ROWS, ids=[name for name, _ in ROWS])
def test_a_table_of_records_is_told_like_their_file(
    name: str, options: dict[str, Any], make: Callable[[list[dict[str, Any]]], Any]
) -> None:
    """In a table every row has every column, missing ones as nothing; what is judged stays the same."""
    try:
        table = make(records_of(FORMATS / name))
    except Exception:
        assert name in ODD
        return
    wanted = list(open_dataset(FORMATS / name, **options))
    assert [judged(trace) for trace in told(table, options)] == [judged(trace) for trace in wanted]


def judged(trace: Trace) -> tuple[Any, ...]:
    """What a judge and the metrics see of a trace."""
    chunks = [(c.id, c.title, c.text, c.score, c.label) for c in trace.chunks]
    return trace.id, trace.query, trace.reference, trace.answer, chunks, trace.relevant_total
