"""The routes behind the pages: of one run, of the labels that people give, of several runs."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from judge_eval.errors import DataError
from judge_eval.llm.cache.store import Store
from judge_eval.pages.blind import blind_card, blind_page, blind_row
from judge_eval.pages.card import card_page
from judge_eval.pages.comparepage import compare_page
from judge_eval.pages.matrixpage import find_rows, matrix_page, ordered_rows
from judge_eval.pages.page import PageSettings, page_named
from judge_eval.pages.rows import parse_filter, sort_rows
from judge_eval.runs.folder.labels import Label, add_label, people_labels
from judge_eval.runs.judging.recall import Memory
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.server.library import Library
from judge_eval.server.models import BaselineName, GivenLabel, Offset, PageSize, QueryText, RunName
from judge_eval.server.served_runs import MissingTraceError, ServedRuns, baseline_of
from judge_eval.study.matching import labels_by_person
from judge_eval.study.missing import MissingReport, missing_report
from judge_eval.study.people import agree_people
from judge_eval.views.agreement import people_sentence

Sort = Literal[
    "order", "score", "-score", "change", "-change", "failed", "disagree", "newest", "first", "-first", "tags", "-tags"
]
ManyRuns = Annotated[list[RunName], Query(max_length=50)]
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
        row = None if compared is None else compared.by_position.get(result.position)
        if compared is None or row is None:
            return answer
        return {**answer, "trace": compared.add_ranks_before(result.position, page), "row": row.data()}

    return api


def make_label_routes(runs: ServedRuns) -> APIRouter:
    """Make the routes that list labels, say how far people agree, and take a label."""
    api = APIRouter()

    @api.get("/runs/{run_id}/labels", tags=["labels"])
    def get_labels(run_id: RunName) -> list[Label]:
        """List the human labels given after the run, each person's last one of a chunk."""
        return [label for labels in people_labels(runs.library.find(str(run_id))[0]).values() for label in labels]

    @api.get("/runs/{run_id}/agreement", tags=["labels"])
    def get_agreement(run_id: RunName) -> dict[str, Any]:
        """Tell how far the judge agrees with the labels, as `agree --json` does; beside the server's floor, if any."""
        return runs.agreement(str(run_id))

    @api.get("/runs/{run_id}/people", tags=["labels"])
    def get_people(run_id: RunName) -> dict[str, Any]:
        """Tell how far people agree, and list the chunks on which they differ, undecided ones first."""
        folder = runs.library.find(str(run_id))[0]
        run, labels = runs.library.table(str(run_id)).run, people_labels(folder)
        people = labels_by_person(run)
        differing = []
        for (trace, chunk), each in labels.items():
            if len({label.label for label in each if not label.final}) > 1:
                shown = [label.model_dump(include={"by", "label", "comment", "final"}) for label in each]
                decided = any(label.final for label in each)
                differing.append({"trace": trace, "chunk": chunk, "labels": shown, "decided": decided})
        pairs = agree_people(people, scale_of(run))
        return {
            "people": [{"by": name, "n": len(grades)} for name, grades in people.items()],
            "pairs": [people_sentence(pair) for pair in pairs],
            "differing": sorted(differing, key=lambda each: each["decided"]),
        }

    @api.post("/runs/{run_id}/labels", status_code=201, tags=["labels"])
    def give_label(run_id: RunName, label: GivenLabel) -> Label:
        """Give a chunk a human label, or take one back."""
        _, scale, _, result = runs.result(str(run_id), label.trace_id)
        if all(chunk.id != label.chunk_id for chunk in result.trace.chunks):
            raise MissingTraceError("this trace does not have a chunk with this id")
        if label.label is not None and label.label > scale.maximum:
            raise DataError(f"the run's scale ends at {scale.maximum}", field="label")
        if label.label is not None and label.label < scale.minimum:
            raise DataError(f"the run's scale begins at {scale.minimum}", field="label")
        record = Label(**label.model_dump())
        add_label(runs.library.find(str(run_id))[0], record)
        return record

    return api


def make_comparison_routes(library: Library) -> APIRouter:
    """Make the routes of two runs compared, of several side by side, and of the pages of several runs by name."""
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
