"""What failed verdicts leave open of a table: bounds and expected values of its scores."""

from contextlib import suppress

import numpy as np

from judge_eval.errors import ConfigError, MetricError, UnknownNameError
from judge_eval.runs.columns.verdict_table import VerdictTable
from judge_eval.runs.folder.graded import GradedTrace
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import FilledColumn, expected_scores
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.runs.scoring.scorer import Scorer


def opened(run: Run, table: VerdictTable) -> FilledColumn:
    """Fill the scores of a run, shape (traces, metrics), as its means do; only traces without a score are read."""
    failed = table.per_trace(table.grades < 0) > 0
    rows = np.flatnonzero(np.isnan(table.scores).any(axis=1))
    if not rows.size:
        return FilledColumn(table.scores, table.scores, table.scores)
    bounds: dict[str, dict[int, tuple[float, float]]] = {name: {} for name in table.metrics}
    traces: dict[int, GradedTrace] = {}
    for row, result in zip(rows.tolist(), run.results_at(rows), strict=True):
        traces[row] = GradedTrace.of(result.trace, result.outcomes)
        for name, ends in result.bounds.items():
            if name in bounds:
                bounds[name][row] = ends
    expected: dict[int, dict[str, float]] = {}
    with suppress(ConfigError, MetricError, UnknownNameError):  # a metric of a package that is not here
        scorer = Scorer(table.metrics, scale_of(run))
        expected = expected_scores(scorer, traces, table.grades, table.starts)
    incomplete = set(np.flatnonzero(failed).tolist()) | traces.keys()
    made = []
    for place, name in enumerate(table.metrics):
        wanted = {row: values[name] for row, values in expected.items() if name in values}
        made.append(FilledColumn.of(table.scores[:, place], bounds[name], wanted, incomplete))
    return FilledColumn(*(np.column_stack([getattr(c, side) for c in made]) for side in ("value", "low", "high")))
