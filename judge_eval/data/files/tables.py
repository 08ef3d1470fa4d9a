"""Tables in files: CSV, Parquet and worksheets."""

import csv
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, NamedTuple

from judge_eval import limits
from judge_eval.data.files.opening import first_line
from judge_eval.errors import DataError, JudgeEvalError, advise
from judge_eval.installed import import_extra
from judge_eval.spelling import option


class Row(NamedTuple):
    """One record of a file or of rows in memory: its data, or why it cannot be read."""

    data: Mapping[str, Any] | DataError
    line: int | None = None
    """Counted from 1: the line it begins on, or the row of a table; None where one record is all."""
    prefix: str = ""
    """What stands before a field in a message, such as `[3]` in a JSON array."""
    holder: str = ""
    """What a message names in the place of the file, such as `row 3` of a list in memory."""
    number: int | None = None
    """In memory: which row it is, counted from 0."""

    @property
    def place(self) -> str:
        """What a message calls it beside another of its kind."""
        return self.holder or (self.prefix if self.line is None else f"line {self.line}")

    def get(self) -> Mapping[str, Any]:
        """Return the data."""
        if isinstance(self.data, DataError):
            raise self.data
        return self.data


class Header:
    """The first row of a table, which names the cells of the others.

    Blanks around a name are not part of it, and empty cells at the end of a row, as spreadsheets leave them,
    are not cells.
    """

    def __init__(self, cells: Sequence[Any], name: str, line: int) -> None:
        self._name = name
        self.names = [str(cell).strip() if cell is not None else "" for cell in cells]
        while self.names and not self.names[-1]:
            del self.names[-1]
        self._unnamed = [place for place, column in enumerate(self.names) if not column]
        twice = {column for column in self.names if column and self.names.count(column) > 1}
        if twice:
            raise DataError(f"the column {min(twice)!r} occurs twice", file=name, line=line)

    def row(self, cells: Sequence[Any], line: int) -> Row | None:
        """Name the cells of a row; None where it is empty."""
        filled = len(cells)
        while filled and _is_empty(cells[filled - 1]):
            filled -= 1
        if not filled:
            return None
        most = len(self.names)
        if filled > most or len(cells) < most:
            fault = f"{max(filled, min(len(cells), most))} cells, but the header has {most}; "
            fault += "quote cells that hold the separator, and name every column"
            return Row(DataError(fault, file=self._name, line=line), line)
        if len(self._unnamed) > 1 and any(not _is_empty(cells[place]) for place in self._unnamed):
            return Row(DataError("a cell under no name; name every column", file=self._name, line=line), line)
        pairs: Iterable[tuple[str, Any]] = zip(self.names, cells, strict=False)
        named = {key: cell if cell != "" else None for key, cell in pairs}
        if len(self._unnamed) > 1:
            del named[""]
        return Row(named, line)


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def csv_rows(path: Path, name: str, delimiter: str | None) -> Iterator[Row]:
    """Yield the rows of a UTF-8 CSV, or their errors; by default the header tells comma or semicolon."""
    # The limit is the whole interpreter's; raising it is the only way to read a long cell.
    csv.field_size_limit(max(csv.field_size_limit(), 2**31 - 1))
    if delimiter is None:
        head = first_line(path, name)
        delimiter = ";" if b";" in head and b"," not in head else ","
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        header: Header | None = None
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader, None)
            except (csv.Error, UnicodeDecodeError) as error:
                fault = _not_csv(error, path, name, line)
                if header is None:
                    raise fault from None
                yield Row(fault, fault.line)  # what follows cannot be told apart any more
                return
            if cells is None:
                return
            if header is None:
                header = Header(cells, name, 1)
            elif (row := header.row(cells, line)) is not None:
                yield row


def _not_csv(error: Exception, path: Path, name: str, line: int) -> DataError:
    if not isinstance(error, UnicodeDecodeError):
        return DataError(f"not CSV: {error}", file=name, line=line)
    with path.open("rb") as file:  # text is decoded in blocks, so the line is not where the reader stands
        line = next(
            (number for number, data in enumerate(file, 1) if data.decode(errors="ignore").encode() != data), line
        )
    fault = (
        'not UTF-8; save it as "CSV UTF-8" (Excel\'s plain CSV is Windows-1252), or convert it: '
        "iconv -f cp1252 -t utf-8"
    )
    return DataError(fault, file=name, line=line)


ROWS, COLUMNS = 1_048_576, 1_024
"""The rows that a worksheet can hold, and the columns that are looked at; a file may claim more."""
BESIDE = 50
"""Columns beyond the header that are looked at for cells without a name."""
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")


def sheet_rows(path: Path, name: str, sheet: str | None = None) -> Iterator[Row]:
    """Yield the rows of a worksheet below its header, or their errors; empty ones are passed over."""
    # The header is the first row that is not empty. Numbers and truth values stay what they are, dates become
    # text, a formula is what it was last computed to (nothing if it never was). Of several worksheets one must be
    # named.
    with _opened(path, name) as workbook:
        wanted = _chosen(workbook, name, sheet)
        yield from _rows(workbook[wanted], f"{name}[{wanted}]")


def sheet_names(path: Path, name: str) -> list[str]:
    """Return the names of the worksheets that hold anything."""
    with _opened(path, name) as workbook:
        return _filled(workbook)


def _filled(workbook: Any) -> list[str]:
    sheets = {sheet.title: sheet for sheet in workbook.worksheets}
    return [title for title, sheet in sheets.items() if next(_cells(sheet), None) is not None]


def _chosen(workbook: Any, name: str, sheet: str | None) -> str:
    titles = [worksheet.title for worksheet in workbook.worksheets]
    if sheet is not None:
        if sheet not in titles:
            raise DataError(f"no worksheet {sheet!r}; {advise(sheet, titles)}", file=name)
        return sheet
    filled = _filled(workbook)
    if len(filled) > 1:
        choices = ", ".join(option("records", title) for title in filled)
        raise DataError(f"holds {len(filled)} worksheets; say which: {choices}", file=name)
    if not titles:
        raise DataError("holds no worksheet", file=name)
    return (filled or titles)[0]


@contextmanager
def _opened(path: Path, name: str) -> Iterator[Any]:
    (openpyxl,) = import_extra(f"{name} is an Excel workbook, which needs openpyxl", "xlsx", "openpyxl")
    workbook = None
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(part.file_size for part in archive.infolist()) > limits.WORKBOOK:
                raise DataError(f"larger than {limits.WORKBOOK // 2**20} MiB unpacked; save it as CSV", file=name)
        workbook = openpyxl.load_workbook(path, read_only=True, keep_links=False, data_only=True)
        yield workbook
    except (JudgeEvalError, OSError):
        raise
    except Exception as error:  # what is inside may break any part of the library, which has no error of its own
        fault = f"not a workbook that can be read ({type(error).__name__}); save it again as .xlsx or as CSV"
        raise DataError(fault, file=name) from None
    finally:
        if workbook is not None:
            workbook.close()


def _rows(sheet: Any, name: str) -> Iterator[Row]:
    line, first = next(_cells(sheet), (0, ()))
    if not first:
        return
    header = Header([_plain(cell.value) for cell in first], name, line)
    if len(header.names) == COLUMNS:
        raise DataError(f"has {COLUMNS:,} columns or more; a table of traces has few", file=name, line=line)
    width = min(COLUMNS, len(header.names) + BESIDE)
    for number, cells in _cells(sheet, line + 1, width):
        if (row := _row(header, cells, number, name)) is not None:
            yield row


def _cells(sheet: Any, first: int = 1, width: int = COLUMNS) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield the rows that hold anything."""
    sheet.reset_dimensions()  # what a file says of them may be wrong
    blank = None
    for number, cells in enumerate(sheet.iter_rows(min_row=first, max_row=ROWS, max_col=width), first):
        if cells is blank:  # openpyxl fills gaps with one and the same row, a million times where asked to
            continue
        if any(cell.value is not None for cell in cells):
            yield number, cells
        else:
            blank = cells


def _row(header: Header, cells: Sequence[Any], line: int, name: str) -> Row | None:
    wrong = next((place for place, cell in enumerate(cells) if cell.value is not None and cell.data_type == "e"), None)
    if wrong is not None:
        column = header.names[wrong] if wrong < len(header.names) else ""
        fault = f"holds the spreadsheet's error {cells[wrong].value}"
        return Row(DataError(fault, file=name, line=line, field=column or None), line)
    return header.row([_plain(cell.value) for cell in cells], line)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), value)
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    if isinstance(value, date | time):
        return value.isoformat()
    return value if value is None or isinstance(value, bool | int | float) else str(value)
