"""What runs on each worker of a cluster: an evaluator of its own over a share of the limits."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from typing import cast

from judge_eval.backends.around.meter import Counts
from judge_eval.backends.stack import Options
from judge_eval.engine import Item, Judged
from judge_eval.errors import ConfigError, JudgeEvalError
from judge_eval.evaluator import Evaluator
from judge_eval.portal import portal


@dataclass(frozen=True)
class Block:
    """What came of some traces."""

    judged: list[Judged]
    worker: str
    """Who judged them: a name for the life of one process."""
    counts: Counts
    """What that worker has done in all."""
    error: JudgeEvalError | None = None
    """What ended the work early."""


def share_of(options: Options, workers: int) -> Options:
    """Divide the limits of a run among its workers.

    Raises:
        ConfigError: An option cannot be divided: a budget, a cassette.
    """
    if (options.max_calls, options.max_tokens, options.max_cost) != (None, None, None):
        raise ConfigError("a budget cannot be shared by workers yet; leave it out, or run on one machine")
    if options.record is not None or options.replay is not None:
        raise ConfigError("a cassette cannot be shared by workers; run on one machine")
    return replace(
        options,
        concurrency=max(1, options.concurrency // workers),
        rpm=None if options.rpm is None else options.rpm / workers,
        tpm=None if options.tpm is None else options.tpm / workers,
        members={route: share_of(own, workers) for route, own in options.members.items()},
    )


class Worker:
    """Judges blocks of traces; several blocks may be under way at once.

    Args:
        evaluator: Of the run.
        workers: How many share its limits.
    """

    def __init__(self, evaluator: Evaluator, workers: int) -> None:
        self.evaluator = evaluator
        self.evaluator.options = share_of(evaluator.options, workers)
        self._name = uuid.uuid4().hex
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def judge(self, items: Sequence[Item]) -> Block:
        """Judge a block; an error that ends the run is returned beside what was judged before it."""
        judged: list[Judged] = []
        failure: JudgeEvalError | None = None

        async def go() -> None:
            if self._stopped:  # before it had begun
                return
            task = cast(asyncio.Task[None], asyncio.current_task())
            self._tasks.add(task)
            engine = self.evaluator.calling().engine()
            try:
                async with engine:
                    async for block in engine.results(iter(items)):
                        judged.extend(block)
            finally:
                self._tasks.discard(task)
                judged.extend(engine.take())

        try:
            portal.run(go())
        except JudgeEvalError as error:
            failure = error
        except CancelledError:  # stopped: what was judged is brought
            pass
        return Block(judged, self._name, self.evaluator.stack.counts(), failure)

    def stop(self) -> None:
        """End the blocks under way early: calls in flight may finish, and what is judged is brought."""
        self._stopped = True
        loop = portal.loop()
        for task in list(self._tasks):
            loop.call_soon_threadsafe(task.cancel)
