"""The served pages: one shell, the files it loads, and the JSON behind each page."""

from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from judge_eval.errors import DataError, MetricError, RunError
from judge_eval.llm.cache.store import Store
from judge_eval.pages.blind import blind_card, blind_page, blind_row, sampled_row
from judge_eval.pages.card import card_page
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.comparepage import compare_page
from judge_eval.pages.matrixpage import find_rows, matrix_page, ordered_rows
from judge_eval.pages.page import STYLES, Page, PageSettings, page_named, pages, web, web_files
from judge_eval.pages.recall import Memory
from judge_eval.pages.report import embed
from judge_eval.pages.rows import parse_filter, sort_rows
from judge_eval.pages.runpage import live_page, run_page
from judge_eval.runs.folder.labels import Label, add_label, people_labels
from judge_eval.runs.folder.records import Manifest, TraceResult
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.schema import Scale
from judge_eval.server.library import IndexingError, Library
from judge_eval.server.models import BaselineName, GivenLabel, OfferedBaseline, Offset, PageSize, RunName, Text
from judge_eval.spelling import option
from judge_eval.study.matching import labels_by_person
from judge_eval.study.people import LabelSample, agree_people
from judge_eval.views.agreement import people_sentence

OFFERED = 200
"""The most baselines that are offered."""
Sort = Literal["order", "score", "-score", "change", "-change", "failed", "disagree", "newest"]
Person = Annotated[str, Query(max_length=200)]
ManyRuns = Annotated[list[RunName], Query(max_length=50)]


class MissingTraceError(RunError):
    """The run has no such trace or chunk."""


OWN_PAGES = (Page("runs", "/", "runspage.js"), Page("docs", "/docs", "docspage.js"))
"""The pages that only a server has; they read what they show from the REST API."""


def make_pages() -> APIRouter:
    """Make the routes of the pages; they hold no data, so they need no token."""
    routes = APIRouter(include_in_schema=False)
    every = (*pages().values(), *OWN_PAGES)
    for page in every:
        routes.add_route(page.path, _showing(page), methods=["GET"])
    own = {page.module: page for page in every}

    @routes.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in own and name not in web_files():
            return Response(status_code=404)
        text = own[name].text() if name in own else web(name)
        return Response(text, media_type="text/css" if name.endswith(".css") else "text/javascript")

    return routes


def _showing(page: Page) -> Callable[[Request], HTMLResponse]:
    shell = _shell(page)
    return lambda _: HTMLResponse(shell)


def _shell(page: Page) -> str:
    links = "\n".join(f'<link rel="stylesheet" href="/static/{name}">' for name in STYLES)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
{links}
<meta name="page" data-page="{page.name}" data-script="{page.module}">
<title>judge_eval</title>
<script type="application/json" id="texts">{embed(page.all_texts(served=True))}</script>
<script type="module" src="/static/app.js"></script>
</head>
<body>
<noscript>These pages need JavaScript, which is disabled in this browser.</noscript>
</body>
</html>
"""


def baseline_of(library: Library, run_id: str, asked: BaselineName) -> tuple[ComparedRuns | None, str | None]:
    """Compare a run with its baseline, if any; say why a remembered baseline is unusable, if it is."""
    if asked == "none":
        return None, None
    _, manifest = library.find(run_id)
    remembered = manifest.baseline_id
    if asked is not None and str(asked) != remembered:
        return library.compared(str(asked), run_id), None
    if remembered is None:
        return None, None
    try:
        return library.compared(remembered, run_id), None
    except IndexingError:
        raise
    except (DataError, MetricError, RunError):
        library.table(run_id)  # a fault of the run itself is raised
        fault = "which is not in this folder or cannot be read."
        return None, f"The run was judged against {remembered[:8]}, {fault}"


def offered_baselines(library: Library, run_id: str) -> list[OfferedBaseline]:
    """List the runs that a run can be compared with: those of the same data first, then the newest."""
    _, own = library.find(run_id)
    ended = [m for _, m in library.runs() if m.id != own.id and m.status not in ("submitted", "running")]
    ended.sort(key=lambda m: (not _same_data(own, m), -m.created.timestamp()))
    return [
        OfferedBaseline(id=m.id, label=m.label, created=m.created, dataset=m.dataset.name, same=_same_data(own, m))
        for m in ended[:OFFERED]
    ]


def _same_data(first: Manifest, second: Manifest) -> bool:
    a, b = first.dataset, second.dataset
    return a.name == b.name or (bool(a.digest) and a.digest == b.digest)


def make_page_routes(library: Library, store: Store | None, drawn: LabelSample | None = None) -> APIRouter:
    """Make the routes of the data of pages; `store` is the cache of the judge's raw replies, if any."""
    api = APIRouter()
    ranks: dict[tuple[str, str], list[int]] = {}  # of the chunks of the sample, by run and trace

    def own_labels(run_id: RunName, by: str, sample: bool) -> dict[tuple[str, str], int] | None:
        if not by:  # of a sample nobody sees a verdict before they have said who they are
            return {} if sample else None
        labels = people_labels(library.find(str(run_id))[0])
        mine = ((key, label) for key, each in labels.items() for label in each if label.by == by and not label.final)
        return {key: label.label for key, label in mine if label.label is not None}

    def sample_of(run_id: RunName) -> LabelSample:
        if drawn is None or not library.find(str(run_id))[1].id.startswith(drawn.run):
            raise MissingTraceError(f"the server needs a sample of this run: start it with {option('sample', 'FILE')}")
        return drawn

    def result_of(run_id: RunName, trace_id: str) -> tuple[Manifest, Scale, tuple[str, ...], TraceResult]:
        followed = library.followed(str(run_id))
        if followed is not None:
            result = followed.find(trace_id)
            if result is None:
                raise MissingTraceError("this run does not have a trace with this id yet")
            return followed.manifest, followed.scale, followed.metrics, result
        table = library.table(str(run_id))
        places = library.derived(table, "places", lambda: {row.id: k for k, row in enumerate(table.rows)})
        if trace_id not in places:
            raise MissingTraceError("this run does not have a trace with this id")
        return table.run.manifest, table.scale, table.metrics, table.run.results[places[trace_id]]

    def ranks_of(run_id: RunName, trace_id: str) -> list[int]:
        """Return where the chunks of the sample stand in the list of a trace, from 0."""
        if (str(run_id), trace_id) not in ranks:
            picked = sample_of(run_id).chunks[trace_id]
            chunks = result_of(run_id, trace_id)[3].trace.chunks
            ranks[str(run_id), trace_id] = [rank for rank, chunk in enumerate(chunks) if chunk.id in picked]
        return ranks[str(run_id), trace_id]

    def page_of(run_id: str, baseline: BaselineName) -> dict[str, Any]:
        followed = library.followed(run_id)
        if followed is not None:
            return live_page(library.find(run_id)[1], followed.metrics)
        table = library.table(run_id, patient=False)
        compared, problem = baseline_of(library, run_id, baseline)
        if compared is None:
            page = library.derived(table, "page", lambda: run_page(table))
            return {**page, "problem": problem} if problem else page
        return library.derived(compared, "page", lambda: run_page(table, compared))

    @api.get("/runs/{run_id}/page", tags=["pages"])
    def get_page(run_id: RunName, baseline: BaselineName = None, blind: bool = False) -> dict[str, Any]:
        """Return the figures of a run's page, beside its baseline if it has one (`none` leaves it out).

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
        by: Person = "",
        sample: bool = False,
    ) -> dict[str, Any]:
        """Return a page of a run's traces as rows, filtered and sorted.

        Blind, `by` is the person whose labels count. `sample` gives the traces of the server's sample in its
        order, and how many of them are labelled (`done`).
        """
        followed = library.followed(str(run_id))
        if followed is not None:
            metrics, rows = followed.metrics, followed.rows[:: -1 if sort == "newest" else 1]
        else:
            table = library.table(str(run_id), patient=False)
            compared, _ = baseline_of(library, str(run_id), "none" if blind else baseline)
            metrics, rows = table.metrics, table.rows if compared is None else compared.rows
        own = own_labels(run_id, by, sample)
        if sample:
            picked = sample_of(run_id).chunks
            by_id = {row.id: row for row in rows if row.id in picked}
            rows = [sampled_row(by_id[trace], ranks_of(run_id, trace)) for trace in picked if trace in by_id]
        if blind:
            counts = Counter(trace for trace, chunk in own or () if not sample or chunk in picked.get(trace, ()))
            rows = [blind_row(row, None if own is None else counts[row.id]) for row in rows]
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
        if sort != "newest" and not sample:
            rows = sort_rows(rows, sort, metrics, metric)
        at = None
        if locate is not None:
            at = next((place for place, row in enumerate(rows) if row.id == locate), -1)
        page = [row.data() for row in rows[offset : offset + limit]]
        # `at` is the place of the row to locate, -1 if it is not there
        answer = {"total": len(rows), "offset": offset, "rows": page, "at": at}
        return answer | ({"done": sample_of(run_id).done(own or ())} if sample else {})

    @api.get("/runs/{run_id}/trace", tags=["pages"])
    def get_trace(
        run_id: RunName,
        trace_id: Text,
        blind: bool = False,
        baseline: BaselineName = None,
        by: Person = "",
        sample: bool = False,
    ) -> dict[str, Any]:
        """Return one trace in full; `blind` hides verdict, rank and score of chunks without a human label.

        Blind, the labels of `by` alone count and chunks are shuffled, or in the order of the server's sample.
        Beside a baseline `row` holds its row with the differences.
        """
        manifest, scale, metrics, result = result_of(run_id, trace_id)
        systems: list[str] = []
        page = card_page(result, scale, metrics, Memory(manifest, store), systems)
        labels = people_labels(library.find(str(run_id))[0])
        for card in page["chunks"]:
            there = labels.get((trace_id, card["id"]), [])
            kept = [label for label in there if not blind or label.by == by]
            card["people"] = [label.model_dump(include={"by", "label", "comment", "final"}) for label in kept]
        if blind:
            own = own_labels(run_id, by, sample)
            mine = None if own is None else {chunk: grade for (trace, chunk), grade in own.items() if trace == trace_id}
            order = sample_of(run_id).chunks.get(trace_id) if sample else None
            return {"trace": blind_card(page, mine, str(run_id), order), "systems": systems}
        answer = {"trace": page, "systems": systems}
        if library.followed(str(run_id)) is not None:
            return answer
        compared, _ = baseline_of(library, str(run_id), baseline)
        row = None if compared is None else compared.row(result.position)
        if compared is None or row is None:
            return answer
        return {**answer, "trace": compared.add_ranks_before(result.position, page), "row": row.data()}

    @api.get("/runs/{run_id}/labels", tags=["labels"])
    def get_labels(run_id: RunName) -> list[Label]:
        """List the human labels given after the run, each person's last one of a chunk."""
        return [label for labels in people_labels(library.find(str(run_id))[0]).values() for label in labels]

    @api.get("/runs/{run_id}/people", tags=["labels"])
    def get_people(run_id: RunName) -> dict[str, Any]:
        """Tell how far people agree, and list the chunks on which they differ, undecided ones first."""
        folder = library.find(str(run_id))[0]
        run, labels = library.table(str(run_id)).run, people_labels(folder)
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
        _, scale, _, result = result_of(run_id, label.trace_id)
        if all(chunk.id != label.chunk_id for chunk in result.trace.chunks):
            raise MissingTraceError("this trace does not have a chunk with this id")
        if label.label is not None and label.label > scale.maximum:
            raise DataError(f"the run's scale ends at {scale.maximum}", field="label")
        if label.label is not None and label.label < scale.minimum:
            raise DataError(f"the run's scale begins at {scale.minimum}", field="label")
        record = Label(**label.model_dump())
        add_label(library.find(str(run_id))[0], record)
        return record

    @api.get("/compare", tags=["pages"])
    def compare(baseline: RunName, candidate: RunName) -> dict[str, Any]:
        """Compare two runs over the traces they have in common; differences are candidate minus baseline."""
        compared = library.compared(str(baseline), str(candidate))
        return library.derived(compared, "compare", lambda: compare_page(compared))

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
        compared = library.compared(str(baseline), str(candidate))
        word = filter.strip().lower()
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
        tables = [library.table(str(each)) for each in run]
        return page.make([table.run for table in tables], PageSettings()).data

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
            raise MissingTraceError("these runs do not have a trace with this id")
        return several.in_full(place)
