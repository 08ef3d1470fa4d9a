"""A run's verdicts beside labels: human ones, or another judge's."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from judge_eval.data.labels import Labels, read_labels, scale_of_labels, words_off_scale
from judge_eval.data.spreadsheets import changed_by_spreadsheets
from judge_eval.errors import DataError
from judge_eval.note import Note
from judge_eval.runs.columns.verdict_table import (
    NO_LABEL,
    Places,
    Small,
    VerdictTable,
    cluster_codes,
    find_ids,
    light_results,
    put_labels,
    verdict_table,
)
from judge_eval.runs.folder.labels import people_labels, split_labels
from judge_eval.runs.folder.lines import ChunkLine
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.schema import BINARY, Chunk, Scale
from judge_eval.stats.agreement import confusion_by_group

Number = TypeVar("Number", np.int8, np.float64)

_BLOCK = 65_536


def labels_of(run: Run, path: str | Path | None = None, threshold: int | None = None) -> Labels:
    """Return the human labels of a run's chunks: from a file, else from the run or its dataset.

    A `threshold`, the least label that counts as relevant, says that labels may have a scale of their own. Without
    it a label above the scale of a graded judge is refused; graded labels of a binary judge are not.
    """
    # A chunk that the file lists without a label has the one that was given on the run's page, if any.
    if path is not None:
        on_page = _page_labels(run, threshold)
        labels = read_labels(path, on_page, scale=scale_of(run), threshold=threshold)
        if not labels.people:
            listed = labels.grades.keys() | labels.ties.keys()
            labels.people = {
                name: mine
                for name, given in on_page.people.items()
                if (mine := {key: grade for key, grade in given.items() if key in listed})
            }
        return labels
    page = _page_labels(run, threshold)
    labels = Labels(sources=("the dataset",), people=page.people)
    label_of = label_lookup(run, None, threshold)
    for result in light_results(run):
        for chunk in result.trace.chunks:
            if (label := label_of(result.trace_id, chunk)) is not None:
                labels.grades[result.trace_id, intern(chunk.id)] = label
    labels.ties = {key: grades for key, grades in page.ties.items() if key not in labels.grades}
    if not labels.grades:
        raise no_labels()
    return labels


def _page_labels(run: Run, threshold: int | None) -> Labels:
    """Return the labels that were given on the page of a run alone."""
    if run.folder is None:
        return Labels()
    scale = scale_of(run)
    given, ties = split_labels(run.folder, threshold or scale.relevant, scale)
    grades = {key: each.label for key, each in given.items() if each.label is not None}
    return Labels(grades, people=labels_by_person(run), ties=ties)


def label_lookup(
    run: Run, labels: Labels | None, threshold: int | None = None
) -> Callable[[str, Chunk | ChunkLine], int | None]:
    """Return what finds the label of a chunk; None takes those of the dataset and later ones."""
    grades = (_page_labels(run, threshold) if labels is None else labels).grades
    scale = scale_of(run)
    most = scale.maximum if labels is None and threshold is None and not scale.binary else None

    def find(trace: str, chunk: Chunk | ChunkLine) -> int | None:
        grade = grades.get((trace, chunk.id))
        label = chunk.label if grade is None and labels is None else grade
        if most is not None and label is not None and label > most:
            raise DataError(words_off_scale(trace, chunk.id, label, f"the judge's scale ends at {most}"))
        return label

    return find


def count_ties(run: Run, labels: Labels | None, threshold: int | None = None) -> int:
    """Count the chunks that have no label because as many people find them relevant as not."""
    if labels is not None:
        return len(labels.ties)
    ties = _page_labels(run, threshold).ties
    if not ties:
        return 0
    label_of = label_lookup(run, None, threshold)
    return sum(
        (result.trace_id, chunk.id) in ties and label_of(result.trace_id, chunk) is None
        for result in light_results(run)
        for chunk in result.trace.chunks
    )


def labels_by_person(run: Run) -> dict[str, dict[tuple[str, str], int]]:
    """Return the labels that people gave on a run's page, by their names."""
    people: dict[str, dict[tuple[str, str], int]] = {}
    for key, labels in ({} if run.folder is None else people_labels(run.folder)).items():
        for label in labels:
            if not label.final and label.by and label.label is not None:
                people.setdefault(label.by, {})[key] = label.label
    return people


def no_labels() -> DataError:
    """Return the error of a run without labels."""
    return DataError(
        "the dataset of this run has no labels; name a file of labels (JSONL, CSV, .xlsx or qrels), such "
        "as `judge-eval sample` writes for people to fill in"
    )


@dataclass(frozen=True, slots=True)
class Pairs:
    """Chunks with a verdict and a label, in the run's order, all on one scale."""

    judge: Small
    human: Small
    rows: Places
    """The place of each one's trace among the run's results."""
    scale: Scale
    """The common scale, with the threshold of the labels."""
    failed: int
    """Labelled chunks without a verdict, but for those of unanswerable questions, of which nobody was asked."""
    unlabelled: int
    """Verdicts without a label."""
    elsewhere: int
    """Labels of chunks that the run does not hold."""
    notes: tuple[Note, ...]
    source: str
    """Where the labels come from."""
    units: Places
    """The cluster of each one's trace, numbered; its trace's place if no two traces share a cluster."""
    probable: NDArray[np.float64] | None = None
    """The judge's probability that each chunk is relevant, NaN where it told none; None where it told none of any."""
    floor: NDArray[np.float64] | None = None
    """What the floor says of each chunk, NaN where nothing; None where there is no floor."""


def label_scale(labels: Labels, scale: Scale, threshold: int | None) -> Scale:
    """Return the scale of labels; see `scale_of_labels`."""
    return scale_of_labels(labels.ends, source_of(labels), scale, threshold)


def source_of(labels: Labels | None) -> str:
    """Return where labels come from."""
    return "the dataset" if labels is None else ", ".join(labels.sources)


def match_labels(
    run: Run, labels: Labels | Run | None, threshold: int | None = None, floor: Run | None = None
) -> Pairs:
    """Bring verdicts and labels together, chunk by chunk; None takes the dataset's labels and later ones.

    `floor` is a run of the same chunks whose probabilities (else grades) stand beside them.
    """
    # Where one of the two is binary and the other graded, the graded one is made binary by its threshold, and
    # a note says so. About 300 bytes a trace of ten chunks are held in memory; labels of a file take more.
    verdicts = verdict_table(run, labels=(threshold or scale_of(run).relevant) if labels is None else None)
    elsewhere = unjudged = 0
    if labels is None:
        human, source = verdicts.labels, "the dataset"
        if not (human >= 0).any():
            raise no_labels()
        if threshold is None and not scale_of(run).binary and (human > scale_of(run).maximum).any():
            labels_of(run)  # its error names the first such chunk
    elif isinstance(labels, Run):
        other = verdict_table(labels)
        human, source = np.maximum(_others(verdicts, other, other.grades), NO_LABEL), labels.name
        elsewhere = int((other.grades >= 0).sum() - (human >= 0).sum())
    else:
        human, source = np.full_like(verdicts.labels, NO_LABEL), ", ".join(labels.sources)
        elsewhere = len(labels.grades) - put_labels(verdicts, labels.grades, human)
        unjudged = labels.unjudged
    scale = scale_of(run)
    if isinstance(labels, Labels):
        ends = labels.ends
    else:
        graded = human[human >= 0]
        ends = (int(graded.min()), int(graded.max())) if len(graded) else (0, 0)
    theirs = scale_of_labels(ends, source, scale, threshold)
    same = theirs.grades == scale.grades
    notes = list[Note]()
    if not same and not scale.binary:
        notes.append(Note(kind="judge made binary", count=scale.relevant))
    if not same and not theirs.binary:
        notes.append(Note(kind="labels made binary", count=theirs.relevant))
    if not isinstance(labels, Run) and (ties := count_ties(run, labels, threshold)):
        notes.append(Note(kind="ties", count=ties))
    if unjudged:
        notes.append(Note(kind="judgments below 0", count=unjudged))
    codes = cluster_codes(verdicts.clusters)
    labelled, judged = human >= 0, verdicts.grades >= 0
    both = labelled & judged
    if not both.any():
        raise DataError(
            f"no chunk of this run has both a verdict and a label in {source}; check the ids"
            + (_ids_beside(run, labels) if isinstance(labels, Labels) else "")
        )
    judged_so, labelled_so = verdicts.grades[both], human[both]
    probable = verdicts.probabilities[both]
    return Pairs(
        judge=judged_so if same else (judged_so >= scale.relevant).astype(np.int8),
        human=labelled_so if same else (labelled_so >= theirs.relevant).astype(np.int8),
        rows=verdicts.rows[both],
        scale=theirs if same else BINARY,
        failed=int((labelled & verdicts.failed).sum()),
        unlabelled=int((judged & ~labelled).sum()),
        elsewhere=elsewhere,
        notes=tuple(notes),
        source=source,
        units=verdicts.rows[both] if codes is None else np.array(codes)[verdicts.rows[both]],
        probable=None if np.isnan(probable).all() else probable,
        floor=None if floor is None else _scores_of(verdicts, floor)[both],
    )


def _scores_of(mine: VerdictTable, run: Run) -> NDArray[np.float64]:
    """Return the scores of another run's judge for each chunk, NaN where it has none."""
    other = verdict_table(run)
    grades, probabilities = other.grades.astype(np.float64), other.probabilities
    scores = grades if np.isnan(probabilities[grades >= 0]).any() else probabilities
    return _others(mine, other, np.where(grades >= 0, scores, np.nan))


def _ids_beside(run: Run, labels: Labels) -> str:
    """Put an id of the labels beside one of the run, and say what a spreadsheet may have done to it."""
    theirs = next(iter(labels.grades))
    ours = next(((r.trace_id, c.id) for r in run.results for c in r.trace.chunks), None)
    if ours is None:
        return ""
    hint = f": the labels have trace {theirs[0]!r}, chunk {theirs[1]!r}, the run {ours[0]!r}, {ours[1]!r}"
    if any(map(changed_by_spreadsheets, ours)):
        hint += " (a spreadsheet changes ids like these; format their columns as text, or label in .jsonl)"
    return hint


def tables_of(judge: Small, human: Small, rows: Places, grades: range) -> tuple[NDArray[np.float64], Places]:
    """Count the pairs of grades of each trace, shape (traces, q, q) for q grades, and return their places."""
    # Grades and labels are of the same chunks, shape (n,); `rows` is the place of each one's trace, ascending.
    q = len(grades)
    fresh = np.append(True, np.diff(rows) > 0)[: len(rows)]
    traces = rows[fresh]
    starts = np.append(np.flatnonzero(fresh), len(rows))
    tables = np.zeros((len(traces), q, q))
    for first in range(0, len(traces), _BLOCK):
        size = min(_BLOCK, len(traces) - first)
        here = slice(starts[first], starts[first + size])
        codes = np.repeat(np.arange(size), np.diff(starts[first : first + size + 1]))
        grades_judge, grades_human = (each[here].astype(np.int64) - grades.start for each in (judge, human))
        tables[first : first + size] = confusion_by_group(grades_judge, grades_human, (q, q), codes, size)
    return tables, traces


def by_unit(tables: NDArray[np.float64], units: Places) -> tuple[NDArray[np.float64], Places]:
    """Add up the tables of traces that belong together, one unit to intervals; return also the unit of each trace."""
    codes = np.unique(units, return_inverse=True)[1].reshape(-1)
    sums = np.zeros((codes.max() + 1, *tables.shape[1:]))
    np.add.at(sums, codes, tables)
    return sums, codes


def _others(mine: VerdictTable, other: VerdictTable, values: NDArray[Number]) -> NDArray[Number]:
    """Return the values that another table has for each chunk, by ids of traces and chunks; NaN or -1 for none."""
    none: Any = np.nan if values.dtype.kind == "f" else NO_LABEL
    out = np.full(len(mine.labels), none, dtype=values.dtype)
    there = find_ids(mine.ids, other.ids)[mine.rows]  # -1, the greatest of uint64, is the place of no trace
    ours = np.column_stack([there.astype(np.uint64), mine.chunk_ids])
    theirs = np.column_stack([other.rows.astype(np.uint64), other.chunk_ids])
    places = find_ids(ours, theirs)
    out[places >= 0] = values[places[places >= 0]]
    return out
