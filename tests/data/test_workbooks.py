from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.data.labels import read_labels
from judge_eval.errors import DataError
from tests.support.examples import examples
from tests.support.workbooks import workbook

pytestmark = pytest.mark.foreign


def test_a_workbook_is_read(tmp_path: Path) -> None:
    """Numbers, truth values, empty cells and ids that became numbers come out as in CSV."""
    rows: list[list[object]] = [["trace_id", "chunk_id", "label"], [7, "a", 1], [7, 2.0, True], ["t", "c", None]]
    path = workbook(tmp_path / "l.xlsx", {"Sheet": [*rows, ["t", "d", "no"]]})
    assert read_labels(path).grades == {("7", "a"): 1, ("7", "2"): 1, ("t", "d"): 0}


def test_of_several_worksheets_the_one_with_the_columns_is_read(tmp_path: Path) -> None:
    """Notes in another worksheet do not matter; two worksheets of labels are not guessed at."""
    labels: list[list[object]] = [["trace_id", "chunk_id", "label"], ["t", "a", 1]]
    path = workbook(tmp_path / "l.xlsx", {"how": [["label what is relevant"], ["x"]], "mine": labels})
    assert read_labels(path).grades == {("t", "a"): 1}
    with pytest.raises(DataError, match="'a', 'b' have the columns trace_id, chunk_id, label; keep them in one"):
        read_labels(workbook(path, {"a": labels, "b": labels}))
    with pytest.raises(DataError, match="no worksheet has the columns"):
        read_labels(workbook(path, {"a": [["x"], [1]], "b": [["y"], [1]]}))


GRADES = st.dictionaries(
    st.tuples(st.sampled_from(["q1", "q-2", "ü, ö; 3"]), st.sampled_from(["a", "b|c", 'd "e"'])),
    st.one_of(st.none(), st.integers(0, 3)),
    min_size=1,
).filter(lambda grades: any(grade is not None for grade in grades.values()))


@examples(15)
@given(GRADES)
def test_what_pandas_writes_is_read_back(tmp_path_factory: pytest.TempPathFactory, grades: dict) -> None:  # type: ignore[type-arg]
    """CSV, TSV, Excel, JSON and Parquet of a frame in which empty labels made all others 1.0."""
    folder = tmp_path_factory.mktemp("pandas")
    frame = pd.DataFrame(
        [(trace, chunk, grade) for (trace, chunk), grade in grades.items()], columns=["trace_id", "chunk_id", "label"]
    )
    frame["label"] = frame["label"].astype("float64")
    frame.to_csv(folder / "l.csv", index=False)
    frame.to_csv(folder / "index.csv", sep=";")
    frame.to_csv(folder / "l.tsv", sep="\t", index=False, encoding="utf-8-sig", na_rep="NaN")
    frame.to_excel(folder / "l.xlsx")
    frame.to_json(folder / "l.jsonl", orient="records", lines=True)
    frame.to_json(folder / "l.json", orient="records")
    frame.to_parquet(folder / "l.parquet")
    wanted = {key: grade for key, grade in grades.items() if grade is not None}
    for path in folder.iterdir():
        assert read_labels(path).grades == wanted, path.name
