"""Traces of rows that hold one chunk each, with their question beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from judge_eval.data.files.tables import Row
from judge_eval.data.files.values import is_missing
from judge_eval.data.mapping import Naming, dig
from judge_eval.data.options import ReadOptions
from judge_eval.data.shapes.chunks import ID, META, SCORE, TEXT
from judge_eval.data.shapes.shape import keys_of
from judge_eval.errors import DataError, nearest
from judge_eval.objects import number_text

FIELDS: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "question", "user_input", "input"),
    "reference": ("reference", "ground_truth", "expected_answer", "expected_output"),
    "answer": ("answer", "response", "generated_answer", "actual_output"),
}
"""What a row may call the fields of its trace, where they are not mapped."""
RANK = "rank"


def grouped(all_rows: Iterable[Row], options: ReadOptions, naming: Naming) -> Iterator[Row]:
    """Make one record of all rows that have the same value under the key to group by.

    The rows of a trace need not stand together, so all are held in memory; traces come in the order of their
    first rows, chunks in the order of theirs, or by `rank` where every row of the trace has one.

    Args:
        all_rows: The rows.
        options: How the file is read; `group_by` is the key.
        naming: What is mapped.

    Yields:
        A row for each trace, in the place of its first; and each row that cannot be read as its error.
    """
    key = options.group_by or ""
    groups: dict[str, list[Row]] = {}
    for row in all_rows:
        if isinstance(row.data, DataError):
            yield row
            continue
        value = dig(row.data, key)
        if isinstance(value, list | dict) or is_missing(value):
            near = nearest(key, sorted(keys_of(row.data)))
            fault = DataError(f"--group-by {key}: this row holds none; the nearest keys: {near}")
            yield replace(row, data=fault)
            continue
        groups.setdefault(str(number_text(value)), []).append(row)
    taken = {key, *options.fields.values()}
    for name, members in groups.items():
        try:
            yield replace(members[0], data=_record(name, members, taken, naming))
        except DataError as error:
            yield replace(members[0], data=error)


def _record(name: str, members: list[Row], taken: set[str], naming: Naming) -> dict[str, Any]:
    records = [naming.record(row.get()) for row in members]
    data: dict[str, Any] = {"id": name}
    used = set(taken)
    for field, keys in FIELDS.items():
        keys = (field,) if field in naming.fields else keys
        value = _one_value(members, records, keys)
        if value is not None:
            data[field] = value
        used |= set(keys)
    of_chunk = {*TEXT, *ID, *SCORE, *META, *naming.chunk_keys, "title", "label", RANK}
    for other in dict.fromkeys(key for record in records for key in record):
        values = [record.get(other) for record in records]
        if other not in used | of_chunk and all(value == values[0] for value in values):
            data[other] = values[0]
            used.add(other)
    chunks = [{key: value for key, value in record.items() if key not in used} for record in records]
    ranks = [_number(chunk.get(RANK)) for chunk in chunks]
    if None not in ranks:
        chunks = [chunks[place] for place in sorted(range(len(chunks)), key=lambda place: ranks[place] or 0)]
    return {**data, "chunks": chunks}


def _one_value(members: list[Row], records: list[Mapping[str, Any]], keys: tuple[str, ...]) -> Any:
    """Return what the rows of a trace say of it: one and the same, where they say it at all."""
    found: Any = None
    first: Row | None = None
    for row, record in zip(members, records, strict=True):
        key = next((key for key in keys if not is_missing(record.get(key))), None)
        if key is None:
            continue
        value = record[key]
        if first is None:
            found, first = value, row
        elif value != found:
            fault = f"differs from {first.place}, in rows of one trace: group by another key"
            raise DataError(f"{row.place} {fault}", field=key)
    return found


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
