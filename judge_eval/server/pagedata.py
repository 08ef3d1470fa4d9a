"""The routes that give the served pages their JSON, page by page."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from judge_eval.backends.storing.store import Store
from judge_eval.errors import DataError, RunError
from judge_eval.pages.blind import blind_card, blind_page, blind_row
from judge_eval.pages.card import card_page
from judge_eval.pages.comparepage import compare_page
from judge_eval.pages.matrixpage import find_rows, matrix_page, ordered_rows
from judge_eval.pages.recall import Memory
from judge_eval.pages.rowfilter import parse_filter
from judge_eval.pages.rows import sort_rows
from judge_eval.pages.runpage import live_page, run_page
from judge_eval.runs.folder.labels import Label, add_label, given_labels
from judge_eval.runs.folder.records import Manifest, TraceResult
from judge_eval.schema import Scale
from judge_eval.server.library import Library
from judge_eval.server.models import GivenLabel, Offset, PageSize, RunName, Text
from judge_eval.server.naming import BaselineName, baseline_of

Sort = Literal["order", "score", "-score", "change", "-change", "failed", "disagree", "newest"]
ManyRuns = Annotated[list[RunName], Query(max_length=50)]


class MissingTraceError(RunError):
    """The run has no such trace or chunk."""


def make_page_routes(library: Library, store: Store | None) -> APIRouter:
    """Make the routes of what pages show.

    Args:
        library: The folder of runs.
        store: The cache in which raw replies are looked up; None where there is none.
    """
    api = APIRouter()

    def result_of(run_id: RunName, trace_id: str) -> tuple[Manifest, Scale, tuple[str, ...], TraceResult]:
        followed = library.followed(str(run_id))
        if followed is not None:
            found = followed.find(trace_id)
            if found is None:
                raise MissingTraceError("this run has no trace of that id by now")
            return followed.manifest, followed.scale, followed.metrics, found
        table = library.table(str(run_id))
        places = library.derived(table, "places", lambda: {row.id: k for k, row in enumerate(table.rows)})
        if trace_id not in places:
            raise MissingTraceError("this run has no trace of that id")
        return table.run.manifest, table.scale, table.metrics, table.run.results[places[trace_id]]

    def page_of(run_id: str, baseline: BaselineName) -> dict[str, Any]:
        followed = library.followed(run_id)
        if followed is not None:
            return live_page(library.find(run_id)[1], followed.metrics)
        sides, problem = baseline_of(library, run_id, baseline)
        table = library.table(run_id)
        if sides is None:
            page = library.derived(table, "page", lambda: run_page(table))
            return {**page, "problem": problem} if problem else page
        before, told = sides.baseline.run.manifest, sides.told("This run")
        return library.derived(sides, "page", lambda: run_page(table, before, sides.metrics, told))

    @api.get("/runs/{run_id}/page", tags=["pages"])
    def get_page(run_id: RunName, baseline: BaselineName = None, blind: bool = False) -> dict[str, Any]:
        """Return the figures of a run's page, beside its baseline where it has one (`none` leaves it out).

        `blind` hides what sums up the verdicts, and the baseline.
        """
        page = page_of(str(run_id), "none" if blind else baseline)
        return blind_page(page) if blind else page

    @api.get("/runs/{run_id}/rows", tags=["pages"])
    def get_rows(
        run_id: RunName,
        filter: Text = "",
        sort: Sort = "order",
        metric: Annotated[str | None, Query(max_length=200)] = None,
        offset: Offset = 0,
        limit: PageSize = 100,
        locate: Annotated[str | None, Query(max_length=10_000)] = None,
        baseline: BaselineName = None,
        blind: bool = False,
    ) -> dict[str, Any]:
        """Return a page of a run's traces as rows, filtered and sorted."""
        followed = library.followed(str(run_id))
        if followed is not None:
            metrics, rows = followed.metrics, followed.rows[:: -1 if sort == "newest" else 1]
        else:
            table = library.table(str(run_id))
            sides, _ = baseline_of(library, str(run_id), "none" if blind else baseline)
            metrics, rows = table.metrics, table.rows if sides is None else sides.rows
        if blind:
            rows = [blind_row(row) for row in rows]
        asked = parse_filter(filter, metrics)
        rows = asked.rows(rows)
        if asked.texts:
            wanted = {row.position for row in rows}
            results = table.run.results if followed is None else followed.results(wanted)
            fit = {
                result.position
                for result in results
                if result.position in wanted and asked.text_fits(result, reasons=not blind)
            }
            rows = [row for row in rows if row.position in fit]
        if sort != "newest":
            rows = sort_rows(rows, sort, metrics, metric)
        at = None
        if locate is not None:
            at = next((place for place, row in enumerate(rows) if row.id == locate), -1)
        page = [row.data() for row in rows[offset : offset + limit]]
        # `at` is the place of the row to locate, -1 where it is not there
        return {"total": len(rows), "offset": offset, "rows": page, "at": at}

    @api.get("/runs/{run_id}/trace", tags=["pages"])
    def get_trace(
        run_id: RunName, trace_id: Text, blind: bool = False, baseline: BaselineName = None
    ) -> dict[str, Any]:
        """Return one trace in full; `blind` hides the verdicts of chunks without a human label.

        Beside a baseline `row` holds its row with the differences.
        """
        manifest, scale, metrics, result = result_of(run_id, trace_id)
        systems: list[str] = []
        page = card_page(result, scale, metrics, Memory(manifest, store), systems)
        if blind:
            return {"trace": blind_card(page), "systems": systems}
        told = {"trace": page, "systems": systems}
        if library.followed(str(run_id)) is not None:
            return told
        sides, _ = baseline_of(library, str(run_id), baseline)
        row = None if sides is None else sides.row(result.position)
        return told if row is None else {**told, "row": row.data()}

    @api.get("/runs/{run_id}/labels", tags=["labels"])
    def get_labels(run_id: RunName) -> list[Label]:
        """List the human labels given after the run."""
        return list(given_labels(library.find(str(run_id))[0]).values())

    @api.post("/runs/{run_id}/labels", status_code=201, tags=["labels"])
    def give_label(run_id: RunName, given: GivenLabel) -> Label:
        """Give a chunk a human label, or take one back."""
        _, scale, _, result = result_of(run_id, given.trace_id)
        if all(chunk.id != given.chunk_id for chunk in result.trace.chunks):
            raise MissingTraceError("this trace has no chunk of that id")
        if given.label is not None and given.label > scale.maximum:
            raise DataError(f"the run's scale ends at {scale.maximum}", field="label")
        label = Label(**given.model_dump())
        add_label(library.find(str(run_id))[0], label)
        return label

    @api.get("/compare", tags=["pages"])
    def compare(baseline: RunName, candidate: RunName) -> dict[str, Any]:
        """Compare two runs over the traces they have in common; differences are candidate minus baseline."""
        sides = library.side_by_side(str(baseline), str(candidate))
        return library.derived(sides, "compare", lambda: compare_page(sides))

    @api.get("/compare/changed", tags=["pages"])
    def changed(
        baseline: RunName,
        candidate: RunName,
        filter: Text = "",
        sort: Literal["change", "-change", "order"] = "change",
        metric: Annotated[str | None, Query(max_length=200)] = None,
        trace_id: Annotated[list[str] | None, Query(max_length=100)] = None,
        offset: Offset = 0,
        limit: Annotated[int, Query(ge=1, le=100)] = 25,
    ) -> dict[str, Any]:
        """Return a page of the traces that changed between two runs, those that lost most first."""
        sides = library.side_by_side(str(baseline), str(candidate))
        word = filter.strip().lower()
        rows = [
            row
            for row in sides.changed
            if (not trace_id or row.id in trace_id)
            and (not word or word == row.change or word in row.id.lower() or word in row.query.lower())
        ]
        rows = sort_rows(rows, sort, list(sides.metrics), metric)
        page = list(sides.in_full(rows[offset : offset + limit]))
        return {"total": len(rows), "offset": offset, "rows": page}

    make_matrix_routes(api, library)
    return api


def make_matrix_routes(api: APIRouter, library: Library) -> None:
    """Make the routes of the page that shows three runs or more side by side."""

    @api.get("/matrix", tags=["pages"])
    def get_matrix(run: ManyRuns) -> dict[str, Any]:
        """Hold three runs or more side by side; the others are compared with the first."""
        several = library.several(list(map(str, run)))
        return library.derived(several, "matrix", lambda: matrix_page(several))

    @api.get("/matrix/rows", tags=["pages"])
    def get_matrix_rows(
        run: ManyRuns,
        filter: Text = "",
        sort: Annotated[str, Query(pattern=r"^(order|apart|\d)$")] = "order",
        metric: Annotated[str | None, Query(max_length=200)] = None,
        offset: Offset = 0,
        limit: PageSize = 100,
    ) -> dict[str, Any]:
        """Return a page of the traces of several runs, filtered and sorted."""
        several = library.several(list(map(str, run)))
        chosen = several.names.index(metric) if metric in several.names else 0
        rows = ordered_rows(find_rows(several.rows, filter), sort, chosen)
        page = [row.data() for row in rows[offset : offset + limit]]
        return {"total": len(rows), "offset": offset, "rows": page}

    @api.get("/matrix/trace", tags=["pages"])
    def get_matrix_trace(run: ManyRuns, place: Offset) -> dict[str, Any]:
        """Return what each of several runs says of a trace's chunks; `place` is that of its row."""
        several = library.several(list(map(str, run)))
        if place >= several.total:
            raise MissingTraceError("these runs have no such trace")
        return several.in_full(place)
