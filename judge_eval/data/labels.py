"""Labels of chunks, from people or from judges: JSON Lines, spreadsheets or TREC qrels."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, get_args

from judge_eval import limits
from judge_eval.data.collection import judgments_in, put_once
from judge_eval.data.files.containers import kind_of, rows
from judge_eval.data.files.opening import is_stream, reading_file, steady
from judge_eval.data.files.values import first_of, is_missing
from judge_eval.data.spreadsheets import BLANK, NO, YES, decimal_number, id_of, table_rows, whole_number
from judge_eval.errors import DataError, Why
from judge_eval.objects import number_text
from judge_eval.safe_text import value_kind
from judge_eval.schema import BINARY, Scale
from judge_eval.spelling import option

K = TypeVar("K")
TRACE = ("trace_id", "query_id", "qid")
CHUNK = ("chunk_id", "doc_id", "docid", "document_id")
DECIDE = "decide on the page of the run, or by a row with `final`"


@dataclass(frozen=True, slots=True)
class GradedRow:
    """The grade of one chunk in a file."""

    trace: str
    chunk: str
    grade: int | None
    """None where nobody gave one; below 0 only in qrels: in the pool, but not judged."""
    file: str
    line: int
    """Counted from 1; 0 where it is not known."""
    beside: Mapping[str, Any]
    """The other fields of the record; a trace's `probability` of being chosen among them."""

    def fault(self, message: str, field: str | None = None) -> DataError:
        """Make an error at the place of the row."""
        return DataError(message, file=self.file, line=self.line, field=field)


def graded_rows(path: Path | str, fields: Sequence[str] = ("label",)) -> Iterator[GradedRow]:
    """Read the grade of each chunk in a file; the suffix names the format.

    - `.jsonl`, `.ndjson`, `.json`: a line is a trace with its `id` and graded `chunks`, or one grade
      (`trace_id`, `chunk_id`, the grade).
    - a table (`.csv`, `.tsv`, `.xlsx`, Parquet, or a header with these names): the columns `trace_id`,
      `chunk_id`, the grade, in capitals or small; others stand beside it. Commas, semicolons, tabs and `|`
      are told apart.
    - anything else: TREC qrels, query being the trace's id and document the chunk's.

    A grade is a whole number, also as 1.0, or yes or no; an empty cell, NaN, NA, - or ? means that nobody
    gave one. Packed files are unpacked.
    """
    name, columns = str(path), (TRACE, CHUNK, fields)
    with steady(Path(path)) as place:
        if place.suffix.lower() in (".jsonl", ".ndjson", ".json"):
            for record in rows(place, kind_of(place, name), name, lambda _: True):
                yield from _json_rows(record.get(), name, record.line or 0, fields)
        elif (table := table_rows(place, name, columns)) is not None:
            for line, row in table:
                if any(not is_missing(first_of(row, *names)) for names in columns):
                    yield _row(row, name, line, fields)
        else:
            judged = dict[str, dict[str, int]]()
            for line, trace, chunk, grade in judgments_in(place, name):
                put_once(judged, trace, chunk, grade, name, line)
                yield GradedRow(trace, chunk, grade, name, line, {})


def _json_rows(record: Mapping[str, Any], name: str, line: int, fields: Sequence[str]) -> Iterator[GradedRow]:
    if "outcomes" in record:
        fault = "the results of a run without its manifest.json; give the run's folder, which holds both"
        raise DataError(fault, file=name, line=line)
    if "chunks" not in record:
        if "query" in record and not any(key in record for key in TRACE):
            return  # a trace whose empty list of chunks was left out
        yield _row(record, name, line, fields)
        return
    trace = number_text(record.get("id"))
    if not isinstance(trace, str) or not trace:
        raise DataError("a graded trace needs its id", file=name, line=line, field="id")
    if not isinstance(record["chunks"], list):
        raise DataError("must be a list", file=name, line=line, field="chunks")
    metadata = record.get("metadata")
    sample = metadata.get("sample") if isinstance(metadata, dict) else None
    drawn = {name: sample.get(name) for name in ("probability", "next")} if isinstance(sample, dict) else {}
    for place, chunk in enumerate(record["chunks"]):
        if isinstance(chunk, dict):
            chunk_id = first_of(chunk, "id", *CHUNK) or f"c{place + 1}"
            grade = _grade_in(chunk, name, line, fields, f"chunks[{place}].")
            yield GradedRow(trace, id_of(chunk_id), grade, name, line, {**chunk, **drawn})


def _row(row: Mapping[str, Any], name: str, line: int, fields: Sequence[str]) -> GradedRow:
    trace, chunk = first_of(row, *TRACE), first_of(row, *CHUNK)
    for wanted, value in ((TRACE[0], trace), (CHUNK[0], chunk)):
        if value is None:
            raise DataError("this field is required", file=name, line=line, field=wanted)
    if not any(field in row for field in fields):
        raise DataError("this field is required", file=name, line=line, field=fields[0])
    return GradedRow(id_of(trace), id_of(chunk), _grade_in(row, name, line, fields), name, line, row)


def _grade_in(row: Mapping[str, Any], name: str, line: int, fields: Sequence[str], prefix: str = "") -> int | None:
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
            f"{value!r} is not a grade; a grade is a whole number from 0 to 127, or yes or no (leave it "
            "empty if nobody judged)",
            file=name,
            line=line,
            field=where,
        )
    return word


def agreed_label(grades: Sequence[int], relevant: int, decisions: Sequence[int] = ()) -> int | None:
    """Return the label of a chunk that several people graded: a decision, else the lower median of their grades.

    None where nobody graded it, and on a tie: as many grades are at least `relevant` as are below it.
    """
    if decisions:
        return decisions[-1]
    if 2 * sum(grade >= relevant for grade in grades) == len(grades):
        return None
    return sorted(grades)[(len(grades) - 1) // 2]


def tied_grades(grades: Sequence[int]) -> tuple[int, int]:
    """Return the two grades in the middle of an even number: on a tie an irrelevant and a relevant one."""
    middle = len(grades) // 2
    low, high = sorted(grades)[middle - 1 : middle + 1]
    return low, high


def scale_of_labels(ends: tuple[int, int], source: str, scale: Scale, threshold: int | None) -> Scale:
    """Return the scale that labels are on, with the least that counts as relevant."""
    # `ends` are the lowest and the highest label. Without a threshold it is the judge's own if labels lie on
    # its scale, else 1 on binary labels and 2 on graded ones. It is an error if every label is 1, which could
    # be the lowest grade of the judge's scale as well as the higher of two.
    lowest, highest = ends
    if highest > limits.GRADE:
        raise DataError(f"a label is {highest}; grades go up to {limits.GRADE}", file=source)
    shared = lowest >= scale.minimum
    if threshold is not None:
        if threshold < 1:
            raise DataError(f"the least relevant label is {threshold}; it must be at least 1")
        least = scale.minimum if shared and threshold > scale.minimum else 0
        return Scale.parse({"minimum": least, "maximum": max(highest, threshold), "relevant": threshold})
    if highest <= 1:
        if shared and scale.minimum == 1:
            raise DataError(
                f"every label is 1, which is the lowest grade on the judge's scale {scale.span} and "
                f"'relevant' on the scale 0-1; say which label is the least relevant one "
                f"({option('relevant')})",
                file=source,
            )
        return BINARY
    return scale if shared and highest <= scale.maximum else Scale(maximum=highest, relevant=2)


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
    chunk_chances: dict[tuple[str, str], float] = field(default_factory=dict)
    """By `(trace id, chunk id)`: the chance the chunk had to be chosen, where the file says."""
    people: dict[str, dict[tuple[str, str], int]] = field(default_factory=dict)
    """By name: the labels of each person, where names are known."""
    ties: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """Chunks without a label because as many people find them relevant as not: an irrelevant and a relevant grade."""

    def __len__(self) -> int:
        return len(self.grades)

    @property
    def ends(self) -> tuple[int, int]:
        """The lowest and the highest grade that anybody gave; two zeros without any."""
        every = chain(self.grades.values(), *self.ties.values(), *(mine.values() for mine in self.people.values()))
        grades = set(every)
        return min(grades, default=0), max(grades, default=0)

    def agree_on(self, relevant: int) -> None:
        """Give each chunk that named people graded, and that has no label yet, the one they agree on."""
        for key in dict.fromkeys(key for mine in self.people.values() for key in mine):
            grades = [mine[key] for mine in self.people.values() if key in mine]
            if (grade := agreed_label(grades, relevant)) is not None:
                self.grades.setdefault(key, grade)
            elif key not in self.grades:
                self.ties[key] = tied_grades(grades)


def read_labels(
    path: Path | str, given: Labels | None = None, *, scale: Scale = BINARY, threshold: int | None = None
) -> Labels:
    """Read human labels from a file in one of the formats of `graded_rows`; the grade is called `label`.

    Args:
        path: The file.
        given: Labels from elsewhere for chunks that the file lists without one.
        scale: That of the judge. Labels of a graded judge are on its scale, or 0 and 1.
        threshold: The least label that counts as relevant; it says that the labels may have a scale of their own.

    Raises:
        DataError: The file cannot be read, a label is not a grade or not on the scale, or there is no label.
    """
    # An empty or missing label means that the chunk was not labelled. A negative grade in qrels means "in the pool, but
    # not judged", as to trec_eval: it is counted as `unjudged`. A `probability` beside the trace (in its
    # `metadata.sample`, or as a column) is the chance it had to be chosen; a `chunk_probability` beside the chunk is
    # that of the chunk. A row may name who gave its label (`by`): a chunk that people label differently has the label
    # of the row that decides (`final`), or else the one of `agreed_label`.
    labels, given = Labels(sources=(str(path),)), given or Labels()
    decided: dict[tuple[str, str], int] = {}
    below: GradedRow | None = None
    own = scale.binary or threshold is not None
    for row in graded_rows(path):
        _put_chance(labels.chances, row.trace, row, "probability", "trace")
        _put_chance(labels.chunk_chances, (row.trace, row.chunk), row, "chunk_probability", "chunk")
        key = row.trace, row.chunk
        grade = given.grades.get(key) if row.grade is None else row.grade
        if grade is None:
            if key in given.ties:
                labels.ties[key] = given.ties[key]
            continue
        if not own and grade > scale.maximum:
            raise _off_scale(row, f"the judge's scale ends at {scale.maximum}")
        if not own and 0 <= grade < scale.minimum and row.grade is not None:
            below = below or row
        name = row.beside.get("by")
        if grade < 0:
            labels.unjudged += 1
        elif row.beside.get("final") in (True, 1, "true", "True", "1"):
            decided[key] = grade
        elif isinstance(name, str) and name.strip():
            mine = labels.people.setdefault(name.strip(), {})
            if mine.setdefault(key, grade) != grade:
                raise row.fault(f"{name.strip()} labelled chunk {row.chunk!r} of trace {row.trace!r} twice", "label")
        elif (before := labels.grades.setdefault(key, grade)) != grade:
            raise row.fault(f"chunk {row.chunk!r} of trace {row.trace!r} is labelled {before} and {grade}")
    labels.grades |= decided
    if below is not None and labels.ends[1] > 1:
        raise _off_scale(below, f"the judge's scale begins at {scale.minimum}")
    if labels.people:
        labels.agree_on(scale_of_labels(labels.ends, str(path), scale, threshold).relevant)
    if not labels.grades and labels.ties:
        fault = f"holds no label: people are split on each of its {len(labels.ties):,} chunks; {DECIDE}"
        raise DataError(fault, file=str(path))
    if not labels.grades:
        raise DataError("holds no label; fill in `label`: a grade, or yes or no", file=str(path))
    return labels


def words_off_scale(trace: str, chunk: str, label: int | None, end: str) -> str:
    """Say that a label is not on the judge's scale, whose end is told."""
    return (
        f"chunk {chunk!r} of trace {trace!r} is labelled {label}, but {end}; if the labels have a scale "
        f"of their own, {option('label_relevant')} says which is the least relevant"
    )


def _off_scale(row: GradedRow, end: str) -> DataError:
    return row.fault(words_off_scale(row.trace, row.chunk, row.grade, end), "label")


def _put_chance(chances: dict[K, float], key: K, row: GradedRow, field: str, what: str) -> None:
    value = row.beside.get(field)
    if is_missing(value):
        return
    chance = decimal_number(value)
    if chance is None or not 0 < chance <= 1 or chances.setdefault(key, chance) != chance:
        fault = f"{value!r} is not the {what}'s chance to be chosen, above 0 and at most 1"
        raise row.fault(fault, field)


@dataclass(frozen=True, slots=True)
class RecordedVerdict:
    """A verdict from elsewhere on one chunk, as it is in the file."""

    grade: int | None
    """None if there is no verdict."""
    why: Why = "unjudged"
    """Why there is none."""
    reason: str = ""
    """The judge's reason, or what happened where it has no verdict."""
    evidence: str = ""
    confidence: float | None = None
    """The probability that the chunk is relevant, if the file has it."""
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
    """Read recorded verdicts from a file of any format that labels may have (see `read_labels`)."""
    # Of the names of the grade the first that is there counts. Beside it may stand `reason`, `evidence`,
    # `confidence` (that the chunk is relevant, from 0 to 1) and, if there is no grade, `why`. A negative
    # grade in qrels says that nobody judged. Two different verdicts on a chunk are an error.
    name = str(path)
    if is_stream(Path(path)):  # it is read twice
        raise DataError("a pipe or a device, not a file of verdicts; write them into a file", file=name)
    with reading_file(name), Path(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    verdicts = RecordedVerdicts(Path(path).name, digest)
    for row in graded_rows(path, ("grade", "verdict", "label", "relevant")):
        read = _verdict(row)
        before = verdicts.by_chunk.setdefault((row.trace, row.chunk), read)
        if before.grade != read.grade:
            both = " and ".join("not at all" if each.grade is None else str(each.grade) for each in (before, read))
            fault = f"chunk {row.chunk!r} of trace {row.trace!r} is judged {both}; keep one of the two"
            raise DataError(fault, file=name, line=row.line or None)
    if all(each.grade is None for each in verdicts.by_chunk.values()):
        raise DataError("holds no verdict", file=name)
    return verdicts


def _verdict(row: GradedRow) -> RecordedVerdict:
    where = f"{row.file}:{row.line}" if row.line else row.file
    beside = row.beside
    if row.grade is None:
        why: Why = next((each for each in get_args(Why) if each == beside.get("why")), "unjudged")
        reason = _text(row, "detail") or _text(row, "reason")
        return RecordedVerdict(None, why, reason, where=where)
    if row.grade < 0:
        reason = f"its grade is {row.grade}: in the pool, but not judged"
        return RecordedVerdict(None, reason=reason, where=where)
    reason, evidence, confidence = _text(row, "reason"), _text(row, "evidence"), _share(row, "confidence")
    return RecordedVerdict(row.grade, reason=reason, evidence=evidence, confidence=confidence, where=where)


def _text(row: GradedRow, name: str) -> str:
    value = row.beside.get(name)
    if is_missing(value):
        return ""
    if not isinstance(value, str):
        raise row.fault(f"holds {value_kind(value)}, not a text", name)
    return value


def _share(row: GradedRow, name: str) -> float | None:
    value: Any = row.beside.get(name)
    if is_missing(value):
        return None
    share = decimal_number(value)
    if share is None or not 0 <= share <= 1:
        raise row.fault(f"{value!r} is not a probability; give a number from 0 to 1", name)
    return share


def verdicts_of(grades: Mapping[tuple[str, str], int]) -> RecordedVerdicts:
    """Take verdicts from a mapping in Python; its digest is that of the keys and grades in order."""
    digest = hashlib.sha256()
    grades = {(str(number_text(trace)), str(number_text(chunk))): grade for (trace, chunk), grade in grades.items()}
    for (trace, chunk), grade in sorted(grades.items()):
        digest.update(f"{len(trace)}:{trace}{len(chunk)}:{chunk}{int(grade)},".encode())
    verdicts = RecordedVerdicts("mapping", digest.hexdigest())
    for (trace, chunk), grade in grades.items():
        verdicts.by_chunk[trace, chunk] = RecordedVerdict(int(grade), where=f"{(trace, chunk)!r}")
    return verdicts
