"""Reading verdicts that were given elsewhere: by another judge, another tool, or people."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from judge_eval.data.files.opening import reading_file
from judge_eval.data.files.values import is_missing, kind
from judge_eval.data.grades import GradedRow, graded_rows
from judge_eval.errors import DataError, Why
from judge_eval.objects import number_text

GRADES = ("grade", "verdict", "label", "relevant")
"""What a file may call the grade; the first that is there counts."""


@dataclass(frozen=True, slots=True)
class RecordedVerdict:
    """What was said of one chunk elsewhere, as it stands in the file."""

    grade: int | None
    """None where it has no verdict."""
    why: Why = "unjudged"
    """Why it has none."""
    reason: str = ""
    """The judge's reason, or what happened where it has no verdict."""
    evidence: str = ""
    confidence: float | None = None
    """The probability that the chunk is relevant, where it was told."""
    where: str = ""
    """File and line, for messages."""


@dataclass(frozen=True, slots=True)
class RecordedVerdicts:
    """The verdicts of one file."""

    file: str
    """Its name, without its folder."""
    sha256: str
    """The digest of its bytes, in hex."""
    by_chunk: dict[tuple[str, str], RecordedVerdict] = field(default_factory=dict)
    """By `(trace id, chunk id)`."""


def read_verdicts(path: Path | str) -> RecordedVerdicts:
    """Read recorded verdicts from a file of any format that labels may have (see `read_labels`).

    The grade is called `grade`, `verdict`, `label` or `relevant`. Beside it may stand `reason`, `evidence`,
    `confidence` (that the chunk is relevant, from 0 to 1) and, where there is no grade, `why`. The results of
    a run (`results.jsonl`) are read too, their failures among them. A negative grade in qrels says that
    nobody judged.

    Raises:
        DataError: The file cannot be read, holds no verdict, or says two things of a chunk; file, line and
            field are named.
    """
    name = str(path)
    with reading_file(name), Path(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    verdicts = RecordedVerdicts(Path(path).name, digest)
    for row in graded_rows(path, GRADES):
        read = _verdict(row)
        before = verdicts.by_chunk.setdefault((row.trace, row.chunk), read)
        if before.grade != read.grade:
            raise DataError(
                f"chunk {row.chunk!r} of trace {row.trace!r} is judged {_said(before)} and {_said(read)}; "
                "keep one of the two",
                file=name,
                line=row.line or None,
            )
    if all(each.grade is None for each in verdicts.by_chunk.values()):
        raise DataError("holds no verdict", file=name)
    return verdicts


def _said(verdict: RecordedVerdict) -> str:
    return "not at all" if verdict.grade is None else str(verdict.grade)


def _verdict(row: GradedRow) -> RecordedVerdict:
    where = f"{row.file}:{row.line}" if row.line else row.file
    beside = row.beside
    if row.grade is None:
        why: Why = next((each for each in get_args(Why) if each == beside.get("why")), "unjudged")
        told = _text(row, "detail") or _text(row, "reason")
        return RecordedVerdict(None, why, told, where=where)
    if row.grade < 0:
        told = f"its grade is {row.grade}: in the pool, but not judged"
        return RecordedVerdict(None, reason=told, where=where)
    return RecordedVerdict(
        row.grade,
        reason=_text(row, "reason"),
        evidence=_text(row, "evidence"),
        confidence=_share(row, "confidence"),
        where=where,
    )


def _text(row: GradedRow, name: str) -> str:
    value = row.beside.get(name)
    if is_missing(value):
        return ""
    if not isinstance(value, str):
        raise DataError(f"holds {kind(value)}, not a text", file=row.file, line=row.line, field=name)
    return value


def _share(row: GradedRow, name: str) -> float | None:
    value: Any = row.beside.get(name)
    if is_missing(value):
        return None
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = -1.0
    if not 0 <= share <= 1:
        raise DataError(f"{value!r} is no probability, from 0 to 1", file=row.file, line=row.line, field=name)
    return share


def verdicts_of(grades: Mapping[tuple[str, str], int]) -> RecordedVerdicts:
    """Take verdicts from a mapping in Python; its digest is that of the keys and grades in order."""
    digest = hashlib.sha256()
    grades = {
        (str(number_text(trace)), str(number_text(chunk))): grade for (trace, chunk), grade in grades.items()
    }
    for (trace, chunk), grade in sorted(grades.items()):
        digest.update(f"{len(trace)}:{trace}{len(chunk)}:{chunk}{int(grade)},".encode())
    verdicts = RecordedVerdicts("mapping", digest.hexdigest())
    for (trace, chunk), grade in grades.items():
        verdicts.by_chunk[trace, chunk] = RecordedVerdict(int(grade), where=f"{(trace, chunk)!r}")
    return verdicts
