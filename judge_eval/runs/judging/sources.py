"""The traces that a run judges: files, tables, lists and streams; shards and the fingerprint of a dataset."""

from __future__ import annotations

import asyncio
import hashlib
import random
import threading
import weakref
from array import array
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

from judge_eval.data.claimfiles import ClaimsFile, read_claims
from judge_eval.data.files.opening import data_path, is_stream, steady
from judge_eval.data.files.tables import Row
from judge_eval.data.memory import InputRows, MemoryRows, record_of, row_name, rows_in_memory
from judge_eval.data.options import ReadOptions
from judge_eval.data.reading import DatasetReading, ReadRow, RowReader, admitted, is_url, local_copy, read_memory
from judge_eval.data.remarks import OnRemark, Place, Remarks, ScoreOrder, TraceIds, has_no_passage, label_above
from judge_eval.data.spreadsheets import MISSING
from judge_eval.errors import ConfigError, DataError
from judge_eval.runs.folder.records import ClaimsOrigin, Dataset, Shard
from judge_eval.runs.options import Selection
from judge_eval.safe_text import counted, public_url, type_of
from judge_eval.schema import BINARY, Scale, Trace
from judge_eval.spelling import option


class Fingerprint:
    """The digest of a dataset, computed trace by trace; ids must be unique."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._ids: set[str] = set()
        self.traces = self.chunks = 0
        self.digests = bytearray()
        """32 bytes a trace, in order."""

    def add(self, trace: Trace) -> None:
        """Take in a trace, whose id must be new."""
        if trace.id in self._ids:
            raise DataError(f"the trace id {trace.id!r} occurs twice in the dataset; ids must be unique", field="id")
        self._ids.add(trace.id)
        self._hash.update(f"{len(trace.id)}:{trace.id}{trace.digest}".encode())
        self.digests += bytes.fromhex(trace.digest)
        self.traces += 1
        self.chunks += len(trace.chunks)

    def hexdigest(self) -> str:
        """64 hexadecimal digits over the ids and digests in order."""
        return self._hash.hexdigest()


def shard_of(trace_id: str, count: int) -> int:
    """Return the shard of a trace, from 1 to `count`; it does not depend on other traces."""
    return int.from_bytes(hashlib.sha256(trace_id.encode("utf-8", "surrogatepass")).digest()[:8]) % count + 1


class PassageCheck:
    """Refuses traces that would be paid for if the texts of a tenth of them look like ids (see `yes_ids`)."""

    def __init__(self, reader: ReadOptions | None, spends: Callable[[], bool]) -> None:
        self._spends = spends if reader is None or not reader.yes_ids else lambda: False
        self._traces = self._without = 0

    def add(self, trace: Trace) -> None:
        """Count a trace."""
        self._traces += 1
        self._without += has_no_passage(trace)

    def check(self, name: str | None = None) -> None:
        """Check what was counted; the message names the ways out."""
        if self._without and self._without * 10 >= self._traces and self._spends():
            ways = f"name where the texts are ({option('map', {'chunks': '...'})} or {option('corpus')})"
            which = f"in {self._without} of {counted(self._traces, 'trace')} the texts of all chunks look"
            fault = f"{which} like ids or file names; {ways}, or judge these texts with {option('yes_ids')}"
            raise DataError(fault, file=name)


class WordCheck:
    """Refuses questions and references that read `nan`, as a missing value does that was turned into text."""

    def __init__(self, reader: ReadOptions | None) -> None:
        self._keep = reader is not None and reader.keep_words
        self._count = dict.fromkeys(("question", "reference"), 0)
        self._words = {what: dict[str, str]() for what in self._count}
        self._hits = dict.fromkeys(self._count, 0)

    def add(self, trace: Trace) -> None:
        """Count a trace that was read from data."""
        for what, text in (("question", trace.query), ("reference", trace.reference)):
            self._count[what] += text is not None
            if text is not None and len(text) < 10 and text.strip().casefold() in MISSING:
                self._hits[what] += 1
                self._words[what].setdefault(text.strip(), trace.id)

    def check(self, name: str | None = None) -> None:
        """Check what was counted."""
        for what, hits in self._hits.items():
            if hits and not self._keep:
                words = " or ".join(f"`{word}`" for word in self._words[what])
                first = next(iter(self._words[what].values()))
                fault = f"{hits} of {counted(self._count[what], what)} read {words}, the first in trace {first!r}"
                ways = f"leave out what is missing, or keep the words with {option('keep_words')}"
                raise DataError(f"{fault}; {ways}", file=name)


TraceCheck: TypeAlias = Callable[[Trace], None]
"""Checks a trace; raises `DataError` if it does not pass."""


async def streamed(
    data: Iterable[Any] | AsyncIterable[Any],
    check: TraceCheck,
    reader: ReadOptions | None = None,
    on_remark: OnRemark = None,
    spends: Callable[[], bool] = lambda: False,
) -> AsyncIterator[Trace]:
    """Read a stream once; a blocking iterable is read in a thread, so that calls continue meanwhile.

    Raises:
        DataError: It has no item, or an invalid one.
    """
    # The first item that is not a `Trace` decides the shape of all. Rows cannot be grouped: that needs all of them.
    if reader is not None and reader.group_by is not None:
        raise ConfigError("a stream is read row by row; to group rows (`group_by`) give a list or a frame")
    row_reader, ids, number = RowReader(reader), TraceIds("in row", on_remark), 0
    passages, words = PassageCheck(reader, spends), WordCheck(reader)
    async for item in data if isinstance(data, AsyncIterable) else _in_thread(iter(data)):
        row = record_of(item)
        of_item = row_reader.of(number, row_name(number, row=row), row)
        for trace, _ in admitted(of_item, ids, check, on_remark=on_remark):
            passages.add(trace)
            passages.check()
            if not isinstance(row, Trace):
                words.add(trace)
                words.check()
            yield trace
        number += 1
    if not number:
        raise DataError("there is no trace to judge", file="stream")
    try:
        row_reader.finish()
    except DataError as error:  # all is judged by now, and what was not found is read by no judge
        if on_remark is not None:
            on_remark(error.message, None)


async def _in_thread(items: Iterator[Any], ahead: int = 128) -> AsyncIterator[Any]:
    """Iterate over a blocking iterator in a daemon thread, at most `ahead` items in advance."""
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


class DataclassRow(Protocol):
    """A row that is a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Traces: TypeAlias = Trace | Mapping[str, Any] | str | Path | Iterable[Any] | AsyncIterable[Any] | DataclassRow
"""One trace, a file's path, or rows in memory: a pandas or Polars DataFrame, an Arrow table, a `datasets.Dataset`, or
any iterable of `Trace`s, of mappings of any known shape, or of `(query, reference, chunks)`."""

OnSkip: TypeAlias = Callable[[DataError], None] | None
"""Called with the error of a record that is skipped."""


class Replayable:
    """Traces that can be read twice: surveyed first, then judged.

    The survey reads everything once, so that an invalid record is found before any call is paid for. The data are a
    path, a URL or rows in memory. If judging may cost anything (`spends`), texts that look like ids are refused. A
    label above the `scale` of a graded judge is remarked on.
    """

    def __init__(
        self,
        data: str | Path | MemoryRows,
        check: TraceCheck,
        selection: Selection,
        claims: ClaimsFile | None,
        spends: Callable[[], bool],
        scale: Scale,
    ) -> None:
        reader = selection.reader
        self._reads: Callable[[OnRemark], Iterable[ReadRow]]
        self._path, self._memory, resources = None, None, ExitStack()
        if isinstance(data, MemoryRows):
            self._memory, self._name = data, selection.name or "traces in memory"
            # A table stays as it is; what stands in a list may be changed while a run goes on.
            kept = list(read_memory(data, reader)) if data.kind == "list" else None
            self._reads = lambda _: read_memory(data, reader) if kept is None else kept
        else:
            path = data_path(data)
            self._path = str(path)
            if isinstance(data, str) and is_url(data):
                path, self._path = resources.enter_context(local_copy(data)), public_url(data)
            else:
                path = resources.enter_context(steady(path))
            name, whole = selection.name or self._path, selection.on_invalid == "error"
            options, self._name = reader or ReadOptions(), name
            self._reads = lambda on_remark: DatasetReading(options, name).file(path, on_remark, whole=whole)
        weakref.finalize(self, resources.close)  # both readings are of one copy
        self._shard: Shard | None = None
        if selection.shard is not None:
            index, count = selection.shard
            if not 1 <= index <= count:
                raise ConfigError(f"shard {index}/{count}: write i/n with i from 1 to n")
            self._shard = Shard(index=index, count=count)
        self._check = check if claims is None else lambda trace: check(claims.fill(trace))
        self._selection, self._claims, self._spends, self._scale = selection, claims, spends, scale
        self.input: InputRows | None = None
        self._chosen: frozenset[int] | None = None
        self._digests = b""
        self._stamp: tuple[int, int] | None = None

    def survey(self, on_skip: OnSkip = None) -> Dataset:
        """Read everything once and describe the dataset."""
        skipped, remarks, how = 0, Remarks(self._place), self._selection
        self._stamp = _stamp(self._path)

        def note(error: DataError) -> None:
            nonlocal skipped
            skipped += 1
            if on_skip is not None:
                on_skip(error)

        if how.limit is not None and how.seed is not None:
            count = sum(1 for _ in self._admitted(None, None))
            chosen = random.Random(how.seed).sample(range(count), min(how.limit, count))  # noqa: S311
            self._chosen = frozenset(chosen)
        fingerprint, passages, order = Fingerprint(), PassageCheck(how.reader, self._spends), ScoreOrder()
        words, from_data = WordCheck(how.reader), self._memory is None or self._memory.is_table
        traces = chunks = 0
        places = array("q")
        for trace, row in self._taken(note, remarks.add):
            fingerprint.add(trace)
            passages.add(trace)
            order.add(trace)
            if (above := label_above(trace, self._scale)) is not None:
                remarks.add(above, row.line if row.number is None else row.number)
            if from_data:  # else somebody made a `Trace` of it
                words.add(trace)
            places.append(row.number or 0)
            if self._shard is not None and self._in_shard(trace):
                traces += 1
                chunks += len(trace.chunks)
        passages.check(self._name)
        words.check(self._name)
        self._digests = bytes(fingerprint.digests)
        grouped = how.reader is not None and how.reader.group_by is not None
        if self._memory is not None and self._memory.is_table and not grouped:  # so results can stand beside the rows
            self.input = InputRows(self._memory, places)
        return Dataset(
            name=self._name,
            path=self._path,
            digest=fingerprint.hexdigest(),
            traces=fingerprint.traces,
            chunks=fingerprint.chunks,
            skipped=skipped,
            remarks=(*remarks.sentences(), *order.sentences()),
            limit=how.limit,
            seed=how.seed,
            claims=self._claims and ClaimsOrigin(name=self._claims.name, digest=self._claims.digest),
            shard=self._shard and self._shard.replace(traces=traces, chunks=chunks),
        )

    def __iter__(self) -> Iterator[Trace]:
        return (trace for _, trace in self.numbered())

    def numbered(self) -> Iterator[tuple[int, Trace]]:
        """Read the traces to judge with their positions (from 0), if the file was not changed meanwhile."""
        stamp = self._stamp or _stamp(self._path)
        # Checked again: a record that the survey skipped must be skipped here too.
        for place, (trace, _) in enumerate(self._taken(None, None)):
            if not self._in_shard(trace):
                continue
            digest = self._digests[32 * place : 32 * place + 32]
            if digest:  # of the survey: making 100,000 again, of 10 chunks each, takes 2.5 seconds
                trace.__dict__["digest"] = digest.hex()
            yield place, trace
        if stamp != _stamp(self._path):
            raise DataError("was changed while it was read; run again", file=self._name)

    @property
    def _place(self) -> Place:
        return "on line" if self._memory is None else "in row"

    def _admitted(self, on_skip: OnSkip, on_remark: OnRemark) -> Iterator[tuple[Trace, Row]]:
        reads, ids = self._reads(on_remark), TraceIds(self._place, on_remark)
        return admitted(reads, ids, self._check, self._selection.on_invalid, on_skip, on_remark, self._name)

    def _taken(self, on_skip: OnSkip, on_remark: OnRemark) -> Iterator[tuple[Trace, Row]]:
        pairs = self._admitted(on_skip, on_remark)
        if (claims := self._claims) is not None:
            pairs = ((claims.fill(trace), row) for trace, row in pairs)
        if self._chosen is not None:
            return (pair for place, pair in enumerate(pairs) if place in self._chosen)
        return islice(pairs, self._selection.limit)

    def _in_shard(self, trace: Trace) -> bool:
        return self._shard is None or shard_of(trace.id, self._shard.count) == self._shard.index


def _stamp(path: str | None) -> tuple[int, int] | None:
    if path is None or not Path(path).exists() or is_stream(Path(path)):
        return None
    status = Path(path).stat()
    return status.st_size, status.st_mtime_ns


def replayable(
    data: Traces,
    check: TraceCheck,
    selection: Selection,
    spends: Callable[[], bool] = lambda: False,
    scale: Scale = BINARY,
) -> Replayable | None:
    """Return a source (also a folder or URL) that can be read twice; None for a stream."""
    claims = selection.claims
    if isinstance(claims, str | Path):
        claims = read_claims(claims)
    elif not isinstance(claims, ClaimsFile | None):
        raise ConfigError(f"claims must be a file's path or a `ClaimsFile`, not {type_of(claims)}")
    rows = data if isinstance(data, str | Path) else rows_in_memory(data)
    return None if rows is None else Replayable(rows, check, selection, claims, spends, scale)
