"""Tables of grades as people's tools leave them: Excel, LibreOffice, pandas, in any of their spellings."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from judge_eval.data.files.containers import kind_of, rows
from judge_eval.data.files.opening import head_of
from judge_eval.data.files.tables import Row, csv_rows, sheet_names, sheet_rows
from judge_eval.errors import DataError

SEPARATORS = (",", ";", "\t", "|")
"""What stands between cells: Excel writes semicolons where the comma marks decimals."""
_TABLES = (".csv", ".tsv")

YES = frozenset({"yes", "y", "true", "relevant"})
NO = frozenset({"no", "n", "false", "irrelevant", "not relevant"})
MISSING = frozenset({"nan", "na", "n/a", "#n/a", "<na>", "nat", "none", "null"})
"""What a missing value reads, in small letters, once it was turned into text."""
BLANK = MISSING | {"", "-", "?"}
"""What stands in a cell where nobody gave a grade."""
_WHOLE = re.compile(r"([+-]?[0-9]{1,4})(?:[.,]0*)?")
"""A whole number, also as pandas writes it beside empty cells (1.0), and with a comma for decimals."""
_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_CHANGED = re.compile(
    rf"[+-]?0\d+|\d{{16,}}|\d+e[+-]?\d+|\d+[.,]\d*0|true|false"
    rf"|\d{{1,4}}[-/.]\d{{1,2}}(?:[-/.]\d{{1,4}})?|\d{{1,2}}[- ]?{_MONTH}|{_MONTH}[- ]?\d{{1,4}}",
    re.IGNORECASE,
)
"""What a spreadsheet takes for a number, a truth value or a date."""


def table_rows(
    path: Path, name: str, wanted: Sequence[Sequence[str]]
) -> Iterator[tuple[int, Mapping[str, Any]]] | None:
    """Read the rows of a table with their lines, by the names of columns in small letters; None if it is no table.

    A table is a workbook, Parquet, or text with a header of the wanted columns.
    """
    kind = kind_of(path, name)
    if kind == "xlsx":
        return _named_rows(sheet_rows(path, name, _sheet(path, name, wanted)), name, wanted)
    if kind == "parquet":
        return _named_rows(rows(path, kind, name, lambda _: False), name, wanted)
    head = head_of(path, name, 1 << 20)
    fits = {sign: _fit(_header(head, sign), wanted) for sign in SEPARATORS}
    separator = max(SEPARATORS, key=lambda sign: fits[sign])
    if path.suffix.lower() not in _TABLES and fits[separator] < len(wanted):
        return None
    return _named_rows(csv_rows(path, name, separator), name, wanted)


def _named_rows(
    all_rows: Iterator[Row], name: str, wanted: Sequence[Sequence[str]]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, row in enumerate(all_rows):
        named: dict[str, Any] = {}
        for column, cell in row.get().items():
            plain = _plain_name(column)
            if plain and plain in named:
                raise DataError(f"two columns read {plain!r}; rename one", file=name, line=1)
            named[plain] = cell
        if not number:
            _check_columns(list(named), name, wanted)
        yield row.line or 0, named


def whole_number(word: str) -> int | None:
    """Read a cell as a whole number, with nothing but zeros behind a point; None where it is none."""
    hit = _WHOLE.fullmatch(word)
    return None if hit is None else int(hit[1])


def decimal_number(value: Any) -> float | None:
    """Read a cell as a number with a point or a comma for decimals; None where it is none."""
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and text.count(",") == 1 and "." not in text:
        text = text.replace(",", ".")
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def id_of(value: Any) -> str:
    """Return an id as text; a workbook may hold it as a number."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def changed_by_spreadsheets(text: str) -> bool:
    """Tell whether a spreadsheet would take an id for a number or a date, and write another text back."""
    return _CHANGED.fullmatch(text) is not None


def _sheet(path: Path, name: str, wanted: Sequence[Sequence[str]]) -> str | None:
    filled = sheet_names(path, name)
    if len(filled) < 2:
        return None
    fits = []
    for sheet in filled:
        row = next(sheet_rows(path, name, sheet), None)
        if row is not None and not isinstance(row.data, DataError):
            keys = [_plain_name(key) for key in row.data]
            if _fit(keys, wanted) == len(wanted):
                fits.append(sheet)
    if len(fits) == 1:
        return fits[0]
    columns = ", ".join(names[0] for names in wanted)
    matches = f"{', '.join(map(repr, fits))} have" if fits else "no worksheet has"
    raise DataError(f"{matches} the columns {columns}; keep them in one worksheet", file=name)


def _header(head: bytes, separator: str) -> list[str]:
    text = head.decode("utf-8-sig", errors="replace")
    try:
        cells = next(csv.reader(io.StringIO(text, newline=""), delimiter=separator), [])
    except csv.Error:
        return []
    return [_plain_name(cell) for cell in cells]


def _plain_name(cell: object) -> str:
    return re.sub(r"[\s_-]+", "_", str(cell).strip().lower())


def _fit(columns: Sequence[str], wanted: Sequence[Sequence[str]]) -> int:
    return sum(any(name in columns for name in names) for names in wanted)


def _check_columns(columns: Sequence[str], name: str, wanted: Sequence[Sequence[str]]) -> None:
    missing = [names[0] for names in wanted if not any(each in columns for each in names)]
    if missing:
        known = ", ".join(map(repr, filter(None, columns))) or "none"
        fault = f"the table has no column {' and no column '.join(missing)}; it has {known}"
        raise DataError(fault, file=name, line=1, field=missing[0])
