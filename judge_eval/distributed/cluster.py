"""Driving a run on a Ray cluster: blocks of traces out to workers, judgments back as they finish."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any, Self

from judge_eval.backends.around.meter import Counts
from judge_eval.backends.stack import Stack, Stacks
from judge_eval.distributed.worker import Block, Worker, share_of
from judge_eval.engine import DRAIN, Judged, Source
from judge_eval.errors import ConfigError, needs_extra
from judge_eval.evaluator import Evaluator
from judge_eval.judges import Judge


@dataclass
class ClusterStack(Stack):
    """The stack of the driver, with the counts of its workers."""

    workers: dict[str, Counts] = field(default_factory=dict)

    @classmethod
    def of(cls, own: Stack) -> Self:
        """Return the stack of an evaluator as that of a cluster's driver."""
        return cls(**{one.name: getattr(own, one.name) for one in fields(own)})

    def counts(self) -> Counts:
        """Tell what all workers have done so far, those that died included."""
        return Counts.total(dict(self.workers))


@dataclass
class ClusterStacks(Stacks):
    """The stacks of several models at the driver, with the counts of its workers."""

    workers: dict[str, Counts] = field(default_factory=dict)

    def counts(self) -> Counts:
        """Tell what all workers have done so far with each model, those that died included."""
        done = {
            route: {worker: counts.parts[route] for worker, counts in self.workers.items()}
            for route in self.parts
        }
        return Counts.total({route: Counts.total(by_worker) for route, by_worker in done.items()})

    def spent(self, start: Counts) -> float | None:
        """Return what was spent since `start` in US dollars; None where a price is not known."""
        total = 0.0
        for route, counts in self.counts().parts.items():
            cost = self.parts[route].cost(counts.since(start.parts.get(route, Counts())).usage)
            if cost is None:
                return None
            total += cost
        return total


class RayDriver:
    """Judges a run's traces on a Ray cluster.

    Every worker is an actor that Ray starts again elsewhere when its node dies; then the blocks it had not
    brought are judged again, and what it had paid for comes from the shared cache. Stopped early, the
    workers let calls in flight finish and bring what they have.

    Args:
        evaluator: Of the run; its limits are divided among the workers.
        address: Of the cluster, as `ray.init` takes it; None takes the one that is running, else starts
            one on this machine.
        workers: How many; the cluster's CPUs where None.
        block: How many traces go to a worker at once.

    Raises:
        ConfigError: Ray is not installed, or an option cannot be divided among workers.
    """

    def __init__(
        self, evaluator: Evaluator, *, address: str | None = None, workers: int | None = None, block: int = 32
    ) -> None:
        self._ray = load_ray()
        self._evaluator, self._block = evaluator, block
        own = evaluator.stack
        self.stack: ClusterStack | ClusterStacks = (
            ClusterStack.of(own) if isinstance(own, Stack) else ClusterStacks(own.backend, own.parts)
        )
        self._started = connect(self._ray, address)
        self._count = workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        share_of(evaluator.options, self._count)
        self._workers: list[Any] = []
        self._shared: Any = None
        self._done: list[Judged] = []
        self._under_way: dict[asyncio.Future[Block], int] = {}

    async def __aenter__(self) -> Self:
        remote = self._ray.remote(Worker).options(
            num_cpus=0.5,
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=4,
            scheduling_strategy="SPREAD",
        )
        # Kept: an actor that is started again needs it again.
        self._shared = self._ray.put(self._evaluator)
        self._workers = [remote.remote(self._shared, self._count) for _ in range(self._count)]
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(Exception):  # a cluster that is gone brings nothing
            await self._bring_in()
        for worker in self._workers:
            self._ray.kill(worker)
        self._workers = []
        if self._started:
            self._ray.shutdown()

    def judging_by(self, judge: Judge) -> Self:
        """Judge by a judge that may not be the evaluator's own: a run that goes on keeps its prompts."""
        self._evaluator = self._evaluator.with_judge(judge)
        return self

    def take(self) -> list[Judged]:
        """Return what has finished and was not handed on yet."""
        done, self._done = self._done, []
        return done

    async def results(self, source: Source) -> AsyncIterator[list[Judged]]:
        """Judge every trace of the source and yield blocks of them as they finish, in no fixed order.

        Raises:
            ConfigError: The source is a stream.
            JudgeEvalError: Whatever ended the work on a worker.
        """
        if not isinstance(source, Iterator):
            raise ConfigError("a stream is not judged on a cluster; give a list or a file")
        under_way = self._under_way
        load = [0] * len(self._workers)
        while True:
            room = 3 * len(self._workers)
            while len(under_way) < room and (items := list(islice(source, self._block))):
                number = load.index(min(load))
                load[number] += 1
                reply = self._workers[number].judge.remote(items)
                under_way[asyncio.wrap_future(reply.future())] = number
            if not under_way:
                return
            done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            failure = None
            for future in done:
                load[under_way.pop(future)] -= 1
                block = future.result()
                self._take_in(block)
                failure = failure or block.error
            if failure is not None:
                raise failure
            yield self.take()

    def _take_in(self, block: Block) -> None:
        self._done += block.judged
        before = self.stack.workers.get(block.worker)
        # Blocks of one worker may come out of order; what it counted only grows.
        if before is None or block.counts.calls + block.counts.hits >= before.calls + before.hits:
            self.stack.workers[block.worker] = block.counts

    async def _bring_in(self) -> None:
        """Have the workers stop where blocks are under way, and take in what they have of them."""
        if not self._under_way:
            return
        for worker in self._workers:
            worker.stop.remote()
        done, _ = await asyncio.wait(self._under_way, timeout=2 * DRAIN)
        self._under_way = {}
        for future in done:
            if future.exception() is None:
                self._take_in(future.result())


def load_ray() -> Any:
    """Import Ray, which reports nothing to anyone unless the user has said so.

    Raises:
        ConfigError: It is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise needs_extra("judging on a cluster needs Ray", "ray") from None
    return ray


def connect(ray: Any, address: str | None) -> bool:
    """Connect to a cluster, unless that was done; return whether this call has."""
    if ray.is_initialized():
        return False
    before = signal.getsignal(signal.SIGTERM)
    ray.init(address=address, log_to_driver=False, include_dashboard=None if address else False)
    if threading.current_thread() is threading.main_thread():
        # Ray puts handlers of its own in place, which would end the process with nothing kept.
        signal.signal(signal.SIGTERM, before)
    return True
