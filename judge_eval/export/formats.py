"""Runs in the formats of other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from judge_eval.errors import ConfigError, UnknownNameError
from judge_eval.export.inspect_log import inspect_log, log_name
from judge_eval.export.phoenix import document_annotations
from judge_eval.export.tables import TABLE_NAMES, TableName, write_parquet
from judge_eval.export.tabletext import TABLE_WRITERS, table_csv
from judge_eval.export.text import as_csv, as_json, as_markdown, labelled_lines
from judge_eval.export.trec import qrels_lines, run_lines
from judge_eval.files import replacing
from judge_eval.runs.folder.run import Run

Write: TypeAlias = Callable[[Run, Path], None]


def _lines(make: Callable[[Run], Iterator[str]]) -> Write:
    return lambda run, path: _stream(make(run), path)


def _text(make: Callable[[Run], str]) -> Write:
    return lambda run, path: _stream([make(run)], path)


def _inspect(run: Run, path: Path) -> None:
    _stream([inspect_log(run)], inspect_file(run, path))


def inspect_file(run: Run, path: Path) -> Path:
    """Return the file of a run's log for Inspect; a path without `.json` is a folder of logs, and is made.

    Raises:
        OSError: The folder cannot be made.
    """
    if path.suffix.lower() == ".json" and not path.is_dir():
        return path
    path.mkdir(parents=True, exist_ok=True)
    return path / log_name(run)


FORMATS: Mapping[str, Write] = {
    "trec-run": _lines(run_lines),
    "trec-qrels": _lines(qrels_lines),
    "jsonl": _lines(labelled_lines),
    "csv": _text(as_csv),
    "parquet": write_parquet,
    "json": _text(as_json),
    "markdown": _text(as_markdown),
    "phoenix": _lines(document_annotations),
    "inspect": _inspect,
}
"""What a run can be written as, into a file."""
MLFLOW = "mlflow"
"""The one format that is no file: `mlflow.log_run`."""
SUFFIXES: Mapping[str, str] = {
    ".jsonl": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".json": "json",
    ".md": "markdown",
    ".run": "trec-run",
    ".trec": "trec-run",
    ".qrels": "trec-qrels",
}


def write_as(
    run: Run,
    path: Path,
    format: str | None = None,
    *,
    safe_cells: bool = False,
    table: str | None = None,
) -> str:
    """Write a run in one of `FORMATS`, by default the one that the suffix names.

    Args:
        run: The run.
        path: The file. For an Inspect log a path that does not end in `.json` is a folder of logs, which is
            made: the file in it is named as `inspect view` wants it.
        format: The format.
        safe_cells: With csv: whether texts that a spreadsheet would compute begin with a `'`.
        table: With csv, parquet, json and jsonl: write this table of the run, `verdicts`, `traces` or
            `claims`; None writes what the format holds otherwise.

    Returns:
        The format that was written.

    Raises:
        UnknownNameError: There is no such format or table.
        ConfigError: The suffix names none, the file cannot be written, or the run does not fit the format.
    """
    chosen = format or SUFFIXES.get(path.suffix.lower())
    if chosen is None:
        raise ConfigError(
            f"cannot write {path}: its suffix names no format; give --format {', '.join(FORMATS)}"
        )
    if chosen == MLFLOW:
        raise ConfigError("an MLflow run is no file; log it with `run.to_mlflow()` or `judge-eval export`")
    if chosen not in FORMATS:
        raise UnknownNameError("format", chosen, [*FORMATS, MLFLOW])
    if safe_cells and chosen != "csv":
        raise ConfigError(f"safe cells are for csv, which spreadsheets open; {chosen} needs none")
    named = None if table is None else _named_table(table, chosen)
    try:
        if named is not None and chosen == "parquet":
            write_parquet(run, path, named)
        elif named is not None and safe_cells:
            _stream(table_csv(run, named, safe_cells=True), path)
        elif named is not None:
            _stream(TABLE_WRITERS[chosen](run, named), path)
        elif safe_cells:
            _stream([as_csv(run, safe_cells=True)], path)
        else:
            FORMATS[chosen](run, path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from None
    return chosen


def _named_table(table: str, chosen: str) -> TableName:
    found = next((name for name in TABLE_NAMES if name == table), None)
    if found is None:
        raise UnknownNameError("table", table, TABLE_NAMES)
    if chosen not in ("parquet", *TABLE_WRITERS):
        raise ConfigError(f"{chosen} holds no tables; write {', '.join(('parquet', *TABLE_WRITERS))}")
    return found


def _stream(parts: Iterable[str], path: Path) -> None:
    """Write text part by part; the file appears only when all is written."""
    with replacing(path) as file:
        file.writelines(part.encode() for part in parts)
