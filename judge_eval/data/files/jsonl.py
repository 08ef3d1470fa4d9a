"""Reading traces from JSON Lines, one by one, with errors that name file, line and field."""

import codecs
import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from pydantic_core import from_json

from judge_eval import limits
from judge_eval.errors import ConfigError, DataError
from judge_eval.files import replacing
from judge_eval.foreign import RepeatedKeyError, check_single_keys
from judge_eval.record import TOO_DEEP
from judge_eval.schema import Chunk, Trace, has_made_id

TRACE_FIELDS = frozenset(Trace.model_fields)
WITHOUT_POOL = TRACE_FIELDS - {"pool"}
_OF_TRACE, _OF_CHUNK = TRACE_FIELDS - {"metadata"}, Chunk.model_fields.keys() - {"metadata"}


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
    try:
        value = from_json(line, allow_inf_nan=False)
    except ValueError:
        # Either a lone surrogate, which only the slower reader takes, or an error it words better.
        value = mend(json.loads(line.decode()))
    return check_single_keys(line, value)


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


LIKE = 0.8
"""From this share of common characters on, two names are taken for one that is misspelt."""


class Misspelt:
    """Looks through traces for metadata whose name is nearly that of a field which the trace lacks."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], tuple[int, str]] = {}

    def add(self, trace: Trace) -> None:
        """Look at a trace and its chunks."""
        pairs = set(_pairs(trace.metadata, _lacking(trace, _OF_TRACE, has_made_id(trace)), ""))
        for rank, chunk in enumerate(trace.chunks, 1):
            if chunk.metadata:
                lacking = _lacking(chunk, _OF_CHUNK, chunk.id == f"c{rank}")
                pairs.update(_pairs(chunk.metadata, lacking, "chunks[]."))
        for pair in pairs:
            count, first = self._seen.get(pair, (0, trace.id))
            self._seen[pair] = count + 1, first

    def remarks(self) -> list[str]:
        """Say what was found, the most frequent first."""
        pairs = sorted(self._seen.items(), key=lambda item: (-item[1][0], item[0]))
        return [
            f"{theirs!r} is not one of our fields and is kept as metadata, in {count} "
            f"trace{'s' * (count != 1)} (the first is {first!r}); did you mean {ours!r}?"
            for (theirs, ours), (count, first) in pairs
        ]


def _pairs(metadata: Mapping[str, Any], lacking: Iterable[str], prefix: str) -> list[tuple[str, str]]:
    by_fold = {_fold_name(field): field for field in lacking}
    return [
        (f"{prefix}{name}", f"{prefix}{by_fold[near[0]]}")
        for name in metadata
        if (near := difflib.get_close_matches(_fold_name(name), by_fold, n=1, cutoff=LIKE))
    ]


def _fold_name(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


def _lacking(record: Trace | Chunk, fields: Iterable[str], made_id: bool) -> list[str]:
    return [
        field for field in sorted(fields) if (made_id if field == "id" else getattr(record, field) in (None, (), ""))
    ]


def trace_line(trace: Trace) -> bytes:
    """Write a trace as its line, with the line end; fields that hold nothing are left out."""
    return trace.model_dump_json(exclude_none=True, exclude_defaults=True).encode() + b"\n"


def write_jsonl(traces: Iterable[Trace], path: Path) -> int:
    """Write traces to a file, one by one; the file appears, or is replaced, only when all are written."""
    written = 0
    try:
        with replacing(path) as file:
            for trace in traces:
                file.write(trace_line(trace))
                written += 1
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from None
    return written
