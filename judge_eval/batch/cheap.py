"""A cascade's cheap judge, asked at once: its answers say what the files for the strong one hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from judge_eval.backends.base import Backend, peek
from judge_eval.backends.stack import Options
from judge_eval.errors import CallError, RunError
from judge_eval.evaluator import Evaluator
from judge_eval.judges.cascade import Cascade
from judge_eval.judges.routing import OnRoute
from judge_eval.portal import portal
from judge_eval.runs.judging.counting import Progress
from judge_eval.runs.judging.sitting import Sitting
from judge_eval.runs.judging.sources import Replayable
from judge_eval.schema import NoVerdict
from judge_eval.wire import Reply, Request

_ASKED_AGAIN = ("unreachable", "budget")
"""Why there is no verdict where asking again may bring one."""


@dataclass(frozen=True, slots=True)
class TwoJudges:
    """A cascade with its models by route, and how they are called."""

    models: Mapping[str, str]
    judge: Cascade
    options: Options


class Cheap:
    """The cheap judge of a cascade, reached through the evaluator of both.

    What it answers goes into the cache before anything is written for the strong judge, so a kill loses none
    of it.

    Args:
        evaluator: Of both judges.
        judge: The cascade, as the evaluator has it.
    """

    def __init__(self, evaluator: Evaluator, judge: Cascade) -> None:
        self._evaluator, self._judge = evaluator, judge
        self.route = judge.routes[0]
        self.chunks = 0
        """About how many chunks `judge_all` has asked."""
        self.kept = 0
        """For how many of them its verdict stands."""

    def judge_all(self, source: Replayable, watch: Callable[[Progress], None] | None) -> None:
        """Ask about every chunk of all traces that the cache does not answer for.

        Raises:
            RunError: Calls brought no answer, and may if they are made again. Where there is an answer with
                no verdict in it, the strong judge is asked, as in any run.
            FatalCallError: No call can succeed.
        """
        missing: list[NoVerdict] = []

        async def judged() -> None:
            one = self._evaluator.with_judge(OnRoute(self._judge.cheap, self.route))
            dataset = await asyncio.to_thread(source.survey)
            sitting = Sitting(one.begin(dataset), one.calling(), watch=watch, keep=False)
            async for block in sitting.results(source.numbered()):
                for outcome in chain.from_iterable(result.outcomes for result in block):
                    self.chunks += 1
                    if outcome.kind == "verdict":
                        self.kept += self._judge.keeps(outcome)
                    elif outcome.why in _ASKED_AGAIN:
                        missing.append(outcome)

        self.chunks = self.kept = 0
        portal.run(judged())
        if missing:
            raise _unanswered(len(missing), missing[0].detail)

    def __call__(self, requests: Sequence[Request]) -> list[Reply]:
        """Answer requests, in their order: from the cache, else by asking.

        Raises:
            RunError: A call brought no answer, and may if it is made again.
            FatalCallError: No call can succeed.
        """
        backend = self._evaluator.stack.backend
        at_hand = peek(backend, requests)
        asked = [request for request, reply in zip(requests, at_hand, strict=True) if reply is None]
        answers = iter(portal.run(_all(backend, asked)) if asked else ())
        replies = [next(answers) if reply is None else reply for reply in at_hand]
        lost = [r for r in replies if isinstance(r, CallError) and r.why in _ASKED_AGAIN]
        if lost:
            raise _unanswered(len(lost), lost[0].detail)
        return replies


async def _all(backend: Backend, requests: Sequence[Request]) -> list[Reply]:
    async def one(request: Request) -> Reply:
        try:
            return await backend.complete(request)
        except CallError as error:
            return error

    return await asyncio.gather(*map(one, requests))


def _unanswered(count: int, detail: str) -> RunError:
    return RunError(
        f"the cheap judge gave no answer {count:,} times, and without it the files would ask the strong one "
        f"about more than is needed: {detail}; what it did answer is kept, run the same command again"
    )
