"""Reading traces from JSON Lines, one by one, with errors that name file, line and field."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Literal

from pydantic_core import from_json

from judge_eval import limits
from judge_eval.data.files.opening import reading_file
from judge_eval.data.files.values import worded
from judge_eval.errors import DataError
from judge_eval.record import TOO_DEEP
from judge_eval.schema import Chunk, Trace

TRACE_FIELDS = frozenset(Trace.model_fields)
WITHOUT_POOL = TRACE_FIELDS - {"pool"}
CHUNK_FIELDS = frozenset(Chunk.model_fields) | {"document", "relevance"}


def read_jsonl(
    path: Path,
    *,
    name: str | None = None,
    admit: Callable[[Trace, int | None], Trace] | None = None,
    on_invalid: Literal["error", "skip"] = "error",
    on_skip: Callable[[DataError], None] | None = None,
) -> Iterator[Trace]:
    """Read a file of traces, one JSON object a line, without holding more than one.

    Fields that are not ours are kept in `metadata`. Blank lines are passed over.

    Args:
        path: The file, UTF-8 (a byte order mark is allowed).
        name: What to call it in messages; its path by default.
        admit: Called with each trace and its line; returns it, perhaps changed. A `DataError` it raises is
            given the file and line.
        on_invalid: Whether an invalid record ends the reading or is skipped.
        on_skip: Called with the error of each record that is skipped.

    Raises:
        DataError: The file cannot be read, or a record is invalid under `on_invalid="error"`.
    """
    name = name or str(path)
    with reading_file(name):
        file = path.open("rb")
    with file:
        for number, line in enumerate(_lines(file), 1):
            if line.isspace():
                continue
            try:
                if len(line) > limits.LINE:
                    fault = f"longer than {limits.LINE // 2**20} MiB; a line holds one trace"
                    raise DataError(fault, file=name, line=number)
                yield _trace(line, name, number, admit)
            except DataError as error:
                if on_invalid == "error":
                    raise
                if on_skip is not None:
                    on_skip(error)


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file; of one that is too long no more than shows it."""
    while line := file.readline(limits.LINE + 1):
        rest = line
        while len(rest) > limits.LINE and not rest.endswith(b"\n"):
            rest = file.readline(limits.LINE + 1)
        yield line


def _trace(line: bytes, name: str, number: int, admit: Callable[[Trace, int | None], Trace] | None) -> Trace:
    try:
        data = _loads(line.removeprefix(codecs.BOM_UTF8) if number == 1 else line)
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error.reason} at byte {error.start}", file=name, line=number) from None
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error.msg} at column {error.colno}", file=name, line=number) from None
    except RecursionError:
        raise DataError(TOO_DEEP, file=name, line=number) from None
    except ValueError as error:
        raise DataError(f"not JSON: {error}", file=name, line=number) from None
    if not isinstance(data, dict):
        kind = type(data).__name__
        raise DataError(f"a line holds one JSON object (a trace), not a {kind}", file=name, line=number)
    trace = _parsed(_fold(data), name, number)
    if admit is not None:
        try:
            return admit(trace, number)
        except DataError as error:
            raise DataError(error.message, file=name, line=number, field=error.field) from None
    return trace


def _parsed(data: dict[str, Any], name: str, number: int) -> Trace:
    try:
        return Trace.parse(data, file=name, line=number)
    except DataError as first:
        try:
            words = worded(data)
        except DataError as error:
            raise DataError(error.message, file=name, line=number, field=error.field) from None
        if words == data:
            raise first
    return Trace.parse(words, file=name, line=number)


def _loads(line: bytes) -> Any:
    try:
        return from_json(line, allow_inf_nan=False)
    except ValueError:
        # Either a lone surrogate, which only the slower reader takes, or an error it words better.
        return mend(json.loads(line.decode()))


def fields_of(record: Mapping[str, Any]) -> frozenset[str]:
    """Return which keys of a record are fields of a trace: a `pool` without grades is another thing."""
    pool = record.get("pool")
    return TRACE_FIELDS if isinstance(pool, dict) and "grades" in pool else WITHOUT_POOL


def _fold(data: dict[str, Any]) -> dict[str, Any]:
    """Move the fields that are not ours into `metadata`, in the trace and in its chunks."""
    fields = fields_of(data)
    if not data.keys() <= fields:
        data = _into_metadata(data, fields)
    chunks = data.get("chunks")
    if isinstance(chunks, list):
        data["chunks"] = [
            _into_metadata(chunk, CHUNK_FIELDS)
            if isinstance(chunk, dict) and not chunk.keys() <= CHUNK_FIELDS
            else chunk
            for chunk in chunks
        ]
    return data


def _into_metadata(data: dict[str, Any], fields: frozenset[str]) -> dict[str, Any]:
    metadata = data.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        return data
    odd = {key: value for key, value in data.items() if key not in fields}
    kept = {key: value for key, value in data.items() if key in fields}
    return {**kept, "metadata": {**odd, **(metadata or {})}}


def mend(value: Any) -> Any:
    """Replace lone surrogates, which JSON can spell and no file can hold."""
    if isinstance(value, str):
        return (
            value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )
    if isinstance(value, list):
        return [mend(item) for item in value]
    if isinstance(value, dict):
        return {mend(key): mend(item) for key, item in value.items()}
    return value
