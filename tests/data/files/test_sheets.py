from __future__ import annotations

import contextlib
import io
import zipfile
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pandas
import pytest

from judge_eval import limits
from judge_eval.data.files.containers import kind_of, rows
from judge_eval.data.files.tables import sheet_names, sheet_rows
from judge_eval.data.reading import open_dataset
from judge_eval.errors import ConfigError, DataError
from tests.support.workbooks import workbook

pytestmark = pytest.mark.foreign


def book(path: Path, **sheets: list[list[Any]]) -> Path:
    """Write a workbook, its worksheets by name."""
    return workbook(path, sheets)


def records(path: Path, **options: Any) -> list[Any]:
    """Read the rows below the header."""
    return [row.data if isinstance(row.data, DataError) else dict(row.data) for row in sheet_rows(path, "x", **options)]


def repacked(path: Path, part: str, change: Any) -> Path:
    """Change one part inside a workbook."""
    out = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            data = old.read(info)
            new.writestr(info.filename, change(data) if info.filename == part else data)
    path.write_bytes(out.getvalue())
    return path


def test_rows_of_a_worksheet(tmp_path: Path) -> None:
    """Texts, numbers, truth values and dates come out as JSON has them, each row with its number."""
    day, moment = date(2026, 3, 1), datetime(2026, 3, 1, 9, 30)
    path = book(
        tmp_path / "x.xlsx",
        S=[["id", " text ", "score", "ok", "day", "at", None], [7, "line\nline", 0.5, True, day, moment, None]],
    )
    [row] = sheet_rows(path, "x.xlsx")
    assert row.line == 2
    assert row.get() == {
        "id": 7,
        "text": "line\nline",
        "score": 0.5,
        "ok": True,
        "day": "2026-03-01",
        "at": "2026-03-01T09:30:00",
    }
    assert [type(value) for value in row.get().values()] == [int, str, float, bool, str, str]


def test_a_frame_of_pandas(tmp_path: Path) -> None:
    """What `DataFrame.to_excel` writes is read as a dataset, lists as Python spells them."""
    rows = [{"user_input": "q?", "retrieved_contexts": str(["a", "it's"]), "reference": "r"}]
    pandas.DataFrame(rows).to_excel(tmp_path / "x.xlsx")
    [trace] = open_dataset(tmp_path / "x.xlsx")
    assert (trace.query, [chunk.text for chunk in trace.chunks], trace.reference) == ("q?", ["a", "it's"], "r")


def test_empty_rows_are_passed_over(tmp_path: Path) -> None:
    """Empty rows before the header, between and after the rows are nothing; the numbers stay the sheet's."""
    path = book(tmp_path / "x.xlsx", S=[[], [], ["a", "b"], [1, None], [None, None], ["", ""], [2, 3], []])
    assert [(row.line, dict(row.get())) for row in sheet_rows(path, "x")] == [
        (4, {"a": 1, "b": None}),
        (7, {"a": 2, "b": 3}),
    ]


def test_the_worksheet_that_holds_something(tmp_path: Path) -> None:
    """One filled worksheet is taken; of several the error names them all; a wrong name is advised."""
    first = book(tmp_path / "one.xlsx", Empty=[], Data=[["a"], [1]], Also=[])
    assert records(first) == [{"a": 1}]
    assert sheet_names(first, "x") == ["Data"]
    two = book(tmp_path / "two.xlsx", Traces=[["a"], [1]], Notes=[["b"], [2]])
    with pytest.raises(DataError, match=r'2 worksheets; .*records="Traces"` .*records="Notes"`'):
        records(two)
    assert records(two, sheet="Notes") == [{"b": 2}]
    with pytest.raises(DataError, match=r"no worksheet 'Trace'; did you mean 'Traces'"):
        records(two, sheet="Trace")


def test_a_cell_beside_the_header_is_an_error(tmp_path: Path) -> None:
    """A cell under no name is not dropped: its row is an error."""
    path = book(tmp_path / "x.xlsx", S=[["a", "b"], [1, 2, None, "lost"], [3, 4]])
    first, second = records(path)
    assert "4 cells, but the header has 2" in str(first)
    assert second == {"a": 3, "b": 4}


def test_formulas_are_what_they_were_computed_to(tmp_path: Path) -> None:
    """A formula's kept result is read; one that was never computed is empty, and one that gave an error is named."""
    path = book(tmp_path / "x.xlsx", S=[["a", "b"], ["x", "=1+1"], ["y", 3], ["#N/A", 4]])
    first, second, third = records(path)
    assert first == {"a": "x", "b": None}
    assert second == {"a": "y", "b": 3}
    assert "S]:4: a: holds the spreadsheet's error #N/A" in str(third)
    computed = repacked(
        path,
        "xl/worksheets/sheet1.xml",
        lambda xml: xml.replace(b"<v></v>", b"<v>2</v>").replace(b"<v/>", b"<v>2</v>").replace(b"<v />", b"<v>2</v>"),
    )
    assert records(computed)[0] == {"a": "x", "b": 2}


def test_escaped_characters(tmp_path: Path) -> None:
    """Characters that XML cannot hold are written as escapes, and read as characters."""
    path = book(tmp_path / "x.xlsx", S=[["a"], ["one_x000D_\ntwo"], ["_x005F_x000D_"]])
    assert records(path) == [{"a": "one\r\ntwo"}, {"a": "_x000D_"}]


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """A workbook that unpacks to more than the limit is refused before it is."""
    path = book(tmp_path / "x.xlsx", S=[["a"], [1]])
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("xl/more.xml", "w") as part:
        for _ in range(limits.WORKBOOK // 2**20 + 1):
            part.write(bytes(2**20))
    assert path.stat().st_size < 2**20
    with pytest.raises(DataError, match=r"larger than 256 MiB unpacked; save it as CSV"):
        records(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'r="A2"', b'r="XFD1048576"'),
        (b'r="A2"', b'r="AAAAAA9"'),
        (b'<row r="2"', b'<row r="99999999999"'),
        (b'<row r="2"', b'<row r="x"'),
        (b"<sheetData>", b"<sheetData><row>"),
        (b't="inlineStr"', b't="inlineStr" s="77"'),
    ],
)
def test_odd_worksheets_end_soon(old: bytes, new: bytes, tmp_path: Path) -> None:
    """Cells at the end of the world, broken numbers and torn markup give rows or an error of ours."""
    path = book(tmp_path / "x.xlsx", S=[["a"], ["x"]])
    repacked(path, "xl/worksheets/sheet1.xml", lambda xml: xml.replace(old, new))
    read: list[Any] = []
    with contextlib.suppress(DataError):
        read = records(path)
    assert len(read) <= 1


MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
HAND = {
    "[Content_Types].xml": f"""<Types xmlns="{PACKAGE}/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Override PartName="/xl/workbook.xml" ContentType="{TYPE}.sheet.main+xml"/>
<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{TYPE}.worksheet+xml"/>
<Override PartName="/xl/sharedStrings.xml" ContentType="{TYPE}.sharedStrings+xml"/></Types>""",
    "_rels/.rels": f"""<Relationships xmlns="{PACKAGE}/relationships">
<Relationship Id="r1" Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>""",
    "xl/workbook.xml": f"""<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}">
<sheets><sheet name="Sheet1" sheetId="1" r:id="r1"/></sheets></workbook>""",
    "xl/_rels/workbook.xml.rels": f"""<Relationships xmlns="{PACKAGE}/relationships">
<Relationship Id="r1" Type="{OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>
<Relationship Id="r2" Type="{OFFICE}/sharedStrings" Target="sharedStrings.xml"/></Relationships>""",
    "xl/worksheets/sheet1.xml": f"""<worksheet xmlns="{MAIN}"><dimension ref="A1"/><sheetData>
<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c></row>
<row r="2"><c r="A2" t="s"><v>2</v></c><c r="B2"><v>7</v></c></row></sheetData></worksheet>""",
    "xl/sharedStrings.xml": f"""<sst xmlns="{MAIN}" count="3" uniqueCount="3"><si><t>a</t></si>
<si><t xml:space="preserve"> b </t></si><si><r><t>rich </t></r><r><t>text</t></r></si></sst>""",
}


def by_hand(path: Path, **changes: str) -> Path:
    """Write a workbook as spreadsheets do: texts apart from the cells, parts changed by their names' ends."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, xml in HAND.items():
            stem = Path(name).stem
            archive.writestr(name, changes.get(stem, xml))
    return path


def test_texts_apart_from_the_cells(tmp_path: Path) -> None:
    """Texts kept once for a whole workbook are read, rich ones too; a wrong dimension is not believed."""
    assert records(by_hand(tmp_path / "x.xlsx")) == [{"a": "rich text", "b": 7}]


def test_entities_are_not_spread(tmp_path: Path) -> None:
    """A document type that makes much of little is refused."""
    spread = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 9))
    bomb = f'<!DOCTYPE sst [<!ENTITY l0 "haha">{spread}]>'
    xml = bomb + HAND["xl/sharedStrings.xml"].replace("rich ", "&l8;")
    with pytest.raises(DataError, match="not a workbook that can be read"):
        records(by_hand(tmp_path / "x.xlsx", sharedStrings=xml))


def test_a_text_that_is_not_there(tmp_path: Path) -> None:
    """A cell that points to a text that does not exist is an error of ours."""
    xml = HAND["xl/worksheets/sheet1.xml"].replace("<v>2</v>", "<v>99</v>")
    with pytest.raises(DataError, match="not a workbook that can be read"):
        records(by_hand(tmp_path / "x.xlsx", sheet1=xml))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600,
            r"x.xls: an old or password-protected Excel workbook; save it as .xlsx",
        ),
        (b"PK\x03\x04 torn", r"x.xls: a ZIP archive that cannot be read"),
    ],
)
def test_other_workbooks_are_named_with_the_remedy(content: bytes, message: str, tmp_path: Path) -> None:
    """What is not read is named, with what to save it as."""
    path = tmp_path / "x.xls"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        kind_of(path, "x.xls")


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (["mimetype", "content.xml"], "a workbook of another kind; save it as .xlsx or as CSV"),
        (["xl/workbook.bin"], "a workbook of another kind"),
        (["data.jsonl"], "a ZIP archive; unpack it"),
    ],
)
def test_other_archives_are_named_with_the_remedy(held: list[str], message: str, tmp_path: Path) -> None:
    """An OpenDocument sheet, a binary workbook and a plain archive are told apart."""
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in held:
            archive.writestr(name, "x")
    with pytest.raises(DataError, match=message):
        kind_of(path, "x.zip")


def test_without_openpyxl_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where openpyxl is not installed the message says what to install."""
    import sys

    path = book(tmp_path / "x.xlsx", S=[["a"], [1]])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ConfigError, match=r"context-judge\[xlsx\]"):
        list(rows(path, "xlsx", "x.xlsx", lambda _: True))
