"""Human labels given to a run's chunks after it was judged, kept beside its results."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from judge_eval import limits
from judge_eval.errors import RunError
from judge_eval.files import hold, open_plain
from judge_eval.foreign import RepeatedKeyError
from judge_eval.record import Record
from judge_eval.runs.folder.journal import ReadsMany
from judge_eval.runs.folder.records import FORMAT, TraceResult
from judge_eval.runs.folder.run import AnyRun
from judge_eval.runs.folder.run_files import LABELS, os_errors, whole_lines

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
    given: datetime = Field(default_factory=lambda: datetime.now(UTC))


def given_labels(folder: Path) -> dict[tuple[str, str], Label]:
    """Read the label of each chunk: the decision if there is one, else the one that most people gave."""
    # A chunk on which people differ, without a decision and without a majority, has none.
    from judge_eval.data.labels import agreed_label

    labels = dict[tuple[str, str], Label]()
    for key, of_people in people_labels(folder).items():
        graded = [(label.label, label.final) for label in of_people if label.label is not None]
        grade = agreed_label([grade for grade, _ in graded], [grade for grade, final in graded if final])
        if grade is not None:
            labels[key] = next(label for label in reversed(of_people) if label.label == grade)
    return labels


def people_labels(folder: Path) -> dict[tuple[str, str], list[Label]]:
    """Read all labels of each chunk: the last one of each person, and the last decision."""
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
    labels = {key: label.label or 0 for key, label in given_labels(run.folder).items()} if run.folder else {}
    return run.replace(results=Labelled(run.results, labels)) if labels else run


class Labelled(Sequence[TraceResult]):
    """Results with other labels, which replace theirs as they are read."""

    def __init__(self, results: Sequence[TraceResult], labels: GivenLabels) -> None:
        self.plain, self.labels = results, labels
        self._traces = {trace_id for trace_id, _ in labels}

    def __len__(self) -> int:
        return len(self.plain)

    def __getitem__(self, index: int | slice) -> TraceResult | list[TraceResult]:  # type: ignore[override]
        if isinstance(index, slice):
            return [self._label(result) for result in self.plain[index]]
        return self._label(self.plain[index])

    def __iter__(self) -> Iterator[TraceResult]:
        return map(self._label, self.plain)

    def at(self, places: NDArray[np.int64], calls: bool = True) -> Iterator[TraceResult]:
        """Yield the results at many places; see `Run.results_at`."""
        if isinstance(self.plain, ReadsMany):
            return map(self._label, self.plain.at(places, calls))
        return (self._label(self.plain[place]) for place in places.tolist())

    def _label(self, result: TraceResult) -> TraceResult:
        if result.trace_id not in self._traces:
            return result
        labelled = ((chunk, self.labels.get((result.trace_id, chunk.id))) for chunk in result.trace.chunks)
        chunks = tuple(chunk if label is None else chunk.replace(label=label) for chunk, label in labelled)
        return result.replace(trace=result.trace.replace(chunks=chunks))
