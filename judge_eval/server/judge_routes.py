"""The routes by which traces are submitted to the server's own judge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from uuid import UUID

from fastapi import APIRouter, Request

from judge_eval.errors import RunError
from judge_eval.server.document import body_of
from judge_eval.server.incoming import Incoming, read_submission
from judge_eval.server.models import RunSummary, Submission
from judge_eval.server.settings import ServerLimits
from judge_eval.server.submissions import Submissions


def make_judging_routes(
    submissions: Submissions | None,
    limits: ServerLimits,
    incoming: Incoming,
    summary: Callable[[str], RunSummary],
) -> APIRouter:
    """Make the routes to submit and resume.

    Args:
        submissions: The queue; None where the server judges nothing.
        limits: What one submission may hold.
        incoming: Reads what requests bring.
        summary: Says of a run what the list says.
    """
    api = APIRouter()

    def judging() -> Submissions:
        if submissions is None:
            raise RunError("this server judges nothing: it was started without a model")
        return submissions

    @api.post("/runs", status_code=202, tags=["judging"], openapi_extra=body_of(Submission))
    async def submit(request: Request) -> RunSummary:
        """Submit traces to be judged by the server's judge; returns at once with the run's id."""
        queue = judging()
        given = await incoming.read(request, partial(read_submission, limits=limits))
        manifest = await asyncio.to_thread(queue.submit, given)
        queue.enqueue(manifest.id)
        return await asyncio.to_thread(summary, manifest.id)

    @api.post("/runs/{run_id}/resume", status_code=202, tags=["judging"])
    async def resume(run_id: UUID) -> RunSummary:
        """Judge again what a submitted run has no verdict for."""
        queue = judging()
        await asyncio.to_thread(queue.resume, str(run_id))
        queue.enqueue(str(run_id))
        return await asyncio.to_thread(summary, str(run_id))

    return api
