"""Judging on a Ray cluster: the driver of a run, its workers, and Ray datasets."""

import asyncio
import json
import os
import signal
import threading
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Self, cast

from judge_eval.background_loop import background_loop
from judge_eval.data.memory import cell
from judge_eval.engine import DRAIN, Item, Judged, Source
from judge_eval.errors import ConfigError, JudgeEvalError
from judge_eval.evaluator import Evaluator
from judge_eval.installed import import_extra
from judge_eval.judges import Judge
from judge_eval.llm.options import Options
from judge_eval.llm.stack import Counts, Stack
from judge_eval.runs.folder.journal import encode
from judge_eval.runs.judging.session import results_of
from judge_eval.schema import Trace
from judge_eval.spelling import option


@dataclass(frozen=True)
class Block:
    """The result of some traces on a worker."""

    judged: list[Judged]
    worker: str
    """Who judged them: a name for the life of one process."""
    counts: Counts
    """What that worker has done in all."""
    again: bool = False
    """Whether the worker was started again after an earlier one had died."""
    error: JudgeEvalError | None = None
    """What ended the work early."""


def share_of(options: Options, workers: int) -> Options:
    """Divide the limits of a run among its workers; a budget and a cassette cannot be divided."""
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
    """Judges blocks of traces, also at the same time, with an evaluator and its share of the limits.

    `again` says that an earlier worker died in its place.
    """

    def __init__(self, evaluator: Evaluator, workers: int, again: bool = False) -> None:
        self.evaluator, self._again = evaluator, again
        self.evaluator.options = share_of(evaluator.options, workers)
        self._name = uuid.uuid4().hex
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def judge(self, items: Sequence[Item]) -> Block:
        """Judge a block; an error that ends the run is returned with what was judged before it."""
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
            background_loop.run(go())
        except JudgeEvalError as error:
            failure = error
        except CancelledError:  # stopped: what was judged is brought
            pass
        return Block(judged, self._name, self.evaluator.stack.counts(), self._again, failure)

    def stop(self) -> None:
        """Stop early: calls in flight may finish, and what is judged is returned."""
        self._stopped = True
        loop = background_loop.loop()
        for task in list(self._tasks):
            loop.call_soon_threadsafe(task.cancel)


class _Actor(Worker):
    """A worker that Ray starts, and starts again elsewhere when its node dies."""

    def __init__(self, evaluator: Evaluator, workers: int) -> None:
        again = load_ray().get_runtime_context().was_current_actor_reconstructed
        super().__init__(evaluator, workers, bool(again))


@dataclass
class ClusterStack(Stack):
    """The stack of the driver, with the counts of its workers."""

    workers: dict[str, Counts] = field(default_factory=dict)
    lost: int = 0
    """The most calls of workers that died which are in no count."""
    counters = ()

    def counts(self) -> Counts:
        """Return the counts of all workers for each model so far, including those that died."""
        done = {route: {worker: counts.parts[route] for worker, counts in self.workers.items()} for route in self.parts}
        return replace(Counts.total({route: Counts.total(each) for route, each in done.items()}), lost=self.lost)


class RayDriver:
    """Judges a run's traces on a Ray cluster, `block` traces at a time.

    Every worker is an actor that Ray restarts elsewhere when its node dies; its unfinished blocks are then
    judged again, and what it had paid for comes from the shared cache: only calls in flight are paid twice. What it
    paid for them is in no total but the bound `lost`. Stopped early, workers finish calls in
    flight and return what they have. The evaluator's limits are divided among the workers, by default the
    cluster's CPUs. The address is as for `ray.init`; None takes the running cluster, else starts one here.
    """

    def __init__(
        self, evaluator: Evaluator, *, address: str | None = None, workers: int | None = None, block: int = 8
    ) -> None:
        if block < 1:
            raise ConfigError(f"{option('block')} {block}: must be at least 1 trace")
        self._ray = load_ray()
        self._evaluator, self._block = evaluator, block
        self.stack = ClusterStack(**vars(evaluator.stack))
        self._started = connect(self._ray, address)
        self._count = workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        share_of(evaluator.options, self._count)
        self._workers: list[Any] = []
        self._shared: Any = None
        self._done: list[Judged] = []
        self._names: list[str | None] = [None] * self._count
        """By number of a worker, the process that delivered its last block."""
        self._under_way: dict[asyncio.Future[Block], tuple[int, str | None]] = {}
        """By block the worker's number, and its process as it was known when the block was sent."""

    async def __aenter__(self) -> Self:
        remote = self._ray.remote(_Actor).options(
            num_cpus=0.5, max_restarts=-1, max_task_retries=-1, max_concurrency=4, scheduling_strategy="SPREAD"
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
        """Set the judge, which may differ from the evaluator's: a resumed run keeps its prompts."""
        self._evaluator = self._evaluator.with_judge(judge)
        return self

    def take(self) -> list[Judged]:
        """Return the finished traces that nobody has taken yet."""
        done, self._done = self._done, []
        return done

    async def results(self, source: Source) -> AsyncIterator[list[Judged]]:
        """Judge every trace of the source, not a stream; yield blocks as they finish, in any order."""
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
                under_way[asyncio.wrap_future(reply.future())] = number, self._names[number]
            if not under_way:
                return
            done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            failure = None
            for future in done:
                number, process = under_way.pop(future)
                load[number] -= 1
                block = future.result()
                self._take_in(block, number, process)
                failure = failure or block.error
            if failure is not None:
                raise failure
            yield self.take()

    def _take_in(self, block: Block, number: int, process: str | None) -> None:
        if block.again and block.worker != process:  # one that died may have judged it before
            self.stack.lost += sum(len(each.judgment.calls) for each in block.judged)
        self._names[number] = block.worker
        self._done += block.judged
        before = self.stack.workers.get(block.worker)
        # Blocks of one worker may come out of order; what it counted only grows.
        if before is None or block.counts.calls + block.counts.hits >= before.calls + before.hits:
            self.stack.workers[block.worker] = block.counts

    async def _bring_in(self) -> None:
        if not self._under_way:
            return
        for worker in self._workers:
            worker.stop.remote()
        done, _ = await asyncio.wait(self._under_way, timeout=2 * DRAIN)
        under_way, self._under_way = self._under_way, {}
        for future in done:
            if future.exception() is None:
                self._take_in(future.result(), *under_way[future])


def load_ray() -> Any:
    """Import Ray, with its usage statistics off unless the user has set them."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    return import_extra("judging on a cluster needs Ray", "ray", "ray")[0]


def connect(ray: Any, address: str | None) -> bool:
    """Connect to a cluster unless connected, and return whether this call did."""
    if ray.is_initialized():
        return False
    before = signal.getsignal(signal.SIGTERM)
    ray.init(address=address, log_to_driver=False, include_dashboard=None if address else False)
    if threading.current_thread() is threading.main_thread():
        # Ray puts handlers of its own in place, which would end the process with nothing kept.
        signal.signal(signal.SIGTERM, before)
    return True


def judge_dataset(dataset: Any, evaluator: Evaluator, *, workers: int = 2, batch_size: int = 64) -> Any:
    """Judge every row of a Ray dataset, lazily.

    With a cache that the workers share, a block that Ray repeats (its node died) pays only for the calls that
    were in flight.

    Args:
        dataset: A `ray.data.Dataset` whose columns are the fields of a `Trace` (`query`, `reference`,
            `chunks`, ...), and `position` to keep the order of rows; other columns are ignored.
        evaluator: How to judge; its limits are divided among the workers.
        workers: How many actors judge.
        batch_size: How many traces each judges at once.

    Returns:
        A `ray.data.Dataset` with the columns `position`, `trace_id`, `failed` (chunks without a verdict), one for each
        metric (null if failed verdicts leave none), and `result`: a line as in a run's `results.jsonl`.

    Raises:
        ConfigError: Ray is not installed, or an option cannot be divided among workers.
    """
    ray = load_ray()
    share_of(evaluator.options, workers)
    return dataset.map_batches(
        _Judging,
        fn_constructor_args=(evaluator, workers),
        batch_size=batch_size,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=workers),
    )


class _Judging:
    """An actor of the pool."""

    def __init__(self, evaluator: Evaluator, workers: int) -> None:
        self._worker = Worker(evaluator, workers)

    def __call__(self, batch: Any) -> Any:
        import pyarrow as pa

        evaluator = self._worker.evaluator
        items = []
        for place, row in enumerate(batch.to_pylist()):
            trace = _trace(row)
            evaluator.check(trace)
            items.append(Item(int(row.get("position") or 0) if "position" in row else place, trace))
        block = self._worker.judge(items)
        if block.error is not None:
            raise block.error
        judged = sorted(block.judged, key=lambda each: each.position)
        results = results_of(judged, evaluator.scorer)
        columns = {
            "position": pa.array([each.position for each in results], pa.int64()),
            "trace_id": pa.array([each.trace_id for each in results], pa.string()),
            "failed": pa.array([each.failed for each in results], pa.int64()),
        }
        for name in evaluator.scorer.names:
            columns[name] = pa.array([each.scores[name] for each in results], pa.float64())
        columns["result"] = pa.array([encode(each).decode().rstrip("\n") for each in results], pa.string())
        return pa.table(columns)


def _trace(row: dict[str, Any]) -> Trace:
    """Read a row; null fields are left out, since a table gives every row every column."""
    fields = {name: value for name, value in row.items() if name in Trace.model_fields and value is not None}
    if isinstance(fields.get("chunks"), str):
        fields["chunks"] = json.loads(fields["chunks"])
    return Trace.parse(cell(fields, dense=True))
