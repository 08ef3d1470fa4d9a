from __future__ import annotations

import csv
import itertools
import json
import tracemalloc
from pathlib import Path

import pytest

from judge_eval.data.files.jsonl import write_jsonl
from judge_eval.data.reading import open_dataset
from judge_eval.errors import DataError

TEXT = "x" * 2000


def fill(path: Path, count: int) -> None:
    """Write a file of ragas records."""
    if path.suffix == ".jsonl":
        with path.open("w") as file:
            for n in range(count):
                file.write(json.dumps({"user_input": f"q{n}?", "retrieved_contexts": [TEXT]}) + "\n")
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["user_input", "retrieved_contexts"])
            writer.writerows([f"q{n}?", json.dumps([TEXT])] for n in range(count))
    else:
        import pyarrow
        import pyarrow.parquet

        rows = [{"user_input": f"q{n}?", "retrieved_contexts": [TEXT]} for n in range(count)]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=500)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x.jsonl", "x.csv", pytest.param("x.parquet", marks=pytest.mark.foreign)])
def test_files_are_streamed(name: str, tmp_path: Path) -> None:
    """Reading four thousand records of 2 KB never holds more than a fraction of them."""
    path = tmp_path / name
    fill(path, 4000)
    next(open_dataset(path))
    tracemalloc.start()
    try:
        assert sum(1 for _ in open_dataset(path)) == 4000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000, f"{peak} bytes at most, of 8,000,000 in the file"


def test_one_record_with_a_long_list_is_read_whole(tmp_path: Path) -> None:
    """An object that is itself a record, such as a body of Lynxius, keeps all of its list, however long."""
    path = tmp_path / "body.json"
    rows = [{"query": f"q{n}?", "reference": "r", "contexts": ["t"]} for n in range(1500)]
    path.write_text(json.dumps({"label": "x", "tags": ["a"], "data": rows}))
    traces = list(open_dataset(path))
    assert [trace.query for trace in traces] == [row["query"] for row in rows]
    assert traces[-1].tags == ("a",)


def test_conversion_is_all_or_nothing(tmp_path: Path) -> None:
    """A conversion that meets a bad record leaves the file that was there before, and nothing beside it."""
    out = tmp_path / "out.jsonl"
    out.write_text("before")
    bad = tmp_path / "x.jsonl"
    bad.write_text('{"user_input": "q?", "retrieved_contexts": []}\n{"user_input": 1, "retrieved_contexts": []}\n')
    with pytest.raises(DataError, match=":2: user_input"):
        write_jsonl(open_dataset(bad), out)
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "x.jsonl"]


def test_conversion_round_trips(tmp_path: Path) -> None:
    """What is written as ours reads back equal, trace by trace."""
    home = Path(__file__).parents[2] / "fixtures"
    for source in (home / "docs_qa_graded.jsonl", home / "formats" / "beir", home / "formats" / "mlflow.jsonl"):
        written = write_jsonl(open_dataset(source), tmp_path / "out.jsonl")
        pairs = itertools.zip_longest(open_dataset(source), open_dataset(tmp_path / "out.jsonl"))
        assert sum(a == b for a, b in pairs) == written > 0
