"""The one way into a dataset, whatever its container, shape or tool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from judge_eval.data import catalog
from judge_eval.data.collections import collection
from judge_eval.data.collections.corpus import Corpus, load_corpus
from judge_eval.data.files.containers import Row, kind_of, rows
from judge_eval.data.files.jsonl import TRACE_FIELDS, mend, read_jsonl
from judge_eval.data.files.opening import steady
from judge_eval.data.files.values import as_list, decode_list, is_missing
from judge_eval.data.shapes.chunks import chunk_data, looks_ours
from judge_eval.data.shapes.shape import Shape, keys_of
from judge_eval.errors import ConfigError, DataError, advise
from judge_eval.ranges import check_ranges
from judge_eval.record import TOO_DEEP
from judge_eval.schema import Trace

SAMPLE = 20
"""How many records are looked at to tell the shape."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a file is to be read, where it does not say so itself.

    Args:
        format: The shape's name, in place of looking at the keys.
        map: Our field to the file's key (dots go into objects), such as `{"reference": "gold_answer"}`.
        corpus: Where the texts of retrieved ids are: a file or a folder.
        list_sep: What stands between the items of a list in a text that is no JSON.
        depth: The most chunks of a trace to take, from the top; None takes all.
        relevant: The least grade in a collection's judgments that counts into `relevant_total`; needed where
            they hold grades above 1.

    Raises:
        ConfigError: A number is out of its range.
    """

    format: str | None = None
    map: Mapping[str, str] = field(default_factory=dict)
    corpus: Path | None = None
    list_sep: str | None = None
    depth: int | None = None
    relevant: int | None = None

    def __post_init__(self) -> None:
        check_ranges({"depth": self.depth, "relevant": self.relevant})


def open_dataset(
    path: Path | str,
    *,
    format: str | None = None,
    map: Mapping[str, str] | None = None,
    corpus: Path | str | None = None,
    list_sep: str | None = None,
    depth: int | None = None,
    relevant: int | None = None,
    name: str | None = None,
    check: Callable[[Trace], None] | None = None,
    on_invalid: Literal["error", "skip"] = "error",
    on_skip: Callable[[DataError], None] | None = None,
) -> Iterator[Trace]:
    """Read traces from a file or folder of any known format, one by one.

    Records are streamed, in JSON those of a list (also of one inside an object); a corpus is held in memory.

    Args:
        path: A file of records, a TREC run, or a folder with a collection.
        format: See `ReadOptions`, as for the five that follow.
        map: Our field to the file's key.
        corpus: Where the texts of retrieved ids are.
        list_sep: What stands between the items of a list in a text.
        depth: The most chunks of a trace to take.
        relevant: The least grade of a judgment that counts as relevant.
        name: What to call the file in messages; its path by default.
        check: Called with each trace; a `DataError` it raises is given the file and line.
        on_invalid: Whether an invalid record ends the reading or is skipped.
        on_skip: Called with the error of each record that is skipped.

    Raises:
        DataError: The file cannot be read, its format cannot be told, or a record is invalid under
            `on_invalid="error"`.
        ConfigError: An option does not fit; `UnknownNameError` where a format does not exist.
    """
    path, options = (
        Path(path),
        ReadOptions(format, map or {}, Path(corpus) if corpus else None, list_sep, depth, relevant),
    )
    return _Reading(path, options, name or str(path), check, on_invalid, on_skip).traces()


@dataclass
class _Reading:
    """One pass over a dataset; the fields are the arguments of `open_dataset`."""

    _path: Path
    _options: ReadOptions
    _name: str
    _check: Callable[[Trace], None] | None
    _on_invalid: Literal["error", "skip"]
    _on_skip: Callable[[DataError], None] | None
    _corpus: Corpus | None = None

    def __post_init__(self) -> None:
        options = self._options
        for ours in options.map:
            if ours not in TRACE_FIELDS:
                raise ConfigError(
                    f"--map: a trace has no field {ours!r}; {advise(ours, sorted(TRACE_FIELDS))}"
                )
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
            queries = collection.traces(
                parts, options.format == collection.JUDGED, options.depth, options.relevant
            )
            for data in queries:
                yield from self._made(iter([data]), Row(data, None, f"query {data['id']!r}"), joined=True)
            return
        if options.format in collection.FORMATS:
            raise DataError(
                f"not a collection ({options.format}); give its folder or its TREC run", file=self._name
            )
        kind = kind_of(self._path, self._name)
        all_rows = rows(self._path, kind, self._name, lambda data: not catalog.any_fits(self._renamed(data)))
        head = list(islice(all_rows, SAMPLE))
        sample = [row.data for row in head if not isinstance(row.data, DataError)]
        shape = self._shape(sample)
        if kind == "jsonl" and shape is catalog.OURS and self._is_plain(sample):
            yield from read_jsonl(
                self._path,
                name=self._name,
                check=self._check,
                on_invalid=self._on_invalid,
                on_skip=self._on_skip,
            )
            return
        if options.corpus is not None:
            self._corpus = load_corpus(options.corpus)
        yield from self._read(shape, chain(head, all_rows))

    def _shape(self, sample: list[Mapping[str, Any]]) -> Shape:
        options = self._options
        self._see_mapped(sample)
        if options.format is not None:
            return catalog.find_shape(options.format)
        if not sample or {"query", "chunks"} <= options.map.keys():
            return catalog.OURS
        return catalog.choose_shape([self._renamed(record) for record in sample], self._name)

    def _see_mapped(self, sample: list[Mapping[str, Any]]) -> None:
        for ours, theirs in self._options.map.items():
            keys = sorted({key for record in sample for key in keys_of(record)})
            if sample and theirs not in keys:
                fault = f"--map {ours}={theirs}: the first records hold no {theirs!r}; {advise(theirs, keys)}"
                raise DataError(fault, file=self._name)

    def _is_plain(self, sample: list[Mapping[str, Any]]) -> bool:
        """Tell whether our own reader of JSON Lines gives the same, several times as fast."""
        options = self._options
        if options.map or options.corpus is not None or options.depth is not None:
            return False
        lists = [record.get("chunks") for record in sample]
        return all(looks_ours(chunk) for chunks in lists if isinstance(chunks, list) for chunk in chunks)

    def _read(self, shape: Shape, all_rows: Iterator[Row]) -> Iterator[Trace]:
        records = made = failed = 0
        for row in all_rows:
            records += 1
            try:
                record = self._prepared(row.get(), shape)
                traces = iter(shape.read(record))
            except DataError as error:
                failed += 1
                self._refuse(error, row)
                continue
            for trace in self._made(traces, row, record=record):
                made += 1
                yield trace
        if records and not made and not failed and self._on_invalid == "error":
            raise DataError(
                f"{records} records of the format {shape.name}, but no retrieval in them", file=self._name
            )

    def _made(
        self,
        traces: Iterator[dict[str, Any]],
        row: Row,
        *,
        record: Mapping[str, Any] | None = None,
        joined: bool = False,
    ) -> Iterator[Trace]:
        """Turn what a shape read in a record into traces."""
        while True:
            try:
                data = next(traces, None)
                if data is None:
                    return
                for ours in self._options.map if record is not None else ():
                    if record is not None and ours in record:
                        data[ours] = record[ours]
                if not joined:
                    data["chunks"] = self._chunks(data.get("chunks"))
                trace = Trace.parse(mend(data))
                if self._check is not None:
                    self._check(trace)
            except DataError as error:
                self._refuse(error, row)
                continue
            except RecursionError:
                self._refuse(DataError(TOO_DEEP), row)
                continue
            yield trace

    def _chunks(self, value: Any) -> list[dict[str, Any]]:
        out = []
        for place, item in enumerate(
            as_list(value if value is not None else [], "chunks")[: self._options.depth]
        ):
            where = f"chunks[{place}]"
            if isinstance(item, str) and self._corpus is not None:
                item = {"id": item}  # with a corpus, what stands in a list is an id
            chunk = chunk_data(item, where)
            if "text" not in chunk:
                if self._corpus is None:
                    raise DataError(
                        "brings an id but no text; give --corpus, where the texts are", field=where
                    )
                chunk = self._corpus.join(chunk, where)
            out.append(chunk)
        return out

    def _prepared(self, record: Mapping[str, Any], shape: Shape) -> Mapping[str, Any]:
        """Rename what the user mapped; decode the lists that stand in texts."""
        record = self._renamed(record)
        mapped = {"chunks"} if "chunks" in self._options.map else set()
        spelled = [key for key in shape.lists | mapped if isinstance(record.get(key), str)]
        if not spelled:
            return record
        return {
            **record,
            **{key: decode_list(record[key], key, self._options.list_sep) for key in spelled},
        }

    def _renamed(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        mapping = self._options.map
        if not mapping:
            return record
        out = {key: value for key, value in record.items() if key not in mapping.values()}
        for ours, theirs in mapping.items():
            value = _dig(record, theirs)
            if not is_missing(value):
                out[ours] = value
        return out

    def _refuse(self, error: DataError, row: Row) -> None:
        """Tell of an invalid record, or end the reading."""
        if error.file is None:
            where = f"{row.prefix}.{error.field}" if row.prefix and error.field else row.prefix or error.field
            error = DataError(error.message, file=self._name, line=row.line, field=where)
        if self._on_invalid == "error":
            raise error from None
        if self._on_skip is not None:
            self._on_skip(error)


def _dig(record: Mapping[str, Any], path: str) -> Any:
    """Return what stands under a key, or under keys joined by dots."""
    if path in record:
        return record[path]
    value: Any = record
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value
