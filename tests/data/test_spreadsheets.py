from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from judge_eval.data.labels import Labels, read_labels, read_verdicts
from judge_eval.data.spreadsheets import changed_by_spreadsheets
from judge_eval.errors import DataError

WANTED = {("t1", "a"): 1, ("t1", "b"): 0, ("t2", "a"): 1}
ROWS = [["trace_id", "chunk_id", "label"], ["t1", "a", "1"], ["t1", "b", "0"], ["t2", "a", "1"], ["t2", "b", ""]]


def table(rows: list[list[str]], separator: str = ",") -> str:
    """Write rows as CSV."""
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=separator).writerows(rows)
    return out.getvalue()


def read(path: Path, data: bytes | str) -> Labels:
    """Write a file and read its labels."""
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_labels(path)


@pytest.mark.parametrize("name", ["l.csv", "l.tsv", "l.txt"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_separators_and_marks_are_told_apart(tmp_path: Path, name: str, separator: str, encoding: str) -> None:
    """Whatever stands between cells, with a byte order mark or in UTF-16: the labels are the same."""
    assert read(tmp_path / name, table(ROWS, separator).encode(encoding)).grades == WANTED


def test_texts_full_of_other_separators_do_not_mislead(tmp_path: Path) -> None:
    """The separator is the one under which the header has the columns, not the most frequent sign."""
    rows = [[*ROWS[0], "a, b, c | d\te"], *([*row, "x, y, z, | \t | , ,"] for row in ROWS[1:])]
    for separator in ",;\t|":
        assert read(tmp_path / "l.csv", table(rows, separator)).grades == WANTED


@pytest.mark.parametrize(
    ("cell", "grade"),
    [
        *((cell, 1) for cell in ("1", "1.0", "1,0", "1.", " 1 ", "+1", "yes", "Yes", "Y", "TRUE", "relevant")),
        *((cell, 0) for cell in ("0", "0.0", "-0", "no", "NO", "n", "False", "not relevant", "irrelevant")),
        *((cell, None) for cell in ("", "  ", "nan", "NaN", "NA", "N/A", "#N/A", "None", "null", "-", "?")),
        ("3", 3),
        ("2.000", 2),
    ],
)
def test_what_people_write_into_a_cell(tmp_path: Path, cell: str, grade: int | None) -> None:
    """Numbers with zeros behind the point, yes and no, and the many spellings of nothing."""
    labels = read(tmp_path / "l.csv", table([*ROWS[:2], ["t9", "z", cell]]))
    assert labels.grades == {("t1", "a"): 1} | ({("t9", "z"): grade} if grade is not None else {})
    verdicts = read_verdicts(tmp_path / "l.csv")
    assert verdicts.by_chunk["t9", "z"].grade == grade


@pytest.mark.parametrize("cell", ["1.5", "0.7", "maybe", "-1", "200", "1e0", "ja", "½", "1.0.0", "01/02/2026"])
def test_what_is_no_grade_is_refused_with_its_place(tmp_path: Path, cell: str) -> None:
    """Nothing is rounded or guessed; file, line and column are named."""
    with pytest.raises(DataError, match=r"l\.csv:3: label: .* is not a grade"):
        read(tmp_path / "l.csv", table([*ROWS[:2], ["t9", "z", cell]]))


def test_columns_are_found_by_name_in_any_letters_and_order(tmp_path: Path) -> None:
    """Capitals, blanks around and in names, other columns and an index without a name do no harm."""
    rows = [["", "Label ", "note", "Chunk ID", " Trace-Id"], ["0", "1", "x", "a", "t1"], ["1", "", "", "b", "t1"]]
    assert read(tmp_path / "l.csv", table(rows)).grades == {("t1", "a"): 1}
    with pytest.raises(DataError, match="two columns read 'label'; rename one"):
        read(tmp_path / "l.csv", table([["trace_id", "chunk_id", "label", "Label"], ["t", "c", "1", "0"]]))


def test_rows_that_are_empty_are_passed_over(tmp_path: Path) -> None:
    """A spreadsheet leaves rows of separators behind; a row with a grade and no id is told."""
    rows = [*ROWS, ["", "", ""], ["", "", ""], ["t2", "c", "no"]]
    assert read(tmp_path / "l.csv", table(rows, ";")).grades == WANTED | {("t2", "c"): 0}
    with pytest.raises(DataError, match=r"l\.csv:3: chunk_id: this field is required"):
        read(tmp_path / "l.csv", table([*ROWS[:2], ["t2", "", "1"]]))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"trace_id,chunk_id,label\nt\xe4,a,1\n", "CSV UTF-8"),
        (b"trace,chunk_id,label\nt,a,1\n", "the table has no column trace_id; it has 'trace', 'chunk_id', 'label'"),
        (b"trace_id,chunk_id,label\nt,a,\n", "holds no label; fill in `label`"),
        (b"trace_id,chunk_id,label\nt,a\n", "2 cells, but the header has 3"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "save it as .xlsx"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(tmp_path: Path, data: bytes, told: str) -> None:
    """Windows' encoding, a column of another name, nothing filled in, an old workbook: what to do is said."""
    with pytest.raises(DataError) as error:
        read(tmp_path / "l.csv", data)
    assert told in str(error.value)


@pytest.mark.parametrize("text", ["007", "1e5", "12345678901234567", "1-2", "3/4/25", "1.10", "TRUE", "Mar-1", "2 Jan"])
def test_ids_that_a_spreadsheet_changes_are_known(text: str) -> None:
    """Leading zeros, long numbers, dates and exponents."""
    assert changed_by_spreadsheets(text)


@pytest.mark.parametrize("text", ["7", "docs-001", "q1", "c1", "0", "doc 5", "1-2-x", "a/b", "", "marble-1"])
def test_other_ids_are_left_alone(text: str) -> None:
    """What a spreadsheet keeps as it is."""
    assert not changed_by_spreadsheets(text)
