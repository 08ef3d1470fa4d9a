"""Reading what requests bring: piece by piece, within limits, away from the event loop."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from judge_eval.errors import DataError
from judge_eval.limits import CHUNKS
from judge_eval.record import R
from judge_eval.runs.folder.records import Manifest, TraceResult
from judge_eval.schema import Trace
from judge_eval.server.json_text import JsonText
from judge_eval.server.models import ApiRecord, HostedSubmission, HostedTrace, Submission, Upload
from judge_eval.server.server_settings import BODIES, READ_SECONDS, RECORD, UPLOADED, ServerLimits

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
        """Read a request's body, whose size the guard limits, and make something of it in the thread."""
        try:
            body = await request.body()
        except ClientDisconnect:
            raise HTTPException(400, "the request ended before its body was complete") from None
        async with self._places:
            return await asyncio.get_running_loop().run_in_executor(self._reader, make, body)

    def close(self) -> None:
        """Let the thread go."""
        self._reader.shutdown(wait=False, cancel_futures=True)


def read_submission(body: bytes, limits: ServerLimits, labelled: Callable[[str], str | None]) -> Submission:
    """Read a submission, ours or a hosted evaluator's; the traces are counted before they are made."""
    # `labelled` returns the id of the newest run of a label; None if there is none. More than the limits is a
    # `TooLargeError`.
    traces: list[Trace] = []
    fields: dict[str, Any] = {}
    lists: dict[str, type[ApiRecord]] = {"traces": Submission, "data": HostedSubmission}
    for key, number, value in _parts(body, lists, limits.traces):
        if number is None:
            fields[key] = value
            continue
        where = f"{key}[{number}]"
        if key == "traces":
            _few_chunks(value, "chunks", limits.chunks, where)
            traces.append(_make(Trace, value, where))
        else:
            _few_chunks(value, "contexts", limits.chunks, where)
            hosted = _make(HostedTrace, value, where)
            traces.append(_placed(hosted.trace, where))
            if number == 0:
                fields["data"] = (hosted,)
    if "data" in fields:
        sent = HostedSubmission.parse(fields)
        baseline, label = None, sent.baseline_eval_run_label
        if label is not None and (baseline := labelled(label)) is None:
            raise DataError(f"no run is labelled {label!r}", field="baseline_eval_run_label")
        fields = {"label": sent.label, "href": sent.href, "tags": sent.tags, "baseline": baseline}
    submission = Submission.parse({**fields, "traces": traces[:1]})
    return submission.replace(traces=tuple(traces))


def read_upload(body: bytes) -> Upload:
    """Read an uploaded run; the results are counted before they are made."""
    # A run that was judged elsewhere keeps the limits of a record alone: none that ended is beyond the server.
    results: list[TraceResult] = []
    manifest = None
    for key, number, value in _parts(body, {"results": Upload}, UPLOADED):
        if number is None:
            manifest = _make(Manifest, value, key) if key == "manifest" else manifest
        else:
            where = f"results[{number}]"
            trace = value.get("trace") if isinstance(value, dict) else None
            _few_chunks(trace, "chunks", CHUNKS, f"{where}.trace")
            results.append(_make(TraceResult, value, where))
    if manifest is None:
        raise DataError("this field is required", field="manifest")
    return Upload(manifest=manifest, results=()).replace(results=tuple(results))


def _parts(body: bytes, lists: Mapping[str, type[ApiRecord]], most: int) -> Iterator[tuple[str, int | None, Any]]:
    """Yield the members of a JSON object; the list as an empty one, its items one by one with their numbers.

    `lists` says what the object may be, by the name of the list that it must hold, of `most` items.
    """
    until = monotonic() + READ_SECONDS
    text = JsonText(body, RECORD)
    seen: set[str] = set()
    for key in text.members():
        fitting = [kind for kind in lists.values() if {*seen, key} <= set(kind.model_fields)]
        if not fitting:
            raise DataError("unknown field; remove it", field=key[:100])
        seen.add(key)
        if key not in lists:
            yield key, None, text.value(key)
            continue
        if text.peek() != "[":
            raise DataError("must be a list", field=key)
        yield key, None, ()
        for number, value in enumerate(text.elements(key)):
            if number == most:
                raise TooLargeError(f"more than {most:,}, which this server takes at a time", field=key)
            if monotonic() > until:
                raise TooLargeError(f"takes longer than {READ_SECONDS:g} seconds to read; send less at a time")
            yield key, number, value
    text.end()
    if not seen & lists.keys():
        raise DataError("this field is required", field=next(iter(lists)))


def _few_chunks(trace: Any, name: str, most: int, where: str) -> None:
    chunks = trace.get(name) if isinstance(trace, dict) else None
    if isinstance(chunks, list) and len(chunks) > most:
        raise TooLargeError(f"{len(chunks):,} chunks; this server takes {most:,} a trace", field=f"{where}.{name}")


def _make(kind: type[R], value: Any, where: str) -> R:
    return _placed(lambda: kind.parse(value), where)


def _placed(make: Callable[[], T], where: str) -> T:
    try:
        return make()
    except DataError as error:
        field = f"{where}.{error.field}" if error.field else where
        raise error.at(field=field) from None
