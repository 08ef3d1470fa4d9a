"""From what a user has (a trace, a list, a file, a stream) to numbered traces with one digest."""

from __future__ import annotations

import hashlib
import random
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, TypeAlias

from judge_eval.data.reading import ReadOptions, open_dataset
from judge_eval.data.remote import is_url, local_copy, public
from judge_eval.errors import ConfigError, DataError
from judge_eval.runs.folder.records import Dataset, Shard
from judge_eval.schema import Trace

Traces: TypeAlias = (
    Trace
    | Mapping[str, Any]
    | str
    | Path
    | Iterable[Trace | Mapping[str, Any]]
    | AsyncIterable[Trace | Mapping[str, Any]]
)
"""One trace, a file's path, or traces in any iterable; plain mappings are read as traces."""

Check: TypeAlias = Callable[[Trace], None]


class Fingerprint:
    """The digest of a dataset, fed trace by trace, and the guard of its ids."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._ids: set[str] = set()
        self.traces = self.chunks = 0
        self.digests = bytearray()
        """32 bytes a trace, in order."""

    def add(self, trace: Trace) -> None:
        """Take a trace in.

        Raises:
            DataError: Its id was there before.
        """
        if trace.id in self._ids:
            raise DataError(
                f"the trace id {trace.id!r} stands twice in the dataset; ids are unique", field="id"
            )
        self._ids.add(trace.id)
        self._hash.update(f"{len(trace.id)}:{trace.id}{trace.digest}".encode())
        self.digests += bytes.fromhex(trace.digest)
        self.traces += 1
        self.chunks += len(trace.chunks)

    def hexdigest(self) -> str:
        """64 hexadecimal digits over the ids and digests in order."""
        return self._hash.hexdigest()


class Replayable:
    """Traces that can be read twice: surveyed first, then judged.

    The survey reads everything once, so that a bad record is found before anything is paid for.

    Args:
        open: Starts reading; called with the check and with whom to tell of skipped records.
        name: What to call the dataset.
        path: The file, where there is one.
        check: What every trace must pass.
        limit: The most traces to take.
        seed: Takes a random sample of `limit` traces, in the dataset's order, instead of the first ones.
        shard: Which part of that to judge: its index from 1, and how many parts there are.
    """

    def __init__(
        self,
        open: Callable[[Check, Callable[[DataError], None] | None], Iterator[Trace]],
        *,
        name: str,
        path: str | None = None,
        check: Check,
        limit: int | None = None,
        seed: int | None = None,
        shard: tuple[int, int] | None = None,
    ) -> None:
        if shard is not None and not 1 <= shard[0] <= shard[1]:
            raise ConfigError(f"shard {shard[0]}/{shard[1]}: write i/n with i from 1 to n")
        self._open, self._check, self._shard = open, check, shard
        self._name, self._path, self._limit, self._seed = name, path, limit, seed
        self._chosen: frozenset[int] | None = None
        self._digests = b""
        self._stamp: tuple[int, int] | None = None

    def survey(self, on_skip: Callable[[DataError], None] | None = None) -> Dataset:
        """Read everything once and tell what is there.

        Raises:
            DataError: A record is invalid or an id stands twice.
        """
        skipped = 0
        self._stamp = _stamp(self._path)

        def note(error: DataError) -> None:
            nonlocal skipped
            skipped += 1
            if on_skip is not None:
                on_skip(error)

        if self._limit is not None and self._seed is not None:
            count = sum(1 for _ in self._open(self._check, None))
            chosen = random.Random(self._seed).sample(range(count), min(self._limit, count))  # noqa: S311
            self._chosen = frozenset(chosen)
        fingerprint = Fingerprint()
        part = None if self._shard is None else Shard(index=self._shard[0], count=self._shard[1])
        traces = chunks = 0
        for trace in self._take(self._open(self._check, note)):
            fingerprint.add(trace)
            if part is not None and shard_of(trace.id, part.count) == part.index:
                traces += 1
                chunks += len(trace.chunks)
        if part is not None:
            part = part.model_copy(update={"traces": traces, "chunks": chunks})
        self._digests = bytes(fingerprint.digests)
        return Dataset(
            name=self._name,
            path=self._path,
            digest=fingerprint.hexdigest(),
            traces=fingerprint.traces,
            chunks=fingerprint.chunks,
            skipped=skipped,
            limit=self._limit,
            seed=self._seed,
            shard=part,
        )

    def __iter__(self) -> Iterator[Trace]:
        return (trace for _, trace in self.numbered())

    def numbered(self) -> Iterator[tuple[int, Trace]]:
        """Read the traces to judge, each with its place in the whole dataset, counted from 0.

        Raises:
            DataError: The file was changed meanwhile.
        """
        stamp = self._stamp or _stamp(self._path)
        # Checked again: a record that the survey skipped must be skipped here too.
        for place, trace in enumerate(self._take(self._open(self._check, None))):
            if self._shard is not None and shard_of(trace.id, self._shard[1]) != self._shard[0]:
                continue
            digest = self._digests[32 * place : 32 * place + 32]
            if digest:  # the survey has made it; spare making it again
                trace.__dict__["digest"] = digest.hex()
            yield place, trace
        if stamp != _stamp(self._path):
            raise DataError("was changed while it was read; run again", file=self._name)

    def _take(self, traces: Iterator[Trace]) -> Iterator[Trace]:
        if self._chosen is not None:
            return (trace for place, trace in enumerate(traces) if place in self._chosen)
        if self._limit is not None:
            limit = self._limit
            return (trace for _, trace in zip(range(limit), traces, strict=False))
        return traces


def shard_of(trace_id: str, count: int) -> int:
    """Return the shard, from 1 to `count`, that a trace falls into, whatever other traces there are."""
    return int.from_bytes(hashlib.sha256(trace_id.encode("utf-8", "surrogatepass")).digest()[:8]) % count + 1


def _stamp(path: str | None) -> tuple[int, int] | None:
    """Tell a file's size and time of change; None where there is no file."""
    if path is None or not Path(path).exists():
        return None
    status = Path(path).stat()
    return status.st_size, status.st_mtime_ns


def replayable(
    data: Traces,
    *,
    check: Check,
    on_invalid: Literal["error", "skip"] = "error",
    limit: int | None = None,
    seed: int | None = None,
    shard: tuple[int, int] | None = None,
    name: str | None = None,
    reader: ReadOptions | None = None,
) -> Replayable | None:
    """Make a source that can be read twice; None where the data are a stream that can be read only once.

    Args:
        data: The traces, or the file or folder that holds them, or the URL of a file.
        check: What every trace must pass.
        on_invalid: Whether an invalid record ends the reading or is skipped.
        limit: The most traces to take.
        seed: Takes a random sample of `limit` traces.
        name: What to call the data.
        shard: `(i, n)` takes part i of n.
        reader: How a file is to be read.

    Raises:
        ConfigError: There is no such shard.
        DataError: A mapping in the data is no trace.
    """
    held: ExitStack | None = None
    if isinstance(data, str | Path):
        url = data if isinstance(data, str) and is_url(data) else None
        if url is not None:
            held = ExitStack()
            path, name = held.enter_context(local_copy(url)), name or public(url)
        else:
            path = Path(data)
        told = reader or ReadOptions()

        def open_file(check: Check, on_skip: Callable[[DataError], None] | None) -> Iterator[Trace]:
            return open_dataset(
                path,
                format=told.format,
                map=told.map,
                corpus=told.corpus,
                list_sep=told.list_sep,
                depth=told.depth,
                relevant=told.relevant,
                name=name,
                check=check,
                on_invalid=on_invalid,
                on_skip=on_skip,
            )

        given = name or str(path)
        shown = str(path) if url is None else public(url)
        made = Replayable(open_file, name=given, path=shown, check=check, limit=limit, seed=seed, shard=shard)
        if held is not None:
            weakref.finalize(made, held.close)  # both readings are of one copy
        return made
    if isinstance(data, Trace | Mapping):
        data = [data]
    if isinstance(data, Sequence):
        listed = [as_trace(item, place) for place, item in enumerate(data)]

        def open_list(check: Check, on_skip: Callable[[DataError], None] | None) -> Iterator[Trace]:
            return _checked(listed, check, on_invalid, on_skip)

        given = name or "traces in memory"
        return Replayable(open_list, name=given, check=check, limit=limit, seed=seed, shard=shard)
    return None


def _checked(
    traces: Sequence[Trace],
    check: Check,
    on_invalid: Literal["error", "skip"],
    on_skip: Callable[[DataError], None] | None,
) -> Iterator[Trace]:
    for trace in traces:
        try:
            check(trace)
        except DataError as error:
            told = DataError(error.message, file=f"trace {trace.id!r}", field=error.field)
            if on_invalid == "error":
                raise told from None
            if on_skip is not None:
                on_skip(told)
            continue
        yield trace


def as_trace(item: Trace | Mapping[str, Any], place: int) -> Trace:
    """Read one item of an iterable.

    Raises:
        DataError: It is neither a trace nor the data of one.
    """
    if isinstance(item, Trace):
        return item
    if not isinstance(item, Mapping):
        raise DataError(
            f"item {place} is a {type(item).__name__}; give `Trace`s or mappings with their fields"
        )
    try:
        return Trace.parse(item)
    except DataError as error:
        raise DataError(error.message, file=f"item {place}", field=error.field) from None


async def streamed(
    data: Iterable[Trace | Mapping[str, Any]] | AsyncIterable[Trace | Mapping[str, Any]], check: Check
) -> AsyncIterator[Trace]:
    """Read a stream once; a plain iterable that blocks is read in a thread, so that calls go on meanwhile.

    Raises:
        DataError: An item is no trace or does not pass the check.
    """
    place = 0
    items = data if isinstance(data, AsyncIterable) else _in_thread(iter(data))
    async for item in items:
        trace = as_trace(item, place)
        try:
            check(trace)
        except DataError as error:
            raise DataError(error.message, file=f"trace {trace.id!r}", field=error.field) from None
        place += 1
        yield trace


async def _in_thread(items: Iterator[Any], ahead: int = 128) -> AsyncIterator[Any]:
    """Step through a blocking iterator in a daemon thread, at most `ahead` items before they are wanted."""
    import asyncio
    import threading

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
