"""Runs in the formats of other tools."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from judge_eval.errors import ConfigError, UnknownNameError
from judge_eval.export.format import Format, stream
from judge_eval.export.scores import Service
from judge_eval.export.tables import TABLE_NAMES, TABLE_WRITERS, TableName, table_csv, write_parquet
from judge_eval.export.text import csv_lines
from judge_eval.files import writing_named
from judge_eval.runs.folder.run import Run
from judge_eval.spelling import option

MLFLOW = "mlflow"
"""The format that is not a file: `mlflow.log_run`."""


def _all_formats() -> Mapping[str, Format]:
    """Read which modules of this folder have formats, and import those alone."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    names = [file.stem for file in files if "\nEXPORTS = " in file.read_text(encoding="utf-8")]
    homes = [import_module(f"judge_eval.export.{name}") for name in names]
    return dict(sorted((each.name, each) for home in homes for each in home.EXPORTS))


FORMATS = _all_formats()
"""What a run can be written as, into a file."""
_SUFFIXES = {suffix: each.name for each in FORMATS.values() for suffix in each.suffixes}


def service_of(format: str) -> Service:
    """Return the service that takes the scores of a format."""
    services = {name: each.service for name, each in FORMATS.items() if each.service is not None}
    if format not in services:
        raise UnknownNameError("service", format, services)
    return services[format]


def write_as(
    run: Run, path: Path, format: str | None = None, *, safe_cells: bool = False, table: str | None = None
) -> str:
    """Write a run in one of `FORMATS`, by default the one that the suffix names, and return its name."""
    # For an Inspect log a path that does not end in `.json` is a folder of logs, which is made. `safe_cells`
    # puts a `'` before texts that a spreadsheet would compute. `table` is `verdicts`, `traces` or `claims`,
    # with csv, parquet, json and jsonl; None writes what the format holds otherwise.
    chosen = format or _SUFFIXES.get(path.suffix.lower())
    if chosen is None:
        raise ConfigError(
            f"cannot write {path}: its suffix names no format; give {option('format')}: {', '.join(FORMATS)}"
        )
    if chosen == MLFLOW:
        raise ConfigError("mlflow is not a file: use `run.to_mlflow()`, or `judge-eval export` without -o")
    if chosen not in FORMATS:
        raise UnknownNameError("format", chosen, [*FORMATS, MLFLOW])
    if safe_cells and chosen != "csv":
        raise ConfigError(f"safe cells are for csv, which spreadsheets open; {chosen} needs none")
    named = None if table is None else _named_table(table, chosen)
    with writing_named(path):
        if named is not None and chosen == "parquet":
            write_parquet(run, path, named)
        elif safe_cells:
            stream(csv_lines(run, safe_cells=True) if named is None else table_csv(run, named, safe_cells=True), path)
        elif named is not None:
            stream(TABLE_WRITERS[chosen](run, named), path)
        else:
            FORMATS[chosen].write(run, path)
    return chosen


def _named_table(table: str, chosen: str) -> TableName:
    match = next((name for name in TABLE_NAMES if name == table), None)
    if match is None:
        raise UnknownNameError("table", table, TABLE_NAMES)
    if chosen not in ("parquet", *TABLE_WRITERS):
        raise ConfigError(f"{chosen} holds no tables; write {', '.join(('parquet', *TABLE_WRITERS))}")
    return match
