"""A run's verdicts beside labels: human ones, or another judge's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from judge_eval.data.labels import Labels, read_labels
from judge_eval.errors import DataError
from judge_eval.runs.labels import with_labels
from judge_eval.runs.records import TraceResult
from judge_eval.runs.rescore import scale_of
from judge_eval.runs.run import EvalRun
from judge_eval.schema import Scale

MOST_GRADE = 9
"""The highest grade a scale may have."""


def labels_of(run: EvalRun, path: str | Path | None = None) -> Labels:
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
        raise DataError(
            "the dataset of this run holds no labels; name a file of labels (JSONL, CSV or qrels)"
        )
    return labels


def verdicts_as_labels(run: EvalRun) -> Labels:
    """Return another judge's verdicts in the place of human labels."""
    labels = Labels(sources=(run.label or run.id[:8],))
    for result in run.results:
        for outcome in result.outcomes:
            if outcome.kind == "verdict":
                labels.grades[result.trace_id, outcome.chunk_id] = outcome.grade
    return labels


@dataclass(slots=True)
class Pairs:
    """Chunks with a verdict and a label, in the run's order, all on one scale."""

    judge: list[int] = field(default_factory=list)
    human: list[int] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)
    maximum: int = 1
    """The highest grade of the common scale."""
    relevant: int = 1
    """The least grade of the common scale that counts as relevant."""
    failed: int = 0
    """Labelled chunks without a verdict."""
    unlabelled: int = 0
    """Verdicts without a label."""
    elsewhere: int = 0
    """Labels of chunks that the run does not hold."""
    notes: tuple[str, ...] = ()


def label_scale(labels: Labels, scale: Scale, threshold: int | None) -> tuple[int, int]:
    """Return the labels' highest grade, and the least that counts as relevant.

    Args:
        labels: The labels.
        scale: The judge's.
        threshold: The least relevant label, where the caller says.

    Returns:
        Where nobody says, the threshold is the judge's own if labels lie on its scale, else 1 on binary
        labels and 2 on graded ones.

    Raises:
        DataError: A label or the threshold is off any scale.
    """
    highest = max(labels.grades.values(), default=0)
    if highest > MOST_GRADE:
        raise DataError(f"a label is {highest}; grades go up to {MOST_GRADE}", file=", ".join(labels.sources))
    if threshold is not None:
        if threshold < 1:
            raise DataError(f"the least relevant label is {threshold}; it must be at least 1")
        return max(highest, threshold), threshold
    if highest <= 1:
        return 1, 1
    if highest <= scale.maximum:
        return scale.maximum, scale.relevant
    return highest, 2


def pair_up(run: EvalRun, labels: Labels, threshold: int | None = None) -> Pairs:
    """Bring verdicts and labels together, chunk by chunk.

    Where one of the two is binary and the other graded, the graded one is made binary by its threshold,
    and a note says so.

    Args:
        run: The run.
        labels: Grades by trace and chunk.
        threshold: The least label that counts as relevant.

    Raises:
        DataError: No chunk has both.
    """
    scale = scale_of(run)
    highest, least = label_scale(labels, scale, threshold)
    out = Pairs()
    same = highest == scale.maximum
    if same:
        out.maximum, out.relevant = scale.maximum, least
    else:
        notes = []
        if scale.maximum > 1:
            notes.append(f"the judge's grades were made binary: relevant from {scale.relevant}")
        if highest > 1:
            notes.append(f"the labels were made binary: relevant from {least}")
        out.notes = tuple(notes)
    seen = 0
    for result in run.results:
        for outcome in result.outcomes:
            label = labels.grades.get((result.trace_id, outcome.chunk_id))
            seen += label is not None
            if outcome.kind == "no_verdict":
                out.failed += label is not None
            elif label is None:
                out.unlabelled += 1
            else:
                out.judge.append(outcome.grade if same else int(outcome.grade >= scale.relevant))
                out.human.append(label if same else int(label >= least))
                out.traces.append(result.trace_id)
    out.elsewhere = len(labels.grades) - seen
    if not out.judge:
        where = ", ".join(labels.sources)
        raise DataError(f"no chunk of this run has both a verdict and a label in {where}; check the ids")
    return out


def fully_labelled(run: EvalRun, labels: Labels) -> Iterator[tuple[TraceResult, list[int] | None]]:
    """Yield every trace with its labels in rank order; None where a chunk has none."""
    known: Mapping[tuple[str, str], int] = labels.grades
    for result in run.results:
        row = [known.get((result.trace_id, chunk.id)) for chunk in result.trace.chunks]
        complete = [label for label in row if label is not None]
        yield result, complete if row and len(complete) == len(row) else None
