"""What a perfect reranker of the same chunks would reach."""

from dataclasses import replace
from typing import Any

import numpy as np

from judge_eval.metrics import GradeTable, Metric
from judge_eval.metrics.ragged import offsets_of
from judge_eval.runs.folder.journal import Index
from judge_eval.runs.folder.records import Reranking
from judge_eval.runs.scoring.scorer import Scorer

RANKING = ("AP", "MAP", "NDCG", "RR", "MRR", "HitRate")
"""Metrics that are 1 for a perfect order of a list with something relevant, and 0 for a list without."""


def best_order(table: GradeTable) -> GradeTable:
    """Return the table with each row's grades sorted, the highest first; failed verdicts come last."""
    rows = np.repeat(np.arange(len(table)), table.lengths)
    order = np.lexsort((-table.grades.astype(np.int64), rows))
    return replace(table, grades=table.grades[order], probable=None, expected=None, chances=None)


def perfect_reranking(index: Index, scorer: Scorer) -> Reranking | None:
    """Return what a perfect order of the retrieved chunks would make of a run's first metric of `RANKING`.

    Traces with failed verdicts are left out on both sides. None without such a metric or trace; a metric that
    needs to know what else exists is none.
    """
    grades, starts = np.array(index.grades, dtype=np.int64), index.starts
    sizes = np.diff(starts)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    failed = np.bincount(rows[grades < 0], minlength=len(sizes)) > 0
    metric = next((each for each in scorer.metrics.values() if _reads_grades(each)), None)
    if metric is None or failed.all():
        return None
    scale = scorer.scale
    on_scale: dict[str, Any] = {"maximum": scale.maximum - scale.minimum, "minimum": scale.minimum}
    kept, starts = (grades[~failed[rows]] - scale.minimum).astype(np.int8), offsets_of(sizes[~failed])
    table = GradeTable(kept, starts, relevant=scale.relevant - scale.minimum, **on_scale)
    before, after = metric.compute(table), metric.compute(best_order(table))
    return Reranking(
        metric=str(metric),
        mean=float(before.mean()),
        perfect=float(after.mean()),
        traces=len(table),
        nothing_relevant=int((table.found_at(table.relevant) == 0).sum()),
    )


def _reads_grades(metric: Metric) -> bool:
    plain = metric.name in RANKING and metric.family == "rag" and not metric.needs_total
    return plain and ("dedup", "text") not in metric.params
