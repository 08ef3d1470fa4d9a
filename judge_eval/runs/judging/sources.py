"""From what a user has (a trace, a list, a file) to numbered traces with one digest."""

from __future__ import annotations

import random
import weakref
from array import array
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from judge_eval.data.claimfiles import ClaimsFile, read_claims
from judge_eval.data.files.opening import is_stream, steady
from judge_eval.data.ids import TraceIds
from judge_eval.data.memory import Held, InputRows, held
from judge_eval.data.options import ReadOptions
from judge_eval.data.reading import open_dataset
from judge_eval.data.remarks import OnRemark, Remarks
from judge_eval.data.remote import is_url, local_copy
from judge_eval.data.telling import tell
from judge_eval.errors import ConfigError, DataError
from judge_eval.given import check_text
from judge_eval.runs.folder.records import ClaimsOrigin, Dataset, Shard
from judge_eval.runs.judging.fingerprint import Fingerprint, shard_of
from judge_eval.runs.judging.objects import TraceCheck, admitted
from judge_eval.runs.judging.selection import Selection
from judge_eval.schema import Trace
from judge_eval.urls import public_url

Traces: TypeAlias = Trace | Mapping[str, Any] | str | Path | Iterable[Any] | AsyncIterable[Any]
"""One trace, a file's path, or rows in memory: a pandas or Polars DataFrame, an Arrow table, a
`datasets.Dataset`, or any iterable of `Trace`s, of mappings of any known shape, or of
`(query, reference, chunks)`."""

OnSkip: TypeAlias = Callable[[DataError], None] | None
"""Whom to tell of a record that is skipped."""


class Replayable:
    """Traces that can be read twice: surveyed first, then judged.

    The survey reads everything once, so that a bad record is found before anything is paid for.

    Args:
        open: Starts reading traces that passed their check.
        name: What to call the dataset.
        path: The file, where there is one.
        rows: The rows, where they are in memory.
        claims: What gives the traces their claims.
        selection: Which of the traces to judge.

    Raises:
        ConfigError: There is no such shard.
    """

    def __init__(
        self,
        open: Callable[[OnSkip, OnRemark], Iterator[Trace]],
        selection: Selection,
        *,
        name: str,
        path: str | None = None,
        rows: _Rows | None = None,
        claims: ClaimsFile | None = None,
    ) -> None:
        self._shard: Shard | None = None
        if selection.shard is not None:
            index, count = selection.shard
            if not 1 <= index <= count:
                raise ConfigError(f"shard {index}/{count}: write i/n with i from 1 to n")
            self._shard = Shard(index=index, count=count)
        self._open, self._name, self._path, self._rows = open, name, path, rows
        self._claims = claims
        self.input: InputRows | None = None
        self._limit, self._seed = selection.limit, selection.seed
        self._chosen: frozenset[int] | None = None
        self._digests = b""
        self._stamp: tuple[int, int] | None = None

    def survey(self, on_skip: OnSkip = None) -> Dataset:
        """Read everything once and tell what is there.

        Raises:
            DataError: A record is invalid or an id stands twice.
        """
        skipped, remarks = 0, Remarks("on line" if self._rows is None else "in row")
        self._stamp = _stamp(self._path)

        def note(error: DataError) -> None:
            nonlocal skipped
            skipped += 1
            if on_skip is not None:
                on_skip(error)

        if self._limit is not None and self._seed is not None:
            count = sum(1 for _ in self._open(None, None))
            chosen = random.Random(self._seed).sample(range(count), min(self._limit, count))  # noqa: S311
            self._chosen = frozenset(chosen)
        fingerprint = Fingerprint()
        traces = chunks = 0
        places = array("q")
        for trace in self._taken(note, remarks.add):
            fingerprint.add(trace)
            if self._rows is not None:
                places.append(self._rows.place)
            if self._shard is not None and self._in_shard(trace):
                traces += 1
                chunks += len(trace.chunks)
        self._digests = bytes(fingerprint.digests)
        if self._rows is not None and self._rows.stand_alone:
            self.input = InputRows(self._rows.held, places)
        return Dataset(
            name=self._name,
            path=self._path,
            digest=fingerprint.hexdigest(),
            traces=fingerprint.traces,
            chunks=fingerprint.chunks,
            skipped=skipped,
            remarks=remarks.told(),
            limit=self._limit,
            seed=self._seed,
            claims=self._claims and ClaimsOrigin(name=self._claims.name, digest=self._claims.digest),
            shard=self._shard and self._shard.model_copy(update={"traces": traces, "chunks": chunks}),
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
        for place, trace in enumerate(self._taken(None, None)):
            if not self._in_shard(trace):
                continue
            digest = self._digests[32 * place : 32 * place + 32]
            if digest:  # of the survey: making 100,000 again, of 10 chunks each, takes 2.5 seconds
                trace.__dict__["digest"] = digest.hex()
            yield place, trace
        if stamp != _stamp(self._path):
            raise DataError("was changed while it was read; run again", file=self._name)

    def _taken(self, on_skip: OnSkip, on_remark: OnRemark) -> Iterator[Trace]:
        traces = self._open(on_skip, on_remark)
        if self._claims is not None:
            traces = map(self._claims.fill, traces)
        if self._chosen is not None:
            return (trace for place, trace in enumerate(traces) if place in self._chosen)
        return islice(traces, self._limit)

    def _in_shard(self, trace: Trace) -> bool:
        return self._shard is None or shard_of(trace.id, self._shard.count) == self._shard.index


def _stamp(path: str | None) -> tuple[int, int] | None:
    """Tell a file's size and time of change; None where there is no file."""
    if path is None or not Path(path).exists() or is_stream(Path(path)):
        return None
    status = Path(path).stat()
    return status.st_size, status.st_mtime_ns


def replayable(data: Traces, check: TraceCheck, selection: Selection) -> Replayable | None:
    """Make a source that can be read twice; None where the data are a stream that can be read only once.

    Args:
        data: The traces, whatever they are in (see `Traces`), a folder or the URL of a file too.
        check: What every trace must pass.
        selection: Which of them to take, and how a file is to be read.

    Raises:
        ConfigError: There is no such shard.
        DataError: The data hold no rows, or the shape of the rows cannot be told; or the file of claims
            cannot be read.
    """
    claims = selection.claims
    if isinstance(claims, str | Path):
        claims = read_claims(claims)
    if claims is not None:
        check = _checking_filled(check, claims)
    if isinstance(data, str | Path):
        return _file(data, check, selection, claims)
    found = held(data)
    if found is None:
        return None
    rows = _Rows(found, check, selection)
    name = selection.name or "traces in memory"
    return Replayable(rows.open, selection, name=name, rows=rows, claims=claims)


def _checking_filled(check: TraceCheck, claims: ClaimsFile) -> TraceCheck:
    """Return a check of traces as they are when they have their claims; one that has none does not pass."""
    return lambda trace: check(claims.fill(trace))


class _Rows:
    """Rows in memory, to be opened again and again."""

    def __init__(self, rows: Held, check: TraceCheck, selection: Selection) -> None:
        self.held, self._check, self._selection = rows, check, selection
        # A table stays as it is; what stands in a list may be changed while a run goes on.
        self._kept = list(tell(rows, selection.reader)) if rows.kind == "list" else None
        self.place = -1
        """Of the row whose trace came last."""

    @property
    def stand_alone(self) -> bool:
        """Whether results can stand beside the rows: they have columns, and none is a part of a trace."""
        reader = self._selection.reader
        return self.held.is_table and (reader is None or reader.group_by is None)

    def open(self, on_skip: OnSkip, on_remark: OnRemark) -> Iterator[Trace]:
        """Yield the traces that pass their check."""
        ids = TraceIds("in row", on_remark)
        for told in self._kept if self._kept is not None else tell(self.held, self._selection.reader):
            try:
                trace = admitted(told, self._check, ids)
            except DataError as error:
                if self._selection.on_invalid == "error":
                    raise
                if on_skip is not None:
                    on_skip(error)
                continue
            told.say(on_remark)
            self.place = told.number
            yield trace


def _file(data: str | Path, check: TraceCheck, selection: Selection, claims: ClaimsFile | None) -> Replayable:
    held = ExitStack()
    path, shown, name = Path(data), str(Path(data)), selection.name
    check_text("data", shown)
    if isinstance(data, str) and is_url(data):
        path, shown = held.enter_context(local_copy(data)), public_url(data)
        name = name or shown
    else:
        path = held.enter_context(steady(path))

    def open_file(on_skip: OnSkip, on_remark: OnRemark) -> Iterator[Trace]:
        return open_dataset(
            path,
            selection.reader or ReadOptions(),
            name=name,
            check=check,
            on_invalid=selection.on_invalid,
            on_skip=on_skip,
            on_remark=on_remark,
        )

    source = Replayable(open_file, selection, name=name or shown, path=shown, claims=claims)
    weakref.finalize(source, held.close)  # both readings are of one copy
    return source
