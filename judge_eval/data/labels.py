"""Reading human labels: JSON Lines, CSV or TREC qrels."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judge_eval.data.collections.qrels import read_qrels
from judge_eval.data.files.containers import rows
from judge_eval.data.files.opening import reading_file
from judge_eval.errors import DataError

_WHOLE = re.compile(r"[+-]?[0-9]{1,4}")


@dataclass(slots=True)
class Labels:
    """Human grades by trace and chunk."""

    grades: dict[tuple[str, str], int] = field(default_factory=dict)
    """By `(trace id, chunk id)`; a chunk without a label is not in it."""
    chances: dict[str, float] = field(default_factory=dict)
    """By trace id: the chance the trace had to be chosen for labelling, in (0, 1], where the file says."""
    sources: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.grades)

    def put(self, trace: str, chunk: str, grade: int, file: str, line: int) -> None:
        """Add a label.

        Raises:
            DataError: The chunk has another label already.
        """
        before = self.grades.setdefault((trace, chunk), grade)
        if before != grade:
            raise DataError(
                f"chunk {chunk!r} of trace {trace!r} is labelled {before} and {grade}", file=file, line=line
            )


def read_labels(path: Path | str) -> Labels:
    """Read human labels from a file; its suffix says the format.

    - `.jsonl`, `.ndjson`, `.json`: a line is a trace with labelled chunks (`id`, `chunks[].id`,
      `chunks[].label`), as in a dataset and as `sample` exports, or one label (`trace_id`, `chunk_id`,
      `label`).
    - `.csv`: the columns `trace_id`, `chunk_id`, `label`; others are passed over.
    - anything else: TREC qrels, query being the trace's id and document the chunk's; a negative grade is
      no label.

    An empty or missing label means that the chunk was not labelled. A `probability` beside the trace (in
    its `metadata.sample`, or as a column) is the chance it had to be chosen.

    Raises:
        DataError: The file cannot be read; file, line and field are named.
    """
    name, suffix = str(path), Path(path).suffix.lower()
    labels = Labels(sources=(name,))
    if suffix in (".jsonl", ".ndjson", ".json"):
        for record in rows(Path(path), "jsonl", name, lambda _: True):
            _take_json(labels, record.get(), name, record.line or 0)
    elif suffix == ".csv":
        for line, row in _csv_rows(Path(path)):
            _take_row(labels, row, name, line)
    else:
        for trace, row in read_qrels(path).items():
            for chunk, grade in row.items():
                if grade >= 0:
                    labels.put(trace, chunk, grade, name, 0)
    if not labels.grades:
        raise DataError("holds no label", file=name)
    return labels


def _take_json(labels: Labels, row: Mapping[str, Any], name: str, line: int) -> None:
    if "chunks" not in row:
        _take_row(labels, row, name, line)
        return
    trace, chunks = row.get("id"), row["chunks"]
    if not isinstance(trace, str) or not trace:
        raise DataError("a labelled trace needs its id", file=name, line=line, field="id")
    if not isinstance(chunks, list):
        raise DataError("must be a list", file=name, line=line, field="chunks")
    for place, chunk in enumerate(chunks):
        if not isinstance(chunk, dict):
            continue
        where = f"chunks[{place}].label"
        grade = _grade(chunk.get("label"), name, line, where)
        if grade is not None:
            labels.put(trace, str(chunk.get("id") or f"c{place + 1}"), grade, name, line)
    metadata = row.get("metadata")
    sample = metadata.get("sample") if isinstance(metadata, dict) else None
    if isinstance(sample, dict):
        _chance(labels, trace, sample.get("probability"), name, line)


def _take_row(labels: Labels, row: Mapping[str, Any], name: str, line: int) -> None:
    for wanted in ("trace_id", "chunk_id", "label"):
        if wanted not in row:
            raise DataError("this field is required", file=name, line=line, field=wanted)
    trace = str(row["trace_id"])
    _chance(labels, trace, row.get("probability"), name, line)
    grade = _grade(row["label"], name, line, "label")
    if grade is not None:
        labels.put(trace, str(row["chunk_id"]), grade, name, line)


def _grade(value: Any, name: str, line: int, where: str) -> int | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or not 0 <= value <= 127:
        raise DataError(
            f"{value!r} is no grade; a label is a whole number from 0 to 127",
            file=name,
            line=line,
            field=where,
        )
    return value


def _chance(labels: Labels, trace: str, value: Any, name: str, line: int) -> None:
    if value in (None, ""):
        return
    try:
        chance = float(value)
    except (TypeError, ValueError):
        chance = -1.0
    if not 0 < chance <= 1 or labels.chances.setdefault(trace, chance) != chance:
        raise DataError(
            f"{value!r} is not the trace's chance to be chosen, above 0 and at most 1",
            file=name,
            line=line,
            field="probability",
        )


def _csv_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        with reading_file(path), path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            for row in reader:
                yield reader.line_num, row
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"not CSV in UTF-8: {error}", file=str(path)) from None
