"""Reading the rows of a worksheet in an `.xlsx` workbook."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from judge_eval import limits
from judge_eval.data.files.tables import Header, Row
from judge_eval.errors import DataError, JudgeEvalError, advise, needs_extra

ROWS, COLUMNS = 1_048_576, 1_024
"""The rows that a worksheet can hold, and the columns that are looked at; a file may claim more."""
BESIDE = 50
"""Columns beyond the header that are looked at for cells without a name."""
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")
_BLOCK = 1 << 20


def sheet_rows(path: Path, name: str, sheet: str | None = None) -> Iterator[Row]:
    """Yield the rows of a worksheet below its header, streamed; empty ones are passed over.

    The header is the first row that is not empty. Numbers and truth values stay what they are, dates become
    text, a formula is what it was last computed to.

    Args:
        path: The workbook.
        name: What to call it in messages.
        sheet: The worksheet's name; None where only one of them holds anything.

    Raises:
        DataError: It is no workbook, has no such worksheet, or holds several and none is named. A row that
            cannot be read (a spreadsheet's error, a formula never computed) is yielded as its error.
        ConfigError: openpyxl is not installed.
    """
    with _opened(path, name) as (values, formulas):
        wanted = _chosen(values, name, sheet)
        yield from _rows(values[wanted], formulas and formulas[wanted], f"{name}[{wanted}]")


def sheet_names(path: Path, name: str) -> list[str]:
    """Return the names of the worksheets that hold anything.

    Raises:
        DataError: It is no workbook.
        ConfigError: openpyxl is not installed.
    """
    with _opened(path, name) as (values, _):
        return _filled(values)


def _filled(workbook: Any) -> list[str]:
    sheets = {sheet.title: sheet for sheet in workbook.worksheets}
    return [title for title, sheet in sheets.items() if next(_cells(sheet), None) is not None]


def _chosen(workbook: Any, name: str, sheet: str | None) -> str:
    titles = [one.title for one in workbook.worksheets]
    if sheet is not None:
        if sheet not in titles:
            raise DataError(f"no worksheet {sheet!r}; {advise(sheet, titles)}", file=name)
        return sheet
    filled = _filled(workbook)
    if len(filled) > 1:
        raise DataError(f"holds {len(filled)} worksheets; say which: {_choices(filled)}", file=name)
    if not titles:
        raise DataError("holds no worksheet", file=name)
    return (filled or titles)[0]


def _choices(titles: list[str]) -> str:
    return ", ".join(f"--records {title!r}" for title in titles)


@contextmanager
def _opened(path: Path, name: str) -> Iterator[tuple[Any, Any]]:
    """Open a workbook for its values, and for its formulas where it has any."""
    try:
        import openpyxl
    except ImportError:
        raise needs_extra(f"{name} is an Excel workbook, which needs openpyxl", "xlsx") from None
    opened: list[Any] = []
    try:
        computed = _has_formulas(path, name)
        opened.append(_load(openpyxl, path, computed=True))
        if computed:
            opened.append(_load(openpyxl, path, computed=False))
        yield opened[0], opened[1] if computed else None
    except (JudgeEvalError, OSError):
        raise
    except (
        Exception
    ) as error:  # what is inside may break any part of the library, which has no error of its own
        fault = f"not a workbook that can be read ({type(error).__name__}); save it again as .xlsx or as CSV"
        raise DataError(fault, file=name) from None
    finally:
        for workbook in opened:
            workbook.close()


def _load(openpyxl: Any, path: Path, *, computed: bool) -> Any:
    return openpyxl.load_workbook(path, read_only=True, data_only=computed, keep_links=False)


def _has_formulas(path: Path, name: str) -> bool:
    """Hold a workbook to its size unpacked, and tell whether a worksheet has a formula.

    What the archive says of its sizes can be trusted: nothing beyond them is ever unpacked.
    """
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        if sum(part.file_size for part in parts) > limits.WORKBOOK:
            most = limits.WORKBOOK // 2**20
            raise DataError(f"larger than {most} MiB unpacked; save it as CSV", file=name)
        return any(
            _holds(archive, part, b"<f") for part in parts if part.filename.startswith("xl/worksheets/")
        )


def _holds(archive: zipfile.ZipFile, part: zipfile.ZipInfo, tag: bytes) -> bool:
    ends = (b">", b" ", b"/")
    tail = b""
    with archive.open(part) as file:
        while block := file.read(_BLOCK):
            if any(tag + end in tail + block for end in ends):
                return True
            tail = block[-len(tag) :]
    return False


def _rows(values: Any, formulas: Any, name: str) -> Iterator[Row]:
    found = next(_cells(values), None)
    if found is None:
        return
    line, cells = found
    header = Header([_plain(cell.value) for cell in cells], name, line)
    if len(header.names) == COLUMNS:
        raise DataError(f"has {COLUMNS:,} columns or more; a table of traces has few", file=name, line=line)
    width = min(COLUMNS, len(header.names) + BESIDE)
    below: Iterator[tuple[int, Sequence[Any], Sequence[Any]]]
    if formulas is None:
        below = ((number, cells, cells) for number, cells in _cells(values, line + 1, width))
    else:
        below = _with_formulas(values, formulas, line + 1, width)
    for number, cells, spelled in below:
        row = _row(header, cells, spelled, number, name)
        if row is not None:
            yield row


def _iterated(sheet: Any, first: int, width: int) -> Iterator[Sequence[Any]]:
    sheet.reset_dimensions()  # what a file says of them may be wrong
    rows: Iterator[Sequence[Any]] = sheet.iter_rows(min_row=first, max_row=ROWS, max_col=width)
    return rows


def _cells(sheet: Any, first: int = 1, width: int = COLUMNS) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield the rows that hold anything, each with its number."""
    blank: Sequence[Any] | None = None
    for number, cells in enumerate(_iterated(sheet, first, width), first):
        if cells is blank:  # openpyxl fills gaps with one and the same row, a million times where asked to
            continue
        if any(cell.value is not None for cell in cells):
            yield number, cells
        else:
            blank = cells


def _with_formulas(
    values: Any, formulas: Any, first: int, width: int
) -> Iterator[tuple[int, Sequence[Any], Sequence[Any]]]:
    """Yield the rows that hold anything: as computed, and as they are spelled."""
    pairs = zip(_iterated(values, first, width), _iterated(formulas, first, width), strict=False)
    for number, (cells, spelled) in enumerate(pairs, first):
        if any(cell.value is not None for cell in spelled):
            yield number, cells, spelled


def _row(header: Header, cells: Sequence[Any], spelled: Sequence[Any], line: int, name: str) -> Row | None:
    plain = []
    for place, (cell, formula) in enumerate(zip(cells, spelled, strict=True)):
        column = header.names[place] if place < len(header.names) else ""
        if cell.value is not None and cell.data_type == "e":
            fault = f"holds the spreadsheet's error {cell.value}"
            return Row(DataError(fault, file=name, line=line, field=column or None), line)
        if cell.value is None and formula.value is not None:
            fault = "holds a formula that was never computed; open the file in a spreadsheet and save it"
            return Row(DataError(fault, file=name, line=line, field=column or None), line)
        plain.append(_plain(cell.value))
    return header.row(plain, line)


def _plain(value: Any) -> Any:
    """Return a cell's value as JSON has it."""
    if isinstance(value, str):
        return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), value)
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    if isinstance(value, date | time):
        return value.isoformat()
    return value if value is None or isinstance(value, bool | int | float) else str(value)
