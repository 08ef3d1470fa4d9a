"""The one way into a dataset, whatever its container, shape or tool: files, and rows in memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, Unpack

from judge_eval.data import catalog, collection
from judge_eval.data.collection import Corpus, load_corpus
from judge_eval.data.files.containers import kind_of, rows
from judge_eval.data.files.jsonfile import walk
from judge_eval.data.files.jsonl import mend, read_jsonl
from judge_eval.data.files.opening import steady
from judge_eval.data.files.tables import Row
from judge_eval.data.files.values import as_list, side_by_side, worded
from judge_eval.data.mapping import Naming, grouped
from judge_eval.data.memory import MemoryRows, no_row
from judge_eval.data.options import ReadKeywords, ReadOptions
from judge_eval.data.remarks import OnRemark, TraceIds
from judge_eval.data.shapes.chunks import chunk_data, looks_ours
from judge_eval.data.shapes.shape import PLACE, REMARKS, Shape
from judge_eval.errors import ConfigError, DataError
from judge_eval.record import TOO_DEEP
from judge_eval.schema import Trace, check_limits
from judge_eval.settings import of_keywords, with_keywords
from judge_eval.spelling import option

SAMPLE = 20
"""How many records are looked at to tell the shape."""


@with_keywords(ReadOptions)
def open_dataset(
    path: Path | str,
    reader: ReadOptions | None = None,
    *,
    name: str | None = None,
    check: Callable[[Trace], None] | None = None,
    on_invalid: Literal["error", "skip"] = "error",
    on_skip: Callable[[DataError], None] | None = None,
    on_remark: OnRemark = None,
    **options: Unpack[ReadKeywords],
) -> Iterator[Trace]:
    """Read traces from a file or folder of any known format, one by one.

    Records are streamed, in JSON those of a list (also of one inside objects); a corpus, a table written by
    columns and rows to be grouped are held in memory. A trace without an id of its own that equals an earlier
    one is given a numbered id.

    Args:
        path: A file of records, a TREC run, or a folder with a collection.
        reader: How it is to be read; or give the keywords below.
        name: What to call the file in messages; its path by default.
        check: Called with each trace; a `DataError` it raises is given the file and line.
        on_invalid: Whether an invalid record ends the reading or is skipped; one whose id stands earlier is
            invalid too.
        on_skip: Called with the error of each record that is skipped.
        on_remark: Called with what is worth knowing of a record, and its line.
        options: The fields of `ReadOptions`, in place of `reader`.

    Raises:
        DataError: The file cannot be read, its format cannot be told, or a record is invalid under
            `on_invalid="error"`.
        ConfigError: An option does not fit; `UnknownNameError` where a format does not exist.
    """
    path = Path(path)
    if reader is not None and options:
        raise ConfigError(f"give `reader` or {', '.join(options)}, not both")
    chosen = reader if reader is not None else of_keywords(ReadOptions, options, "reading")
    ids = TraceIds("on line", on_remark)

    def admit(trace: Trace, line: int | None) -> Trace:
        if check is not None:
            check(trace)
        return ids.admit(trace, line)

    return DatasetReading(chosen, name or str(path), on_invalid, on_skip, on_remark, admit, path).traces()


@dataclass
class DatasetReading:
    """One pass over a file or rows in memory; most fields are arguments of `open_dataset`."""

    _options: ReadOptions
    _name: str
    _on_invalid: Literal["error", "skip"]
    _on_skip: Callable[[DataError], None] | None
    _on_remark: OnRemark
    _admit: Callable[[Trace, int | None], Trace] | None = None
    """Called with each trace and its line; returns it, perhaps under another id, or raises `DataError`."""
    _path: Path = Path()
    _corpus: Corpus | None = None

    def __post_init__(self) -> None:
        options = self._options
        self.naming = Naming(options, self._name)
        if options.format is not None and options.format not in collection.FORMATS:
            catalog.find_shape(options.format)

    def traces(self) -> Iterator[Trace]:
        """Yield the traces."""
        with steady(self._path) as self._path:
            yield from self._traces()

    def _traces(self) -> Iterator[Trace]:
        options = self._options
        parts = collection.find_parts(self._path, options.corpus, options.format)
        if parts is not None:
            queries = collection.traces(parts, options.format == collection.JUDGED, options.depth, options.relevant)
            for data in queries:
                if isinstance(data, DataError):
                    self._refuse(data, Row(data))
                    continue
                yield from self._made(iter([data]), Row(data, None, f"query {data['id']!r}"), joined=True)
            return
        self._see_no_collection()
        if options.format is None:
            collection.refuse_judgments(self._path, self._name)
        kind = kind_of(self._path, self._name)
        all_rows = rows(self._path, kind, self._name, self._fits, options.records)
        if options.group_by is not None:
            all_rows = self.grouped(all_rows)
        head = list(islice(all_rows, SAMPLE))
        sample = read_records(head)
        shape = self.begin(sample)
        if kind == "jsonl" and shape is catalog.OURS and self._is_plain(sample):
            yield from read_jsonl(
                self._path, name=self._name, admit=self._admit, on_invalid=self._on_invalid, on_skip=self._on_skip
            )
            return
        yield from self._read(shape, chain(head, all_rows))
        self.naming.finish()

    def grouped(self, all_rows: Iterable[Row]) -> Iterator[Row]:
        """Make a row for each trace of rows that hold a chunk each."""
        source_rows = iter(all_rows)
        first = list(islice(source_rows, SAMPLE))
        self.naming.check(read_records(first))
        return grouped(chain(first, source_rows), self._options, self.naming)

    def begin(self, sample: Sequence[Mapping[str, Any]]) -> Shape:
        """Tell the shape of the first records, and load the corpus where there is one."""
        self._see_no_collection()
        shape = self._shape(sample)
        if self._options.corpus is not None:
            self._corpus = load_corpus(self._options.corpus)
        return shape

    def _see_no_collection(self) -> None:
        if self._options.format in collection.FORMATS:
            fault = f"not a collection ({self._options.format}); give its folder or its TREC run"
            raise DataError(fault, file=self._name)

    def _fits(self, record: Mapping[str, Any]) -> bool:
        if self._options.group_by is not None:
            return self._options.group_by in record
        return self.naming.holds(record) or catalog.any_fits(self.naming.record(record))

    def _shape(self, sample: Sequence[Mapping[str, Any]]) -> Shape:
        options = self._options
        if options.group_by is not None:
            return catalog.OURS
        self.naming.check(sample)
        if options.format is not None:
            return catalog.find_shape(options.format)
        if not sample or {"query", "chunks"} <= self.naming.fields.keys():
            return catalog.OURS
        renamed = [self.naming.record(record) for record in sample]
        if self.naming.fields and not catalog.fitting(renamed):
            # What is mapped may stand in for what the shape is known by.
            known = catalog.fitting(sample)
            if len(known) == 1:
                return known[0]
        shape = catalog.choose_shape(renamed, self._name, self._on_remark)
        if "chunks" not in self.naming.fields and shape is not catalog.OURS:
            catalog.check_one_list(sample, shape, self._name)
        return shape

    def _is_plain(self, sample: Sequence[Mapping[str, Any]]) -> bool:
        options = self._options
        if (
            options.map
            or options.origin
            or (options.corpus, options.depth, options.records, options.group_by) != (None,) * 4
        ):
            return False
        lists = [record.get("chunks") for record in sample]
        return all(looks_ours(chunk) for chunks in lists if isinstance(chunks, list) for chunk in chunks)

    def _read(self, shape: Shape, all_rows: Iterator[Row]) -> Iterator[Trace]:
        records = made = 0
        for row in all_rows:
            records += 1
            for trace in self.of(row, shape):
                made += 1
                yield trace
        if records and not made and self._on_invalid == "error":
            raise nothing_in(records, shape, self._name)

    def of(self, row: Row, shape: Shape) -> Iterator[Trace]:
        """Yield the traces of one record."""
        as_given = self._options.group_by is not None
        try:
            record = row.get() if as_given else self.naming.prepared(row.get(), shape)
            traces = iter(shape.read(record))
        except DataError as error:
            self._refuse(error, row)
            return
        yield from self._made(traces, row, record=None if as_given else record)

    def _made(
        self,
        traces: Iterator[dict[str, Any]],
        row: Row,
        *,
        record: Mapping[str, Any] | None = None,
        joined: bool = False,
    ) -> Iterator[Trace]:
        while True:
            try:
                place = ""
                data = next(traces, None)
                if data is None:
                    return
                place = data.pop(PLACE, "")
                for ours in self.naming.fields if record is not None else ():
                    if record is not None and ours in record:
                        data[ours] = record[ours]
                remarks = data.pop(REMARKS, ())
                if remarks and not data:  # the record is not a retrieval
                    self._pass(remarks, row)
                    continue
                if not joined and data.get("chunks") is not None:
                    data["chunks"] = self._chunks(data["chunks"])
                if self._options.origin and isinstance(own := data.get("origin") or {}, Mapping):
                    data["origin"] = {**self._options.origin, **own}
                trace = Trace.parse(worded(mend(data)))
                if self._admit is not None:
                    trace = self._admit(trace, row.line)
                self._pass(remarks, row)
            except DataError as error:
                self._refuse(error, row, place)
                continue
            except RecursionError:
                self._refuse(DataError(TOO_DEEP), row)
                continue
            yield trace

    def _pass(self, remarks: Iterable[str], row: Row) -> None:
        if self._on_remark is not None:
            for remark in remarks:
                self._on_remark(remark, row.line)

    def _chunks(self, value: Any) -> list[dict[str, Any]]:
        out = []
        for place, item in enumerate(as_list(side_by_side(value), "chunks")[: self._options.depth]):
            where = f"chunks[{place}]"
            if isinstance(item, str) and self._corpus is not None:
                item = {"id": item}  # with a corpus, what stands in a list is an id
            chunk = chunk_data(self.naming.chunk(item, where), where)
            if "text" not in chunk:
                if self._corpus is None:
                    raise DataError(
                        f"brings an id but no text; give {option('corpus')}, where the texts are", field=where
                    )
                chunk = self._corpus.join(chunk, where)
            out.append(chunk)
        return out

    def _refuse(self, error: DataError, row: Row, place: str = "") -> None:
        if error.file is None:
            where = ".".join(part for part in (row.prefix, place, error.field) if part) or None
            error = error.at(file=row.holder or self._name, line=row.line, field=where)
        if self._on_invalid == "error":
            raise error from None
        if self._on_skip is not None:
            self._on_skip(error)


def read_records(rows: Iterable[Row]) -> list[Mapping[str, Any]]:
    """Return the data of the rows that could be read."""
    return [row.data for row in rows if not isinstance(row.data, DataError)]


def nothing_in(records: int, shape: Shape, name: str) -> DataError:
    """Make the error for records of a known shape none of which holds a retrieval."""
    return DataError(f"{records} records of the format {shape.name}, but no retrieval in them", file=name)


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
