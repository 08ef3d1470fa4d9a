"""Traces that are objects in Python: the items of a list, or of a stream that is read once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import Any, TypeAlias

from judge_eval.data.ids import TraceIds
from judge_eval.data.memory import record_of, row_name
from judge_eval.data.options import ReadOptions
from judge_eval.data.remarks import OnRemark
from judge_eval.data.telling import Telling, Told
from judge_eval.errors import ConfigError, DataError
from judge_eval.schema import Trace

TraceCheck: TypeAlias = Callable[[Trace], None]
"""What every trace must pass; raises `DataError` where one does not."""


def admitted(told: Told, check: TraceCheck, ids: TraceIds) -> Trace:
    """Return a trace that passes the check, under an id of its own.

    Raises:
        DataError: It does not pass, its id stands twice, or there is none; the message names its row.
    """
    if isinstance(told.given, DataError):
        raise told.given
    try:
        check(told.given)
        return ids.admit(told.given, told.number)
    except DataError as error:
        raise DataError(error.message, file=told.name, field=error.field) from None


async def streamed(
    data: Iterable[Any] | AsyncIterable[Any],
    check: TraceCheck,
    reader: ReadOptions | None = None,
    on_remark: OnRemark = None,
) -> AsyncIterator[Trace]:
    """Read a stream once; a plain iterable that blocks is read in a thread, so that calls go on meanwhile.

    The first item that is no `Trace` says which shape all have.

    Raises:
        DataError: An item holds no trace, or one that does not pass the check.
        ConfigError: Rows are to be grouped, which takes all of them.
    """
    if reader is not None and reader.group_by is not None:
        raise ConfigError("a stream is read row by row; to group rows (`group_by`) give a list or a frame")
    telling, ids, number = Telling(reader), TraceIds("in row", on_remark), 0
    async for item in data if isinstance(data, AsyncIterable) else _in_thread(iter(data)):
        row = record_of(item)
        for told in telling.of(number, row_name(number, row=row), row):
            trace = admitted(told, check, ids)
            told.say(on_remark)
            yield trace
        number += 1
    try:
        telling.finish()
    except DataError as error:  # all is judged by now, and what was not found is read by no judge
        if on_remark is not None:
            on_remark(error.message, None)


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
