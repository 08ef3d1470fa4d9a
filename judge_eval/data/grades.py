"""Reading grades of chunks, whoever gave them: JSON Lines, CSV or TREC qrels."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judge_eval.data.collections.qrels import read_qrels
from judge_eval.data.files.containers import rows
from judge_eval.data.files.opening import reading_file
from judge_eval.data.files.values import first_of
from judge_eval.errors import DataError

TRACE = ("trace_id", "query_id", "qid")
CHUNK = ("chunk_id", "doc_id", "docid", "document_id")
_WHOLE = re.compile(r"[+-]?[0-9]{1,4}")


@dataclass(frozen=True, slots=True)
class GradedRow:
    """What a file says of one chunk."""

    trace: str
    chunk: str
    grade: int | None
    """None where nobody gave one; below 0 only in qrels: in the pool, but not judged."""
    file: str
    line: int
    """Counted from 1; 0 where it is not known."""
    beside: Mapping[str, Any]
    """The other fields of the record; a trace's `probability` of being chosen among them."""


def graded_rows(path: Path | str, fields: Sequence[str] = ("label",)) -> Iterator[GradedRow]:
    """Read what a file says of each chunk; its suffix tells the format.

    - `.jsonl`, `.ndjson`, `.json`: a line is a trace with its `id` and graded `chunks`, the result of a run
      with its `trace_id` and `outcomes`, or one grade (`trace_id`, `chunk_id`, the grade).
    - `.csv`: the columns `trace_id`, `chunk_id`, the grade; others stand beside it.
    - anything else: TREC qrels, query being the trace's id and document the chunk's.

    Args:
        path: The file.
        fields: What the grade may be called; the first that is there counts.

    Raises:
        DataError: The file cannot be read; file, line and field are named.
    """
    name, suffix = str(path), Path(path).suffix.lower()
    if suffix in (".jsonl", ".ndjson", ".json"):
        for record in rows(Path(path), "jsonl", name, lambda _: True):
            yield from _json_rows(record.get(), name, record.line or 0, fields)
    elif suffix == ".csv":
        for line, row in _csv_rows(Path(path)):
            yield _row(row, name, line, fields)
    else:
        for trace, grades in read_qrels(path).items():
            for chunk, grade in grades.items():
                yield GradedRow(trace, chunk, grade, name, 0, {})


def _json_rows(record: Mapping[str, Any], name: str, line: int, fields: Sequence[str]) -> Iterator[GradedRow]:
    within = next((key for key in ("outcomes", "chunks") if key in record), None)
    if within is None and "query" in record and not any(key in record for key in TRACE):
        return  # a trace whose empty list of chunks was left out
    if within is None:
        yield _row(record, name, line, fields)
        return
    trace = record.get("trace_id" if within == "outcomes" else "id")
    if not isinstance(trace, str) or not trace:
        raise DataError("a graded trace needs its id", file=name, line=line, field="id")
    if not isinstance(record[within], list):
        raise DataError("must be a list", file=name, line=line, field=within)
    metadata = record.get("metadata")
    sample = metadata.get("sample") if isinstance(metadata, dict) else None
    chance = {"probability": sample.get("probability")} if isinstance(sample, dict) else {}
    for place, chunk in enumerate(record[within]):
        if isinstance(chunk, dict):
            where = f"{within}[{place}]"
            chunk_id = first_of(chunk, "id", *CHUNK) or f"c{place + 1}"
            grade = _grade_in(chunk, name, line, fields, f"{where}.")
            yield GradedRow(trace, str(chunk_id), grade, name, line, {**chunk, **chance})


def _row(row: Mapping[str, Any], name: str, line: int, fields: Sequence[str]) -> GradedRow:
    trace, chunk = first_of(row, *TRACE), first_of(row, *CHUNK)
    for wanted, value in ((TRACE[0], trace), (CHUNK[0], chunk)):
        if value is None:
            raise DataError("this field is required", file=name, line=line, field=wanted)
    if not any(field in row for field in fields):
        raise DataError("this field is required", file=name, line=line, field=fields[0])
    return GradedRow(str(trace), str(chunk), _grade_in(row, name, line, fields), name, line, row)


def _grade_in(
    row: Mapping[str, Any], name: str, line: int, fields: Sequence[str], prefix: str = ""
) -> int | None:
    """Return the grade under the first of the fields that is there; None where it holds nothing."""
    field = next((field for field in fields if field in row), None)
    value = None if field is None else row[field]
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    return _grade(value, name, line, f"{prefix}{field}")


def _grade(value: Any, name: str, line: int, where: str) -> int:
    word = value.strip().lower() if isinstance(value, str) else value
    if isinstance(word, bool) or word in ("true", "false"):
        return int(word in (True, "true"))
    if isinstance(word, str) and _WHOLE.fullmatch(word):
        word = int(word)
    if isinstance(word, float) and word.is_integer():
        word = int(word)
    if not isinstance(word, int) or not 0 <= word <= 127:
        raise DataError(
            f"{value!r} is no grade; a grade is a whole number from 0 to 127 (leave it empty where nobody "
            "judged)",
            file=name,
            line=line,
            field=where,
        )
    return word


def _csv_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        with reading_file(path), path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            for row in reader:
                yield reader.line_num, row
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"not CSV in UTF-8: {error}", file=str(path)) from None
