"""Three runs or more side by side, as the JSON that a page shows: a row a trace, a cell a run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from judge_eval.compare.changes import numbered, pair_traces
from judge_eval.errors import ConfigError
from judge_eval.pages.compared import ComparedTables, difference_data
from judge_eval.pages.figures import head, metric_data
from judge_eval.pages.page import Page, PageData, PageSettings
from judge_eval.pages.rows import STRIP, Table, TraceRow, in_brief, known, sort_known
from judge_eval.runs.columns.verdict_table import VerdictTable
from judge_eval.runs.folder.labels import with_labels
from judge_eval.runs.folder.records import SliceBy, TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import less_is_better
from judge_eval.views.blocks import JSON
from judge_eval.views.comparison import best_run_sentence, curve_sections
from judge_eval.views.findings import comparison_notes
from judge_eval.views.note_sentences import notes_of_runs
from judge_eval.views.page_html import sections_html

SNIPPET = 300
"""Characters of a chunk that a row shows when it is opened."""


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A trace in several runs."""

    place: int
    """Its row among all."""
    id: str
    query: str
    tags: tuple[str, ...]
    rows: tuple[TraceRow | None, ...]
    """By run; None if the run does not have the trace."""
    columns: Mapping[str, NDArray[np.float64]]
    """Of all rows, by metric: the scores by place and run, NaN for none."""

    @property
    def scores(self) -> tuple[tuple[float | None, ...], ...]:
        """By metric: by run."""
        return tuple(tuple(map(known, column[self.place].tolist())) for column in self.columns.values())

    @property
    def cells(self) -> tuple[JSON | None, ...]:
        """What a page shows of each run."""
        return tuple(None if row is None else self._cell(run, row) for run, row in enumerate(self.rows))

    def _cell(self, run: int, row: TraceRow) -> JSON:
        cell: JSON = {"strip": row.strip[:STRIP], "off": row.off[:STRIP], "ranks": len(row.strip)}
        cell["scores"] = {name: known(float(column[self.place, run])) for name, column in self.columns.items()}
        return {**cell, "id": row.id} if row.id != self.id else cell

    def spread(self, metric: int) -> float:
        """Return how far apart the runs are; below 0 where fewer than two have a value."""
        values = [score for score in self.scores[metric] if score is not None]
        return max(values) - min(values) if len(values) > 1 else -1.0

    def data(self) -> JSON:
        """Return it as JSON for a page."""
        return {name: getattr(self, name) for name in ("place", "id", "query", "tags", "cells")}


class SeveralRuns(ComparedTables):
    """Three to eight runs side by side, the first being the one that others are compared with.

    Traces that a run has alone have rows of their own, after those of the first run. Of large runs the `most`
    rows are held in which the runs are furthest apart; None takes all.
    """

    def __init__(self, tables: Sequence[Table], most: int | None = None) -> None:
        check_several([table.run.id for table in tables])
        super().__init__(tables)
        self._groups = _grouped(self.columns)
        self.total = len(self._groups)
        """How many traces there are in all runs together."""
        chosen = np.arange(self.total)
        if most is not None and self.total > most:
            chosen = np.sort(np.argsort(-self._spreads(), kind="stable")[:most])
        self.rows = list(self._rows(chosen))

    def _scores(self, column: int) -> NDArray[np.float64]:
        scores = np.full(self._groups.shape, np.nan)
        for run, columns in enumerate(self.columns):
            there = self._groups[:, run] >= 0
            scores[there, run] = columns.scores[self._groups[there, run], column]
        return scores

    def _spreads(self) -> NDArray[np.float64]:
        if not self.names:
            return np.zeros(self.total)
        scores = self._scores(0)
        high = np.where(np.isnan(scores), -np.inf, scores).max(axis=1)
        low = np.where(np.isnan(scores), np.inf, scores).min(axis=1)
        return np.where(np.isfinite(high), high - low, -1.0)

    def _rows(self, chosen: NDArray[np.int64]) -> Iterator[MatrixRow]:
        by_place: list[dict[int, TraceRow]] = []
        for run, table in enumerate(self.tables):
            places = self._groups[chosen, run]
            if not table.whole:
                table.take(places[places >= 0].tolist())
            by_place.append(dict(zip(table.places, table.rows, strict=True)))
        columns = {name: self._scores(column) for column, name in enumerate(self.names)}
        for place in chosen.tolist():
            at = self._groups[place].tolist()
            rows = [None if k < 0 else by_place[run][k] for run, k in enumerate(at)]
            first = next(row for row in rows if row is not None)
            yield MatrixRow(
                place=place,
                id=first.id,
                query=first.query,
                tags=tuple(dict.fromkeys(tag for row in rows if row for tag in row.tags)),
                rows=tuple(rows),
                columns=columns,
            )

    def in_full(self, place: int) -> JSON:
        """Return what each run says of a trace's chunks; a chunk is the same where title and text are."""
        (page,) = self.all_in_full([place])
        return page

    def all_in_full(self, places: Sequence[int]) -> Iterator[JSON]:
        """Yield `in_full` of several traces."""
        wanted = self._groups[list(places)]
        reads = [
            table.run.results_at(at[at >= 0], calls=False) for table, at in zip(self.tables, wanted.T, strict=True)
        ]
        for place, at in zip(places, wanted.tolist(), strict=True):
            yield self._in_full(place, at, [next(read) if k >= 0 else None for read, k in zip(reads, at, strict=True)])

    def _in_full(self, place: int, at: Sequence[int], results: Sequence[TraceResult | None]) -> JSON:
        first = next(result for result in results if result is not None)
        chunks: dict[tuple[int, int], JSON] = {}
        for run, (columns, row, result) in enumerate(zip(self.columns, at, results, strict=True)):
            if result is None:
                continue
            passages = numbered(columns.passages[columns.starts[row] : columns.starts[row + 1]].tolist())
            ranks = zip(passages, result.trace.chunks, result.outcomes, strict=True)
            for rank, (key, chunk, outcome) in enumerate(ranks, 1):
                if key not in chunks:
                    text = in_brief(chunk.text, SNIPPET)
                    chunks[key] = {"id": chunk.id, "text": text, "first": rank, "cells": [None] * len(results)}
                chunks[key]["first"] = min(chunks[key]["first"], rank)
                why = outcome.explanation if outcome.kind == "verdict" else f"{outcome.why} {outcome.detail}".strip()
                stage = outcome.stage if outcome.kind == "verdict" else None
                chunks[key]["cells"][run] = {"rank": rank, "sign": outcome.sign, "reason": why, "stage": stage}
        ordered = sorted(chunks.values(), key=lambda chunk: int(chunk.pop("first")))
        return {"place": place, "reference": first.trace.reference, "chunks": ordered}


def check_several(ids: Sequence[str]) -> None:
    """See that so many runs can be held side by side."""
    if not 3 <= len(ids) <= 8:
        raise ConfigError(f"{len(ids)} runs: name 3 to 8 to see them side by side")
    if len(set(ids)) < len(ids):
        raise ConfigError("one run is named twice; name each once to see them side by side")


def _grouped(columns: Sequence[VerdictTable]) -> NDArray[np.int64]:
    """Bring the traces of several runs together: each run's places, shape (traces, runs), -1 for none."""
    groups: list[NDArray[np.int64]] = []
    free = [np.ones(len(each), dtype=bool) for each in columns]
    for run, own in enumerate(columns):
        left = np.flatnonzero(free[run])
        rows = np.full((len(left), len(columns)), -1, dtype=np.int64)
        rows[:, run] = left
        at = np.full(len(own), -1, dtype=np.int64)
        at[left] = np.arange(len(left))
        for later in range(run + 1, len(columns)):
            pairs = pair_traces(own, columns[later])
            both = (at[pairs.a] >= 0) & free[later][pairs.b]
            rows[at[pairs.a[both]], later] = pairs.b[both]
            free[later][pairs.b[both]] = False
        groups.append(rows)
    return np.concatenate(groups)


def matrix_page(several: SeveralRuns, by: Sequence[SliceBy] = ()) -> JSON:
    """Return everything of the page of several runs but its rows."""
    record, shown = several.record, len(several.rows)
    against = {(each.metric, each.candidate): difference_data(each) for each in record.differences}
    return {
        "page": "matrix",
        "runs": [head(table.run.manifest) for table in several.tables],
        "conclusion": best_run_sentence(record),
        "warnings": notes_of_runs(record, record.warnings),
        "notes": comparison_notes(record),
        "metrics": [
            {
                "name": name,
                "less_is_better": less_is_better(name),
                "runs": [
                    metric_data(name, run.manifest.aggregates.get(name), against.get((name, place)))
                    for place, run in enumerate(several.scored)
                ],
            }
            for name in several.names
        ],
        "changed": [None, *record.changed],
        "common": [None, *record.paired],
        "slices": several.slices(by),
        "read": sections_html(curve_sections(record)),
        "shown": None if shown == several.total else {"n": shown, "of": several.total},
    }


def find_rows(rows: Sequence[MatrixRow], asked: str) -> list[MatrixRow]:
    """Return the rows in which all words of a filter hold: `tag:x`, `differs`, or text of id or question."""

    def holds(row: MatrixRow, word: str) -> bool:
        if word.startswith("tag:"):
            return word[4:] in [tag.lower() for tag in row.tags]
        if word == "differs":
            return any(row.spread(metric) > 1e-9 for metric in range(len(row.scores)))
        return word in row.id.lower() or word in row.query.lower()

    return [row for row in rows if all(holds(row, word) for word in asked.lower().split())]


def ordered_rows(rows: Sequence[MatrixRow], by: str, metric: int) -> list[MatrixRow]:
    """Sort rows; of equals the first run's order stays."""
    # `by` is `order` (the first run's), `apart` (where the runs are furthest apart first), or the place of a
    # run, in which the lowest come first and rows without a value last.
    if by == "order":
        return list(rows)
    if by == "apart":
        return sorted(rows, key=lambda row: -row.spread(metric) if row.scores else 0.0)
    run = int(by)
    return sort_known(rows, lambda row: row.scores[metric][run] if row.scores and run < len(row.rows) else None)


def _make(runs: Sequence[Run], settings: PageSettings) -> PageData:
    several = SeveralRuns([Table(with_labels(run), settings.most) for run in runs], settings.most)
    data = matrix_page(several, settings.by) | {"rows": [row.data() for row in several.rows]}
    items = several.all_in_full([row.place for row in several.rows])
    return PageData(f"{len(runs)} runs side by side", data, items)


PAGE = Page("matrix", "/matrix", "matrixpage.js", _make)
