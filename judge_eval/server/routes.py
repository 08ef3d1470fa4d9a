"""The REST API under `/api/v1`, with the routes of its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request

from judge_eval.backends.storing.store import Store
from judge_eval.errors import RunError
from judge_eval.installed import own_version
from judge_eval.pages.runpage import head
from judge_eval.runs.folder.files import MANIFEST, RESULTS
from judge_eval.runs.folder.news import read_news
from judge_eval.runs.folder.records import Manifest, Status
from judge_eval.runs.keeping.finding import names_in
from judge_eval.runs.scoring.aggregate import reaches
from judge_eval.server.document import body_of
from judge_eval.server.incoming import Incoming, read_upload
from judge_eval.server.judge_routes import make_judging_routes
from judge_eval.server.library import Library, MissingRunError
from judge_eval.server.models import (
    Health,
    LiveRun,
    MeanSoFar,
    Offset,
    PageSize,
    ResultPage,
    RunList,
    RunName,
    RunProgress,
    RunSummary,
    Text,
    UnreadableRun,
    Upload,
)  # fmt: skip
from judge_eval.server.naming import make_naming_routes
from judge_eval.server.pagedata import make_page_routes
from judge_eval.server.settings import ServerSettings
from judge_eval.server.submissions import Submissions, make_run_folder, notes_of
from judge_eval.server.uploads import checked_upload

ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"description": text, "content": {"application/json": {}}}
    for code, text in {
        400: "not a request this server can read, or a Host it does not answer under",
        401: "the token is missing or wrong",
        403: "asked from a page of another origin",
        404: "there is no such run, trace or chunk",
        409: "the state of the run or of the server does not allow it",
        413: "larger than the server takes",
        422: "the data do not fit",
        429: "too many runs are waiting",
    }.items()
}


def make_router(
    settings: ServerSettings,
    library: Library,
    store: Store | None,
    submissions: Submissions | None,
    incoming: Incoming,
) -> APIRouter:
    """Make the routes over a library."""
    api = APIRouter(prefix="/api/v1", responses=ERRORS)
    limits = settings.limits

    def summary(run_id: str) -> RunSummary:
        return summarise(*library.find(run_id), settings)

    @api.get("/health", tags=["server"])
    async def health() -> Health:
        """Tell that the server is there."""
        return Health(version=own_version(), judging=submissions is not None)

    @api.get("/runs", tags=["runs"])
    def list_runs(
        label: Text = "",
        tag: Annotated[list[str] | None, Query(max_length=50)] = None,
        status: Status | None = None,
        dataset: Text = "",
        offset: Offset = 0,
        limit: PageSize = 100,
    ) -> RunList:
        """List runs, newest first; `label` and `dataset` are parts of the names, all tags must be there."""
        found = library.listing()
        fitting = [
            (folder, m)
            for folder, m in found.runs
            if label.lower() in (m.label or "").lower()
            and dataset.lower() in m.dataset.name.lower()
            and set(tag or ()) <= set(m.tags)
            and status in (None, m.status)
        ]
        runs = tuple(summarise(*run, settings) for run in fitting[offset : offset + limit])
        unreadable = tuple(
            UnreadableRun(folder=folder.name, error=error.told(names_in(library.root)))
            for folder, error in found.unreadable[:100]
        )
        return RunList(
            total=len(fitting),
            offset=offset,
            runs=runs,
            thresholds=dict(settings.thresholds),
            unreadable=unreadable,
        )

    def take_in(body: bytes) -> RunSummary:
        manifest, lines = checked_upload(read_upload(body))
        try:
            library.find(manifest.id)
        except MissingRunError:
            text = manifest.model_dump_json(indent=2).encode() + b"\n"
            make_run_folder(library.root, manifest, {RESULTS: b"".join(lines), MANIFEST: text})
            return summary(manifest.id)
        raise RunError(f"there is a run {manifest.id} already")

    @api.post("/runs/upload", status_code=201, tags=["runs"], openapi_extra=body_of(Upload))
    async def upload(request: Request) -> RunSummary:
        """Take in a run judged elsewhere; its scores are computed again from its verdicts."""
        return await incoming.read(request, take_in)

    @api.get("/runs/{run_id}", tags=["runs"])
    def get_run(run_id: RunName) -> Manifest:
        """Return everything about a run but its results."""
        return library.find(str(run_id))[1]

    @api.get("/runs/{run_id}/summary", tags=["runs"])
    def get_summary(run_id: RunName) -> RunSummary:
        """Return what the list says of a run, with its progress while it is judged."""
        return summary(str(run_id))

    @api.get("/runs/{run_id}/live", tags=["runs"])
    def get_live(run_id: RunName, blind: bool = False) -> LiveRun:
        """Return how far a run is while any process judges it, with the means so far."""
        followed = library.followed(str(run_id))
        told = summary(str(run_id))
        if followed is None:
            return LiveRun(run=told, read=told.traces, means=())
        means = () if blind else tuple(MeanSoFar(**each) for each in followed.means())
        return LiveRun(run=told, read=len(followed.rows), means=means)

    @api.delete("/runs/{run_id}", status_code=204, response_model=None, tags=["runs"])
    def delete_run(run_id: UUID) -> None:
        """Remove a run with its results and labels."""
        library.delete(str(run_id))

    @api.get("/runs/{run_id}/results", tags=["runs"])
    def get_results(run_id: RunName, offset: Offset = 0, limit: PageSize = 100) -> ResultPage:
        """Return a page of a run's results, with its later labels, in the dataset's order."""
        results = library.table(str(run_id)).run.results
        page = tuple(results[offset : offset + limit])
        return ResultPage(total=len(results), offset=offset, results=page)

    api.include_router(make_judging_routes(library, submissions, limits, incoming, summary))
    api.include_router(make_page_routes(library, store))
    api.include_router(make_naming_routes(library, summary))
    return api


_TOP = ("id", "label", "href", "tags", "status", "model", "prompt", "traces", "failed")


def summarise(folder: Path, manifest: Manifest, settings: ServerSettings) -> RunSummary:
    """Make what the list says of a run."""
    top, more = head(manifest), notes_of(folder)
    means = {name: a.mean for name, a in manifest.aggregates.items()}
    passed = {
        name: reaches(name, mean, limit)
        for name, limit in settings.thresholds.items()
        if (mean := means.get(name)) is not None
    }
    news, silent = read_news(folder) if manifest.status == "running" else (None, None)
    progress = None if news is None else RunProgress(**news.model_dump(exclude={"v", "at"}))
    return RunSummary(
        **{name: top[name] for name in _TOP},
        uuid=manifest.id,
        created=manifest.created,
        finished=manifest.finished,
        dataset=manifest.dataset.name,
        dataset_digest=manifest.dataset.digest,
        questions=manifest.dataset.traces,
        metrics=manifest.aggregates,
        passed=passed,
        baseline=manifest.baseline or more.get("baseline"),
        error=more.get("error"),
        progress=progress,
        silent=silent,
    )
