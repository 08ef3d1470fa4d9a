"""Turning a file into records, one by one, each with its place."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from judge_eval.data.files.jsonfile import records
from judge_eval.data.files.opening import reading_file
from judge_eval.errors import DataError, needs_extra

Container: TypeAlias = Literal["jsonl", "json", "csv", "tsv", "parquet"]

CELL = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Row:
    """One record of a file: its data, or why it cannot be read."""

    data: Mapping[str, Any] | DataError
    line: int | None = None
    """Counted from 1: the line it begins on, or the row of a Parquet file; None where one record is all."""
    prefix: str = ""
    """What stands before a field in a message, such as `[3]` in a JSON array."""

    def get(self) -> Mapping[str, Any]:
        """Return the data.

        Raises:
            DataError: They cannot be read.
        """
        if isinstance(self.data, DataError):
            raise self.data
        return self.data


def kind_of(path: Path, name: str) -> Container:
    """Tell a file's container from its first bytes, with the suffix where they leave it open.

    Raises:
        DataError: The file cannot be read.
    """
    with reading_file(name), path.open("rb") as file:
        head = file.read(65536)
    if head[:4] == b"PAR1":
        return "parquet"
    suffix = path.suffix.lower()
    bare = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if suffix in (".csv", ".tsv"):
        return "tsv" if suffix == ".tsv" else "csv"
    if bare[:1] == b"[":
        return "json"
    if suffix == ".json" and bare[:1] == b"{":
        return "jsonl" if _is_lines(bare) else "json"
    return "jsonl"


def _is_lines(head: bytes) -> bool:
    """Tell whether a `.json` file holds an object a line: the first line is whole, and another follows."""
    first, end, rest = head.partition(b"\n")
    if not end or not rest.strip():
        return False
    try:
        return isinstance(json.loads(first), dict)
    except ValueError:
        return False


def rows(
    path: Path, kind: Container, name: str, unwrap: Callable[[Mapping[str, Any]], bool]
) -> Iterator[Row]:
    """Yield the records of a file, streamed; of JSON the lists of records are.

    Args:
        path: The file.
        kind: Its container.
        name: What to call it in messages.
        unwrap: Asked about a JSON file that is one object, of whose lists it sees the first items: whether
            it wraps a list of records.

    Raises:
        DataError: The file cannot be read at all. A record that cannot is yielded as its error.
    """
    with reading_file(name):
        if kind == "jsonl":
            yield from _jsonl(path, name)
        elif kind == "json":
            yield from _json(path, name, unwrap)
        elif kind == "parquet":
            yield from _parquet(path, name)
        else:
            yield from _csv(path, name, "\t" if kind == "tsv" else None)


def _jsonl(path: Path, name: str) -> Iterator[Row]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield Row(_object(line, number == 1, name, number), number)


def _object(line: bytes, first: bool, name: str, number: int) -> Mapping[str, Any] | DataError:
    try:
        data = json.loads(line.decode("utf-8-sig" if first else "utf-8"))
    except UnicodeDecodeError as error:
        return DataError(f"not UTF-8: {error.reason} at byte {error.start}", file=name, line=number)
    except (ValueError, RecursionError) as error:
        return DataError(f"not JSON: {error}", file=name, line=number)
    return _checked(data, name, number, "")


def _checked(data: Any, name: str, line: int | None, prefix: str) -> Mapping[str, Any] | DataError:
    if isinstance(data, dict):
        return data
    what = f"a record is one JSON object, not a {type(data).__name__}"
    return DataError(what, file=name, line=line, field=prefix or None)


def _json(path: Path, name: str, unwrap: Callable[[Mapping[str, Any]], bool]) -> Iterator[Row]:
    for data, line, prefix in records(path, name, unwrap):
        yield Row(data if isinstance(data, DataError) else _checked(data, name, line, prefix), line, prefix)


def _csv(path: Path, name: str, delimiter: str | None) -> Iterator[Row]:
    # The limit is the whole interpreter's; raising it is the only way to read a long cell.
    csv.field_size_limit(max(csv.field_size_limit(), CELL))
    if delimiter is None:
        with path.open("rb") as raw:
            head = raw.readline()
        delimiter = ";" if b";" in head and b"," not in head else ","
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            header = next(reader, None)
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"not CSV: {error}", file=name, line=1) from None
        if header is None:
            return
        twice = {column for column in header if header.count(column) > 1}
        if twice:
            raise DataError(f"the column {min(twice)!r} stands twice", file=name, line=1)
        yield from _cells(reader, header, name)


def _cells(reader: Any, header: list[str], name: str) -> Iterator[Row]:
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except (csv.Error, UnicodeDecodeError) as error:
            # What follows cannot be told apart any more.
            yield Row(DataError(f"not CSV: {error}", file=name, line=line), line)
            return
        if cells is None:
            return
        if not cells:
            continue
        if len(cells) != len(header):
            fault = (
                f"{len(cells)} cells, but the header has {len(header)}; quote cells that hold the separator"
            )
            yield Row(DataError(fault, file=name, line=line), line)
            continue
        pairs: Iterable[tuple[str, str]] = zip(header, cells, strict=True)
        yield Row({key: cell if cell != "" else None for key, cell in pairs}, line)


def _parquet(path: Path, name: str) -> Iterator[Row]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise needs_extra(f"{name} is a Parquet file, which needs PyArrow", "parquet") from None
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                for record in batch.to_pylist():
                    number += 1
                    yield Row(record, number)
    except pyarrow.ArrowException as error:
        raise DataError(f"not Parquet: {error}", file=name) from None
