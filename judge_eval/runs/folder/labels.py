"""Human labels given to a run's chunks after it was judged, kept beside its results."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TypeAlias

from pydantic import Field

from judge_eval import limits
from judge_eval.errors import RunError
from judge_eval.files import hold, open_plain
from judge_eval.foreign import RepeatedKeyError
from judge_eval.record import Record
from judge_eval.runs.folder.journal import LABELS, os_errors, whole_lines
from judge_eval.runs.folder.records import FORMAT, Moment, TraceResult
from judge_eval.runs.folder.run import AnyRun, ChangedResults, scale_of
from judge_eval.schema import Scale

GivenLabels: TypeAlias = Mapping[tuple[str, str], int]
"""Human grades by trace id and chunk id."""


class Label(Record):
    """One human grade of one chunk: a line of `labels.jsonl`."""

    v: int = FORMAT
    trace_id: str
    chunk_id: str
    label: int | None = Field(ge=0, le=limits.GRADE)
    """On the scale of the run; None takes an earlier label back."""
    by: str = ""
    """The name of the person, if known; each person's labels are kept."""
    comment: str = ""
    final: bool = False
    """Whether it decides a chunk on which people differ."""
    blind: bool = False
    """Whether it was given before the judge's verdict was shown."""
    given: Moment = Field(default_factory=lambda: datetime.now(UTC))


def given_labels(folder: Path, relevant: int, scale: Scale | None = None) -> dict[tuple[str, str], Label]:
    """Read the label of each chunk; those on which people are split (see `split_labels`) are not in it."""
    return split_labels(folder, relevant, scale)[0]


def split_labels(
    folder: Path, relevant: int, scale: Scale | None = None
) -> tuple[dict[tuple[str, str], Label], dict[tuple[str, str], tuple[int, int]]]:
    """Read the label that people agree on for each chunk, and the grades of each chunk on which they are split.

    `relevant` is the least label that counts as relevant (see `judge_eval.data.labels.agreed_label`), `scale` what all
    labels must be on.
    """
    from judge_eval.data.labels import agreed_label, tied_grades

    labels, ties = dict[tuple[str, str], Label](), dict[tuple[str, str], tuple[int, int]]()
    for key, of_people in people_labels(folder, scale).items():
        graded = [(label.label, label.final) for label in of_people if label.label is not None]
        grades = [grade for grade, final in graded if not final]
        grade = agreed_label(grades, relevant, [grade for grade, final in graded if final])
        if grade is not None:
            labels[key] = next(label for label in reversed(of_people) if label.label == grade)
        elif grades:
            ties[key] = tied_grades(grades)
    return labels, ties


def people_labels(folder: Path, scale: Scale | None = None) -> dict[tuple[str, str], list[Label]]:
    """Read all labels of each chunk: the last one of each person, and the last decision.

    Raises:
        RunError: A line is not a label, or not on the scale, if one is given.
    """
    path = folder / LABELS
    labels: dict[tuple[str, str], dict[str | None, Label]] = {}
    if not os.path.lexists(path):
        return {}
    for number, (_, line) in enumerate(whole_lines(path), 1):
        try:
            label = Label.from_json(line)
        except RepeatedKeyError as error:
            raise RunError(f"not a label: {error}", file=path, line=number) from None
        except ValueError:
            raise RunError("not a label; the file was changed or damaged", file=path, line=number) from None
        if scale is not None and label.label is not None and label.label not in scale.grades:
            raise RunError(f"label {label.label} is not on the run's scale {scale.span}", file=path, line=number)
        by_person = labels.setdefault((label.trace_id, label.chunk_id), {})
        by_person.pop(name := None if label.final else label.by, None)
        if label.label is not None:
            by_person[name] = label
    return {key: list(by_person.values()) for key, by_person in labels.items() if by_person}


def add_label(folder: Path, label: Label) -> None:
    """Append a label in one write."""
    line = json.dumps(label.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":")).encode()
    path = folder / LABELS
    with os_errors("cannot be written", path), open_plain(path, "ab+") as file:
        hold(file)
        size = _cut_torn_line(file)
        if file.write(line + b"\n") != len(line) + 1:  # a full disk takes a part
            file.truncate(size)
            raise OSError(28, "No space left on device")
        os.fsync(file.fileno())


def _cut_torn_line(file: IO[bytes]) -> int:
    size = file.seek(0, os.SEEK_END)
    back = 4096
    while size:
        start = max(0, size - back)
        file.seek(start)
        tail = file.read(size - start)
        kept = tail.rfind(b"\n") + 1
        if kept or not start:
            if start + kept != size:
                file.truncate(start + kept)
            return start + kept
        back *= 16
    return 0


def with_labels(run: AnyRun) -> AnyRun:
    """Return the run with later labels in place of those of its dataset."""
    if run.folder is None:
        return run
    scale = scale_of(run)
    labels = {key: label.label or 0 for key, label in given_labels(run.folder, scale.relevant, scale).items()}
    return run.replace(results=Labelled(run.results, labels)) if labels else run


class Labelled(ChangedResults):
    """Results with other labels, which replace theirs as they are read."""

    def __init__(self, results: Sequence[TraceResult], labels: GivenLabels) -> None:
        super().__init__(results, lambda plain: [self._label(result) for result in plain])
        self.labels = labels
        self._traces = {trace_id for trace_id, _ in labels}

    def _label(self, result: TraceResult) -> TraceResult:
        if result.trace_id not in self._traces:
            return result
        labelled = ((chunk, self.labels.get((result.trace_id, chunk.id))) for chunk in result.trace.chunks)
        chunks = tuple(chunk if label is None else chunk.replace(label=label) for chunk, label in labelled)
        return result.replace(trace=result.trace.replace(chunks=chunks))
