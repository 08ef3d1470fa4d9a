"""Reading human labels: JSON Lines, spreadsheets or TREC qrels."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judge_eval.data.files.values import is_missing
from judge_eval.data.grades import graded_rows
from judge_eval.data.spreadsheets import decimal_number
from judge_eval.errors import DataError


@dataclass(slots=True)
class Labels:
    """Human grades by trace and chunk."""

    grades: dict[tuple[str, str], int] = field(default_factory=dict)
    """By `(trace id, chunk id)`; a chunk without a label is not in it."""
    chances: dict[str, float] = field(default_factory=dict)
    """By trace id: the chance the trace had to be chosen for labelling, in (0, 1], where the file says."""
    sources: tuple[str, ...] = ()
    unjudged: int = 0
    """How many chunks qrels hold with a negative grade: in the pool, but not judged."""

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
    - a table (`.csv`, `.tsv`, `.xlsx`, Parquet): the columns `trace_id`, `chunk_id`, `label`; others are
      passed over. What Excel and pandas make of it is read (see `graded_rows`): semicolons and tabs, a byte
      order mark, `1.0`, yes and no.
    - anything else: TREC qrels, query being the trace's id and document the chunk's; a negative grade means
      what it means to trec_eval, in the pool but not judged: no label, and counted as `unjudged`.

    An empty or missing label means that the chunk was not labelled. A `probability` beside the trace (in
    its `metadata.sample`, or as a column) is the chance it had to be chosen.

    Raises:
        DataError: The file cannot be read, or a label outside qrels is negative; file, line and field are
            named.
    """
    labels = Labels(sources=(str(path),))
    for row in graded_rows(path):
        _chance(labels, row.trace, row.beside.get("probability"), row.file, row.line)
        if row.grade is None:
            continue
        if row.grade < 0:
            labels.unjudged += 1
        else:
            labels.put(row.trace, row.chunk, row.grade, row.file, row.line)
    if not labels.grades:
        raise DataError("holds no label; fill in `label`: a grade, or yes or no", file=str(path))
    return labels


def _chance(labels: Labels, trace: str, value: Any, name: str, line: int) -> None:
    if is_missing(value):
        return
    chance = decimal_number(value)
    if chance is None or not 0 < chance <= 1 or labels.chances.setdefault(trace, chance) != chance:
        raise DataError(
            f"{value!r} is not the trace's chance to be chosen, above 0 and at most 1",
            file=name,
            line=line,
            field="probability",
        )
