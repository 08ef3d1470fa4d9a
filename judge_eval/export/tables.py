"""A run as two tables, one row a trace or one row a verdict."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from judge_eval.errors import needs_extra
from judge_eval.files import replacing
from judge_eval.runs.columns.parquet import load_arrow
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import blocks

_BLOCK = 5000


class Frames(NamedTuple):
    """The two tables of a run."""

    traces: Any
    """One row a trace: ids, texts, counts and a column a metric (missing where failures leave no value)."""
    verdicts: Any
    """One row a chunk, in rank order: grade, reason and evidence, or why there is no verdict."""


def trace_rows(run: Run) -> Iterator[dict[str, Any]]:
    """Yield a flat row for every trace."""
    for result in run.results:
        trace = result.trace
        yield {
            "trace_id": result.trace_id,
            "query": trace.query,
            "reference": trace.reference,
            "answer": trace.answer,
            "chunks": len(trace.chunks),
            "failed": result.failed,
            "relevant_total": trace.relevant_total,
            "tags": list(trace.tags),
            **{name: result.scores.get(name) for name in run.manifest.metrics},
        }


def verdict_rows(run: Run) -> Iterator[dict[str, Any]]:
    """Yield a flat row for every chunk of every trace, failed ones included."""
    for result in run.results:
        yield from result_rows(result)


def result_rows(result: TraceResult) -> Iterator[dict[str, Any]]:
    """Yield a flat row for every chunk of one trace; None where a verdict or its absence says nothing."""
    for rank, (chunk, outcome) in enumerate(zip(result.trace.chunks, result.outcomes, strict=True), 1):
        row: dict[str, Any] = dict.fromkeys(VERDICT_TYPES)
        row |= {key: value for key, value in outcome if key in row}
        if outcome.kind == "no_verdict":
            row["reason"] = outcome.detail
        yield row | {
            "trace_id": result.trace_id,
            "rank": rank,
            "label": chunk.label,
            "retriever_score": chunk.score,
            "title": chunk.title,
            "text": chunk.text,
        }


TRACE_TYPES = {
    "trace_id": "string",
    "query": "string",
    "reference": "string",
    "answer": "string",
    "chunks": "int64",
    "failed": "int64",
    "relevant_total": "int64",
}
VERDICT_TYPES = {
    "trace_id": "string",
    "rank": "int64",
    "chunk_id": "string",
    "grade": "int64",
    "relevant": "bool",
    "why": "string",
    "reason": "string",
    "evidence": "string",
    "evidence_found": "bool",
    "instruction_in_chunk": "bool",
    "confidence": "double",
    "label": "int64",
    "retriever_score": "double",
    "title": "string",
    "text": "string",
}
"""The type of each column, as PyArrow names it, so that a column of nothing keeps its type."""
PANDAS = {"string": "string", "int64": "Int64", "bool": "boolean", "double": "Float64"}


def to_pandas(run: Run) -> Frames:
    """Return the run as two pandas frames, with types that can be missing.

    Raises:
        ConfigError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise needs_extra("pandas is not installed", "pandas") from None
    metrics = dict.fromkeys(run.manifest.metrics, "double")

    def frame(rows: Iterator[dict[str, Any]], types: dict[str, str]) -> Any:
        columns = [*types, "tags"] if types is not VERDICT_TYPES else list(types)
        made = pandas.DataFrame(list(rows), columns=columns)
        return made.astype({name: PANDAS[kind] for name, kind in types.items()})

    return Frames(frame(trace_rows(run), TRACE_TYPES | metrics), frame(verdict_rows(run), VERDICT_TYPES))


def to_polars(run: Run) -> Frames:
    """Return the run as two Polars frames.

    Raises:
        ConfigError: Polars is not installed.
    """
    try:
        import polars
    except ImportError:
        raise needs_extra("Polars is not installed", "polars") from None
    kinds = {"string": polars.String, "int64": polars.Int64, "bool": polars.Boolean, "double": polars.Float64}

    def schema(types: dict[str, str]) -> dict[str, Any]:
        return {name: kinds[kind] for name, kind in types.items()}

    metrics = dict.fromkeys(run.manifest.metrics, "double")
    traces = {**schema(TRACE_TYPES | metrics), "tags": polars.List(polars.String)}
    return Frames(
        polars.DataFrame(list(trace_rows(run)), schema=traces),
        polars.DataFrame(list(verdict_rows(run)), schema=schema(VERDICT_TYPES)),
    )


def write_parquet(run: Run, path: Path, table: str = "verdicts") -> None:
    """Write one of the two tables as Parquet, a block of rows at a time.

    Args:
        run: The run.
        path: The file.
        table: `"verdicts"` or `"traces"`.

    Raises:
        ConfigError: PyArrow is not installed.
    """
    pyarrow, parquet = load_arrow()
    metrics = dict.fromkeys(run.manifest.metrics, "double")
    types = VERDICT_TYPES if table == "verdicts" else TRACE_TYPES | metrics
    kinds = {
        "string": pyarrow.string(),
        "int64": pyarrow.int64(),
        "bool": pyarrow.bool_(),
        "double": pyarrow.float64(),
    }
    fields = [pyarrow.field(name, kinds[kind]) for name, kind in types.items()]
    if table != "verdicts":
        fields.append(pyarrow.field("tags", pyarrow.list_(pyarrow.string())))
    schema = pyarrow.schema(fields)
    with replacing(path) as file, parquet.ParquetWriter(file, schema) as writer:
        for block in blocks(verdict_rows(run) if table == "verdicts" else trace_rows(run), _BLOCK):
            writer.write_table(pyarrow.Table.from_pylist(block, schema=schema))
