"""Driving inquiries: a bounded stream of traces in, judgments out as they finish."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Self, TypeAlias, cast

from judge_eval.backends.base import Backend, peek
from judge_eval.errors import CallError
from judge_eval.judges.base import Inquiry, Judge, Wave
from judge_eval.schema import Judgment, NoVerdict, Trace, Verdict
from judge_eval.wire import Reply, Request

BLOCK = 16
"""How many traces are opened at once, so that their look-ups are one; few enough for a core's cache."""
DRAIN = 5.0
"""Seconds for which calls in flight may finish when judging is stopped early: they may be paid for."""


@dataclass(frozen=True, slots=True)
class Item:
    """A trace on its way into the engine."""

    position: int
    """Its place in the dataset, counted from 0."""
    trace: Trace
    known: Mapping[str, Verdict]
    """Verdicts it has from before, by chunk id."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A trace on its way out."""

    position: int
    trace: Trace
    judgment: Judgment


Source: TypeAlias = Iterator[Item] | AsyncIterator[Item]


@dataclass(slots=True)
class _UnderWay:
    """A trace under judgment: its inquiry, the wave it waits for, and the replies so far."""

    item: Item
    inquiry: Inquiry
    wave: Wave
    replies: list[Reply | None]
    left: int = 0
    advanced: bool = False
    """Whether a wave of it is answered."""
    held: list[int] = field(default_factory=list)
    """Requests that wait for the wave's first call to come back."""


class Engine:
    """Runs inquiries over a backend with workers on a queue, reading traces only as room comes free.

    Hits are split off before any task sees them: a block of traces is opened, everything the backend has
    at hand answers at once, and only misses reach the workers. A slow call holds up its own trace alone.

    Use it as a context manager; leaving it lets calls in flight finish for up to `drain` seconds, then
    cancels them. What finished meanwhile is returned by `take`.

    Args:
        judge: The plan.
        backend: Who answers.
        concurrency: How many calls may be under way, >= 1. The backend may hold back more.
        drain: Seconds to wait for calls in flight when stopped early.
        linger: Seconds to gather finished traces before they are handed on while others are open.
        salvage: Asked at an early stop: whether traces it leaves unfinished are handed on with the verdicts
            they have. True where nobody keeps the answers, so that none is paid for twice.
        lead: Whether a trace's first call goes ahead of its siblings, for servers that bill a prefix they
            have seen at a lower price. It costs one more round trip a trace.
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
        self._judge, self._backend, self._salvage = judge, backend, salvage
        self._asking: dict[int, _UnderWay] = {}
        self._drain, self._linger, self._lead = drain, linger, lead
        # Some workers wait for the cache or for a place; the others keep the connections busy meanwhile.
        self._most = concurrency + max(4, concurrency // 4)
        self._high = 2 * concurrency
        self._queue: asyncio.Queue[tuple[_UnderWay, int]] = asyncio.Queue()
        self._workers: set[asyncio.Task[None]] = set()
        self._calling: set[asyncio.Task[None]] = set()
        self._open = 0
        self._done: list[Judged] = []
        self._wake = asyncio.Event()
        self._exhausted = False
        self._stopping = False
        self._failure: BaseException | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    def take(self) -> list[Judged]:
        """Return what has finished and was not handed on yet."""
        done, self._done = self._done, []
        return done

    async def results(self, source: Source) -> AsyncIterator[list[Judged]]:
        """Judge every trace of the source and yield blocks of them as they finish, in no fixed order.

        Args:
            source: Traces, read lazily; an error it raises ends the stream after what is under way.

        Raises:
            FatalCallError: No call can succeed.
            StoreError: The cache cannot be used.
            JudgeEvalError: Whatever else a backend or the source ends a run with.
        """
        reading: asyncio.Task[list[Item]] | None = None
        try:
            while self._failure is None:
                if self._done:
                    if self._open and self._queue.qsize() >= self._high and self._linger:
                        await asyncio.sleep(self._linger)
                    yield self.take()
                    continue
                if reading is not None and reading.done():
                    self._take_in(reading)
                    reading = None
                elif not self._exhausted and reading is None and self._queue.qsize() < self._high:
                    if isinstance(source, Iterator):
                        self._take_in(list(islice(source, BLOCK)))
                        await asyncio.sleep(0)
                    else:
                        reading = asyncio.create_task(_next(source))
                        reading.add_done_callback(lambda _: self._wake.set())
                elif self._exhausted and not self._open:
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
        if self._done:
            yield self.take()
        raise self._failure

    async def _pause(self) -> None:
        """Wait until something happened, then a little longer, so that neighbours are handled together."""
        self._wake.clear()
        await self._wake.wait()
        if self._linger and self._open and self._failure is None:
            await asyncio.sleep(self._linger)

    def _take_in(self, block: list[Item] | asyncio.Task[list[Item]]) -> None:
        items = block.result() if isinstance(block, asyncio.Task) else block
        if not items:
            self._exhausted = True
            return
        opened: list[_UnderWay] = []
        for item in items:
            inquiry = self._judge.inquire(item.trace, item.known)
            self._open += 1
            self._step(_UnderWay(item, inquiry, (), []), opened)
        self._ask(opened)

    def _step(self, state: _UnderWay, opened: list[_UnderWay]) -> None:
        """Send an inquiry its replies, and note its next wave or its judgment."""
        state.advanced = bool(state.wave)
        try:
            wave = state.inquiry.send(cast(list[Reply], state.replies)) if state.wave else next(state.inquiry)
        except StopIteration as stop:
            self._open -= 1
            self._asking.pop(state.item.position, None)
            self._done.append(Judged(state.item.position, state.item.trace, stop.value))
            self._wake.set()
            return
        state.wave, state.replies, state.left = wave, [None] * len(wave), len(wave)
        opened.append(state)

    def _ask(self, states: list[_UnderWay]) -> None:
        """Answer from what is at hand until only calls are left; queue those."""
        while states:
            requests = [request for state in states for request in state.wave]
            hits = iter(peek(self._backend, requests))
            again: list[_UnderWay] = []
            for state in states:
                state.replies = list(islice(hits, len(state.wave)))
                missing = [index for index, reply in enumerate(state.replies) if reply is None]
                state.left = len(missing)
                if not missing:
                    self._step(state, again)
                    continue
                self._asking[state.item.position] = state
                ahead = 1 if self._lead else len(missing)
                state.held = missing[ahead:]
                self._enqueue(state, missing[:ahead])
            states = again

    def _enqueue(self, state: _UnderWay, indices: Sequence[int]) -> None:
        for index in indices:
            self._queue.put_nowait((state, index))
            if len(self._calling) + self._queue.qsize() > len(self._workers) < self._most:
                self._hire()

    def _hire(self) -> None:
        worker = asyncio.create_task(self._work(), name="judge_eval worker")
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        me = cast(asyncio.Task[None], asyncio.current_task())
        while not self._stopping:
            state, index = await self._queue.get()
            if not self._exhausted and self._queue.qsize() < self._high:
                self._wake.set()
            self._calling.add(me)
            try:
                reply: Reply = await self._backend.complete(state.wave[index])
            except CallError as error:
                reply = error
            except Exception as error:
                self._fail(error)
                return
            finally:
                self._calling.discard(me)
            state.replies[index] = reply
            state.left -= 1
            if state.held:
                held, state.held = state.held, []
                self._enqueue(state, held)
            if state.left == 0:
                try:
                    opened: list[_UnderWay] = []
                    self._step(state, opened)
                    if not self._stopping:
                        self._ask(opened)
                except Exception as error:
                    self._fail(error)
                    return

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
        self._stopping = True
        self._wake.set()

    async def _stop(self) -> None:
        """Let calls in flight finish for a while (they may be paid for), then cancel what is left."""
        self._stopping = True
        if self._calling and not (self._exhausted and not self._open):
            await asyncio.wait(list(self._calling), timeout=self._drain)
        for worker in list(self._workers):
            worker.cancel()
        if self._workers:
            await asyncio.wait(list(self._workers))
        if self._asking and self._salvage():
            for state in list(self._asking.values()):
                self._give_up(state)

    def _give_up(self, state: _UnderWay) -> None:
        """Conclude a trace with the answers it has; one without any is left for another sitting.

        A chunk about which an answer is still out has no verdict, even where the plan would do without
        that answer: an uninterrupted run would not have.
        """
        if not state.advanced and all(reply is None for reply in state.replies):
            return
        stopped = CallError("the run was stopped before the answer came")
        out: set[str] = set()
        while state.item.position in self._asking:
            for request, reply in zip(state.wave, state.replies, strict=True):
                out.update(request.chunk_ids if reply is None else ())
            state.replies = [stopped if reply is None else reply for reply in state.replies]
            self._step(state, [])
            state.left = -1  # a late answer finds nobody waiting
        judged = self._done.pop()
        outcomes = tuple(
            NoVerdict(chunk_id=o.chunk_id, why=stopped.why, detail=stopped.detail) if o.chunk_id in out else o
            for o in judged.judgment.outcomes
        )
        judgment = judged.judgment.model_copy(update={"outcomes": outcomes})
        self._done.append(Judged(judged.position, judged.trace, judgment))


async def _next(source: AsyncIterator[Item]) -> list[Item]:
    try:
        return [await anext(source)]
    except StopAsyncIteration:
        return []


@dataclass(slots=True)
class Plan:
    """What a run would ask, found without asking."""

    traces: int = 0
    chunks: int = 0
    calls: int = 0
    """Requests of the first wave that are not at hand; repairs come on top."""
    hits: int = 0
    input_tokens: int = 0
    """Estimated as a quarter of the characters."""
    output_tokens: int = 0
    """The most that the calls may bring."""


def plan(judge: Judge, backend: Backend, source: Iterator[Item]) -> Plan:
    """Count what judging the source would take, without a call."""
    total = Plan()
    while items := list(islice(source, BLOCK)):
        requests: list[Request] = []
        for item in items:
            total.traces += 1
            total.chunks += len(item.trace.chunks)
            requests += next(judge.inquire(item.trace, item.known), ())
        answers = peek(backend, requests)
        seen: set[tuple[str, bytes]] = set()
        for request, answer in zip(requests, answers, strict=True):
            asked = (request.route, request.digest)
            if answer is not None or asked in seen:
                total.hits += 1
                continue
            seen.add(asked)
            total.calls += 1
            total.input_tokens += sum(len(message.content) for message in request.messages) // 4
            total.output_tokens += request.max_tokens
    return total
