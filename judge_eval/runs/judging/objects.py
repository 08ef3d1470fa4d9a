"""Traces that are objects in Python: the items of a list, or of a stream that is read once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from judge_eval.errors import DataError
from judge_eval.schema import Trace, check_limits

TraceCheck: TypeAlias = Callable[[Trace], None]
"""What every trace must pass; raises `DataError` where one does not."""


def as_trace(item: Trace | Mapping[str, Any], place: int) -> Trace:
    """Read one item of an iterable.

    Raises:
        DataError: It is neither a trace nor the data of one, or beyond the limits of a record.
    """
    if isinstance(item, Trace):
        try:
            check_limits(item)  # it may have been copied, or its metadata filled, since it was made
        except ValueError as error:
            raise DataError(str(error), file=f"item {place}") from None
        return item
    if not isinstance(item, Mapping):
        raise DataError(
            f"item {place} is a {type(item).__name__}; give `Trace`s or mappings with their fields"
        )
    try:
        return Trace.parse(item)
    except DataError as error:
        raise DataError(error.message, file=f"item {place}", field=error.field) from None


def checked_trace(trace: Trace, check: TraceCheck) -> Trace:
    """Return a trace that passes the check.

    Raises:
        DataError: It does not pass; the message names it.
    """
    try:
        check(trace)
    except DataError as error:
        raise DataError(error.message, file=f"trace {trace.id!r}", field=error.field) from None
    return trace


async def streamed(
    data: Iterable[Trace | Mapping[str, Any]] | AsyncIterable[Trace | Mapping[str, Any]], check: TraceCheck
) -> AsyncIterator[Trace]:
    """Read a stream once; a plain iterable that blocks is read in a thread, so that calls go on meanwhile.

    Raises:
        DataError: An item is no trace or does not pass the check.
    """
    place = 0
    async for item in data if isinstance(data, AsyncIterable) else _in_thread(iter(data)):
        yield checked_trace(as_trace(item, place), check)
        place += 1


async def _in_thread(items: Iterator[Any], ahead: int = 128) -> AsyncIterator[Any]:
    """Step through a blocking iterator in a daemon thread, at most `ahead` items before they are wanted."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[tuple[bool, Any]] = asyncio.Queue()
    room, stop = threading.Semaphore(ahead), threading.Event()

    def hand_over(ended: bool, item: Any) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, (ended, item))

    def read() -> None:
        try:
            for item in items:
                room.acquire()
                if stop.is_set():
                    return
                hand_over(False, item)
            hand_over(True, None)
        except Exception as error:
            if not stop.is_set():
                hand_over(True, error)

    threading.Thread(target=read, name="judge_eval reader", daemon=True).start()
    try:
        while True:
            ended, item = await queue.get()
            if not ended:
                room.release()
                yield item
            elif item is None:
                return
            else:
                raise item
    finally:
        stop.set()
        room.release()
