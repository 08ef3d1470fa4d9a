from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pandas as pd
import pytest

from tests.support.command import FIXTURES
from tests.support.desk import Desk

pytestmark = pytest.mark.foreign

DATA = FIXTURES / "docs_qa.jsonl"
TRUTH = {
    (row["id"], chunk["id"]): chunk["label"]
    for row in map(json.loads, DATA.read_text(encoding="utf-8").splitlines())
    for chunk in row["chunks"]
}


@pytest.fixture
def sampled(desk: Desk) -> Path:
    """A sample of twelve traces as CSV."""
    assert desk("run", DATA, "--model", "fake/overlap", "-k", "AP@5", "-q").code == 0
    result = desk("sample", "latest", "-n", "12", "-o", "todo.csv")
    assert result.code == 0, result.err
    return desk.folder / "todo.csv"


def in_excel(text: str, label: Callable[[str, str], str], separator: str, encoding: str) -> bytes:
    """Do what Excel does to a CSV: semicolons with decimal commas, ten digits, Windows' ends of lines."""
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    for row in rows:
        row["label"] = label(row["trace_id"], row["chunk_id"])
        row["probability"] = f"{float(row['probability']):.10g}".replace(".", "," if separator == ";" else ".")
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(rows[0]), delimiter=separator, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode(encoding)


def figures(desk: Desk, file: str) -> tuple[object, object]:
    """Return what `agree` and `correct` make of a file of labels."""
    agreed = desk("agree", "latest", file, "--json")
    assert agreed.code == 0, agreed.err
    corrected = desk("correct", "latest", "--labels", file, "--json")
    assert corrected.code == 0, corrected.err
    mean = json.loads(corrected.out)["means"]["AP@5"]
    return json.loads(agreed.out)["confusion"], round(mean["value"], 9)


def words(grade: int) -> str:
    """Spell a label as people do."""
    return "yes" if grade else "no"


def test_a_sample_goes_through_excel_and_pandas_and_back(desk: Desk, sampled: Path) -> None:
    """However the sample was filled in and saved, `agree` and `correct` find the same labels."""
    text = sampled.read_text(encoding="utf-8-sig")
    folder = desk.folder
    for name, separator, encoding, spell in (
        ("us.csv", ",", "utf-8-sig", str),
        ("german.csv", ";", "utf-8-sig", words),
        ("unicode.txt", "\t", "utf-16", str),
    ):
        made = in_excel(text, lambda t, c, spell=spell: spell(TRUTH[t, c]), separator, encoding)  # type: ignore[misc]
        (folder / name).write_bytes(made)
    frame = pd.read_csv(sampled)
    frame["label"] = [float(TRUTH[key]) for key in zip(frame["trace_id"], frame["chunk_id"], strict=True)]
    frame.to_csv(folder / "pandas.csv")
    frame.to_excel(folder / "pandas.xlsx", index=False)
    book = openpyxl.load_workbook(folder / "pandas.xlsx")
    book.active["A1"].font = openpyxl.styles.Font(bold=True)
    book.create_sheet("Notes")["A1"] = "labelled by two of us"
    book.save(folder / "excel.xlsx")
    values = {name: figures(desk, name) for name in
             ("us.csv", "german.csv", "unicode.txt", "pandas.csv", "pandas.xlsx", "excel.xlsx")}  # fmt: skip
    assert len({str(value) for value in values.values()}) == 1, values


def test_a_sample_half_filled_in_is_read_as_far_as_it_goes(desk: Desk, sampled: Path) -> None:
    """Gaps in a column turn its labels into 1.0 in pandas; what is empty is no label."""
    frame = pd.read_csv(sampled)
    assert frame["label"].isna().all()
    frame.loc[frame.index % 2 == 0, "label"] = 1
    frame.to_csv(desk.folder / "half.csv", index=False)
    assert "1.0" in (desk.folder / "half.csv").read_text()
    document = json.loads(desk("agree", "latest", "half.csv", "--json").out)
    assert document["n"] == len(frame[frame.index % 2 == 0])


def test_ids_that_a_spreadsheet_would_change_are_told_before_and_after(desk: Desk) -> None:
    """`sample` warns of ids such as 007, and where they came back changed the message says so."""
    lines = [{"id": f"00{k}", "query": "q", "reference": "r", "chunks": [{"id": "a", "text": "r"}]} for k in (1, 2, 3)]
    (desk.folder / "d.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert desk("run", "d.jsonl", "-m", "fake/overlap", "-q").code == 0
    result = desk("sample", "latest", "-n", "2", "-o", "todo.csv")
    assert "a spreadsheet reads ids such as 00" in result.err
    frame = pd.read_csv(desk.folder / "todo.csv")
    frame["label"] = 1
    frame.to_csv(desk.folder / "done.csv", index=False)
    done = desk("agree", "latest", "done.csv")
    assert done.code == 2
    assert "check the ids: the labels have trace '" in done.err
    assert "a spreadsheet changes ids like these" in done.err
