"""The routes by which traces are submitted to the server's own judge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

from fastapi import APIRouter

from judge_eval.errors import RunError
from judge_eval.server.models import RunSummary, Submission
from judge_eval.server.settings import ServerLimits
from judge_eval.server.submissions import Submissions
from judge_eval.server.uploads import check_size


def make_judging_routes(
    submissions: Submissions | None, limits: ServerLimits, summary: Callable[[str], RunSummary]
) -> APIRouter:
    """Make the routes to submit and resume.

    Args:
        submissions: The queue; None where the server judges nothing.
        limits: What one submission may hold.
        summary: Says of a run what the list says.
    """
    api = APIRouter()

    def judging() -> Submissions:
        if submissions is None:
            raise RunError("this server judges nothing: it was started without a model")
        return submissions

    @api.post("/runs", status_code=202, tags=["judging"])
    async def submit(given: Submission) -> RunSummary:
        """Submit traces to be judged by the server's judge; returns at once with the run's id."""
        queue = judging()
        check_size(given, limits)
        manifest = await asyncio.to_thread(queue.submit, given)
        queue.enqueue(manifest.id)
        return summary(manifest.id)

    @api.post("/runs/{run_id}/resume", status_code=202, tags=["judging"])
    async def resume(run_id: UUID) -> RunSummary:
        """Judge again what a submitted run has no verdict for."""
        judging().resume(str(run_id))
        judging().enqueue(str(run_id))
        return summary(str(run_id))

    return api
