"""Reading grades of chunks, whoever gave them: JSON Lines, spreadsheets or TREC qrels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judge_eval.data.collections.qrels import read_qrels
from judge_eval.data.files.containers import kind_of, rows
from judge_eval.data.files.values import first_of, is_missing
from judge_eval.data.spreadsheets import BLANK, NO, YES, id_of, is_table, table_rows, whole_number
from judge_eval.errors import DataError
from judge_eval.objects import number_text

TRACE = ("trace_id", "query_id", "qid")
CHUNK = ("chunk_id", "doc_id", "docid", "document_id")
_JSON = (".jsonl", ".ndjson", ".json")


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
    - a table (`.csv`, `.tsv`, `.xlsx`, Parquet, or a header with these names): the columns `trace_id`,
      `chunk_id`, the grade, in capitals or small; others stand beside it. Commas, semicolons, tabs and `|`
      are told apart.
    - anything else: TREC qrels, query being the trace's id and document the chunk's.

    A grade is a whole number, also as 1.0, or yes or no; an empty cell, NaN, NA, - or ? means that nobody
    gave one.

    Args:
        path: The file.
        fields: What the grade may be called; the first that is there counts.

    Raises:
        DataError: The file cannot be read; file, line and field are named.
    """
    name, place = str(path), Path(path)
    columns = (TRACE, CHUNK, fields)
    if place.suffix.lower() in _JSON:
        for record in rows(place, kind_of(place, name), name, lambda _: True):
            yield from _json_rows(record.get(), name, record.line or 0, fields)
    elif is_table(place, name, columns):
        for line, row in table_rows(place, name, columns):
            if any(not is_missing(first_of(row, *names)) for names in columns):
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
    trace = number_text(record.get("trace_id" if within == "outcomes" else "id"))
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
            yield GradedRow(trace, id_of(chunk_id), grade, name, line, {**chunk, **chance})


def _row(row: Mapping[str, Any], name: str, line: int, fields: Sequence[str]) -> GradedRow:
    trace, chunk = first_of(row, *TRACE), first_of(row, *CHUNK)
    for wanted, value in ((TRACE[0], trace), (CHUNK[0], chunk)):
        if value is None:
            raise DataError("this field is required", file=name, line=line, field=wanted)
    if not any(field in row for field in fields):
        raise DataError("this field is required", file=name, line=line, field=fields[0])
    return GradedRow(id_of(trace), id_of(chunk), _grade_in(row, name, line, fields), name, line, row)


def _grade_in(
    row: Mapping[str, Any], name: str, line: int, fields: Sequence[str], prefix: str = ""
) -> int | None:
    """Return the grade under the first of the fields that is there; None where it holds nothing."""
    field = next((field for field in fields if field in row), None)
    value = None if field is None else row[field]
    if is_missing(value) or (isinstance(value, str) and value.strip().lower() in BLANK):
        return None
    return _grade(value, name, line, f"{prefix}{field}")


def _grade(value: Any, name: str, line: int, where: str) -> int:
    word = value.strip().lower() if isinstance(value, str) else value
    if isinstance(word, bool):
        return int(word)
    if isinstance(word, str):
        word = 1 if word in YES else 0 if word in NO else whole_number(word)
    if isinstance(word, float) and word.is_integer():
        word = int(word)
    if not isinstance(word, int) or not 0 <= word <= 127:
        raise DataError(
            f"{value!r} is no grade; a grade is a whole number from 0 to 127, or yes or no (leave it empty "
            "where nobody judged)",
            file=name,
            line=line,
            field=where,
        )
    return word
