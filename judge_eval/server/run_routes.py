"""The routes of one run's page: its figures, its rows, its traces."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from judge_eval.llm.cache.store import Store
from judge_eval.pages.blind import blind_card, blind_page, blind_row
from judge_eval.pages.card import card_page
from judge_eval.pages.rows import parse_filter, sort_rows
from judge_eval.runs.folder.labels import people_labels
from judge_eval.runs.judging.recall import Memory
from judge_eval.server.baselines import baseline_of
from judge_eval.server.models import BaselineName, Offset, PageSize, QueryText, RunName
from judge_eval.server.served_runs import ServedRuns
from judge_eval.study.missing import MissingReport, missing_report

Sort = Literal[
    "order", "score", "-score", "change", "-change", "failed", "disagree", "newest", "first", "-first", "tags", "-tags"
]
Person = Annotated[str, Query(max_length=200)]


def make_run_routes(runs: ServedRuns, store: Store | None) -> APIRouter:
    """Make the routes of a run's page; `store` is the cache of the judge's raw replies, if any."""
    api = APIRouter()

    @api.get("/runs/{run_id}/page", tags=["pages"])
    def get_page(run_id: RunName, baseline: BaselineName = None, blind: bool = False) -> dict[str, Any]:
        """Return the figures of a run's page, beside its baseline if it has one (`none` leaves it out).

        `blind` hides what sums up the verdicts, and the baseline.
        """
        page = runs.page(str(run_id), "none" if blind else baseline)
        return blind_page(page) if blind else page

    @api.get("/runs/{run_id}/missing", tags=["runs"])
    def get_missing(run_id: RunName) -> MissingReport:
        """Report on a run of `judge-eval missing`: what a corpus holds of what a retriever lost."""
        table = runs.library.table(str(run_id))
        return runs.library.derived(table, "missing", lambda: missing_report(table.run))

    @api.get("/runs/{run_id}/rows", tags=["pages"])
    def get_rows(
        run_id: RunName,
        filter: QueryText = "",
        sort: Sort = "order",
        metric: Annotated[str | None, Query(max_length=200)] = None,
        offset: Offset = 0,
        limit: PageSize = 100,
        locate: Annotated[str | None, Query(max_length=10_000)] = None,
        baseline: BaselineName = None,
        blind: bool = False,
        by: Person = "",
        sample: bool = False,
    ) -> dict[str, Any]:
        """Return a page of a run's traces as rows, filtered and sorted.

        Blind, `by` is the person whose labels count. `sample` gives the traces of the server's sample in its
        order, and how many of them are labelled (`done`).
        """
        opened = runs.rows(str(run_id), "none" if blind else baseline, newest=sort == "newest")
        rows, own = opened.rows, runs.own_labels(str(run_id), by, sample=sample)
        if sample:
            rows = runs.sampled_rows(str(run_id), rows)
        if blind:
            counts = runs.labelled_chunks(str(run_id), own, sample=sample)
            rows = [blind_row(row, counts[row.id]) for row in rows]
        asked = parse_filter(filter, opened.metrics)
        rows = asked.rows(rows)
        if asked.texts:
            wanted = {row.position for row in rows}
            fit = {
                result.position
                for result in opened.results(wanted)
                if result.position in wanted and asked.text_fits(result, reasons=not blind)
            }
            rows = [row for row in rows if row.position in fit]
        if sort != "newest" and not sample:
            rows = sort_rows(rows, sort, opened.metrics, metric)
        at = None
        if locate is not None:
            at = next((place for place, row in enumerate(rows) if row.id == locate), -1)
        page = [row.data() for row in rows[offset : offset + limit]]
        # `at` is the place of the row to locate, -1 if it is not there
        answer = {"total": len(rows), "offset": offset, "rows": page, "at": at}
        return answer | ({"done": runs.sample(str(run_id)).done(own)} if sample else {})

    @api.get("/runs/{run_id}/trace", tags=["pages"])
    def get_trace(
        run_id: RunName,
        trace_id: QueryText,
        blind: bool = False,
        baseline: BaselineName = None,
        by: Person = "",
        sample: bool = False,
    ) -> dict[str, Any]:
        """Return one trace in full; `blind` hides verdict, rank and score of chunks that `by` has not labelled.

        Blind, chunks are shuffled, or in the order of the server's sample.
        Beside a baseline `row` holds its row with the differences.
        """
        manifest, scale, metrics, result = runs.result(str(run_id), trace_id)
        systems: list[str] = []
        page = card_page(result, scale, metrics, Memory(manifest, store), systems)
        labels = people_labels(runs.library.find(str(run_id))[0])
        for card in page["chunks"]:
            there = labels.get((trace_id, card["id"]), [])
            kept = [label for label in there if not blind or label.by == by]
            card["people"] = [label.model_dump(include={"by", "label", "comment", "final"}) for label in kept]
        if blind:
            own = runs.own_labels(str(run_id), by, sample=sample)
            mine = {chunk: grade for (trace, chunk), grade in own.items() if trace == trace_id}
            order = runs.sample(str(run_id)).chunks.get(trace_id) if sample else None
            return {"trace": blind_card(page, mine, str(run_id), order), "systems": systems}
        answer = {"trace": page, "systems": systems}
        if runs.library.followed(str(run_id)) is not None:
            return answer
        compared, _ = baseline_of(runs.library, str(run_id), baseline)
        row = None if compared is None else compared.row(result.position)
        if compared is None or row is None:
            return answer
        return {**answer, "trace": compared.add_ranks_before(result.position, page), "row": row.data()}

    return api
