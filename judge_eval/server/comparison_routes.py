"""The routes of pages that show several runs: two compared, three or more side by side, any page by its name."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from judge_eval.pages.comparepage import compare_page
from judge_eval.pages.matrixpage import find_rows, matrix_page, ordered_rows
from judge_eval.pages.page import PageSettings, page_named
from judge_eval.pages.rows import sort_rows
from judge_eval.server.library import Library
from judge_eval.server.models import Offset, PageSize, QueryText, RunName
from judge_eval.server.served_runs import MissingTraceError

ManyRuns = Annotated[list[RunName], Query(max_length=50)]


def make_comparison_routes(library: Library) -> APIRouter:
    """Make the routes of two runs compared, and of the pages of several runs by name."""
    api = APIRouter()

    @api.get("/compare", tags=["pages"])
    def compare(baseline: RunName, candidate: RunName) -> dict[str, Any]:
        """Compare two runs over the traces they have in common; differences are candidate minus baseline."""
        runs = str(baseline), str(candidate)
        return library.page("compare", runs, lambda: compare_page(library.compared(*runs)))

    @api.get("/compare/changed", tags=["pages"])
    def changed(
        baseline: RunName,
        candidate: RunName,
        filter: QueryText = "",
        sort: Literal["change", "-change", "order"] = "change",
        metric: Annotated[str | None, Query(max_length=200)] = None,
        trace_id: Annotated[list[str] | None, Query(max_length=100)] = None,
        offset: Offset = 0,
        limit: Annotated[int, Query(ge=1, le=100)] = 25,
    ) -> dict[str, Any]:
        """Return a page of the traces that changed between two runs, those that lost most first."""
        compared, word = library.compared(str(baseline), str(candidate)), filter.strip().lower()
        rows = [
            row
            for row in compared.changed
            if (not trace_id or row.id in trace_id)
            and (not word or word == row.change or word in row.id.lower() or word in row.query.lower())
        ]
        rows = sort_rows(rows, sort, list(compared.metrics), metric)
        page = list(compared.in_full(rows[offset : offset + limit]))
        return {"total": len(rows), "offset": offset, "rows": page}

    @api.get("/pages/{name}", tags=["pages"])
    def get_page_data(name: str, run: ManyRuns) -> dict[str, Any]:
        """Return what a page of that name shows of some runs, without what it reads piece by piece."""
        page = page_named(name)
        ids = list(map(str, run))
        return library.page(
            f"page {name}", ids, lambda: page.make([library.table(each).run for each in ids], PageSettings()).data
        )

    return api


def make_matrix_routes(library: Library) -> APIRouter:
    """Make the routes of the page that shows three runs or more side by side."""
    api = APIRouter()

    @api.get("/matrix", tags=["pages"])
    def get_matrix(run: ManyRuns) -> dict[str, Any]:
        """Hold three runs or more side by side; the others are compared with the first."""
        ids = list(map(str, run))
        return library.page("matrix", ids, lambda: matrix_page(library.several(ids)))

    @api.get("/matrix/rows", tags=["pages"])
    def get_matrix_rows(
        run: ManyRuns,
        filter: QueryText = "",
        sort: Annotated[str, Query(pattern=r"^(order|apart|\d)$")] = "apart",
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
            raise MissingTraceError("these runs do not have a trace with this id")
        return several.in_full(place)

    return api
