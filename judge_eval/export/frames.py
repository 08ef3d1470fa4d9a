"""A run as one frame: what was evaluated, with what came of it beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from judge_eval.data.memory import InputRows
from judge_eval.errors import ConfigError, needs_extra
from judge_eval.export.tables import TableName, table_of
from judge_eval.objects import chunk_of
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.schema import Chunk

PANDAS = {"string": "string", "int64": "Int64", "bool": "boolean", "double": "Float64"}
VERDICTS, REASONS = "verdicts", "reasons"
_NATIVE = (str, int, float, bool, bytes, date, time, timedelta, Decimal, type(None))


def to_pandas(run: Run, rows: InputRows | None) -> Any:
    """Return the run as one pandas DataFrame; see `EvalRun.to_pandas`.

    Raises:
        ConfigError: pandas is not installed, or cannot hold what was evaluated.
    """
    pandas = _load("pandas")

    def build(columns: Mapping[str, Sequence[Any]]) -> Any:
        return pandas.DataFrame({name: pandas.Series(values) for name, values in columns.items()})

    beside = _Beside(run, rows)
    if rows is not None and rows.held.kind == "arrow":
        base = rows.held.data.to_pandas()
    else:
        base = beside.base("pandas", build)
    base = base.iloc[beside.places].drop(columns=[name for name in beside.names if name in base.columns])
    new = {name: pandas.array(values, dtype="Float64") for name, values in beside.scores().items()}
    lists = {VERDICTS: beside.grades, REASONS: beside.reasons}
    return base.assign(
        **new, **{name: pandas.Series(values, dtype=object).array for name, values in lists.items()}
    )


def to_polars(run: Run, rows: InputRows | None) -> Any:
    """Return the run as one Polars DataFrame; see `EvalRun.to_pandas`.

    Raises:
        ConfigError: Polars is not installed, or cannot hold what was evaluated.
    """
    polars = _load("polars")

    def build(columns: Mapping[str, Sequence[Any]]) -> Any:
        return polars.DataFrame([_fitting(polars.Series, name, values) for name, values in columns.items()])

    beside = _Beside(run, rows)
    base = beside.base("polars", build)
    base = base[beside.places].drop([name for name in beside.names if name in base.columns])
    return base.with_columns(
        *(polars.Series(name, values, polars.Float64) for name, values in beside.scores().items()),
        polars.Series(VERDICTS, beside.grades, polars.List(polars.Int64)),
        polars.Series(REASONS, beside.reasons, polars.List(polars.String)),
    )


def to_dataset(run: Run, rows: InputRows | None) -> Any:
    """Return the run as one `datasets.Dataset`; see `EvalRun.to_pandas`.

    Raises:
        ConfigError: The package `datasets` is not installed, or cannot hold what was evaluated.
    """
    datasets, pyarrow = _load("datasets"), _load("pyarrow", "datasets")

    def build(columns: Mapping[str, Sequence[Any]]) -> Any:
        arrays = [_fitting(lambda _, v: pyarrow.array(v), name, values) for name, values in columns.items()]
        return datasets.Dataset(pyarrow.table(arrays, names=list(columns)))

    beside = _Beside(run, rows)
    if rows is not None and rows.held.kind == "arrow":
        base = datasets.Dataset(rows.held.data)
    else:
        base = beside.base("datasets", build)
    base = base.select(beside.places)
    base = base.remove_columns([name for name in beside.names if name in base.column_names])
    types = {name: pyarrow.float64() for name in beside.scores()}
    types |= {VERDICTS: pyarrow.list_(pyarrow.int64()), REASONS: pyarrow.list_(pyarrow.string())}
    columns = {**beside.scores(), VERDICTS: beside.grades, REASONS: beside.reasons}
    arrays = [pyarrow.array(columns[name], kind) for name, kind in types.items()]
    added = datasets.Dataset(pyarrow.table(arrays, names=list(types)))
    return datasets.concatenate_datasets([base, added], axis=1)


def verdicts_frame(run: Run, rows: InputRows | None, library: Literal["pandas", "polars"]) -> Any:
    """Return a frame with a row a chunk; see `EvalRun.verdicts_frame`.

    Raises:
        ConfigError: The library is not installed, or is none of the two.
    """
    return _table_frame(run, "verdicts", rows, library, [len(one.outcomes) for one in run.results])


def claims_frame(run: Run, rows: InputRows | None, library: Literal["pandas", "polars"]) -> Any:
    """Return a frame with a row a claim and trace; see `EvalRun.claims_frame`.

    Raises:
        ConfigError: The library is not installed, or is none of the two.
    """
    counts = [len(one.claims.claims) if one.claims else 0 for one in run.results]
    return _table_frame(run, "claims", rows, library, counts)


def _table_frame(
    run: Run,
    table: TableName,
    rows: InputRows | None,
    library: Literal["pandas", "polars"],
    counts: Sequence[int],
) -> Any:
    """Return a table as a frame; `counts` says how many of its rows are of each trace."""
    if library not in ("pandas", "polars"):
        raise ConfigError(f"no frames of {library!r} are made; choose 'pandas' or 'polars'")
    module = _load(library)
    types, made = table_of(run, table)
    records = list(made)
    if library == "polars":
        kinds = {
            "string": module.String,
            "int64": module.Int64,
            "bool": module.Boolean,
            "double": module.Float64,
            "strings": module.List(module.String),
            "int64s": module.List(module.Int64),
            "doubles": module.List(module.Float64),
        }
        return module.DataFrame(records, schema={name: kinds[kind] for name, kind in types.items()})
    frame = module.DataFrame(records, columns=list(types))
    frame = frame.astype({name: PANDAS.get(kind, "object") for name, kind in types.items()})
    if rows is not None and rows.held.kind == "pandas":
        of_rows = zip(run.results, counts, strict=True)
        places = [rows.rows[one.position] for one, count in of_rows for _ in range(count)]
        frame.index = rows.held.data.index.take(places)
    return frame


def _load(library: str, extra: str | None = None) -> Any:
    from importlib import import_module

    try:
        return import_module(library)
    except ImportError:
        raise needs_extra(f"{library} is not installed", extra or library) from None


class _Came(NamedTuple):
    """What came of one trace."""

    scores: Mapping[str, float | None]
    grades: list[int | None]
    reasons: list[str | None]
    """None where the judge gives no reasons."""


class _Beside:
    """What a run puts beside the rows it was made of, a value a row.

    Args:
        run: The run.
        rows: The rows; None where the traces stand for themselves.
    """

    def __init__(self, run: Run, rows: InputRows | None) -> None:
        self._run, self._input, self._metrics = run, rows, run.manifest.metrics
        self.names = [*self._metrics, VERDICTS, REASONS]
        if rows is None:
            self._came: list[_Came | None] = [_came(result) for result in run.results]
            self.places = list(range(len(self._came)))
            """Of each row its place in what was evaluated."""
        else:
            by_row: dict[int, list[_Came | None]] = {}
            for result in run.results:
                by_row.setdefault(rows.rows[result.position], []).append(_came(result))
            every = [(place, by_row.get(place) or [None]) for place in range(len(rows.held.data))]
            self.places = [place for place, all_came in every for _ in all_came]
            self._came = [came for _, all_came in every for came in all_came]
        self.grades = [came and came.grades for came in self._came]
        self.reasons = [came and came.reasons for came in self._came]

    def base(self, kind: str, build: Callable[[Mapping[str, Sequence[Any]]], Any]) -> Any:
        """Return what was evaluated as a frame of a library.

        Raises:
            ConfigError: The library cannot hold it.
        """
        if self._input is None:
            return build(_trace_columns(self._run))
        held = self._input.held
        if held.kind == kind:
            return held.data
        names = held.names()
        records = [row if isinstance(row, Mapping) else {} for _, row in held.rows()]
        names = list(dict.fromkeys((*(key for row in records[:1] for key in row), *names)))
        columns = {name: [record.get(name) for record in records] for name in names}
        if kind != "pandas":
            columns = {name: list(map(_simple, values)) for name, values in columns.items()}
        try:
            return build(columns)
        except Exception as error:
            raise ConfigError(f"{kind} cannot hold what was evaluated: {error}") from None

    def scores(self) -> dict[str, list[float | None]]:
        """Return the values of each metric, in the order of the metrics."""
        return {name: [came and came.scores.get(name) for came in self._came] for name in self._metrics}


def _came(result: TraceResult) -> _Came:
    grades: list[int | None] = []
    reasons: list[str | None] = []
    for outcome in result.outcomes:
        if outcome.kind == "verdict":
            grades.append(outcome.grade)
            reasons.append(outcome.reason)
        else:
            grades.append(None)
            reasons.append(f"no verdict ({outcome.why}){outcome.detail and ': '}{outcome.detail}")
    return _Came(result.scores, grades, reasons)


def _trace_columns(run: Run) -> dict[str, list[Any]]:
    """Return the columns of a run whose traces stand for themselves."""
    traces = [result.trace for result in run.results]
    columns: dict[str, list[Any]] = {
        name: [getattr(trace, name) for trace in traces] for name in ("id", "query", "reference", "answer")
    }
    columns["chunks"] = [[chunk.text for chunk in trace.chunks] for trace in traces]
    columns["relevant_total"] = [trace.relevant_total for trace in traces]
    return columns | {"tags": [list(trace.tags) for trace in traces]}


def _simple(value: Any) -> Any:
    """Return a value as columns of any library can hold it: a document as an object, the rest as text."""
    if isinstance(value, _NATIVE):
        return value
    if isinstance(value, Mapping):
        return {str(key): _simple(inner) for key, inner in value.items()}
    if isinstance(value, Chunk):
        return value.model_dump(exclude_defaults=True)
    found = chunk_of(tuple(value) if isinstance(value, list) else value)  # a pair with a score is one too
    if found is None and isinstance(value, list | tuple):
        return [_simple(inner) for inner in value]
    return str(value) if found is None else _simple(found)


def _fitting(make: Callable[[str, Sequence[Any]], Any], name: str, values: Sequence[Any]) -> Any:
    """Make a column; where its values are not of one kind, of their texts, lists and objects as JSON."""
    try:
        return make(name, values)
    except Exception:
        return make(name, [_spelled(value) for value in values])


def _spelled(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
