"""The routes of the REST API, and the checks of an uploaded run."""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request

from judge_eval import limits
from judge_eval.errors import ConfigError, DataError, RunError
from judge_eval.eval_run import EvalRun
from judge_eval.export.hosted import context_precision_of
from judge_eval.installed import own_version
from judge_eval.llm.cache.store import Store
from judge_eval.pages.figures import head
from judge_eval.runs.folder.describing import digest_of_judge
from judge_eval.runs.folder.journal import MANIFEST, encode, manifest_digest, with_digests
from judge_eval.runs.folder.records import RESULTS, FileDigest, Manifest, Status, TraceResult
from judge_eval.runs.judging.sources import Fingerprint
from judge_eval.runs.keeping.lookup import names_in
from judge_eval.runs.scoring.aggregate import main_metric, reaches
from judge_eval.runs.scoring.counting import OutcomeCounts, RunProgress, read_progress
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.server import models
from judge_eval.server.document import body_of
from judge_eval.server.incoming import Incoming, read_submission, read_upload
from judge_eval.server.library import Library, MissingRunError
from judge_eval.server.page_routes import make_comparison_routes, make_label_routes, make_run_routes
from judge_eval.server.served_runs import ServedRuns, offered_baselines
from judge_eval.server.server_settings import WAIT_SECONDS, WAITING, ServerLimits, ServerSettings
from judge_eval.server.submissions import Submissions, error_of, make_run_folder

AHEAD = timedelta(days=1)
"""How far the clock of the judging process may be ahead of the server's."""


def checked_upload(upload: models.Upload) -> tuple[Manifest, list[bytes]]:
    """Check an uploaded run, score its verdicts, and return its manifest and its results as lines."""
    manifest, results = upload.manifest, upload.results
    try:
        run_id = str(UUID(manifest.id))
    except ValueError:
        raise DataError("not a UUID", field="manifest.id") from None
    if manifest.status in ("submitted", "running"):
        raise DataError("only a finished run can be uploaded", field="manifest.status")
    _check_results(results)
    for field, fault in _faults(manifest, results):
        raise DataError(fault, field=f"manifest.{field}")
    try:
        plain = manifest.under_way().replace(id=run_id)
        run = rescore(EvalRun(plain, results), manifest.metrics)
        lines = [encode(result) for result in run.results]
    except (RunError, ConfigError, ValueError, OverflowError) as error:
        raise DataError(str(error).splitlines()[0], field="manifest") from None
    return with_digests(run.manifest, _digest_of(lines)), lines


def _digest_of(lines: Iterable[bytes]) -> FileDigest:
    """Digest the file that lines make."""
    whole, size = hashlib.sha256(), 0
    for line in lines:
        whole.update(line)
        size += len(line)
    return FileDigest(bytes=size, sha256=whole.hexdigest())


def _check_results(results: Sequence[TraceResult]) -> None:
    seen: set[str] = set()
    last = -1
    for number, result in enumerate(results):
        where = f"results[{number}]"
        if [o.chunk_id for o in result.outcomes] != [chunk.id for chunk in result.trace.chunks]:
            raise DataError("there must be one outcome for each chunk, in order", field=f"{where}.outcomes")
        if result.trace_id != result.trace.id or result.trace_id in seen:
            raise DataError("there must be exactly one id for each trace", field=f"{where}.trace_id")
        if result.position <= last:
            raise DataError("positions must increase", field=f"{where}.position")
        if result.digest != result.trace.digest:
            raise DataError("does not match the trace", field=f"{where}.digest")
        seen.add(result.trace_id)
        last = result.position


def _faults(manifest: Manifest, results: Sequence[TraceResult]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a manifest that do not fit each other or the results, with what is wrong."""
    if manifest.created > datetime.now(UTC) + AHEAD:
        yield "created", "is in the future"
    if manifest.finished is None:
        yield "finished", "is missing although the run has ended"
    elif not manifest.created <= manifest.finished <= datetime.now(UTC) + AHEAD:
        yield "finished", "is before the run's start or in the future"
    if len(manifest.tags) > limits.RUN_TAGS or any(len(tag) > limits.ID for tag in manifest.tags):
        yield "tags", f"there may be {limits.RUN_TAGS} tags of {limits.ID:,} characters"
    if manifest.baseline is not None and manifest.baseline_id is None:
        yield "baseline", "is not a UUID"
    if len(manifest.label or "") > limits.LABEL:
        yield "label", f"is longer than {limits.LABEL} characters"
    if len(manifest.href or "") > limits.HREF:
        yield "href", f"is longer than {limits.HREF:,} characters"
    yield from _miscounted(manifest, results)
    dataset = manifest.dataset
    part = dataset.shard.traces if dataset.shard is not None else dataset.traces
    ended = manifest.counted is not None
    known = ended or dataset.digest  # of a stream that was stopped nobody knows how long it is
    if known and (len(results) > part or (ended and len(results) != part)):
        yield "dataset", f"counts {part:,} traces, and there are {len(results):,} results"
    elif known and any(result.position >= dataset.traces for result in results):
        yield "dataset", "the position of a result is greater than the number of traces"
    if dataset.digest and dataset.shard is None and len(results) == dataset.traces:
        fingerprint = Fingerprint()
        for result in results:
            fingerprint.add(result.trace)
        if (fingerprint.hexdigest(), fingerprint.chunks) != (dataset.digest, dataset.chunks):
            yield "dataset", "its digest or its count of chunks is not that of the traces"
    if manifest.digest is not None:
        if manifest.results_digest != _digest_of(map(encode, results)):
            yield "files", "the digest of the results is not theirs"
        elif manifest.digest != manifest_digest(manifest):
            yield "digest", "is not that of the manifest"


def _miscounted(manifest: Manifest, results: Sequence[TraceResult]) -> Iterator[tuple[str, str]]:
    outcomes = OutcomeCounts(manifest.imported)
    for result in results:
        outcomes.add(result)
    tally, counted = manifest.tally, outcomes.tally()
    for name in ("traces", "verdicts", "failed_verdicts", "failed_traces"):
        if getattr(tally, name) != counted[name]:
            yield f"tally.{name}", f"is {getattr(tally, name):,}, and the results give {counted[name]:,}"
    for name in ("failures", "stages"):
        if getattr(tally, name) != counted[name]:
            yield f"tally.{name}", "does not match the results"
    if tally.example not in (None, outcomes.example):
        yield "tally.example", "does not match the results"
    paid = (tally.calls, tally.hits, tally.input_tokens, tally.output_tokens, *tally.retries.values())
    if min(paid) < 0 or (tally.cost or 0.0) < 0:
        yield "tally", "counts below 0"
    unfinished = any(result.lacks_answers for result in results)
    if (manifest.status == "done" and outcomes.open) or (manifest.status == "incomplete" and not unfinished):
        yield "status", f"is {manifest.status}, and {outcomes.failed:,} verdicts failed"


LOOK = 0.1
"""Seconds between two looks at a run that a request waits for."""

Wait = Annotated[float, Query(ge=0, le=WAIT_SECONDS)]
"""Seconds to wait for the run's end; the answer comes when it has ended or they are over."""


def make_judging_routes(
    library: Library,
    submissions: Submissions | None,
    limits: ServerLimits,
    incoming: Incoming,
    summary: Callable[[str], models.RunSummary],
) -> APIRouter:
    """Make the routes to submit, resume and answer; without a queue the server refuses to judge."""
    api = APIRouter()
    waiting = 0

    def judging() -> Submissions:
        if submissions is None:
            raise RunError("this server cannot judge: it was started without a model")
        return submissions

    def labelled(label: str) -> str | None:
        return next((manifest.id for _, manifest in library.runs() if manifest.label == label), None)

    def answer_of(run_id: str, run: models.RunSummary) -> models.RunAnswer:
        if run.status not in ("done", "incomplete"):
            return models.RunAnswer(**dict(run))
        if run.traces > limits.traces:
            raise RunError(f"{run.traces:,} traces are too many for one answer; read its results in pages")
        table = library.table(run_id)
        precision = library.derived(table, "answer", lambda: context_precision_of(table.run))
        return models.RunAnswer(**dict(run), score=precision.score, verdicts=precision.verdicts)

    async def answered(run_id: str, seconds: float) -> models.RunAnswer:
        nonlocal waiting
        until = monotonic() + (seconds if waiting < WAITING else 0)
        waiting += 1
        try:
            while not (run := await asyncio.to_thread(summary, run_id)).ended and monotonic() < until:  # noqa: ASYNC110
                await asyncio.sleep(LOOK)  # any server on the folder may judge it
        finally:
            waiting -= 1
        return await asyncio.to_thread(answer_of, run_id, run)

    @api.post(
        "/runs", status_code=202, tags=["judging"], openapi_extra=body_of(models.Submission, models.HostedSubmission)
    )
    async def submit(request: Request, wait: Wait = 0) -> models.RunAnswer:
        """Submit traces to be judged by the server's judge; returns at once with the run's id.

        The body is ours or a hosted evaluator's. With `wait` the answer holds score and verdicts where the
        run ends within so many seconds; `/runs/{run_id}/answer` gives them later.
        """
        queue = judging()
        read = partial(read_submission, limits=limits, labelled=labelled)
        manifest = await asyncio.to_thread(queue.submit, await incoming.read(request, read))
        queue.enqueue(manifest.id)
        return await answered(manifest.id, wait)

    @api.get("/runs/{run_id}/answer", tags=["judging"])
    async def get_answer(run_id: models.RunName, wait: Wait = 0) -> models.RunAnswer:
        """Return a run's context precision and its verdicts as booleans, once it has ended."""
        return await answered((await asyncio.to_thread(summary, str(run_id))).id, wait)

    @api.post("/runs/{run_id}/resume", status_code=202, tags=["judging"])
    async def resume(run_id: models.RunName) -> models.RunSummary:
        """Judge again what a submitted run has no verdict for."""
        queue = judging()
        manifest = await asyncio.to_thread(queue.resume, str(run_id))
        queue.enqueue(manifest.id)
        return await asyncio.to_thread(summary, manifest.id)

    return api


ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"description": text, "content": {"application/json": {}}}
    for code, text in {
        400: "not a readable request, or a Host that the server does not accept",
        401: "the token is missing or wrong",
        403: "sent from a page of another origin",
        404: "the run, trace or chunk does not exist",
        409: "the state of the run or of the server does not allow it",
        413: "larger than the server accepts",
        422: "the data are not valid",
        429: "too many runs are waiting",
        507: "the server's disk is full",
    }.items()
}


def make_router(
    settings: ServerSettings, library: Library, store: Store | None, submissions: Submissions | None, incoming: Incoming
) -> APIRouter:
    """Make the routes over a library."""
    api = APIRouter(prefix="/api/v1", responses=ERRORS)
    limits = settings.limits

    def summary(run_id: str) -> models.RunSummary:
        return summarise(*library.find(run_id), settings)

    @api.get("/health", tags=["server"])
    async def health() -> models.Health:
        """Say that the server is up."""
        return models.Health(version=own_version(), judging=submissions is not None)

    @api.get("/runs", tags=["runs"])
    def list_runs(
        label: models.QueryText = "",
        tag: Annotated[list[str] | None, Query(max_length=50)] = None,
        status: Status | None = None,
        dataset: models.QueryText = "",
        offset: models.Offset = 0,
        limit: models.PageSize = 100,
    ) -> models.RunList:
        """List runs, newest first; `label` and `dataset` are parts of the names, all tags must be there."""
        listing = library.listing()
        fitting = [
            (folder, m)
            for folder, m in listing.runs
            if label.lower() in (m.label or "").lower()
            and dataset.lower() in m.dataset.name.lower()
            and set(tag or ()) <= set(m.tags)
            and status in (None, m.status)
        ]
        runs = tuple(summarise(*run, settings) for run in fitting[offset : offset + limit])
        unreadable = tuple(
            models.UnreadableRun(folder=folder.name, error=error.message_for(names_in(library.root)))
            for folder, error in listing.unreadable[:100]
        )
        return models.RunList(
            total=len(fitting),
            offset=offset,
            runs=runs,
            main=main_metric([name for run in runs for name in run.metrics]),
            thresholds=dict(settings.thresholds),
            unreadable=unreadable,
        )

    def take_in(body: bytes) -> models.RunSummary:
        manifest, lines = checked_upload(read_upload(body))
        try:
            library.find(manifest.id)
        except MissingRunError:
            text = manifest.model_dump_json(indent=2).encode() + b"\n"
            make_run_folder(library.root, manifest, {RESULTS: b"".join(lines), MANIFEST: text})
            return summary(manifest.id)
        raise RunError(f"run {manifest.id} already exists")

    @api.post("/runs/upload", status_code=201, tags=["runs"], openapi_extra=body_of(models.Upload))
    async def upload(request: Request) -> models.RunSummary:
        """Take in a run judged elsewhere; its scores are computed again from its verdicts."""
        return await incoming.read(request, take_in)

    @api.get("/runs/{run_id}", tags=["runs"])
    def get_run(run_id: models.RunName) -> Manifest:
        """Return everything about a run but its results."""
        return library.find(str(run_id))[1]

    @api.get("/runs/{run_id}/summary", tags=["runs"])
    def get_summary(run_id: models.RunName) -> models.RunSummary:
        """Return what the list says of a run, with its progress while it is judged."""
        return summary(str(run_id))

    @api.get("/named", tags=["runs"])
    def get_named(name: models.RunName) -> models.RunSummary:
        """Find a run by its UUID, or by `label:NAME` the newest of that label, whatever signs it holds."""
        return summary(library.find(str(name))[1].id)

    @api.get("/runs/{run_id}/baselines", tags=["runs"])
    def get_baselines(run_id: models.RunName) -> list[models.OfferedBaseline]:
        """List the runs that this one can be compared with, those of the same data first."""
        return offered_baselines(library, str(run_id))

    @api.get("/runs/{run_id}/live", tags=["runs"])
    def get_live(run_id: models.RunName, blind: bool = False) -> models.LiveRun:
        """Return how far a run is while any process judges it, with the means so far."""
        followed = library.followed(str(run_id))
        run = summary(str(run_id))
        if followed is None:
            return models.LiveRun(run=run, read=run.traces, means=())
        means = () if blind else tuple(models.MeanSoFar(**each) for each in followed.means())
        return models.LiveRun(run=run, read=len(followed.rows), means=means)

    @api.delete("/runs/{run_id}", status_code=204, response_model=None, tags=["runs"])
    def delete_run(run_id: UUID) -> None:
        """Remove a run with its results and labels."""
        library.delete(str(run_id))

    @api.get("/runs/{run_id}/results", tags=["runs"])
    def get_results(
        run_id: models.RunName, offset: models.Offset = 0, limit: models.PageSize = 100
    ) -> models.ResultPage:
        """Return a page of a run's results, with its later labels, in the dataset's order."""
        results = library.table(str(run_id)).run.results
        page = tuple(results[offset : offset + limit])
        return models.ResultPage(total=len(results), offset=offset, results=page)

    runs = ServedRuns(library, settings.sample, settings.floor)
    api.include_router(make_judging_routes(library, submissions, limits, incoming, summary))
    for routes in (make_run_routes(runs, store), make_label_routes(runs), make_comparison_routes(library)):
        api.include_router(routes)
    return api


_TOP = ("id", "label", "href", "tags", "status", "model", "prompt", "traces", "failed")


def summarise(folder: Path, manifest: Manifest, settings: ServerSettings) -> models.RunSummary:
    """Make what the list says of a run."""
    top = head(manifest)
    passed = {
        name: all(reaches(name, mean, limit) for mean in (a.mean, *(a.bounds or ())))
        for name, limit in settings.thresholds.items()
        if (a := manifest.aggregates.get(name)) is not None and a.mean is not None
    }
    news, silent = read_progress(folder) if manifest.status == "running" else (None, None)
    progress = None if news is None else RunProgress(**news.model_dump(exclude={"v", "at", "taken", "ended"}))
    return models.RunSummary(
        **{name: top[name] for name in _TOP},
        uuid=manifest.id,
        created=manifest.created,
        finished=manifest.finished,
        dataset=manifest.dataset.name,
        dataset_digest=manifest.dataset.digest,
        questions=manifest.dataset.traces,
        judged_as=digest_of_judge(manifest),
        metrics=manifest.aggregates,
        passed=passed,
        baseline=manifest.baseline,
        error=error_of(folder),
        progress=progress,
        silent=silent,
    )
