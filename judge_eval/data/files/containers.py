"""Turning a file into records, one by one, each with its place."""

import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from judge_eval.data.files.jsonfile import DECODER, Fits, records, walk
from judge_eval.data.files.jsonl import bounded_lines, json_of_line
from judge_eval.data.files.opening import head_of, reading_file
from judge_eval.data.files.tables import Row, csv_rows, sheet_rows
from judge_eval.errors import ConfigError, DataError
from judge_eval.installed import import_extra
from judge_eval.safe_text import value_kind
from judge_eval.spelling import option

Container: TypeAlias = Literal["jsonl", "json", "csv", "tsv", "parquet", "xlsx"]


def kind_of(path: Path, name: str) -> Container:
    """Tell a file's container from its first bytes, with the suffix where they leave it open."""
    head = head_of(path, name)
    if head[:4] == b"PAR1":
        return "parquet"
    if head[:4] == b"PK\x03\x04":
        return _zipped(path, name)
    if head[:4] == b"\x28\xb5\x2f\xfd":
        raise DataError("packed with Zstandard; unpack it first (zstd -d)", file=name)
    if head[257:262] == b"ustar":
        raise DataError("a tar archive; unpack it, and give the file inside", file=name)
    if head[:8] == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
        fault = "an old or password-protected Excel workbook; save it as .xlsx without a password, or as CSV"
        raise DataError(fault, file=name)
    if head.startswith(b"version https://git-lfs"):
        raise DataError("a Git LFS pointer, not the file itself; run `git lfs pull`", file=name)
    if Path(name).name.startswith("~$"):
        fault = "the lock file that Excel writes beside an open workbook; give the workbook"
        raise DataError(fault, file=name)
    suffix = path.suffix.lower()
    bare = head.lstrip()
    if suffix in (".csv", ".tsv"):
        return "tsv" if suffix == ".tsv" else "csv"
    is_document = bare[:1] == b"{" and not _is_lines(bare) and (suffix == ".json" or _is_sequence(bare))
    return "json" if bare[:1] == b"[" or is_document else "jsonl"


def _zipped(path: Path, name: str) -> Container:
    try:
        with zipfile.ZipFile(path) as archive:
            members = set(archive.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise DataError(f"a ZIP archive that cannot be read: {error}", file=name) from None
    if "xl/workbook.xml" in members:
        return "xlsx"
    if "xl/workbook.bin" in members or {"mimetype", "content.xml"} <= members:
        raise DataError("a workbook of another kind; save it as .xlsx or as CSV", file=name)
    raise DataError("a ZIP archive; unpack it, and give the file inside", file=name)


def _is_lines(head: bytes) -> bool:
    """Tell whether a `.json` file holds an object a line: the first line is whole, and another follows."""
    first, end, rest = head.partition(b"\n")
    if not end or not rest.strip():
        return False
    try:
        return isinstance(json.loads(first), dict)
    except ValueError:
        return False


def _is_sequence(head: bytes) -> bool:
    """Tell whether a file holds an object over several lines, and another after it."""
    text = head.decode("utf-8", "ignore")
    try:
        _, end = DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return "\n" in text[:end] and text[end:].lstrip()[:1] == "{"


def rows(path: Path, kind: Container, name: str, fits: Fits, wanted: str | None = None) -> Iterator[Row]:
    """Yield the records of a file, or their errors, streamed; a JSON file is held in memory."""
    if wanted is not None and kind not in ("json", "jsonl", "xlsx"):
        raise ConfigError(f"{option('records', wanted)}: {name} holds its records in one place; leave it out")
    with reading_file(name):
        if kind == "jsonl":
            yield from _jsonl(path, name, wanted)
        elif kind == "json":
            for data, place in records(path, name, fits, wanted):
                yield Row(_checked(data, name, None, place), None, place)
        elif kind == "parquet":
            yield from _parquet(path, name)
        elif kind == "xlsx":
            yield from sheet_rows(path, name, wanted)
        else:
            yield from csv_rows(path, name, "\t" if kind == "tsv" else None)


def _jsonl(path: Path, name: str, wanted: str | None) -> Iterator[Row]:
    with path.open("rb") as file:
        for number, line in enumerate(bounded_lines(file), 1):
            if not line.strip():
                continue
            try:
                record = _checked(json_of_line(line, number), name, number, "")
            except DataError as error:
                record = error.at(file=name, line=number)
            if wanted is None or isinstance(record, DataError):
                yield Row(record, number)
                continue
            for item, place in walk(record, wanted):
                yield Row(_checked(item, name, number, place), number, place)


def _checked(data: Any, name: str, line: int | None, prefix: str) -> Mapping[str, Any] | DataError:
    if isinstance(data, dict):
        return data
    if isinstance(data, DataError):
        return data.at(file=name, line=line, field=prefix or None)
    what = f"a record is one JSON object, not {value_kind(data)}"
    return DataError(what, file=name, line=line, field=prefix or None)


def _parquet(path: Path, name: str) -> Iterator[Row]:
    needed = f"{name} is a Parquet file, which needs PyArrow"
    pyarrow, parquet = import_extra(needed, "parquet", "pyarrow", "pyarrow.parquet")
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                for record in batch.to_pylist():
                    number += 1
                    yield Row(record, number)
    except pyarrow.ArrowException as error:
        raise DataError(f"not Parquet: {error}", file=name) from None
