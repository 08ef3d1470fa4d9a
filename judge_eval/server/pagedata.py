"""The routes that give the served pages their JSON, page by page."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query

from judge_eval.backends.storing.store import Store
from judge_eval.errors import DataError, RunError
from judge_eval.pages.blind import blind_card, blind_row
from judge_eval.pages.card import card_page
from judge_eval.pages.comparepage import compare_page
from judge_eval.pages.overview import Table
from judge_eval.pages.recall import Memory
from judge_eval.pages.rowfilter import parse_filter
from judge_eval.pages.rows import sort_rows
from judge_eval.pages.runpage import run_page
from judge_eval.runs.folder.labels import Label, add_label, given_labels
from judge_eval.runs.folder.records import TraceResult
from judge_eval.server.library import Library
from judge_eval.server.models import GivenLabel, Offset, PageSize, Text

Sort = Literal["order", "score", "-score", "change", "-change", "failed", "disagree"]


class MissingTraceError(RunError):
    """The run has no such trace or chunk."""


def make_page_routes(library: Library, store: Store | None) -> APIRouter:
    """Make the routes of what pages show.

    Args:
        library: The folder of runs.
        store: The cache in which raw replies are looked up; None where there is none.
    """
    api = APIRouter()

    def result_of(run_id: UUID, trace_id: str) -> tuple[Table, TraceResult]:
        table = library.table(str(run_id))
        places = library.derived(table, "places", lambda: {row.id: k for k, row in enumerate(table.rows)})
        if trace_id not in places:
            raise MissingTraceError("this run has no trace of that id")
        return table, table.run.results[places[trace_id]]

    @api.get("/runs/{run_id}/page", tags=["pages"])
    def get_page(run_id: UUID, baseline: UUID | None = None) -> dict[str, Any]:
        """Return the figures of a run's page."""
        table = library.table(str(run_id))
        if baseline is None:
            return library.derived(table, "page", lambda: run_page(table))
        sides = library.side_by_side(str(baseline), str(run_id))
        before = sides.baseline.run.manifest
        return library.derived(sides, "page", lambda: run_page(table, before, sides.metrics))

    @api.get("/runs/{run_id}/rows", tags=["pages"])
    def get_rows(
        run_id: UUID,
        filter: Text = "",
        sort: Sort = "order",
        metric: Annotated[str | None, Query(max_length=200)] = None,
        offset: Offset = 0,
        limit: PageSize = 100,
        locate: Annotated[str | None, Query(max_length=10_000)] = None,
        baseline: UUID | None = None,
        blind: bool = False,
    ) -> dict[str, Any]:
        """Return a page of a run's traces as rows, filtered and sorted."""
        table = library.table(str(run_id))
        rows = table.rows if baseline is None else library.side_by_side(str(baseline), str(run_id)).rows
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
        # `at` is the place of the row to locate, -1 where it is not there
        return {"total": len(rows), "offset": offset, "rows": page, "at": at}

    @api.get("/runs/{run_id}/trace", tags=["pages"])
    def get_trace(run_id: UUID, trace_id: Text, blind: bool = False) -> dict[str, Any]:
        """Return one trace in full; `blind` hides the verdicts of chunks without a human label."""
        table, result = result_of(run_id, trace_id)
        systems: list[str] = []
        memory = Memory(table.run.manifest, store)
        page = card_page(result, table.scale, table.metrics, memory, systems)
        return {"trace": blind_card(page) if blind else page, "systems": systems}

    @api.get("/runs/{run_id}/labels", tags=["labels"])
    def get_labels(run_id: UUID) -> list[Label]:
        """List the human labels given after the run."""
        return list(given_labels(library.find(str(run_id))[0]).values())

    @api.post("/runs/{run_id}/labels", status_code=201, tags=["labels"])
    def give_label(run_id: UUID, given: GivenLabel) -> Label:
        """Give a chunk a human label, or take one back."""
        table, result = result_of(run_id, given.trace_id)
        if all(chunk.id != given.chunk_id for chunk in result.trace.chunks):
            raise MissingTraceError("this trace has no chunk of that id")
        if given.label is not None and given.label > table.scale.maximum:
            raise DataError(f"the run's scale ends at {table.scale.maximum}", field="label")
        label = Label(**given.model_dump())
        add_label(library.find(str(run_id))[0], label)
        return label

    @api.get("/compare", tags=["pages"])
    def compare(baseline: UUID, candidate: UUID) -> dict[str, Any]:
        """Compare two runs over the traces they have in common; differences are candidate minus baseline."""
        sides = library.side_by_side(str(baseline), str(candidate))
        return library.derived(sides, "compare", lambda: compare_page(sides))

    @api.get("/compare/changed", tags=["pages"])
    def changed(
        baseline: UUID,
        candidate: UUID,
        filter: Text = "",
        trace_id: Annotated[list[str] | None, Query(max_length=100)] = None,
        offset: Offset = 0,
        limit: Annotated[int, Query(ge=1, le=100)] = 25,
    ) -> dict[str, Any]:
        """Return a page of the traces that changed between two runs."""
        sides = library.side_by_side(str(baseline), str(candidate))
        word = filter.strip().lower()
        rows = [
            row
            for row in sides.changed
            if (not trace_id or row.id in trace_id)
            and (not word or word == row.change or word in row.id.lower() or word in row.query.lower())
        ]
        page = list(sides.in_full(rows[offset : offset + limit]))
        return {"total": len(rows), "offset": offset, "rows": page}

    return api
