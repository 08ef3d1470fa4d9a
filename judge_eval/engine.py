"""Judging a stream of traces: judges plan their requests in rounds, workers make the calls."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Self, TypeAlias, cast
from weakref import WeakMethod

from judge_eval.errors import CallError
from judge_eval.judges.judge import Judge, JudgingPlan, RequestRound, imagined_split, plan_of
from judge_eval.llm.backend import Backend, peek
from judge_eval.llm.cache.cached import note_waiting
from judge_eval.schema import Judgment, NoVerdict, Trace
from judge_eval.wire import Reply, Request

BLOCK = 16
"""How many traces are opened at once and looked up together; few enough for the cache of a core."""


@dataclass(frozen=True, slots=True)
class Item:
    """A trace on its way into the engine."""

    position: int
    """Its place in the dataset, counted from 0."""
    trace: Trace
    earlier: Judgment | None = None
    """What a session that ended early has of it; None if nothing."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A trace on its way out."""

    position: int
    trace: Trace
    judgment: Judgment


Source: TypeAlias = Iterator[Item] | AsyncIterator[Item]


@dataclass(slots=True)
class OpenTrace:
    """A trace that is being judged: its plan, the requests of the current round, and the replies so far."""

    item: Item
    plan: JudgingPlan
    requests: RequestRound = ()
    replies: list[Reply | None] = field(default_factory=list)
    missing: int = 0
    advanced: bool = False
    """Whether an earlier round is answered."""
    waiting: list[int] = field(default_factory=list)
    """Requests that wait until the first call of the round returns."""


class OpenTraces:
    """The traces that are being judged. It makes no call, but takes every answer that is already known.

    `call` receives the requests, by their places in a trace's round, that need a call; with `lead` the first
    call of a trace goes ahead of the others.
    """

    def __init__(
        self, judge: Judge, backend: Backend, call: Callable[[OpenTrace, Sequence[int]], None], *, lead: bool = False
    ) -> None:
        self._judge, self._backend, self._call, self._lead = judge, backend, call, lead
        self._calling: dict[int, OpenTrace] = {}
        self.count = 0
        """How many traces are open."""
        self.done: list[Judged] = []
        """Finished traces that nobody has taken yet."""

    def take(self) -> list[Judged]:
        """Return the finished traces that nobody has taken yet."""
        done, self.done = self.done, []
        return done

    def start(self, items: Sequence[Item]) -> None:
        """Open traces and advance them with known answers, which are looked up together."""
        self.count += len(items)
        opened: list[OpenTrace] = []
        for item in items:
            self._advance(OpenTrace(item, plan_of(self._judge, item.trace, item.earlier)), opened)
        self._look_up(opened)

    def answer(self, state: OpenTrace, index: int, reply: Reply, *, go_on: bool) -> bool:
        """Take in a reply; tell whether the trace has finished, else ask its next round if `go_on`."""
        state.replies[index] = reply
        state.missing -= 1
        if state.waiting:
            waiting, state.waiting = state.waiting, []
            self._call(state, waiting)
        if state.missing:
            return False
        finished, opened = len(self.done), list[OpenTrace]()
        self._advance(state, opened)
        if go_on:
            self._look_up(opened)
        return len(self.done) > finished

    def salvage(self) -> None:
        """Conclude every trace that waits for calls with the answers it has."""
        for state in list(self._calling.values()):
            self._conclude_early(state)

    def _advance(self, state: OpenTrace, opened: list[OpenTrace]) -> None:
        state.advanced = bool(state.requests)
        try:
            replies = cast(list[Reply], state.replies)
            requests = state.plan.send(replies) if state.requests else next(state.plan)
        except StopIteration as stop:
            self.count -= 1
            self._calling.pop(state.item.position, None)
            self.done.append(Judged(state.item.position, state.item.trace, stop.value))
            return
        state.requests, state.replies, state.missing = requests, [None] * len(requests), len(requests)
        opened.append(state)

    def _look_up(self, states: list[OpenTrace]) -> None:
        while states:
            hits = iter(peek(self._backend, [request for state in states for request in state.requests]))
            answered: list[OpenTrace] = []
            for state in states:
                state.replies = list(islice(hits, len(state.requests)))
                missing = [index for index, reply in enumerate(state.replies) if reply is None]
                state.missing = len(missing)
                if not missing:
                    self._advance(state, answered)
                    continue
                self._calling[state.item.position] = state
                ahead = 1 if self._lead else len(missing)
                state.waiting = missing[ahead:]
                self._call(state, missing[:ahead])
            states = answered

    def _conclude_early(self, state: OpenTrace) -> None:
        """Conclude a trace with the answers it has; one without any is left for another session."""
        # A chunk that waits for an answer has no verdict, even if the plan would do without that answer: an
        # uninterrupted run would not have.
        if not state.advanced and all(reply is None for reply in state.replies):
            return
        stopped = CallError("the run was stopped before the answer came")
        unanswered: set[str] = set()
        while state.item.position in self._calling:
            for request, reply in zip(state.requests, state.replies, strict=True):
                unanswered.update(request.chunk_ids if reply is None else ())
            state.replies = [stopped if reply is None else reply for reply in state.replies]
            self._advance(state, [])
            state.missing = -1  # a late answer is ignored
        judged = self.done.pop()
        outcomes = tuple(
            NoVerdict(chunk_id=outcome.chunk_id, why=stopped.why, detail=stopped.detail)
            if outcome.chunk_id in unanswered
            else outcome
            for outcome in judged.judgment.outcomes
        )
        judgment = judged.judgment.replace(outcomes=outcomes)
        self.done.append(Judged(judged.position, judged.trace, judgment))


DRAIN = 5.0
"""Seconds that calls in flight may take to finish when judging is stopped early: they may be paid for."""


class Engine:
    """Runs the plans of a judge over a backend, and reads traces only when there is room for them.

    A block of traces is opened together, and every answer that the backend already knows is taken at once;
    only the other requests reach the workers on the queue, of which `concurrency` (>= 1) run; the backend may
    hold back more. While a worker waits for an answer that another process is paying for, another one works in its
    place, so that processes which judge the same traces share them. A slow call delays its own trace alone. Finished
    traces are returned `linger` seconds later at most while others are open.

    Use it as a context manager. On exit, calls in flight may finish for up to `drain` seconds, then they are cancelled;
    `take` returns what finished meanwhile. At an early stop `salvage` is asked whether unfinished traces are returned
    with the verdicts they have: true if nobody stores the answers, so that none is paid for twice.

    With `lead` the first call of a trace goes ahead of the others, for servers that charge less for a prefix
    they have seen. It costs one more round trip for each trace.
    """

    def __init__(
        self,
        judge: Judge,
        backend: Backend,
        *,
        concurrency: int = 64,
        drain: float = DRAIN,
        linger: float = 0.02,
        lead: bool = False,
        salvage: Callable[[], bool] = lambda: False,
    ) -> None:
        self._backend, self._drain, self._linger, self._salvage = backend, drain, linger, salvage
        self._traces = OpenTraces(judge, backend, self._queue_requests, lead=lead)
        # Some workers wait for the cache or for a place; the others keep the connections busy meanwhile.
        self._most_workers = concurrency + max(4, concurrency // 4)
        self._full = 2 * concurrency
        self._waiting, self._most_waiting = 0, 16 * concurrency
        """Workers that wait for other processes, in whose place others work; and how many may."""
        self._queue: asyncio.Queue[tuple[OpenTrace, int]] = asyncio.Queue()
        self._workers: set[asyncio.Task[None]] = set()
        self._calling: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._exhausted = self._stopping = False
        self._failure: BaseException | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    def take(self) -> list[Judged]:
        """Return the finished traces that nobody has taken yet."""
        return self._traces.take()

    async def results(self, source: Source) -> AsyncIterator[list[Judged]]:
        """Judge every trace of the source, read lazily, and yield blocks as they finish, in any order."""
        # An error that the source raises ends the stream after the calls in flight.
        traces = self._traces
        reading: asyncio.Task[list[Item]] | None = None
        try:
            while self._failure is None:
                if traces.done:
                    if traces.count and self._is_full and self._linger:
                        await asyncio.sleep(self._linger)
                    yield self.take()
                elif reading is not None and reading.done():
                    self._open(reading.result())
                    reading = None
                elif not self._exhausted and reading is None and not self._is_full:
                    if isinstance(source, Iterator):
                        self._open(list(islice(source, BLOCK)))
                        await asyncio.sleep(0)
                    else:
                        reading = asyncio.create_task(_next(source))
                        reading.add_done_callback(lambda _: self._wake.set())
                elif self._exhausted and not traces.count:
                    return
                else:
                    await self._pause()
        except BaseException as error:
            self._failure = error
            raise
        finally:
            if reading is not None:
                reading.cancel()
        await self._stop()
        if traces.done:
            yield self.take()
        raise self._failure

    @property
    def _is_full(self) -> bool:
        return self._queue.qsize() >= self._full

    def _queue_requests(self, state: OpenTrace, indices: Sequence[int]) -> None:
        for index in indices:
            self._queue.put_nowait((state, index))
            self._add_worker()

    def _add_worker(self) -> None:
        """Start a worker if there is work for one more and a place."""
        if len(self._calling) + self._queue.qsize() > len(self._workers) < self._most_workers + self._waiting:
            worker = asyncio.create_task(self._work(), name="judge_eval worker")
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    def _note_waiting(self, change: int) -> None:
        """Let another worker go on in the place of one whose request another process is paying for."""
        self._waiting += change
        if change > 0 and self._waiting < self._most_waiting and not self._stopping:
            self._add_worker()

    async def _work(self) -> None:
        """Make calls from the queue; an error with which no call can succeed ends the work."""
        worker = cast(asyncio.Task[None], asyncio.current_task())
        note_waiting.set(WeakMethod(self._note_waiting))
        try:
            while not self._stopping and len(self._workers) <= self._most_workers + self._waiting:
                state, index = await self._queue.get()
                if not self._exhausted and not self._is_full:
                    self._wake.set()
                self._calling.add(worker)
                try:
                    reply: Reply = await self._backend.complete(state.requests[index])
                except CallError as error:
                    reply = error
                finally:
                    self._calling.discard(worker)
                if self._traces.answer(state, index, reply, go_on=not self._stopping):
                    self._wake.set()
        except Exception as error:
            self._failure = self._failure or error
            self._stopping = True
            self._wake.set()

    async def _pause(self) -> None:
        """Wait until something happens, then a little longer, so that neighbours are handled together."""
        self._wake.clear()
        await self._wake.wait()
        if self._linger and self._traces.count and self._failure is None:
            await asyncio.sleep(self._linger)

    def _open(self, items: list[Item]) -> None:
        self._exhausted = not items
        self._traces.start(items)
        if self._traces.done:
            self._wake.set()

    async def _stop(self) -> None:
        self._stopping = True
        unfinished = not self._exhausted or self._traces.count
        if self._calling and unfinished and self._drain:
            await asyncio.wait(list(self._calling), timeout=self._drain)
        for worker in list(self._workers):
            worker.cancel()
        if self._workers:
            await asyncio.wait(list(self._workers))
        if self._traces.count and self._salvage():
            self._traces.salvage()


async def judge_one(
    judge: Judge, backend: Backend, trace: Trace, places: asyncio.Semaphore, *, lead: bool = False
) -> Judgment:
    """Judge one trace without a queue; `places` bounds the calls, with `lead` the first goes ahead of its siblings.

    An error with which no call can succeed is raised, and so is a cancellation, after calls in flight had up to
    `DRAIN` seconds to finish: they may be paid for.
    """

    async def ask(request: Request) -> Reply:
        async with places:
            try:
                return await backend.complete(request)
            except CallError as error:
                return error

    rounds = plan_of(judge, trace)
    try:
        requests = next(rounds)
        while True:
            replies: list[Reply | None] = [*peek(backend, requests)]
            missing = [place for place, reply in enumerate(replies) if reply is None]
            if lead and len(missing) > 1:
                first = missing.pop(0)
                replies[first] = await ask(requests[first])
            if missing:
                answers = await _all_of([ask(requests[place]) for place in missing])
                for place, answer in zip(missing, answers, strict=True):
                    replies[place] = answer
            requests = rounds.send(cast(list[Reply], replies))
    except StopIteration as stop:
        return cast(Judgment, stop.value)


async def _all_of(calls: Sequence[Coroutine[object, object, Reply]]) -> list[Reply]:
    """Return what calls answer, in their order; at an error or a cancellation the others may finish first."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        if unfinished := [task for task in tasks if not task.done()]:
            await asyncio.wait(unfinished, timeout=DRAIN)
            for task in unfinished:
                task.cancel()
        errors = [task.exception() for task in tasks if task.done() and not task.cancelled()]
    for error in filter(None, errors):
        raise error
    return [task.result() for task in tasks]


async def _next(source: AsyncIterator[Item]) -> list[Item]:
    try:
        return [await anext(source)]
    except StopAsyncIteration:
        return []


@dataclass(slots=True)
class Plan:
    """What a run would ask, counted without a call."""

    traces: int = 0
    chunks: int = 0
    calls: int = 0
    """Requests of the first round without a known answer; repairs are not included."""
    splits: int = 0
    """How many of them split a reference into claims; the other counts are then estimates."""
    hits: int = 0
    input_tokens: int = 0
    """Estimated as a quarter of the characters."""
    output_tokens: int = 0
    """The most that the calls may return."""
    passages: int = 0
    """Passages in the calls."""
    answers: int = 0
    """Known answers whose token counts are known."""
    answered_passages: int = 0
    """Passages that those answers judged."""
    answered_tokens: int = 0
    """Output tokens of those answers."""
    fixed_tokens: int = 0
    """The longest fixed part (system text) of the calls, estimated as a quarter of the characters."""


def plan(judge: Judge, backend: Backend, source: Iterator[Item]) -> Plan:
    """Count what judging the source would take, without a call."""
    total = Plan()
    while items := list(islice(source, BLOCK)):
        requests: list[Request] = []
        for item in items:
            total.traces += 1
            total.chunks += len(item.trace.chunks)
            requests += _first_rounds(judge, backend, item)
        answers = peek(backend, requests)
        seen: set[tuple[str, bytes]] = set()
        for request, answer in zip(requests, answers, strict=True):
            request_key = (request.route, request.digest)
            if answer is not None or request_key in seen:
                total.hits += 1
                if answer is not None and answer.usage.output_tokens:
                    total.answers += 1
                    total.answered_passages += len(request.passages)
                    total.answered_tokens += answer.usage.output_tokens
                continue
            seen.add(request_key)
            total.calls += 1
            total.splits += not request.passages
            fixed = sum(len(each.content) for each in request.messages if each.role == "system") // 4
            total.fixed_tokens = max(total.fixed_tokens, fixed)
            total.input_tokens += sum(len(message.content) for message in request.messages) // 4
            total.output_tokens += request.max_tokens
            total.passages += len(request.passages)
    return total


def _first_rounds(judge: Judge, backend: Backend, item: Item) -> list[Request]:
    """Return what the first round of a trace asks; if it splits a reference, also an imagined next one."""
    rounds = plan_of(judge, item.trace, item.earlier)
    earlier: list[Request] = []
    try:
        requests = next(rounds)
        while not requests[0].passages:
            answers = zip(peek(backend, requests), requests, strict=True)
            replies = [answer or imagined_split(judge, request) for answer, request in answers]
            if None in replies:
                break
            earlier += requests
            requests = rounds.send([reply for reply in replies if reply is not None])
    except StopIteration:
        return earlier
    return [*earlier, *requests]
