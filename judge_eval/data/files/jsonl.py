"""Reading traces from JSON Lines, one by one, with errors that name file, line and field."""

import codecs
import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from pydantic_core import from_json

from judge_eval import limits
from judge_eval.errors import DataError
from judge_eval.files import replacing, writing_named
from judge_eval.foreign import RepeatedKeyError, single_keys
from judge_eval.record import TOO_DEEP
from judge_eval.schema import Chunk, Trace, has_made_id

TRACE_FIELDS = frozenset(Trace.model_fields)
WITHOUT_POOL = TRACE_FIELDS - {"pool"}


def bounded_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file; of one that is too long no more than shows it."""
    while line := file.readline(limits.LINE + 1):
        rest = line
        while len(rest) > limits.LINE and not rest.endswith(b"\n"):
            rest = file.readline(limits.LINE + 1)
        yield line


def json_of_line(line: bytes, number: int) -> Any:
    """Read the JSON of a line; the first may begin with the mark of UTF-8. Raises `DataError`, without the place."""
    if len(line) > limits.LINE:
        raise DataError(f"longer than {limits.LINE // 2**20} MiB; a line holds one trace")
    try:
        return _loads((line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).rstrip(b"\r\n"))
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error.reason} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise DataError(TOO_DEEP) from None
    except ValueError as error:
        raise DataError(str(error) if isinstance(error, RepeatedKeyError) else f"not JSON: {error}") from None


def _loads(line: bytes) -> Any:
    value = _DECODER.decode(line.decode())
    return mend(value) if b"\\u" in line else value


def _whole_number(digits: str) -> Any:
    return int(digits) if len(digits) < 1000 else from_json(digits)  # Python reads none of thousands of digits


_DECODER = json.JSONDecoder(object_pairs_hook=single_keys, parse_int=_whole_number)


def fields_of(record: Mapping[str, Any]) -> frozenset[str]:
    """Return which keys of a record are fields of a trace: a `pool` without grades is another thing."""
    pool = record.get("pool")
    return TRACE_FIELDS if isinstance(pool, dict) and "grades" in pool else WITHOUT_POOL


def mend(value: Any) -> Any:
    """Replace lone surrogates, which JSON can spell and no file can hold."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [mend(item) for item in value]
    if isinstance(value, dict):
        return {mend(key): mend(item) for key, item in value.items()}
    return value


def misspelt(trace: Trace) -> set[str]:
    """Name metadata of a trace and of its chunks that are called nearly like a field which is empty there."""
    sentences = _near_fields(trace, "id" if has_made_id(trace) else "", "")
    for rank, chunk in enumerate(trace.chunks, 1):
        if chunk.metadata:
            sentences |= _near_fields(chunk, "id" if chunk.id == f"c{rank}" else "", "chunks[].")
    return sentences


def _near_fields(record: Trace | Chunk, made: str, prefix: str) -> set[str]:
    fields = [name for name in type(record).model_fields if name == made or getattr(record, name) in (None, (), "")]
    near = {
        name: difflib.get_close_matches(name.casefold(), fields, n=1, cutoff=0.8)
        for name in record.metadata
        if name not in fields
    }
    return {
        f"{prefix + name!r} is not one of our fields and is kept as metadata; did you mean {prefix + hits[0]!r}?"
        for name, hits in near.items()
        if hits
    }


def trace_line(trace: Trace) -> bytes:
    """Write a trace as its line, with the line end; fields that hold nothing are left out."""
    return trace.model_dump_json(exclude_none=True, exclude_defaults=True).encode() + b"\n"


def write_jsonl(traces: Iterable[Trace], path: Path) -> int:
    """Write traces to a file, one by one; the file appears, or is replaced, only when all are written."""
    written = 0
    with writing_named(path), replacing(path) as file:
        for trace in traces:
            file.write(trace_line(trace))
            written += 1
    return written
