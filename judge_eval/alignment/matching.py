"""A run's verdicts beside labels: human ones, or another judge's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from judge_eval.data.labels import Labels, read_labels
from judge_eval.data.spreadsheets import changed_by_spreadsheets
from judge_eval.errors import DataError
from judge_eval.runs.columns.loading import columns_of
from judge_eval.runs.columns.packed import NO_LABEL, Columns, Places, Small, find_ids, put_labels
from judge_eval.runs.folder.labels import with_labels
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.schema import Scale
from judge_eval.stats.contingency import confusion_by_group

_BLOCK = 65_536
MOST_GRADE = 9
"""The highest grade a scale may have."""


def labels_of(run: Run, path: str | Path | None = None) -> Labels:
    """Return the human labels of a run's chunks: those of a file, else those given since or by the dataset.

    Raises:
        DataError: The file cannot be read, or the dataset has no labels.
    """
    if path is not None:
        return read_labels(path)
    labels = Labels(sources=("the dataset",))
    for result in with_labels(run).results:
        for chunk in result.trace.chunks:
            if chunk.label is not None:
                labels.grades[result.trace_id, chunk.id] = chunk.label
    if not labels.grades:
        raise _no_labels()
    return labels


def _no_labels() -> DataError:
    return DataError(
        "the dataset of this run holds no labels; name a file of labels (JSONL, CSV, .xlsx or qrels), such "
        "as `judge-eval sample` writes for people to fill in"
    )


def verdicts_as_labels(run: Run) -> Labels:
    """Return another judge's verdicts in the place of human labels."""
    labels = Labels(sources=(run.name,))
    for result in run.results:
        for outcome in result.outcomes:
            if outcome.kind == "verdict":
                labels.grades[result.trace_id, outcome.chunk_id] = outcome.grade
    return labels


@dataclass(frozen=True, slots=True)
class Pairs:
    """Chunks with a verdict and a label, in the run's order, all on one scale."""

    judge: Small
    human: Small
    rows: Places
    """The place of each one's trace among the run's results."""
    maximum: int
    """The highest grade of the common scale."""
    relevant: int
    """The least grade of the common scale that counts as relevant."""
    failed: int
    """Labelled chunks without a verdict."""
    unlabelled: int
    """Verdicts without a label."""
    elsewhere: int
    """Labels of chunks that the run does not hold."""
    notes: tuple[str, ...]
    source: str
    """Where the labels come from."""
    probable: NDArray[np.float64] | None = None
    """The judge's probability that each chunk is relevant, NaN where it told none; None where it told none
    of any."""


def label_scale(labels: Labels, scale: Scale, threshold: int | None) -> tuple[int, int]:
    """Return the labels' highest grade, and the least that counts as relevant; see `scale_up_to`.

    Raises:
        DataError: A label or the threshold is off any scale.
    """
    highest = max(labels.grades.values(), default=0)
    return scale_up_to(highest, ", ".join(labels.sources), scale, threshold)


def scale_up_to(highest: int, source: str, scale: Scale, threshold: int | None) -> tuple[int, int]:
    """Return the highest grade of labels' scale, and the least that counts as relevant.

    Args:
        highest: The highest label.
        source: Where the labels come from.
        scale: The judge's.
        threshold: The least relevant label, where the caller says.

    Returns:
        Where nobody says, the threshold is the judge's own if labels lie on its scale, else 1 on binary
        labels and 2 on graded ones.

    Raises:
        DataError: A label or the threshold is off any scale.
    """
    if highest > MOST_GRADE:
        raise DataError(f"a label is {highest}; grades go up to {MOST_GRADE}", file=source)
    if threshold is not None:
        if threshold < 1:
            raise DataError(f"the least relevant label is {threshold}; it must be at least 1")
        return max(highest, threshold), threshold
    if highest <= 1:
        return 1, 1
    if highest <= scale.maximum:
        return scale.maximum, scale.relevant
    return highest, 2


def match_labels(run: Run, labels: Labels | Run | None, threshold: int | None = None) -> Pairs:
    """Bring verdicts and labels together, chunk by chunk.

    Where one of the two is binary and the other graded, the graded one is made binary by its threshold,
    and a note says so. About 300 bytes a trace of ten chunks are held in memory; labels of a file take
    more.

    Args:
        run: The run.
        labels: Grades by trace and chunk, or the run of another judge in their place; None takes the
            labels of the run's dataset and those given since.
        threshold: The least label that counts as relevant.

    Raises:
        DataError: No chunk has both.
    """
    key = run.manifest.intervals.cluster
    columns = columns_of(
        run, (), key, chunk_ids=labels is not None, labels=labels is None, probabilities=True
    )
    elsewhere = unjudged = 0
    if labels is None:
        human, source = columns.labels, "the dataset"
        if not (human >= 0).any():
            raise _no_labels()
    elif isinstance(labels, Run):
        other = columns_of(labels, (), labels.manifest.intervals.cluster, chunk_ids=True)
        human, source = _others_grades(columns, other), labels.name
        elsewhere = int((other.grades >= 0).sum() - (human >= 0).sum())
    else:
        human, source = np.full_like(columns.labels, NO_LABEL), ", ".join(labels.sources)
        elsewhere = len(labels.grades) - put_labels(columns, labels.grades, human)
        unjudged = labels.unjudged
    scale = scale_of(run)
    highest, least = scale_up_to(int(max(human.max(initial=0), 0)), source, scale, threshold)
    same = highest == scale.maximum
    notes = []
    if not same and scale.maximum > 1:
        notes.append(f"the judge's grades were made binary: relevant from {scale.relevant}")
    if not same and highest > 1:
        notes.append(f"the labels were made binary: relevant from {least}")
    if unjudged:
        notes.append(f"{unjudged} judgments below 0 are no labels: in the pool, but not judged")
    labelled, judged = human >= 0, columns.grades >= 0
    both = labelled & judged
    if not both.any():
        raise DataError(
            f"no chunk of this run has both a verdict and a label in {source}; check the ids"
            + (_ids_beside(run, labels) if isinstance(labels, Labels) else "")
        )
    mine, theirs = columns.grades[both], human[both]
    probable = columns.probabilities[both]
    return Pairs(
        judge=mine if same else (mine >= scale.relevant).astype(np.int8),
        human=theirs if same else (theirs >= least).astype(np.int8),
        rows=columns.rows[both],
        maximum=scale.maximum if same else 1,
        relevant=least if same else 1,
        failed=int((labelled & ~judged).sum()),
        unlabelled=int((judged & ~labelled).sum()),
        elsewhere=elsewhere,
        notes=tuple(notes),
        source=source,
        probable=None if np.isnan(probable).all() else probable,
    )


def _ids_beside(run: Run, labels: Labels) -> str:
    """Put an id of the labels beside one of the run, and say what a spreadsheet may have done to it."""
    theirs = next(iter(labels.grades))
    ours = next(((r.trace_id, c.id) for r in run.results for c in r.trace.chunks), None)
    if ours is None:
        return ""
    said = f": the labels have trace {theirs[0]!r}, chunk {theirs[1]!r}, the run {ours[0]!r}, {ours[1]!r}"
    if any(map(changed_by_spreadsheets, ours)):
        said += " (a spreadsheet changes ids like these; format their columns as text, or label in .jsonl)"
    return said


def tables_of(judge: Small, human: Small, rows: Places, q: int) -> tuple[NDArray[np.float64], Places]:
    """Count the pairs of grades of each trace.

    Args:
        judge: The judge's grades, shape (n,), below q.
        human: The labels of the same chunks.
        rows: The place of each one's trace, ascending.
        q: How many grades there are.

    Returns:
        The counts, shape (traces, q, q), and the traces' places.
    """
    fresh = np.append(True, np.diff(rows) > 0)[: len(rows)]
    traces = rows[fresh]
    starts = np.append(np.flatnonzero(fresh), len(rows))
    tables = np.zeros((len(traces), q, q))
    for first in range(0, len(traces), _BLOCK):
        size = min(_BLOCK, len(traces) - first)
        here = slice(starts[first], starts[first + size])
        codes = np.repeat(np.arange(size), np.diff(starts[first : first + size + 1]))
        one, other = judge[here].astype(np.int64), human[here].astype(np.int64)
        tables[first : first + size] = confusion_by_group(one, other, (q, q), codes, size)
    return tables, traces


def _others_grades(columns: Columns, other: Columns) -> Small:
    """Return what another judge says of each chunk of a run, found by ids; -1 where it says nothing."""
    out = np.full_like(columns.labels, NO_LABEL)
    for row, there in enumerate(find_ids(columns.ids, other.ids).tolist()):
        if there < 0:
            continue
        mine, theirs = slice(*columns.starts[row : row + 2]), slice(*other.starts[there : there + 2])
        if columns.chunk_ids[mine].tobytes() == other.chunk_ids[theirs].tobytes():
            out[mine] = other.grades[theirs]
        else:
            pairs = zip(other.chunk_ids[theirs].tolist(), other.grades[theirs].tolist(), strict=True)
            grades = dict(pairs)
            out[mine] = [grades.get(chunk, NO_LABEL) for chunk in columns.chunk_ids[mine].tolist()]
    return np.maximum(out, NO_LABEL)
