"""The JSON that the served pages draw, read from the library page by page."""

from __future__ import annotations

from collections.abc import Sequence

from judge_eval.backends.storing.store import Store
from judge_eval.errors import RunError
from judge_eval.pages.blind import blind_card, blind_row
from judge_eval.pages.card import card_page
from judge_eval.pages.comparepage import SideBySide, compare_page
from judge_eval.pages.overview import Table
from judge_eval.pages.recall import Memory
from judge_eval.pages.rowfilter import parse_filter
from judge_eval.pages.rows import JSON, TraceRow, sort_rows
from judge_eval.pages.runpage import run_page
from judge_eval.runs.folder.records import TraceResult
from judge_eval.server.library import Library


class MissingTraceError(RunError):
    """The run has no such trace or chunk."""


class Views:
    """What pages ask for.

    Args:
        library: The folder of runs.
        store: The cache in which raw replies are looked up; None where there is none.
    """

    def __init__(self, library: Library, store: Store | None) -> None:
        self.library, self.store = library, store

    def page(self, run_id: str, baseline: str | None) -> JSON:
        """Return a run's page but for its rows and traces."""
        table = self.library.table(run_id)
        if baseline is None:
            return self.library.derived(table, "page", lambda: run_page(table))
        sides = self.library.side_by_side(baseline, run_id)
        before = sides.baseline.run.manifest
        return self.library.derived(sides, "page", lambda: run_page(table, before, sides.metrics))

    def rows(
        self,
        run_id: str,
        *,
        filter: str,
        sort: str,
        metric: str | None,
        offset: int,
        limit: int,
        locate: str | None,
        baseline: str | None,
        blind: bool,
    ) -> JSON:
        """Return a page of a run's rows; `at` is the place of the row to locate, -1 where it is not there."""
        table = self.library.table(run_id)
        rows = table.rows if baseline is None else self.library.side_by_side(baseline, run_id).rows
        if blind:
            rows = [blind_row(row) for row in rows]
        asked = parse_filter(filter, table.metrics)
        rows = asked.rows(rows)
        if asked.texts:
            wanted = {row.position for row in rows}
            fit = {
                result.position
                for result in table.run.results
                if result.position in wanted and asked.text_fits(result, reasons=not blind)
            }
            rows = [row for row in rows if row.position in fit]
        rows = sort_rows(rows, sort, table.metrics, metric)
        at = None
        if locate is not None:
            at = next((place for place, row in enumerate(rows) if row.id == locate), -1)
        page = [row.data() for row in rows[offset : offset + limit]]
        return {"total": len(rows), "offset": offset, "rows": page, "at": at}

    def result(self, run_id: str, trace_id: str) -> tuple[Table, TraceResult]:
        """Return one trace of a run.

        Raises:
            MissingTraceError: There is none of that id.
        """
        table = self.library.table(run_id)
        places = self.library.derived(table, "places", lambda: _places(table.rows))
        if trace_id not in places:
            raise MissingTraceError("this run has no trace of that id")
        return table, table.run.results[places[trace_id]]

    def trace(self, run_id: str, trace_id: str, blind: bool) -> JSON:
        """Return one trace in full."""
        table, result = self.result(run_id, trace_id)
        systems: list[str] = []
        memory = Memory(table.run.manifest, self.store)
        page = card_page(result, table.scale, table.metrics, memory, systems)
        return {"trace": blind_card(page) if blind else page, "systems": systems}

    def compare(self, baseline: str, candidate: str) -> JSON:
        """Return a compare page but for its changed traces."""
        sides = self.library.side_by_side(baseline, candidate)
        return self.library.derived(sides, "compare", lambda: compare_page(sides))

    def changed(
        self,
        baseline: str,
        candidate: str,
        *,
        filter: str,
        trace_ids: Sequence[str],
        offset: int,
        limit: int,
    ) -> JSON:
        """Return a page of the changed traces of two runs."""
        sides: SideBySide = self.library.side_by_side(baseline, candidate)
        word, wanted = filter.strip().lower(), set(trace_ids)
        rows = [
            row
            for row in sides.changed
            if (not wanted or row.id in wanted)
            and (not word or word == row.change or word in row.id.lower() or word in row.query.lower())
        ]
        page = rows[offset : offset + limit]
        return {"total": len(rows), "offset": offset, "rows": list(sides.in_full(page))}


def _places(rows: Sequence[TraceRow]) -> dict[str, int]:
    return {row.id: place for place, row in enumerate(rows)}
