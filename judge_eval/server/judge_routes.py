"""The routes by which traces are submitted to the server's own judge, and answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Annotated

from fastapi import APIRouter, Query, Request

from judge_eval.errors import RunError
from judge_eval.export.hosted import context_precision_of
from judge_eval.server.document import body_of
from judge_eval.server.hosted import HostedSubmission, RunAnswer
from judge_eval.server.incoming import Incoming, read_submission
from judge_eval.server.library import Library
from judge_eval.server.models import RunName, RunSummary, Submission
from judge_eval.server.settings import WAIT_SECONDS, WAITING, ServerLimits
from judge_eval.server.submissions import Submissions

LOOK = 0.1
"""Seconds between two looks at a run that a request waits for."""

Wait = Annotated[float, Query(ge=0, le=WAIT_SECONDS)]
"""Seconds to wait for the run's end; the answer comes when it has ended or they are over."""


def make_judging_routes(
    library: Library,
    submissions: Submissions | None,
    limits: ServerLimits,
    incoming: Incoming,
    summary: Callable[[str], RunSummary],
) -> APIRouter:
    """Make the routes to submit, resume and answer.

    Args:
        library: The folder of runs.
        submissions: The queue; None where the server judges nothing.
        limits: What one submission may hold.
        incoming: Reads what requests bring.
        summary: Says of a run what the list says.
    """
    api = APIRouter()
    waiting = 0

    def judging() -> Submissions:
        if submissions is None:
            raise RunError("this server judges nothing: it was started without a model")
        return submissions

    def labelled(label: str) -> str | None:
        return next((manifest.id for _, manifest in library.runs() if manifest.label == label), None)

    def answer_of(run_id: str, told: RunSummary) -> RunAnswer:
        if told.status not in ("done", "incomplete"):
            return RunAnswer(**dict(told))
        if told.traces > limits.traces:
            raise RunError(f"{told.traces:,} traces are too many for one answer; read its results in pages")
        table = library.table(run_id)
        found = library.derived(table, "answer", lambda: context_precision_of(table.run))
        return RunAnswer(**dict(told), score=found.score, verdicts=found.verdicts)

    async def answered(run_id: str, seconds: float) -> RunAnswer:
        nonlocal waiting
        until = monotonic() + (seconds if waiting < WAITING else 0)
        waiting += 1
        try:
            while not (told := await asyncio.to_thread(summary, run_id)).ended and monotonic() < until:  # noqa: ASYNC110
                await asyncio.sleep(LOOK)  # any server on the folder may judge it
        finally:
            waiting -= 1
        return await asyncio.to_thread(answer_of, run_id, told)

    @api.post("/runs", status_code=202, tags=["judging"], openapi_extra=body_of(Submission, HostedSubmission))
    async def submit(request: Request, wait: Wait = 0) -> RunAnswer:
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
    async def get_answer(run_id: RunName, wait: Wait = 0) -> RunAnswer:
        """Return a run's context precision and its verdicts as booleans, once it has ended."""
        return await answered((await asyncio.to_thread(summary, str(run_id))).id, wait)

    @api.post("/runs/{run_id}/resume", status_code=202, tags=["judging"])
    async def resume(run_id: RunName) -> RunSummary:
        """Judge again what a submitted run has no verdict for."""
        queue = judging()
        manifest = await asyncio.to_thread(queue.resume, str(run_id))
        queue.enqueue(manifest.id)
        return await asyncio.to_thread(summary, manifest.id)

    return api
