"""A run as a page's figures need it: columns of all traces, rows of those that are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from judge_eval.alignment.matching import MOST_GRADE
from judge_eval.pages.rows import JSON, TraceRow, row_of
from judge_eval.runs.columns.loading import columns_of
from judge_eval.runs.columns.packed import Columns, Packer
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.folder.signs import sign_of
from judge_eval.runs.scoring.aggregate import less_is_better, main_metric
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.schema import Chunk, Outcome, Scale

LISTED = 1_000
"""The most disagreements and failures a page lists; the counts are of all."""


def lead_first(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return a run's metrics, the one a page leads with first."""
    lead = main_metric(names)
    return names if lead is None else (lead, *(name for name in names if name != lead))


@dataclass(eq=False)
class Table:
    """The rows of a run with the columns that its figures are made of.

    Args:
        run: The run; read once from start to end where all of its rows are wanted.
        most: The most rows to hold; a larger run has rows of the traces that need a look first: those
            without a value, then those with the worst score. None takes all.
    """

    run: Run
    most: int | None = None
    rows: list[TraceRow] = field(init=False, default_factory=list)
    places: list[int] = field(init=False, default_factory=list)
    """Where each row's trace stands among the results."""
    columns: Columns = field(init=False)
    scale: Scale = field(init=False)

    def __post_init__(self) -> None:
        self.scale = scale_of(self.run)
        names, key = self.run.manifest.metrics, self.run.manifest.intervals.cluster
        if self.most is not None and len(self.run.results) > self.most:
            self.columns = columns_of(self.run, names, key, probabilities=True)
            scores = self.columns.column(self.metrics[0]) if self.metrics else np.zeros(len(self.columns))
            if self.metrics and less_is_better(self.metrics[0]):
                scores = -scores
            worst = np.where(np.isnan(scores), -np.inf, scores)
            self.take(np.lexsort((-self.columns.per_trace(self.off), worst))[: self.most].tolist())
            return
        packer = Packer(names, key, probabilities=True)
        for result in self.run.results:
            packer.add(result)
            self.rows.append(row_of(result, self.scale))
        self.columns = packer.done()
        self.places = list(range(len(self.rows)))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The run's metrics, the one a page leads with first."""
        return lead_first(self.run.manifest.metrics)

    @property
    def whole(self) -> bool:
        """Whether there is a row of every trace."""
        return len(self.rows) == len(self.columns)

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Which chunks have a verdict and a label that is a grade."""
        labels = self.columns.labels
        return np.asarray((self.columns.grades >= 0) & (labels >= 0) & (labels <= MOST_GRADE))

    @property
    def off(self) -> NDArray[np.bool_]:
        """Which chunks have a label that disagrees with the verdict on relevance."""
        least = self.scale.relevant
        differs = (self.columns.labels >= least) != (self.columns.grades >= least)
        return np.asarray(self.labelled & differs)

    def strips(self, places: Sequence[int]) -> list[str]:
        """Draw some traces, told by their places among all: a sign a rank."""
        relevant = self.scale.relevant
        table = [sign_of(grade, grade >= relevant) if grade >= 0 else "!" for grade in range(-128, 128)]
        signs = np.frombuffer("".join(sign[:1] for sign in table).encode(), dtype=np.uint8)
        drawn = signs[self.columns.grades.astype(np.int64) + 128].tobytes().decode()
        starts = self.columns.starts
        return [drawn[starts[place] : starts[place + 1]] for place in places]

    def take(self, places: Sequence[int]) -> None:
        """Hold the rows of these traces, and no others."""
        self.places = sorted(places)
        self.rows = [row_of(self.run.results[place], self.scale) for place in self.places]

    def listed(self, chunks: NDArray[np.bool_]) -> Iterator[tuple[JSON, Chunk, Outcome]]:
        """Yield where some chunks stand, what they are and what came of them; the first `LISTED` of them."""
        result: TraceResult | None = None
        last = -1
        for chunk in np.flatnonzero(chunks)[:LISTED].tolist():
            row = int(np.searchsorted(self.columns.starts, chunk, side="right")) - 1
            if result is None or row != last:
                result, last = self.run.results[row], row
            rank = chunk - int(self.columns.starts[row])
            place = {"trace": result.trace_id, "rank": rank + 1, "chunk": result.trace.chunks[rank].id}
            yield place, result.trace.chunks[rank], result.outcomes[rank]
