"""Fields that the user maps to ours, and rows that are grouped into traces."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from judge_eval.data.files.recorded_conversation import RecordWithHistory, as_asked
from judge_eval.data.files.tables import Row
from judge_eval.data.files.values import Mapped, decode_list, is_missing
from judge_eval.data.options import ReadOptions
from judge_eval.data.shapes.chunks import ID, META, SCORE, TEXT
from judge_eval.data.shapes.shape import Shape, keys_of
from judge_eval.errors import DataError, nearest
from judge_eval.objects import number_text
from judge_eval.spelling import option

_NUMBERED = re.compile(r"(.*\D)(\d{1,4})")


class Naming:
    """What the user called our fields: the option `map`, in records and inside chunks."""

    def __init__(self, options: ReadOptions, name: str) -> None:
        self._name, self._separator = name, options.list_sep
        self.fields, self.in_chunks = options.fields, options.in_chunks
        self._unseen = dict(self.in_chunks)
        self._near: dict[str, None] = {}

    def check(self, sample: Sequence[Mapping[str, Any]]) -> None:
        """See that the first records hold what is mapped."""
        for ours, theirs in self.fields.items():
            if not sample or any(dig(record, theirs) is not None for record in sample):
                continue
            keys = sorted({key for record in sample for key in keys_of(record)})
            if theirs not in keys:
                raise DataError(_lacking(ours, theirs, "the first records hold", keys), file=self._name)

    def holds(self, record: Mapping[str, Any]) -> bool:
        """Tell whether a record has the question and the chunks that are mapped, both of them."""
        wanted = [self.fields.get(ours) for ours in ("query", "chunks")]
        return all(theirs is not None and dig(record, theirs) is not None for theirs in wanted)

    def record(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Put what is mapped under our names, and the conversation before the question."""
        return as_asked(self._named(record)).record

    def _named(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self.fields:
            return record
        columns = numbered_columns(record) if any(theirs.endswith("*") for theirs in self.fields.values()) else {}
        taken = {key for theirs in self.fields.values() for key in columns.get(theirs, (theirs,))}
        out = {key: value for key, value in record.items() if key not in taken}
        mapped = {ours: dig(record, theirs) for ours, theirs in self.fields.items()}
        out |= {ours: value for ours, value in mapped.items() if not is_missing(value)}
        return Mapped(out, self.fields)

    def prepared(self, record: Mapping[str, Any], shape: Shape) -> RecordWithHistory:
        """Do as `record`, with remarks, and decode the lists that stand in texts; raises `DataError`."""
        read = as_asked(self._named(record))
        if read.fault is not None:
            raise read.fault
        record = read.record
        lists = shape.lists | ({"chunks"} & self.fields.keys())
        spelled = [key for key in lists if isinstance(record.get(key), str)]
        if not spelled:
            return read
        out = {**record, **{key: decode_list(record[key], key, self._separator) for key in spelled}}
        return read._replace(record=Mapped(out, record.fields) if isinstance(record, Mapped) else out)

    def chunk(self, item: Any, where: str) -> Any:
        """Put what is mapped inside chunks under our names."""
        if not self.in_chunks or not isinstance(item, Mapping):
            return item
        taken = set(self.in_chunks.values())
        out = {key: value for key, value in item.items() if key not in taken}
        for ours, theirs in self.in_chunks.items():
            value = dig(item, theirs)
            if value is not None:
                self._unseen.pop(ours, None)
                out[ours] = value
            elif ours == "text":
                raise DataError(_lacking("chunks.text", theirs, "it holds", sorted(keys_of(item))), field=where)
        self._near |= dict.fromkeys(sorted(keys_of(item))) if self._unseen else {}
        return out

    def finish(self) -> None:
        """See that what is mapped inside chunks was found in one of them."""
        for ours, theirs in self._unseen.items():
            if self._near:
                fault = _lacking(f"chunks.{ours}", theirs, "the chunks hold", list(self._near))
                raise DataError(fault, file=self._name)


def _lacking(ours: str, theirs: str, who: str, keys: Sequence[str]) -> str:
    near = nearest(theirs, keys)
    return f"{option('map', {ours: theirs})}: {who} no {theirs!r}; " + (
        f"the nearest: {near}" if near else "no keys at all"
    )


def numbered_columns(keys: Iterable[str]) -> dict[str, list[str]]:
    """Group keys that differ only by a number at their end, two or more, in its order: `context_*` and its keys."""
    groups: dict[str, list[tuple[int, str]]] = {}
    for key in keys:
        if (match := _NUMBERED.fullmatch(key)) is not None:
            groups.setdefault(f"{match[1]}*", []).append((int(match[2]), key))
    return {name: [key for _, key in sorted(group)] for name, group in groups.items() if len(group) > 1}


def dig(record: Mapping[str, Any], path: str) -> Any:
    """Return what stands under a key, or under keys and places joined by dots; None where nothing does.

    `context_*` is the list of what `context_1`, `context_2`, ... hold, without empty ones.
    """
    if path in record:
        return record[path]
    if path.endswith("*"):
        cells = [record[key] for key in numbered_columns(record).get(path, ())]
        return [cell for cell in cells if not is_missing(cell)] or None
    value: Any = record
    for part in path.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and len(part) < 8 and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


FIELDS: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "question", "user_input", "input"),
    "reference": ("reference", "ground_truth", "expected_answer", "expected_output"),
    "answer": ("answer", "response", "generated_answer", "actual_output"),
}
"""What a row may call the fields of its trace, where they are not mapped."""
RANK = "rank"


def grouped(all_rows: Iterable[Row], options: ReadOptions, naming: Naming) -> Iterator[Row]:
    """Make one record of all rows that have the same value under the key to group by."""
    # The rows of a trace need not stand together, so all are held in memory; traces come in the order of
    # their first rows, chunks in the order of theirs, or by `rank` where every row of the trace has one.
    key = options.group_by or ""
    groups: dict[str, list[Row]] = {}
    for row in all_rows:
        if isinstance(row.data, DataError):
            yield row
            continue
        value = dig(row.data, key)
        if isinstance(value, list | dict) or is_missing(value):
            near = nearest(key, sorted(keys_of(row.data)))
            fault = DataError(f"{option('group_by', key)}: this row holds none; the nearest keys: {near}")
            yield row._replace(data=fault)
            continue
        groups.setdefault(str(number_text(value)), []).append(row)
    taken = {key, *options.fields.values()}
    for name, members in groups.items():
        try:
            yield members[0]._replace(data=_record(name, members, taken, naming))
        except DataError as error:
            yield members[0]._replace(data=error)


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
    of_chunk = {*TEXT, *ID, *SCORE, *META, *naming.in_chunks.values(), "title", "label", RANK}
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
    entries: list[tuple[Row, str, Any]] = []
    for row, record in zip(members, records, strict=True):
        key = next((key for key in keys if not is_missing(record.get(key))), None)
        if key is not None:
            entries.append((row, key, record[key]))
    for row, key, value in entries:
        if value != entries[0][2]:
            fault = f"differs from {entries[0][0].place}, in rows of one trace: group by another key"
            raise DataError(f"{row.place} {fault}", field=key)
    return entries[0][2] if entries else None


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
