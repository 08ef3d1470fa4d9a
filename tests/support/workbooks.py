"""Workbooks as openpyxl writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openpyxl


def workbook(path: Path, sheets: dict[str, list[list[Any]]]) -> Path:
    """Write a workbook: worksheets by name, rows of cells."""
    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path
