"""Calls: a queue of requests, and as many workers on it as there is work for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from judge_eval.backends.base import Backend
from judge_eval.engine.inquiries import UnderWay
from judge_eval.errors import CallError
from judge_eval.wire import Reply


class Calls:
    """Makes calls with workers on a queue.

    Args:
        backend: Who answers.
        concurrency: How many calls may be under way, >= 1. The backend may hold back more.
        taken: Told whenever a request leaves the queue.
        answered: Told what a call brought; what it raises ends the work.
        failed: Told of an error with which no call can succeed.
    """

    def __init__(
        self,
        backend: Backend,
        concurrency: int,
        *,
        taken: Callable[[], None],
        answered: Callable[[UnderWay, int, Reply], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._backend, self._taken, self._answered, self._failed = backend, taken, answered, failed
        # Some workers wait for the cache or for a place; the others keep the connections busy meanwhile.
        self._most = concurrency + max(4, concurrency // 4)
        self._high = 2 * concurrency
        self._queue: asyncio.Queue[tuple[UnderWay, int]] = asyncio.Queue()
        self._workers: set[asyncio.Task[None]] = set()
        self._calling: set[asyncio.Task[None]] = set()
        self.stopping = False
        """Whether no further call is begun."""

    @property
    def many(self) -> bool:
        """Whether so many requests wait that no more are needed."""
        return self._queue.qsize() >= self._high

    def put(self, state: UnderWay, indices: Sequence[int]) -> None:
        """Queue requests of a trace's wave, by their places in it."""
        for index in indices:
            self._queue.put_nowait((state, index))
            if len(self._calling) + self._queue.qsize() > len(self._workers) < self._most:
                self._hire()

    async def stop(self, drain: float) -> None:
        """Let calls in flight finish for so many seconds (they may be paid for), then cancel what is left."""
        self.stopping = True
        if self._calling and drain:
            await asyncio.wait(list(self._calling), timeout=drain)
        for worker in list(self._workers):
            worker.cancel()
        if self._workers:
            await asyncio.wait(list(self._workers))

    def _hire(self) -> None:
        worker = asyncio.create_task(self._work(), name="judge_eval worker")
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        me = cast(asyncio.Task[None], asyncio.current_task())
        while not self.stopping:
            state, index = await self._queue.get()
            self._taken()
            self._calling.add(me)
            try:
                reply: Reply = await self._backend.complete(state.wave[index])
            except CallError as error:
                reply = error
            except Exception as error:
                self._failed(error)
                return
            finally:
                self._calling.discard(me)
            try:
                self._answered(state, index, reply)
            except Exception as error:
                self._failed(error)
                return
