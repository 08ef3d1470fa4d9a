"""The one way into a dataset, whatever its container, shape or tool: files, and rows in memory."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack
from urllib.parse import parse_qsl, unquote

from judge_eval.data import catalog, collection
from judge_eval.data.collection import Corpus, load_corpus
from judge_eval.data.files.containers import kind_of, rows
from judge_eval.data.files.jsonfile import walk
from judge_eval.data.files.jsonl import mend
from judge_eval.data.files.opening import steady
from judge_eval.data.files.recorded_conversation import RecordWithHistory
from judge_eval.data.files.tables import Row
from judge_eval.data.files.values import Mapped, as_list, side_by_side, worded
from judge_eval.data.mapping import Naming, grouped
from judge_eval.data.memory import MemoryRows, no_row
from judge_eval.data.options import ReadKeywords, ReadOptions
from judge_eval.data.remarks import OnRemark, TraceIds
from judge_eval.data.shapes.chunks import chunk_data
from judge_eval.data.shapes.shape import PLACE, REMARKS, Shape
from judge_eval.errors import ConfigError, DataError, mask
from judge_eval.installed import import_extra
from judge_eval.record import TOO_DEEP
from judge_eval.safe_text import public_url, reads_one_way
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

    Records are streamed; a JSON file, a corpus and rows to be grouped are held in memory. A trace without an id of
    its own that equals an earlier one is given a numbered id.

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
    if reader is not None and options:
        raise ConfigError(f"give `reader` or {', '.join(options)}, not both")
    chosen = reader if reader is not None else of_keywords(ReadOptions, options, "reading")
    reading, ids = DatasetReading(chosen, name or str(path)), TraceIds("on line", on_remark)

    reads = reading.file(Path(path), on_remark, whole=on_invalid == "error")
    return (trace for trace, _ in admitted(reads, ids, check, on_invalid, on_skip, on_remark, reading.name))


class ReadRow(NamedTuple):
    """A trace that was read from a record, or the error."""

    outcome: Trace | DataError | None
    """The trace, or the error if the record has none; None of a record that is not a retrieval."""
    row: Row
    """What it was read from."""
    place: str = ""
    """Where the trace stands in the record, for messages."""
    remarks: tuple[str, ...] = ()
    """What is worth knowing of it."""


def admitted(
    reads: Iterable[ReadRow],
    ids: TraceIds,
    check: Callable[[Trace], None] | None = None,
    on_invalid: Literal["error", "skip"] = "error",
    on_skip: Callable[[DataError], None] | None = None,
    on_remark: OnRemark = None,
    name: str = "",
) -> Iterator[tuple[Trace, Row]]:
    """Yield the traces that pass the check, each under an id of its own; arguments as of `open_dataset`."""
    for outcome, row, place, remarks in reads:
        number = row.line if row.number is None else row.number
        try:
            if isinstance(outcome, DataError):
                raise outcome
            if outcome is not None:
                if check is not None:
                    check(outcome)
                outcome = ids.admit(outcome, number)
        except DataError as error:
            fault = placed(error, name, row, place)
            if on_invalid == "error":
                raise fault from None
            if on_skip is not None:
                on_skip(fault)
            continue
        if on_remark is not None:
            for remark in remarks:
                on_remark(remark, number)
        if outcome is not None:
            yield outcome, row


def placed(error: DataError, name: str, row: Row, place: str = "") -> DataError:
    """Return an error with the place of its record, unless it names a file; `name` is that of the file."""
    if error.file is not None:
        return error
    where = ".".join(part for part in (row.prefix, place, error.field) if part) or None
    return error.at(file=row.holder or name, line=row.line, field=where)


@dataclass
class DatasetReading:
    """One pass over a file or rows in memory, which messages call `name`."""

    options: ReadOptions
    name: str
    _corpus: Corpus | None = None

    @cached_property
    def naming(self) -> Naming:
        """What the user called our fields."""
        return Naming(self.options, self.name)

    def __post_init__(self) -> None:
        if self.options.format is not None and self.options.format not in collection.FORMATS:
            catalog.find_shape(self.options.format)

    def file(self, path: Path, on_remark: OnRemark, *, whole: bool) -> Iterator[ReadRow]:
        """Yield what a file holds; `whole`: it is an error if there is no retrieval in it."""
        with steady(path) as plain:
            yield from self._file(plain, on_remark, whole)

    def _file(self, path: Path, on_remark: OnRemark, whole: bool) -> Iterator[ReadRow]:
        options = self.options
        parts = collection.find_parts(path, options.corpus, options.format)
        if parts is not None:
            queries = collection.traces(parts, options.format == collection.JUDGED, options.depth, options.relevant)
            for data in queries:
                if isinstance(data, DataError):
                    yield ReadRow(data, Row(data))
                else:
                    yield from self._made(iter([data]), Row(data, None, f"query {data['id']!r}"), joined=True)
            return
        self._see_no_collection()
        if options.format is None:
            collection.refuse_judgments(path, self.name)
        kind = kind_of(path, self.name)

        def every_row() -> Iterator[Row]:
            return rows(path, kind, self.name, self._fits, options.records)

        all_rows = every_row()
        if options.group_by is not None:
            all_rows = self.grouped(all_rows)
        head = list(islice(all_rows, SAMPLE))
        sample = list(records_in(head))
        shape = beside(self.begin(sample, on_remark), sample, every_row)
        records = retrievals = 0
        for row in chain(head, all_rows):
            records += 1
            for read in self.of(row, shape):
                retrievals += isinstance(read.outcome, Trace)
                yield read
        if records and not retrievals and whole:
            raise nothing_in(records, shape, self.name)
        self.naming.finish()

    def grouped(self, all_rows: Iterable[Row]) -> Iterator[Row]:
        """Make a row for each trace of rows that hold a chunk each."""
        source_rows = iter(all_rows)
        first = list(islice(source_rows, SAMPLE))
        self.naming.check(list(records_in(first)))
        return grouped(chain(first, source_rows), self.options, self.naming)

    def begin(self, sample: Sequence[Mapping[str, Any]], on_remark: OnRemark) -> Shape:
        """Tell the shape of the first records, and load the corpus where there is one."""
        self._see_no_collection()
        shape = self._shape(sample, on_remark)
        if self.options.corpus is not None:
            self._corpus = load_corpus(self.options.corpus)
        return shape

    def _see_no_collection(self) -> None:
        if self.options.format in collection.FORMATS:
            fault = f"not a collection ({self.options.format}); give its folder or its TREC run"
            raise DataError(fault, file=self.name)

    def _fits(self, record: Mapping[str, Any]) -> bool:
        if self.options.group_by is not None:
            return self.options.group_by in record
        return self.naming.holds(record) or catalog.any_fits(self.naming.record(record))

    def _shape(self, sample: Sequence[Mapping[str, Any]], on_remark: OnRemark) -> Shape:
        options = self.options
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
        shape = catalog.choose_shape(renamed, self.name, on_remark)
        if "chunks" not in self.naming.fields and shape is not catalog.OURS:
            catalog.check_one_list(sample, shape, self.name, by_id=options.corpus is not None)
        return shape

    def of(self, row: Row, shape: Shape) -> Iterator[ReadRow]:
        """Yield the traces of one record, or what is wrong with it."""
        as_given = self.options.group_by is not None
        try:
            given = row.get()
            record, remarks, _ = RecordWithHistory(given) if as_given else self.naming.prepared(given, shape)
            traces = iter(shape.read(record))
        except DataError as error:
            yield ReadRow(placed(error, self.name, row), row)
            return
        for read in self._made(traces, row, {} if as_given else record):
            yield read._replace(remarks=(*remarks, *read.remarks))

    def _made(
        self, traces: Iterator[dict[str, Any]], row: Row, record: Mapping[str, Any] = {}, *, joined: bool = False
    ) -> Iterator[ReadRow]:
        while True:
            place, remarks = "", tuple[str, ...]()
            outcome: Trace | DataError | None = None
            try:
                data = next(traces, None)
                if data is None:
                    return
                place = data.pop(PLACE, "")
                mapped = record.fields if isinstance(record, Mapped) else ()
                data |= {ours: record[ours] for ours in mapped if ours in record}
                remarks = tuple(data.pop(REMARKS, ()))
                if data or not remarks:  # else the record is not a retrieval
                    if not joined and data.get("chunks") is not None:
                        data["chunks"] = self._chunks(data["chunks"])
                    if self.options.origin and isinstance(own := data.get("origin") or {}, Mapping):
                        data["origin"] = {**self.options.origin, **own}
                    outcome = Trace.parse(worded(mend(data)))
            except DataError as error:
                outcome, remarks = placed(error, self.name, row, place), ()
            except RecursionError:
                outcome, remarks = placed(DataError(TOO_DEEP), self.name, row), ()
            yield ReadRow(outcome, row, place, remarks)

    def _chunks(self, value: Any) -> list[dict[str, Any]]:
        out = []
        for place, item in enumerate(as_list(side_by_side(value), "chunks")[: self.options.depth]):
            where = f"chunks[{place}]"
            if isinstance(item, str) and self._corpus is not None:
                item = {"id": item}  # with a corpus, what stands in a list is an id
            chunk = chunk_data(self.naming.chunk(item, where), where)
            if "text" not in chunk:
                if self._corpus is None:
                    named = option("map", {"chunks.text": "..."})
                    fault = f"has an id but no text; give {option('corpus')}, where the texts are, or name their key"
                    raise DataError(f"{fault} ({named})", field=where)
                chunk = self._corpus.join(chunk, where)
            out.append(chunk)
        return out


def beside(shape: Shape, sample: Iterable[Mapping[str, Any]], every_row: Callable[[], Iterable[Row]]) -> Shape:
    """Return the shape with a reading that knows all records, if these records need each other."""
    read = shape.beside and shape.beside(sample, lambda: records_in(every_row()))
    return replace(shape, read=read) if read else shape


def records_in(rows: Iterable[Row]) -> Iterator[Mapping[str, Any]]:
    """Yield the data of the rows that can be read."""
    return (row.data for row in rows if not isinstance(row.data, DataError))


def nothing_in(records: int, shape: Shape, name: str) -> DataError:
    """Make the error for records of a known shape none of which holds a retrieval."""
    return DataError(f"{records} records of the format {shape.name}, but no retrieval in them", file=name)


class RowReader:
    """Reads traces row by row; the first rows decide which shape all have."""

    def __init__(self, options: ReadOptions | None) -> None:
        self.options = options or ReadOptions()
        self._remarks: list[str] = []
        """Those that go with the next trace."""
        self._reading = DatasetReading(self.options, "")
        self.shape: Shape | None = None

    def rows(self, number: int, name: str, value: Any) -> Iterator[Row]:
        """Yield the records in what is given as a row: one, or those that stand where the options say."""
        if isinstance(value, Trace):
            raise _read_already()
        if not isinstance(value, Mapping):
            yield Row(no_row(value), holder=name, number=number)
        elif (wanted := self.options.records) is None:
            yield Row(value, holder=name, number=number)
        else:
            inner = list(walk(value, wanted))
            if not inner and wanted.partition(".")[0].removesuffix("[]") not in value:
                fault = DataError(f"{option('records', wanted)}: there is no list there")
                yield Row(fault, holder=name, number=number)
            for item, place in inner:
                data = item if isinstance(item, Mapping | DataError) else no_row(item)
                yield Row(data, prefix=place, holder=name, number=number)

    def begin(self, rows: list[Row], every: MemoryRows | None = None) -> None:
        """Let the first rows say which shape all have; `every`: all rows, if they can be gone through."""
        if self.shape is not None or not (records := list(records_in(rows))):
            return
        try:
            self.shape = self._reading.begin(records, self._note) if any(records) else catalog.OURS
        except DataError as error:
            first = "the first row" if len(records) == 1 else f"the first {len(records)} rows"
            raise error.at(file=error.file or first) from None
        if every is not None:

            def every_row() -> Iterator[Row]:
                named = ((number, *row) for number, row in enumerate(every.rows()) if isinstance(row[1], Mapping))
                return chain.from_iterable(self.rows(*each) for each in named)

            self.shape = beside(self.shape, records, every_row)

    def grouped(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Make a row for each trace of rows that hold a chunk each, all of which are held in memory."""
        try:
            yield from self._reading.grouped(rows)
        except DataError as error:
            raise error.at(file=error.file or "the first rows") from None

    def of(self, number: int, name: str, value: Any) -> Iterator[ReadRow]:
        """Yield the traces in a row, and what is wrong with it, each fault with the row's name."""
        if isinstance(value, Trace):
            yield ReadRow(self._trace(name, value), Row({}, holder=name, number=number))
            return
        for row in self.rows(number, name, value):
            yield from self.read(row)

    def read(self, row: Row) -> Iterator[ReadRow]:
        """Yield the traces in a record, and what is wrong with it."""
        self.begin([row])
        for read in self._reading.of(row, self.shape or catalog.OURS):
            self._remarks += read.remarks
            if isinstance(read.outcome, Trace):
                yield read._replace(remarks=tuple(self._remarks))
                self._remarks.clear()
            elif read.outcome is not None:
                yield read

    def _note(self, sentence: str, _: int | None) -> None:
        self._remarks.append(sentence)

    def finish(self) -> None:
        """See at the end that what is mapped inside chunks was found."""
        if self.options.map:
            self._reading.naming.finish()

    def _trace(self, name: str, trace: Trace) -> Trace | DataError:
        options = self.options
        reading = (options.format, options.map, options.corpus, options.list_sep, options.records)
        if self.shape is None and any(reading):
            raise _read_already()
        if options.depth is not None and len(trace.chunks) > options.depth:
            trace = trace.replace(chunks=trace.chunks[: options.depth])
            trace.__dict__.pop("digest", None)  # of all its chunks
        if options.origin:
            trace = trace.replace(origin={**options.origin, **trace.origin})
        try:
            check_limits(trace)  # it may have been copied, or its metadata filled, since it was made
        except ValueError as error:
            return DataError(str(error), file=name)
        return trace


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
    reader.begin([row for mapping in mappings for row in reader.rows(*mapping)], rows)
    number, any_read = -1, False
    for number, (name, value) in chain(head, named):
        for read in reader.of(number, name, value):
            any_read = True
            yield read
    if reader.shape is not None and not any_read:
        raise nothing_in(number + 1, reader.shape, "")
    reader.finish()


def _read_already() -> ConfigError:
    return ConfigError("the data are traces already, so of `reader` only `depth` and `origin` apply")


_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+(::|://)")


def is_url(name: object) -> bool:
    """Tell whether a name is the URL of something that fsspec reads, such as `s3://bucket/traces.jsonl`."""
    return isinstance(name, str) and _URL.match(name) is not None


def file_system(url: str) -> tuple[Any, str]:
    """Open what a URL lies in: a file system of fsspec, and the path there."""
    (fsspec,) = import_extra(f"{public_url(url)} needs fsspec", "fsspec", "fsspec")
    try:
        place: tuple[Any, str] = fsspec.core.url_to_fs(url)
    except Exception as error:  # some file systems connect when they are made
        raise ConfigError(f"{public_url(url)} cannot be opened: {error_text(error, url)}") from None
    return place


def error_text(error: Exception, url: str) -> str:
    """Return what an error says, in one line, without what the URL keeps secret."""
    if not reads_one_way(url):  # each reader takes another part of it for the password, and may quote it
        return type(error).__name__
    text = " ".join(str(error).split()) or type(error).__name__
    userinfo, at, _ = url.partition("://")[2].rpartition("@")
    password = userinfo.partition(":")[2] if at else ""
    query = url.partition("?")[2].partition("#")[0]
    values = [value for _, value in parse_qsl(query) if len(value) > 3]
    return mask(text.replace(url, public_url(url)), (password, unquote(password), query, *values))


@contextmanager
def local_copy(url: str) -> Iterator[Path]:
    """Bring a file behind a URL to this machine, and remove it afterwards; its suffix stays."""
    system, path = file_system(url)
    name = path.rstrip("/").rpartition("/")[2] or "data"
    with tempfile.TemporaryDirectory(prefix="judge_eval-") as folder:
        target = Path(folder) / name
        try:
            with system.open(path, "rb") as source, target.open("wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
        except Exception as error:  # each file system has errors of its own, without a common base
            raise DataError(f"cannot be read: {error_text(error, url)}", file=public_url(url)) from None
        yield target
