"""The tables of a run as CSV, JSON or JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from judge_eval.export.tables import TableName, table_of
from judge_eval.files import csv_text
from judge_eval.runs.folder.run import Run
from judge_eval.shown import safe_cell


def table_csv(run: Run, table: TableName, *, safe_cells: bool = False) -> Iterator[str]:
    """Yield a table as CSV, a line each: lists with spaces between ranks, commas between texts.

    Args:
        run: The run.
        table: Which one.
        safe_cells: Whether texts that a spreadsheet would compute begin with a `'`.
    """
    types, rows = table_of(run, table)
    head: list[list[object]] = [[*types]]
    cells: Iterator[list[object]] = ([_cell(row.get(name)) for name in types] for row in rows)
    for row in chain(head, cells):
        yield csv_text([[safe_cell(cell) for cell in row] if safe_cells else row])


def table_lines(run: Run, table: TableName) -> Iterator[str]:
    """Yield a table as JSON Lines."""
    for row in table_of(run, table)[1]:
        yield json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


def table_json(run: Run, table: TableName) -> Iterator[str]:
    """Yield a table as one JSON array, an object a row."""
    begun = False
    for line in table_lines(run, table):
        yield (",\n " if begun else "[\n ") + line.rstrip("\n")
        begun = True
    yield "\n]\n" if begun else "[]\n"


def _cell(value: object) -> object:
    """Return what a cell holds; nothing where it is not known."""
    if isinstance(value, list):
        return (" " if all(isinstance(one, int) for one in value) else ", ").join(map(str, value))
    return "" if value is None else value


TABLE_WRITERS: Mapping[str, Callable[[Run, TableName], Iterator[str]]] = {
    "csv": table_csv,
    "jsonl": table_lines,
    "json": table_json,
}
"""The text formats that hold a table."""
