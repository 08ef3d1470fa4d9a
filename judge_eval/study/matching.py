"""A run's verdicts beside labels: human ones, or another judge's."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from sys import intern

import numpy as np
from numpy.typing import NDArray

from judge_eval import limits
from judge_eval.data.labels import Labels, read_labels
from judge_eval.data.spreadsheets import changed_by_spreadsheets
from judge_eval.errors import DataError
from judge_eval.runs.columns.table_reader import light_results, verdict_table
from judge_eval.runs.columns.verdict_table import (
    NO_LABEL,
    Places,
    Small,
    VerdictTable,
    cluster_codes,
    find_ids,
    put_labels,
)
from judge_eval.runs.folder.labels import given_labels, people_labels
from judge_eval.runs.folder.lines import ChunkLine
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.schema import BINARY, Chunk, Scale
from judge_eval.spelling import option
from judge_eval.stats.figures_of_agreement import confusion_by_group

_BLOCK = 65_536


def labels_of(run: Run, path: str | Path | None = None, threshold: int | None = None) -> Labels:
    """Return the human labels of a run's chunks: from a file, else from the run or its dataset.

    A `threshold`, the least label that counts as relevant, says that labels may have a scale of their own. Without
    it a file with a label above the scale of a graded judge is refused; graded labels of a binary judge are not.
    """
    # A chunk that the file lists without a label has the one that was given on the run's page, if any.
    if path is not None:
        scale = scale_of(run)
        most = None if scale.binary or threshold is not None else scale.maximum
        on_page = {} if run.folder is None else given_labels(run.folder)
        return read_labels(
            path, {key: each.label for key, each in on_page.items() if each.label is not None}, most=most
        )
    labels = Labels(sources=("the dataset",), people=labels_by_person(run))
    label_of = label_lookup(run, None)
    for result in light_results(run):
        for chunk in result.trace.chunks:
            if (label := label_of(result.trace_id, chunk)) is not None:
                labels.grades[result.trace_id, intern(chunk.id)] = label
    if not labels.grades:
        raise no_labels()
    return labels


def label_lookup(run: Run, labels: Labels | None) -> Callable[[str, Chunk | ChunkLine], int | None]:
    """Return what finds the label of a chunk; None takes those of the dataset and later ones."""
    if labels is not None:
        grades = labels.grades
        return lambda trace, chunk: grades.get((trace, chunk.id))
    given = {} if run.folder is None else given_labels(run.folder)

    def find(trace: str, chunk: Chunk | ChunkLine) -> int | None:
        later = given.get((trace, chunk.id)) if given else None
        return chunk.label if later is None else later.label

    return find


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
    """Labelled chunks without a verdict."""
    unlabelled: int
    """Verdicts without a label."""
    elsewhere: int
    """Labels of chunks that the run does not hold."""
    notes: tuple[str, ...]
    source: str
    """Where the labels come from."""
    units: Places
    """The cluster of each one's trace, numbered; its trace's place if no two traces share a cluster."""
    probable: NDArray[np.float64] | None = None
    """The judge's probability that each chunk is relevant, NaN where it told none; None where it told none of any."""


def label_scale(labels: Labels, scale: Scale, threshold: int | None) -> Scale:
    """Return the scale of labels; see `scale_of_labels`."""
    return scale_of_grades(labels.grades.values(), labels, scale, threshold)


def scale_of_grades(grades: Collection[int], labels: Labels | None, scale: Scale, threshold: int | None) -> Scale:
    """Return the scale that these grades are on, of labels or of the dataset (None)."""
    ends = min(grades, default=0), max(grades, default=0)
    return scale_of_labels(ends, source_of(labels), scale, threshold)


def source_of(labels: Labels | None) -> str:
    """Return where labels come from."""
    return "the dataset" if labels is None else ", ".join(labels.sources)


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


def match_labels(run: Run, labels: Labels | Run | None, threshold: int | None = None) -> Pairs:
    """Bring verdicts and labels together, chunk by chunk; None takes the dataset's labels and later ones."""
    # Where one of the two is binary and the other graded, the graded one is made binary by its threshold, and
    # a note says so. About 300 bytes a trace of ten chunks are held in memory; labels of a file take more.
    verdicts = verdict_table(run, labels=labels is None)
    elsewhere = unjudged = 0
    if labels is None:
        human, source = verdicts.labels, "the dataset"
        if not (human >= 0).any():
            raise no_labels()
    elif isinstance(labels, Run):
        other = verdict_table(labels)
        human, source = _others_grades(verdicts, other), labels.name
        elsewhere = int((other.grades >= 0).sum() - (human >= 0).sum())
    else:
        human, source = np.full_like(verdicts.labels, NO_LABEL), ", ".join(labels.sources)
        elsewhere = len(labels.grades) - put_labels(verdicts, labels.grades, human)
        unjudged = labels.unjudged
    scale = scale_of(run)
    graded = human[human >= 0]
    ends = (int(graded.min()), int(graded.max())) if len(graded) else (0, 0)
    theirs = scale_of_labels(ends, source, scale, threshold)
    same = theirs.same_grades(scale)
    notes = []
    if not same and not scale.binary:
        notes.append(f"the judge's grades were converted to binary: relevant from {scale.relevant}")
    if not same and not theirs.binary:
        notes.append(f"the labels were converted to binary: relevant from {theirs.relevant}")
    if unjudged:
        notes.append(f"{unjudged} judgments below 0 are not labels: in the pool, but not judged")
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
        failed=int((labelled & ~judged).sum()),
        unlabelled=int((judged & ~labelled).sum()),
        elsewhere=elsewhere,
        notes=tuple(notes),
        source=source,
        units=verdicts.rows[both] if codes is None else np.array(codes)[verdicts.rows[both]],
        probable=None if np.isnan(probable).all() else probable,
    )


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


def _others_grades(mine: VerdictTable, other: VerdictTable) -> Small:
    """Return the grades that another table has for each chunk, by ids of traces and chunks."""
    out = np.full_like(mine.labels, NO_LABEL)
    there = find_ids(mine.ids, other.ids)
    alike = np.flatnonzero(there >= 0)
    alike = alike[mine.sizes[alike] == other.sizes[there[alike]]]
    rows, ours, _ = mine.chunks_of(alike)
    _, theirs, _ = other.chunks_of(there[alike])
    differ = np.bincount(rows[mine.chunk_ids[ours] != other.chunk_ids[theirs]], minlength=len(alike)) > 0
    same = ~differ[rows]
    out[ours[same]] = other.grades[theirs[same]]
    for row in np.setdiff1d(np.flatnonzero(there >= 0), alike[~differ]).tolist():  # other chunks, or in another order
        here, at = slice(*mine.starts[row : row + 2]), slice(*other.starts[there[row] : there[row] + 2])
        grades = dict(zip(other.chunk_ids[at].tolist(), other.grades[at].tolist(), strict=True))
        out[here] = [grades.get(chunk, NO_LABEL) for chunk in mine.chunk_ids[here].tolist()]
    return np.maximum(out, NO_LABEL)
