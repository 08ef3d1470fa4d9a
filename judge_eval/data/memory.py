"""Data in memory as rows: frames, tables, datasets and lists, importing no library."""

import sys
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import repeat
from typing import Any, Literal, TypeAlias

from judge_eval import limits
from judge_eval.errors import DataError
from judge_eval.installed import import_extra
from judge_eval.objects import chunk_of
from judge_eval.safe_text import counted, type_of
from judge_eval.schema import Trace

ROW = ("query", "reference", "chunks")
"""What the three parts of a row are that is a tuple."""
_QUESTIONS = frozenset({"query", "question", "user_input", "input"})
"""Columns that hold one question a row."""
_PLAIN = frozenset({str, int, bool, type(None)})
FrameLibrary: TypeAlias = Literal["pandas", "polars", "arrow", "datasets", "list"]


@dataclass(frozen=True, slots=True)
class MemoryRows:
    """Rows in memory that can be read again and again."""

    kind: FrameLibrary
    """Which library they are of."""
    data: Any
    """The pandas or Polars DataFrame, the Arrow table, the `datasets.Dataset`, or the list."""

    def rows(self) -> Iterator[tuple[str, Any]]:
        """Yield what names each row in a message, counted from 0, and the row."""
        # A row is a mapping of plain values by column; of a list it is the item, a `Trace` as it is.
        index: Any = self.data.index if self.kind == "pandas" else None
        counts = type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)
        for place, row in enumerate(self._rows()):
            label = None if index is None or counts else index[place]
            yield row_name(place, label, row), row

    def names(self) -> list[str]:
        """Return the names of the columns; of a list the keys of its rows, in the order they come."""
        if self.kind == "list":
            return list(dict.fromkeys(key for row in self._rows() if isinstance(row, Mapping) for key in row))
        named = self.data.column_names if self.kind in ("arrow", "datasets") else self.data.columns
        return [str(name) for name in named]

    @property
    def is_table(self) -> bool:
        """Whether its rows have columns: a list of `Trace`s has none."""
        return self.kind != "list" or not any(isinstance(item, Trace) for item in self.data)

    def _rows(self) -> Iterator[Any]:
        if self.kind == "list":
            yield from map(record_of, self.data)
            return
        if self.kind == "pandas":
            yield from _pandas_rows(self.data)
            return
        rows = self.data
        if self.kind == "polars":
            rows = self.data.iter_rows(named=True)
        elif self.kind == "arrow":
            _see_twice(self.data.column_names)
            rows = (row for batch in self.data.to_batches(max_chunksize=256) for row in batch.to_pylist())
        for row in rows:
            yield {str(key): cell(value, dense=True) for key, value in row.items()}


@dataclass(frozen=True, slots=True)
class InputRows:
    """What a run's traces were read from."""

    memory: MemoryRows
    rows: Sequence[int]
    """By position of a trace, the place of its row, counted from 0; a row may hold several traces."""


def _pandas_rows(frame: Any) -> Iterator[dict[str, Any]]:
    columns = [str(name) for name in frame.columns]
    _see_twice(columns)
    # An index that has a name is read like a column: of `frame.set_index("id")` the ids are there.
    named = [str(name) for name in frame.index.names if name is not None and str(name) not in columns]
    levels = [frame.index.get_level_values(name) for name in frame.index.names if str(name) in named]
    labels = zip(*levels, strict=True) if levels else repeat(())
    for keys, row in zip(labels, frame.itertuples(index=False, name=None), strict=False):
        yield {k: cell(v, dense=True) for k, v in zip((*named, *columns), (*keys, *row), strict=True)}


def _see_twice(columns: Sequence[str]) -> None:
    twice = {column for column in columns if columns.count(column) > 1}
    if twice:
        raise DataError(f"the column {min(twice)!r} occurs twice; rename one of the two")


def row_name(place: int, label: Any = None, row: Any = None) -> str:
    """Say which row it is, counted from 0, with its label in an index or the id of a trace."""
    if label is not None:
        return f"row {place} (index {label!r})" if isinstance(label, str) else f"row {place} (index {label})"
    return f"row {place} (trace {row.id!r})" if isinstance(row, Trace) else f"row {place}"


def rows_in_memory(data: Any) -> MemoryRows | None:
    """Take what is in memory; None where it is a stream, which can be read only once."""
    # Frames and lists are copied without their cells: rows added to them or taken away later change nothing.
    for library, name, kind, take in _TABLES:
        if _is(data, library, name):
            return MemoryRows(kind, take(data))
    if _is(data, "datasets", "DatasetDict", "IterableDatasetDict"):
        first = next(iter(data), "test")
        raise DataError(f"holds the splits {', '.join(map(str, data))}; give one of them: data[{first!r}]")
    if isinstance(data, Mapping) and (rows := _rows_of_columns(data)) is not None:
        return MemoryRows("list", rows)
    if isinstance(data, Trace | Mapping) or is_row(data) or hasattr(data, "_asdict"):
        return MemoryRows("list", [data])
    if (samples := _samples_of(data)) is not None:
        return MemoryRows("list", samples)
    if _fields_of(data) is not None or (_is(data, "pandas", "Series") and all(isinstance(n, str) for n in data.index)):
        return MemoryRows("list", [data])
    if _is(data, "pandas", "Series") or _is(data, "polars", "Series"):
        fault = f"is one column of a frame ({data.name!r})"
        raise DataError(f"{fault}; give the whole frame, or rows (query, reference, chunks)")
    if isinstance(data, Sequence) and not isinstance(data, bytes | bytearray):
        if isinstance(data, tuple) and data and all(isinstance(value, str | None) for value in data):
            raise no_row(data)  # one row, and not several
        return MemoryRows("list", list(data))
    if hasattr(data, "__arrow_c_stream__"):  # any other table: what DuckDB returns, for instance
        (pyarrow,) = import_extra(f"{type_of(data)} is read by PyArrow", "parquet", "pyarrow")
        try:
            return MemoryRows("arrow", pyarrow.table(data))
        except pyarrow.ArrowInvalid as error:
            raise DataError(f"is {type_of(data)}: cannot be read as a table ({error})") from None
    if advice := next((advice for name, advice in _GIVEN_INSTEAD.items() if hasattr(data, name)), None):
        raise DataError(advice)
    a_row = isinstance(data, bytes | bytearray) or chunk_of(data) is not None
    if a_row or not isinstance(data, Iterable | AsyncIterable):
        raise no_row(data)
    return None


_TABLES: tuple[tuple[str, str, FrameLibrary, Callable[[Any], Any]], ...] = (
    ("pandas", "DataFrame", "pandas", lambda data: data.copy(deep=False)),
    ("polars", "DataFrame", "polars", lambda data: data.clone()),
    ("polars", "LazyFrame", "polars", lambda data: data.collect()),
    ("datasets", "Dataset", "datasets", lambda data: data.with_format(None)),
    ("pyarrow", "RecordBatchReader", "arrow", lambda data: data.read_all()),
    ("pyarrow", "Table", "arrow", lambda data: data),
    ("pyarrow", "RecordBatch", "arrow", lambda data: sys.modules["pyarrow"].Table.from_batches([data])),
)
"""By library and class of a table, what it is read as, and how it is taken."""
_GIVEN_INSTEAD = {
    "read": "is an open file; give its path",
    "manifest": "is a run; give its traces: [result.trace for result in run.results]",
}
"""By an attribute of what people give in place of rows, what to give."""


def _is(data: Any, library: str, *names: str) -> bool:
    """Tell whether it is of a class of a library, which then has been imported by whoever made it."""
    module = sys.modules.get(library)
    kinds = (getattr(module, name, None) for name in names)
    return any(isinstance(kind, type) and isinstance(data, kind) for kind in kinds)


def is_row(item: Any) -> bool:
    """Tell whether it is a row of `(query, reference, chunks)`."""
    if not isinstance(item, tuple | list) or len(item) != len(ROW):
        return False
    query, reference, chunks = item
    holds_chunks = not isinstance(chunks, str | bytes | Mapping) and hasattr(chunks, "__iter__")
    return isinstance(query, str) and (reference is None or isinstance(reference, str)) and holds_chunks


def record_of(item: Any) -> Any:
    """Return an item of a list as a record of plain values; a `Trace`, or what is not a row, as it is."""
    if isinstance(item, Trace):
        return item
    if isinstance(item, tuple) and len(item) == 2 and _is(item[1], "pandas", "Series"):
        item = item[1]  # as `iterrows` yields it, after its label
    if isinstance(item, Mapping) or _is(item, "pandas", "Series"):
        return {str(key): cell(value) for key, value in item.items()}
    if (fields := _fields_of(item)) is not None:
        return {key: cell(value) for key, value in fields.items() if value is not None}
    named = item._asdict() if isinstance(item, tuple) and hasattr(item, "_asdict") else None
    if named is not None and ("query" in named or not is_row(item)):  # as `itertuples` yields them, with their index
        return {key: cell(value) for key, value in named.items() if key != "Index"}
    if is_row(item):
        return dict(zip(ROW, map(cell, item), strict=True))
    return item


def _fields_of(item: Any) -> dict[str, Any] | None:
    """Return the fields of an object, if they are declared or one of them is a question; None of any other."""
    item = getattr(item, "eval_sample", item)  # of a testset of ragas
    kind = type(item)
    declared = fields(kind) if is_dataclass(kind) else getattr(kind, "__attrs_attrs__", ())
    names = [each.name for each in declared] or [*getattr(kind, "model_fields", ())]
    if not names and _QUESTIONS & (own := getattr(item, "__dict__", {})).keys():
        names = [name for name in own if not name.startswith("_")]
    is_turn = "retrieval_context" in names  # DeepEval's turns hold a text too
    if not names or hasattr(item, "source_nodes") or (chunk_of(item) is not None and not is_turn):
        return None  # a response and a document are no rows
    return {name: getattr(item, name, None) for name in names}


def _samples_of(data: Any) -> list[Any] | None:
    """Return the rows of an object that is a dataset of another tool; None for what is none."""
    if isinstance(data, Sequence | Mapping | Iterator):
        return None
    names = ("samples", "test_cases", "goldens")  # of ragas, and of DeepEval
    held = [rows for name in names if isinstance(rows := getattr(data, name, None), list | tuple)]
    rows = next(filter(None, held), ())
    is_dataset = held and (rows or not _QUESTIONS & (_fields_of(data) or {}).keys())
    return list(rows) if is_dataset and all(_fields_of(row) is not None for row in rows) else None


def _rows_of_columns(data: Mapping[Any, Any]) -> list[dict[str, Any]] | None:
    """Return the rows of a mapping of columns, `{"query": [...], "contexts": [[...]]}`; None for what is one row."""
    columns = {str(name): cell(column) for name, column in data.items()}
    if all(isinstance(column, Mapping) for column in columns.values()):  # by the labels of an index
        columns = {name: list(column.values()) for name, column in columns.items()}
    questions = [column for name, column in columns.items() if name in _QUESTIONS and isinstance(column, list)]
    if not questions or not all(isinstance(text, str) for text in questions[0]):
        return None
    lengths = {name: len(column) for name, column in columns.items() if isinstance(column, list)}
    if len(lengths) < len(columns):
        return None
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise DataError(f"columns differ in length: {shown}")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


_NODES = "(question, reference, response.source_nodes)"


def no_row(item: Any) -> DataError:
    """Make the error for what is not a row."""
    kind, what = type(item).__name__, f"is {type_of(item)}"
    if hasattr(item, "source_nodes") and hasattr(item, "response"):
        return DataError(f"{what}: it holds the retrieved nodes without the question; give a row {_NODES}")
    if not isinstance(item, str) and chunk_of(item) is not None:
        what = "is a retrieved document without its question"
    elif isinstance(item, tuple | list):
        what = f"is a {kind} of {counted(len(item), 'value')}"
        if len(item) == len(ROW):
            kinds = ", ".join(type(value).__name__ for value in item)
            what = f"is a {kind} of ({kinds})"
            if hasattr(item[-1], "source_nodes"):
                return DataError(f"{what}; give a row {_NODES}")
    give = "a `Trace`, a mapping or an object with the fields of a known shape, or a row (query, reference, chunks)"
    return DataError(f"{what}; give {give}")


def cell(value: Any, depth: int = limits.DEPTH, *, dense: bool = False) -> Any:
    """Return a value as a file would hold it: arrays as lists, a missing one as None; documents as they are.

    Lists and objects are looked into down to `depth`. `dense`: the value is of a table, whose objects may all
    have each other's keys: those that hold nothing are left out.
    """
    kind = value.__class__
    if kind in _PLAIN:
        return value
    if kind is float:
        return value if value == value else None  # NaN is what frames have for nothing
    if depth <= 0:
        return value
    if isinstance(value, Mapping):
        made = {key: cell(inner, depth - 1, dense=dense) for key, inner in value.items()}
        return {key: inner for key, inner in made.items() if inner is not None} if dense else made
    if isinstance(value, list | tuple):
        return [cell(inner, depth - 1, dense=dense) for inner in value]
    if kind.__name__ in ("NAType", "NaTType"):
        return None
    for name in ("tolist", "to_list", "to_pylist"):  # NumPy's arrays and numbers, Polars' and Arrow's columns
        if callable(turn := getattr(value, name, None)):
            return cell(turn(), depth - 1, dense=dense)
    inner_fields = _fields_of(value)
    return value if inner_fields is None else cell(inner_fields, depth - 1, dense=True)
