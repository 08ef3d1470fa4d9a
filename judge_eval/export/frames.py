"""A run as one frame: the rows that were evaluated, with their scores, verdicts and reasons."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Literal

from judge_eval.data.memory import InputRows
from judge_eval.errors import ConfigError
from judge_eval.export.tables import TableName, table_of
from judge_eval.installed import import_extra
from judge_eval.objects import chunk_of
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.schema import Chunk, Outcome

PANDAS = {"string": "string", "int64": "Int64", "bool": "boolean", "double": "Float64"}
VERDICTS, REASONS = "verdicts", "reasons"
_NATIVE = (str, int, float, bool, bytes, date, time, timedelta, Decimal, type(None))


def to_pandas(run: Run, rows: InputRows | None) -> Any:
    """Return the run as one pandas DataFrame; see `EvalRun.to_pandas`."""
    pandas = _load("pandas")

    def build(columns: Mapping[str, Sequence[Any]]) -> Any:
        return pandas.DataFrame({name: pandas.Series(values) for name, values in columns.items()})

    results = _Results(run, rows)
    if rows is not None and rows.memory.kind == "arrow":
        base = rows.memory.data.to_pandas()
    else:
        base = results.base("pandas", build)
    base = base.iloc[results.places].drop(columns=results.replaced(base.columns))
    new = {name: pandas.array(values, dtype="Float64") for name, values in results.scores.items()}
    lists = {VERDICTS: results.grades, REASONS: results.reasons}
    return base.assign(**new, **{name: pandas.Series(values, dtype=object).array for name, values in lists.items()})


def to_polars(run: Run, rows: InputRows | None) -> Any:
    """Return the run as one Polars DataFrame; see `EvalRun.to_pandas`."""
    polars = _load("polars")

    def build(columns: Mapping[str, Sequence[Any]]) -> Any:
        return polars.DataFrame([_fitting(polars.Series, name, values) for name, values in columns.items()])

    results = _Results(run, rows)
    base = results.base("polars", build)
    base = base[results.places].drop(results.replaced(base.columns))
    return base.with_columns(
        *(polars.Series(name, values, polars.Float64) for name, values in results.scores.items()),
        polars.Series(VERDICTS, results.grades, polars.List(polars.Int64)),
        polars.Series(REASONS, results.reasons, polars.List(polars.String)),
    )


def to_dataset(run: Run, rows: InputRows | None) -> Any:
    """Return the run as one `datasets.Dataset`; see `EvalRun.to_pandas`."""
    datasets, pyarrow = _load("datasets"), _load("pyarrow", "datasets")

    def build(columns: Mapping[str, Sequence[Any]]) -> Any:
        arrays = [_fitting(lambda _, v: pyarrow.array(v), name, values) for name, values in columns.items()]
        return datasets.Dataset(pyarrow.table(arrays, names=list(columns)))

    results = _Results(run, rows)
    if rows is not None and rows.memory.kind == "arrow":
        base = datasets.Dataset(rows.memory.data)
    else:
        base = results.base("datasets", build)
    base = base.select(results.places).remove_columns(results.replaced(base.column_names))
    types = {name: pyarrow.float64() for name in results.scores}
    types |= {VERDICTS: pyarrow.list_(pyarrow.int64()), REASONS: pyarrow.list_(pyarrow.string())}
    columns = {**results.scores, VERDICTS: results.grades, REASONS: results.reasons}
    arrays = [pyarrow.array(columns[name], kind) for name, kind in types.items()]
    added = datasets.Dataset(pyarrow.table(arrays, names=list(types)))
    return datasets.concatenate_datasets([base, added], axis=1)


def table_frame(run: Run, table: TableName, rows: InputRows | None, library: Literal["pandas", "polars"]) -> Any:
    """Return a table as a frame; see `EvalRun.verdicts_frame` and `EvalRun.claims_frame`."""
    if library not in ("pandas", "polars"):
        raise ConfigError(f"cannot make a frame with {library!r}; use 'pandas' or 'polars'")
    module = _load(library)
    types, made = table_of(run, table)
    records = list(made)
    if library == "polars":
        kinds = {"string": module.String, "int64": module.Int64, "bool": module.Boolean, "double": module.Float64}
        kinds |= {f"{kind}s": module.List(value) for kind, value in kinds.items()}
        return module.DataFrame(records, schema={name: kinds[kind] for name, kind in types.items()})
    frame = module.DataFrame(records, columns=list(types))
    frame = frame.astype({name: PANDAS.get(kind, "object") for name, kind in types.items()})
    if rows is not None and rows.memory.kind == "pandas":
        places = {result.trace_id: rows.rows[result.position] for result in run.results}
        frame.index = rows.memory.data.index.take([places[record["trace_id"]] for record in records])
    return frame


def _load(library: str, extra: str | None = None) -> Any:
    return import_extra(f"{library} is not installed", extra or library, library)[0]


class _Results:
    """What a run found, a value for each row that was evaluated; without rows, for each trace."""

    def __init__(self, run: Run, rows: InputRows | None) -> None:
        self._run, self._input = run, rows
        results: list[TraceResult | None] = [*run.results]
        self.places = list(range(len(results)))
        """Of each row its place in what was evaluated."""
        if rows is not None:
            by_row: dict[int, list[TraceResult | None]] = {}
            for result in run.results:
                by_row.setdefault(rows.rows[result.position], []).append(result)
            of_rows = [by_row.get(place) or [None] for place in range(len(rows.memory.data))]
            self.places = [place for place, own in enumerate(of_rows) for _ in own]
            results = [result for own in of_rows for result in own]
        metrics = run.manifest.metrics
        self.scores = {name: [each and each.scores.get(name) for each in results] for name in metrics}
        outcomes = [None if each is None else each.outcomes for each in results]
        self.grades = [
            None if each is None else [o.grade if o.kind == "verdict" else None for o in each] for each in outcomes
        ]
        self.reasons = [None if each is None else list(map(_reason, each)) for each in outcomes]

    def replaced(self, columns: Collection[str]) -> list[str]:
        """Return the columns of the rows that a column of the run replaces."""
        return [name for name in (*self.scores, VERDICTS, REASONS) if name in columns]

    def base(self, kind: str, build: Callable[[Mapping[str, Sequence[Any]]], Any]) -> Any:
        """Return what was evaluated as a frame of a library."""
        if self._input is None:
            return build(_trace_columns(self._run))
        memory = self._input.memory
        if memory.kind == kind:
            return memory.data
        records = [row if isinstance(row, Mapping) else {} for _, row in memory.rows()]
        names = dict.fromkeys((*(key for row in records[:1] for key in row), *memory.names()))
        columns = {name: [record.get(name) for record in records] for name in names}
        if kind != "pandas":
            columns = {name: list(map(_simple, values)) for name, values in columns.items()}
        try:
            return build(columns)
        except Exception as error:
            raise ConfigError(f"{kind} cannot hold what was evaluated: {error}") from None


def _reason(outcome: Outcome) -> str | None:
    if outcome.kind == "verdict":
        return outcome.reason
    return f"no verdict ({outcome.why}){outcome.detail and ': '}{outcome.detail}"


def _trace_columns(run: Run) -> dict[str, list[Any]]:
    traces = [result.trace for result in run.results]
    columns: dict[str, list[Any]] = {
        name: [getattr(trace, name) for trace in traces] for name in ("id", "query", "reference", "answer")
    }
    if any(trace.history for trace in traces):
        columns["history"] = [[turn.model_dump() for turn in trace.history] for trace in traces]
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
    chunk = chunk_of(tuple(value) if isinstance(value, list) else value)  # a pair with a score is one too
    if chunk is None and isinstance(value, list | tuple):
        return [_simple(inner) for inner in value]
    return str(value) if chunk is None else _simple(chunk)


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
