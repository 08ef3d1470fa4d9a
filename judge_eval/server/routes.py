"""The routes of the REST API under `/api/v1`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query

from judge_eval.errors import ConfigError, DataError, RunError
from judge_eval.eval_run import EvalRun
from judge_eval.pages.runpage import head
from judge_eval.runs.folder.files import MANIFEST, RESULTS
from judge_eval.runs.folder.labels import Label, add_label, read_labels
from judge_eval.runs.folder.records import Manifest, Status
from judge_eval.runs.folder.results import encode
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.server.library import Library, MissingRunError
from judge_eval.server.models import (
    GivenLabel,
    Health,
    Progress,
    ResultPage,
    RunList,
    RunSummary,
    Submission,
    Upload,
)
from judge_eval.server.settings import Settings
from judge_eval.server.submissions import Submissions, make_run_folder, notes_of
from judge_eval.server.views import MissingTraceError, Views

Offset = Annotated[int, Query(ge=0, le=10**9)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Text = Annotated[str, Query(max_length=10_000)]
Sort = Literal["order", "score", "-score", "change", "-change", "failed", "disagree"]

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


class TooLargeError(DataError):
    """More traces or chunks than the server takes."""


def make_router(
    settings: Settings, library: Library, views: Views, submissions: Submissions | None
) -> APIRouter:
    """Make the routes over a library."""
    api = APIRouter(prefix="/api/v1", responses=ERRORS)

    def summary(folder: Path, manifest: Manifest) -> RunSummary:
        return summarise(folder, manifest, settings, submissions)

    @api.get("/health", tags=["server"])
    def health() -> Health:
        """Tell that the server is there."""
        return Health(version=version("judge-eval"), judging=submissions is not None)

    @api.get("/runs", tags=["runs"])
    def list_runs(
        label: Text = "",
        tag: Annotated[list[str] | None, Query(max_length=50)] = None,
        status: Status | None = None,
        dataset: Text = "",
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> RunList:
        """List runs, newest first; `label` and `dataset` are parts of the names, all tags must be there."""
        found = [
            (folder, m)
            for folder, m in library.runs()
            if label.lower() in (m.label or "").lower()
            and dataset.lower() in m.dataset.name.lower()
            and set(tag or ()) <= set(m.tags)
            and status in (None, m.status)
        ]
        runs = tuple(summary(folder, m) for folder, m in found[offset : offset + limit])
        return RunList(total=len(found), offset=offset, runs=runs, thresholds=dict(settings.thresholds))

    @api.post("/runs", status_code=202, tags=["judging"])
    async def submit(given: Submission) -> RunSummary:
        """Submit traces to be judged by the server's judge; returns at once with the run's id."""
        if submissions is None:
            raise RunError("this server judges nothing: it was started without a model")
        check_size(given, settings)
        manifest = await asyncio.to_thread(submissions.submit, given)
        submissions.enqueue(manifest.id)
        return summary(*library.find(manifest.id))

    @api.post("/runs/upload", status_code=201, tags=["runs"])
    def upload(given: Upload) -> RunSummary:
        """Take in a run judged elsewhere; its scores are computed again from its verdicts."""
        manifest, results = checked_upload(given, settings)
        try:
            library.find(manifest.id)
        except MissingRunError:
            data = b"".join(map(encode, results))
            text = manifest.model_dump_json(indent=2).encode() + b"\n"
            return summary(make_run_folder(library.root, manifest, {RESULTS: data, MANIFEST: text}), manifest)
        raise RunError(f"there is a run {manifest.id} already")

    @api.get("/runs/{run_id}", tags=["runs"])
    def get_run(run_id: UUID) -> Manifest:
        """Return everything about a run but its results."""
        return library.find(str(run_id))[1]

    @api.get("/runs/{run_id}/summary", tags=["runs"])
    def get_summary(run_id: UUID) -> RunSummary:
        """Return what the list says of a run, with its progress while it is judged."""
        return summary(*library.find(str(run_id)))

    @api.delete("/runs/{run_id}", status_code=204, tags=["runs"])
    def delete_run(run_id: UUID) -> None:
        """Remove a run with its results and labels."""
        library.delete(str(run_id))

    @api.post("/runs/{run_id}/resume", status_code=202, tags=["judging"])
    async def resume(run_id: UUID) -> RunSummary:
        """Judge again what a submitted run has no verdict for."""
        if submissions is None:
            raise RunError("this server judges nothing: it was started without a model")
        submissions.resume(str(run_id))
        submissions.enqueue(str(run_id))
        return summary(*library.find(str(run_id)))

    @api.get("/runs/{run_id}/results", tags=["runs"])
    def get_results(run_id: UUID, offset: Offset = 0, limit: Limit = 100) -> ResultPage:
        """Return a page of a run's results, with its later labels, in the dataset's order."""
        results = library.table(str(run_id)).run.results
        page = tuple(results[offset : offset + limit])
        return ResultPage(total=len(results), offset=offset, results=page)

    @api.get("/runs/{run_id}/page", tags=["pages"])
    def get_page(run_id: UUID, baseline: UUID | None = None) -> dict[str, Any]:
        """Return the figures of a run's page."""
        return views.page(str(run_id), str(baseline) if baseline else None)

    @api.get("/runs/{run_id}/rows", tags=["pages"])
    def get_rows(
        run_id: UUID,
        filter: Text = "",
        sort: Sort = "order",
        metric: Annotated[str | None, Query(max_length=200)] = None,
        offset: Offset = 0,
        limit: Limit = 100,
        locate: Annotated[str | None, Query(max_length=10_000)] = None,
        baseline: UUID | None = None,
        blind: bool = False,
    ) -> dict[str, Any]:
        """Return a page of a run's traces as rows, filtered and sorted."""
        return views.rows(
            str(run_id),
            filter=filter,
            sort=sort,
            metric=metric,
            offset=offset,
            limit=limit,
            locate=locate,
            baseline=str(baseline) if baseline else None,
            blind=blind,
        )

    @api.get("/runs/{run_id}/trace", tags=["pages"])
    def get_trace(run_id: UUID, trace_id: Text, blind: bool = False) -> dict[str, Any]:
        """Return one trace in full; `blind` hides the verdicts of chunks without a human label."""
        return views.trace(str(run_id), trace_id, blind)

    @api.get("/runs/{run_id}/labels", tags=["labels"])
    def get_labels(run_id: UUID) -> list[Label]:
        """List the human labels given after the run."""
        return list(read_labels(library.find(str(run_id))[0]).values())

    @api.post("/runs/{run_id}/labels", status_code=201, tags=["labels"])
    def give_label(run_id: UUID, given: GivenLabel) -> Label:
        """Give a chunk a human label, or take one back."""
        table, result = views.result(str(run_id), given.trace_id)
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
        return views.compare(str(baseline), str(candidate))

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
        return views.changed(
            str(baseline),
            str(candidate),
            filter=filter,
            trace_ids=trace_id or (),
            offset=offset,
            limit=limit,
        )

    return api


def summarise(
    folder: Path, manifest: Manifest, settings: Settings, submissions: Submissions | None
) -> RunSummary:
    """Make what the list says of a run."""
    top, told = head(manifest), notes_of(folder)
    means = {name: a.mean for name, a in manifest.aggregates.items()}
    passed = {
        name: mean >= least
        for name, least in settings.thresholds.items()
        if (mean := means.get(name)) is not None
    }
    going = submissions.progress.get(manifest.id) if submissions else None
    progress = None
    if going is not None:
        fields = ("traces", "total", "verdicts", "failed", "calls", "hits")
        progress = Progress(**{name: getattr(going, name) for name in fields})
    return RunSummary(
        id=manifest.id,
        label=manifest.label,
        href=manifest.href,
        tags=manifest.tags,
        status=manifest.status,
        created=manifest.created,
        finished=manifest.finished,
        dataset=manifest.dataset.name,
        dataset_digest=manifest.dataset.digest,
        questions=manifest.dataset.traces,
        model=top["model"],
        prompt=top["prompt"],
        traces=manifest.tally.traces,
        failed=manifest.tally.failed_verdicts,
        metrics=manifest.aggregates,
        passed=passed,
        baseline=told.get("baseline"),
        error=told.get("error"),
        progress=progress,
    )


def check_size(given: Submission, settings: Settings) -> None:
    """See that a submission is within the limits.

    Raises:
        TooLargeError: It is not.
    """
    limits = settings.limits
    if len(given.traces) > limits.traces:
        raise TooLargeError(f"{len(given.traces)} traces; this server takes {limits.traces} at a time")
    for place_, trace in enumerate(given.traces):
        if len(trace.chunks) > limits.chunks:
            raise TooLargeError(
                f"{len(trace.chunks)} chunks; this server takes {limits.chunks} a trace",
                field=f"traces[{place_}].chunks",
            )


def checked_upload(given: Upload, settings: Settings) -> tuple[Manifest, Sequence[Any]]:
    """See that an uploaded run holds together, and compute its scores from its verdicts.

    Raises:
        DataError: It does not.
    """
    manifest = given.manifest
    try:
        run_id = str(UUID(manifest.id))
    except ValueError:
        raise DataError("not a UUID", field="manifest.id") from None
    if manifest.created.tzinfo is None:
        raise DataError("a time without its zone", field="manifest.created")
    if manifest.status in ("submitted", "running"):
        raise DataError("only a run that has ended can be uploaded", field="manifest.status")
    seen: set[str] = set()
    for number, result in enumerate(given.results):
        where = f"results[{number}]"
        if len(result.trace.chunks) > settings.limits.chunks:
            raise TooLargeError(f"more than {settings.limits.chunks} chunks", field=f"{where}.trace.chunks")
        if [o.chunk_id for o in result.outcomes] != [chunk.id for chunk in result.trace.chunks]:
            raise DataError("there must be one outcome for each chunk, in order", field=f"{where}.outcomes")
        if result.trace_id != result.trace.id or result.trace_id in seen or result.position != number:
            raise DataError("trace ids must be unique and positions count from 0", field=where)
        seen.add(result.trace_id)
    try:
        run = rescore(EvalRun(manifest.model_copy(update={"id": run_id}), given.results), manifest.metrics)
        return run.manifest, list(run.results)
    except (RunError, ConfigError, ValueError, OverflowError) as error:
        raise DataError(str(error).splitlines()[0], field="manifest") from None
