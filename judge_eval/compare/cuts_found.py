"""How the documents of two runs are cut, and what both read word by word."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from judge_eval.compare.changes import Moved, words_metric
from judge_eval.compare.comparison import CutsFound, ReadPoint
from judge_eval.compare.evidence_of_both import PairsRead, curve_budgets, reached
from judge_eval.errors import DataError
from judge_eval.metrics import Metric
from judge_eval.runs.folder.labels import given_labels
from judge_eval.runs.folder.run import Run
from judge_eval.runs.folder.validation import VALIDATION, ValidationTable
from judge_eval.runs.scoring.aggregate import FilledColumn, main_metric

FEWEST_LABELS = 10
"""Of so many labelled irrelevant chunks it is counted how many the judge found relevant."""


def cuts_found(moved: Moved) -> CutsFound:
    """Return how a candidate's documents are cut, if not as the baseline's, or if a metric counts words."""
    cuts, read, names = moved.cuts, moved.read, moved.pairing.first.metrics
    plain = CutsFound(
        candidate=moved.candidate,
        differ=cuts.differ,
        share=cuts.share,
        same=cuts.same,
        recut=cuts.recut,
        sampled=cuts.sampled,
        median_words=cuts.median_words,
    )
    if read is None:
        return plain
    labelled = _false_support(moved)
    support, validated = _validated(moved.runs) if labelled is None else (labelled, ())
    in_words = {name: metric for name in names if (metric := words_metric(name)) is not None}
    return plain.replace(
        median_words=(read.before.median_words, read.after.median_words),
        reached=(reached(read.before.words), reached(read.after.words)),
        budget=read.budget,
        repeated=(read.before.repeated, read.after.repeated),
        same_text=int(read.same_text.sum()),
        false_support=support,
        validated=validated,
        quoted=read.quoted,
        unquoted=(read.before.unquoted, read.after.unquoted),
        headline=main_metric(moved.compared) if cuts.differ else None,
        curve_of=None if not in_words else str(replace(next(iter(in_words.values())), words=None)),
        curve=tuple(_curve(moved, read, next(iter(in_words.values())))) if in_words else (),
        alone={name: _means(*read.alone(metric)) for name, metric in in_words.items()},
        by_chunks={
            name: _means(*moved.columns(column)) for column, name in enumerate(names) if name not in moved.compared
        },
    )


def _false_support(moved: Moved) -> tuple[int, int] | None:
    """Count the labelled irrelevant chunks of both runs that the judge found relevant, and all of them.

    Labels that were given on a run's page stand in place of those of its data.
    """
    wrong = every = 0
    tables = moved.pairing.first, moved.pairing.second
    for table, run, scale in zip(tables, moved.runs, moved.scales, strict=True):
        least = scale.relevant
        if run.folder is not None:
            given = given_labels(run.folder, least, scale).items()
            table = table.with_labels({key: label.label for key, label in given if label.label is not None})
        irrelevant = (table.labels >= 0) & (table.labels < least) & (table.grades >= 0)
        every += int(irrelevant.sum())
        wrong += int((irrelevant & (table.grades >= least)).sum())
    return (wrong, every) if every >= FEWEST_LABELS else None


def _validated(runs: tuple[Run, Run]) -> tuple[tuple[int, int] | None, tuple[str, ...] | None]:
    """Count the same on the labelled sets of the table beside the runs, of the judges of both; with their names."""
    shown = dict[tuple[str, str, str], tuple[int, int]]()
    for run in runs:
        path = None if run.folder is None else run.folder.parent / VALIDATION
        if path is not None and path.is_file():
            try:
                rows = ValidationTable.joined([path]).of_judge(run)
            except DataError:
                return None, None
            shown |= {(row.set, row.model, row.prompt): row.false_support for row in rows if row.false_support}
    wrong, every = (sum(pair[place] for pair in shown.values()) for place in (0, 1))
    sets = tuple(dict.fromkeys(name for name, *_ in shown))
    return ((wrong, every), sets) if every >= FEWEST_LABELS else (None, ())


def _curve(moved: Moved, read: PairsRead, metric: Metric) -> Iterator[ReadPoint]:
    assert metric.words is not None
    for words in curve_budgets(read, metric.words):
        test = moved.test(str(metric), read.columns(replace(metric, words=words)), planning=False)
        if test is not None:
            means = {"baseline": test.baseline_mean, "candidate": test.candidate_mean, "difference": test.difference}
            yield ReadPoint(words=words, interval=test.interval, **means)


def _means(before: FilledColumn, after: FilledColumn) -> tuple[float, float] | None:
    both = ~(np.isnan(before.value) | np.isnan(after.value))
    return (float(before.value[both].mean()), float(after.value[both].mean())) if both.any() else None
