"""Reads the traces in rows in memory, by the shapes of files."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from judge_eval.data import catalog
from judge_eval.data.files.jsonfile import walk
from judge_eval.data.files.tables import Row
from judge_eval.data.memory import MemoryRows, no_row
from judge_eval.data.options import ReadOptions
from judge_eval.data.reading import SAMPLE, DatasetReading, nothing_in, read_records
from judge_eval.data.remarks import OnRemark
from judge_eval.data.shapes.shape import Shape
from judge_eval.errors import ConfigError, DataError
from judge_eval.schema import Trace, check_limits
from judge_eval.spelling import option


@dataclass(frozen=True, slots=True)
class ReadRow:
    """A trace that was read from a row, or the error."""

    outcome: Trace | DataError
    """The trace, or the error if the row has none."""
    number: int
    """Which row it is, counted from 0; of rows that were grouped the first."""
    name: str
    """What the row is called in messages."""
    remarks: tuple[str, ...] = ()
    """What is worth knowing of it."""

    def pass_remarks(self, on_remark: OnRemark) -> None:
        """Pass the remarks on."""
        if on_remark is not None:
            for remark in self.remarks:
                on_remark(remark, self.number)


class RowReader:
    """Reads traces row by row; the first rows decide which shape all have."""

    def __init__(self, options: ReadOptions | None) -> None:
        self._options = options or ReadOptions()
        self._faults: list[DataError] = []
        self._remarks: list[str] = []
        note = self._remarks.append
        self._reading = DatasetReading(
            self._options, "", "skip", self._faults.append, lambda sentence, _: note(sentence)
        )
        self.shape: Shape | None = None

    def rows(self, number: int, name: str, value: Any) -> Iterator[Row]:
        """Yield the records in what is given as a row: one, or those that stand where the options say."""
        if isinstance(value, Trace):
            raise _read_already()
        if not isinstance(value, Mapping):
            yield Row(no_row(value), holder=name, number=number)
        elif (wanted := self._options.records) is None:
            yield Row(value, holder=name, number=number)
        else:
            inner = list(walk(value, wanted))
            if not inner and wanted.partition(".")[0].removesuffix("[]") not in value:
                fault = DataError(f"{option('records', wanted)}: no list stands there")
                yield Row(fault, holder=name, number=number)
            for item, place in inner:
                data = item if isinstance(item, Mapping) else no_row(item)
                yield Row(data, prefix=place, holder=name, number=number)

    def begin(self, rows: list[Row]) -> None:
        """Let the first rows say which shape all have."""
        if self.shape is not None or not (records := read_records(rows)):
            return
        try:
            self.shape = self._reading.begin(records) if any(records) else catalog.OURS
        except DataError as error:
            first = "the first row" if len(records) == 1 else f"the first {len(records)} rows"
            raise error.at(file=error.file or first) from None

    def grouped(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Make a row for each trace of rows that hold a chunk each, all of which are held in memory."""
        try:
            yield from self._reading.grouped(rows)
        except DataError as error:
            raise error.at(file=error.file or "the first rows") from None

    def of(self, number: int, name: str, value: Any) -> Iterator[ReadRow]:
        """Yield the traces in a row, and what is wrong with it, each fault with the row's name."""
        if isinstance(value, Trace):
            yield ReadRow(self._trace(name, value), number, name)
            return
        for row in self.rows(number, name, value):
            yield from self.read(row)

    def read(self, row: Row) -> Iterator[ReadRow]:
        """Yield the traces in a record, and what is wrong with it."""
        self.begin([row])
        number = row.number or 0
        for trace in self._reading.of(row, self.shape or catalog.OURS):
            yield from self._wrong(number, row.holder)
            remarks = tuple(self._remarks)
            self._remarks.clear()
            yield ReadRow(trace, number, row.holder, remarks)
        yield from self._wrong(number, row.holder)

    def finish(self) -> None:
        """See at the end that what is mapped inside chunks was found."""
        self._reading.naming.finish()

    def _trace(self, name: str, trace: Trace) -> Trace | DataError:
        options = self._options
        reading = (options.format, options.map, options.corpus, options.list_sep, options.records)
        if self.shape is None and any(reading):
            raise _read_already()
        if options.depth is not None and len(trace.chunks) > options.depth:
            trace = trace.but(chunks=trace.chunks[: options.depth])
            trace.__dict__.pop("digest", None)  # of all its chunks
        if options.origin:
            trace = trace.but(origin={**options.origin, **trace.origin})
        try:
            check_limits(trace)  # it may have been copied, or its metadata filled, since it was made
        except ValueError as error:
            return DataError(str(error), file=name)
        return trace

    def _wrong(self, number: int, name: str) -> list[ReadRow]:
        faults = [ReadRow(error, number, name) for error in self._faults]
        self._faults.clear()
        return faults


def read_memory(rows: MemoryRows, options: ReadOptions | None = None) -> Iterator[ReadRow]:
    """Yield what rows hold."""
    reader = RowReader(options)
    named = enumerate(rows.rows())
    if options is not None and options.group_by is not None:
        records = (row for number, (name, value) in named for row in reader.rows(number, name, value))
        yield from chain.from_iterable(map(reader.read, reader.grouped(records)))
        reader.finish()
        return
    head = list(islice(named, SAMPLE))
    mappings = [(number, *row) for number, row in head if isinstance(row[1], Mapping)]
    reader.begin([row for mapping in mappings for row in reader.rows(*mapping)])
    number, any_read = -1, False
    for number, (name, value) in chain(head, named):
        for read in reader.of(number, name, value):
            any_read = True
            yield read
    if reader.shape is not None and not any_read:
        raise nothing_in(number + 1, reader.shape, "")
    reader.finish()


def _read_already() -> ConfigError:
    return ConfigError(
        "`reader` says how rows are read, and these are traces already; give no more than `depth` and `origin`"
    )
