"""Reading what requests bring: piece by piece, within limits, away from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from time import monotonic
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from judge_eval.data.files.jsontext import JsonText
from judge_eval.errors import DataError
from judge_eval.limits import CHUNKS
from judge_eval.record import R
from judge_eval.runs.folder.records import Manifest, TraceResult
from judge_eval.schema import Trace
from judge_eval.server.models import Submission, Upload
from judge_eval.server.settings import BODIES, READ_SECONDS, RECORD, UPLOADED, ServerLimits

T = TypeVar("T")


class TooLargeError(DataError):
    """More than the server takes."""


class Incoming:
    """The bodies of requests that may be large, a few at a time; one thread makes records of them in turn.

    Whatever they hold, the event loop stays free to answer: a value that takes long to decode is refused
    before it is, and the rest is done record by record.
    """

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(BODIES)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="bodies")

    async def read(self, request: Request, make: Callable[[bytes], T]) -> T:
        """Read a request's body and make something of it in the thread.

        Args:
            request: The request, of whose size the guard takes care.
            make: Makes records of the body.

        Raises:
            DataError: They do not fit.
        """
        async with self._places:
            try:
                body = await request.body()
            except ClientDisconnect:
                raise HTTPException(400, "the request ended before its body did") from None
            return await asyncio.get_running_loop().run_in_executor(self._reader, make, body)

    def close(self) -> None:
        """Let the thread go."""
        self._reader.shutdown(wait=False, cancel_futures=True)


def read_submission(body: bytes, limits: ServerLimits) -> Submission:
    """Read a submission; the traces are counted before they are made.

    Raises:
        TooLargeError: More traces, chunks or text than the server takes.
        DataError: It is none.
    """
    traces: list[Trace] = []
    fields: dict[str, Any] = {}
    for key, number, value in _parts(body, "traces", limits.traces, set(Submission.model_fields)):
        if number is None:
            fields[key] = value
        else:
            where = f"traces[{number}]"
            _few_chunks(value, limits.chunks, where)
            traces.append(_make(Trace, value, where))
    given = Submission.parse({**fields, "traces": traces[:1]})
    return given.model_copy(update={"traces": tuple(traces)})


def read_upload(body: bytes) -> Upload:
    """Read an uploaded run; the results are counted before they are made.

    A run that was judged elsewhere keeps the limits of a record alone: none that ended is beyond the server.

    Raises:
        TooLargeError: More results, chunks or text than the server takes.
        DataError: It is none.
    """
    results: list[TraceResult] = []
    manifest = None
    for key, number, value in _parts(body, "results", UPLOADED, set(Upload.model_fields)):
        if number is None:
            manifest = _make(Manifest, value, key)
        else:
            where = f"results[{number}]"
            _few_chunks(value.get("trace") if isinstance(value, dict) else None, CHUNKS, f"{where}.trace")
            results.append(_make(TraceResult, value, where))
    if manifest is None:
        raise DataError("this field is required", field="manifest")
    return Upload(manifest=manifest, results=()).model_copy(update={"results": tuple(results)})


def _parts(body: bytes, items: str, most: int, known: set[str]) -> Iterator[tuple[str, int | None, Any]]:
    """Yield the members of a JSON object, those of one list one by one with their numbers."""
    until = monotonic() + READ_SECONDS
    text = JsonText(BytesIO(body), None, RECORD)
    seen: set[str] = set()
    for key in text.members():
        if key not in known or key in seen:
            fault = "stands twice" if key in seen else "no such field; remove it"
            raise DataError(fault, field=key[:100])
        seen.add(key)
        if key != items:
            yield key, None, text.value(key)[0]
            continue
        if text.peek() != "[":
            raise DataError("must be a list", field=items)
        for number, (value, _) in enumerate(text.elements(items)):
            if number == most:
                raise TooLargeError(f"more than {most:,}, which this server takes at a time", field=items)
            if monotonic() > until:
                raise TooLargeError(
                    f"takes longer than {READ_SECONDS:g} seconds to read; send less at a time"
                )
            yield items, number, value
    text.end()
    if items not in seen:
        raise DataError("this field is required", field=items)


def _few_chunks(trace: Any, most: int, where: str) -> None:
    chunks = trace.get("chunks") if isinstance(trace, dict) else None
    if isinstance(chunks, list) and len(chunks) > most:
        raise TooLargeError(
            f"{len(chunks):,} chunks; this server takes {most:,} a trace", field=f"{where}.chunks"
        )


def _make(kind: type[R], value: Any, where: str) -> R:
    try:
        return kind.parse(value)
    except DataError as error:
        field = f"{where}.{error.field}" if error.field else where
        raise DataError(error.message, field=field) from None
