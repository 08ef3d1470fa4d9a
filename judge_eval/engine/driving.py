"""The engine: reads traces as room comes free, and hands on what has finished."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import Self

from judge_eval.backends.base import Backend
from judge_eval.engine.calls import Calls
from judge_eval.engine.inquiries import Inquiries, UnderWay
from judge_eval.engine.items import BLOCK, Item, Judged, Source
from judge_eval.judges.base import Judge
from judge_eval.wire import Reply

DRAIN = 5.0
"""Seconds for which calls in flight may finish when judging is stopped early: they may be paid for."""


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
        self._drain, self._linger, self._salvage = drain, linger, salvage
        self._calls = Calls(
            backend, concurrency, taken=self._room, answered=self._answered, failed=self._fail
        )
        self._inquiries = Inquiries(judge, backend, self._calls.put, lead=lead)
        self._wake = asyncio.Event()
        self._exhausted = False
        self._failure: BaseException | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    def take(self) -> list[Judged]:
        """Return what has finished and was not handed on yet."""
        return self._inquiries.take()

    async def results(self, source: Source) -> AsyncIterator[list[Judged]]:
        """Judge every trace of the source and yield blocks of them as they finish, in no fixed order.

        Args:
            source: Traces, read lazily; an error it raises ends the stream after what is under way.

        Raises:
            FatalCallError: No call can succeed.
            StoreError: The cache cannot be used.
            JudgeEvalError: Whatever else a backend or the source ends a run with.
        """
        inquiries, calls = self._inquiries, self._calls
        reading: asyncio.Task[list[Item]] | None = None
        try:
            while self._failure is None:
                if inquiries.done:
                    if inquiries.open and calls.many and self._linger:
                        await asyncio.sleep(self._linger)
                    yield self.take()
                    continue
                if reading is not None and reading.done():
                    self._take_in(reading.result())
                    reading = None
                elif not self._exhausted and reading is None and not calls.many:
                    if isinstance(source, Iterator):
                        self._take_in(list(islice(source, BLOCK)))
                        await asyncio.sleep(0)
                    else:
                        reading = asyncio.create_task(_next(source))
                        reading.add_done_callback(lambda _: self._wake.set())
                elif self._exhausted and not inquiries.open:
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
        if inquiries.done:
            yield self.take()
        raise self._failure

    async def _pause(self) -> None:
        """Wait until something happened, then a little longer, so that neighbours are handled together."""
        self._wake.clear()
        await self._wake.wait()
        if self._linger and self._inquiries.open and self._failure is None:
            await asyncio.sleep(self._linger)

    def _take_in(self, items: list[Item]) -> None:
        if not items:
            self._exhausted = True
            return
        self._inquiries.start(items)
        if self._inquiries.done:
            self._wake.set()

    def _room(self) -> None:
        if not self._exhausted and not self._calls.many:
            self._wake.set()

    def _answered(self, state: UnderWay, index: int, reply: Reply) -> None:
        if self._inquiries.answer(state, index, reply, go_on=not self._calls.stopping):
            self._wake.set()

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
        self._calls.stopping = True
        self._wake.set()

    async def _stop(self) -> None:
        ended = self._exhausted and not self._inquiries.open
        await self._calls.stop(0.0 if ended else self._drain)
        if self._inquiries.open and self._salvage():
            self._inquiries.salvage()


async def _next(source: AsyncIterator[Item]) -> list[Item]:
    try:
        return [await anext(source)]
    except StopAsyncIteration:
        return []
