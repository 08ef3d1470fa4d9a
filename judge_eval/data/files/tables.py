"""Tables as records: the header that names the cells below it, whatever wrote the table."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judge_eval.errors import DataError

CELL = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Row:
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
        return self.holder or f"line {self.line}"

    def get(self) -> Mapping[str, Any]:
        """Return the data.

        Raises:
            DataError: They cannot be read.
        """
        if isinstance(self.data, DataError):
            raise self.data
        return self.data


class Header:
    """The first row of a table, which names the cells of the others.

    Blanks around a name are no part of it, and empty cells at the end of a row, as spreadsheets leave them,
    are no cells.

    Args:
        cells: The row.
        name: What to call the file in messages.
        line: The row's line.

    Raises:
        DataError: A name stands twice.
    """

    def __init__(self, cells: Sequence[Any], name: str, line: int) -> None:
        self._name = name
        self.names = [str(cell).strip() if cell is not None else "" for cell in cells]
        while self.names and not self.names[-1]:
            del self.names[-1]
        self._unnamed = [place for place, column in enumerate(self.names) if not column]
        twice = {column for column in self.names if column and self.names.count(column) > 1}
        if twice:
            raise DataError(f"the column {min(twice)!r} stands twice", file=name, line=line)

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
    """Yield the rows of a CSV below its header; empty ones are passed over.

    Args:
        path: The file, UTF-8 (a byte order mark is allowed).
        name: What to call it in messages.
        delimiter: What stands between cells; None for a comma, or a semicolon where the header has no comma.

    Raises:
        DataError: The header cannot be read. A row that cannot is yielded as its error.
    """
    # The limit is the whole interpreter's; raising it is the only way to read a long cell.
    csv.field_size_limit(max(csv.field_size_limit(), CELL))
    if delimiter is None:
        with path.open("rb") as raw:
            head = raw.readline()
        delimiter = ";" if b";" in head and b"," not in head else ","
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            cells = next(reader, None)
        except (csv.Error, UnicodeDecodeError) as error:
            raise _not_csv(error, path, name, 1) from None
        if cells is None:
            return
        header = Header(cells, name, 1)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader, None)
            except (csv.Error, UnicodeDecodeError) as error:
                # What follows cannot be told apart any more.
                fault = _not_csv(error, path, name, line)
                yield Row(fault, fault.line)
                return
            if cells is None:
                return
            row = header.row(cells, line)
            if row is not None:
                yield row


def _not_csv(error: Exception, path: Path, name: str, line: int) -> DataError:
    if not isinstance(error, UnicodeDecodeError):
        return DataError(f"not CSV: {error}", file=name, line=line)
    with path.open("rb") as file:  # text is decoded in blocks, so the line is not where the reader stands
        line = next((number for number, data in enumerate(file, 1) if not _is_utf8(data)), line)
    fault = (
        'not UTF-8; save it as "CSV UTF-8" (Excel\'s plain CSV is Windows-1252), or convert it: '
        "iconv -f cp1252 -t utf-8"
    )
    return DataError(fault, file=name, line=line)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
