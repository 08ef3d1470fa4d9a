"""A run as three tables: one row a trace, one row a verdict, one row a claim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

from judge_eval.files import replacing
from judge_eval.runs.columns.parquet import load_arrow
from judge_eval.runs.folder.judgedclaims import judged_claims
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import blocks

TableName: TypeAlias = Literal["verdicts", "traces", "claims"]
TABLE_NAMES: tuple[TableName, ...] = ("verdicts", "traces", "claims")
_BLOCK = 5000


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


def claim_rows(run: Run) -> Iterator[dict[str, Any]]:
    """Yield a flat row for every claim of every trace that was judged by claims, in the reference's order.

    `covered` is None where a verdict is missing that could have shown the claim covered; `together` where
    nobody asked whether all chunks cover it together, or that has no verdict (`asked_together` tells).
    """
    for result in run.results:
        for one in judged_claims(result.claims, result.outcomes) or ():
            cover = one.cover
            yield {
                "trace_id": result.trace_id,
                "claim_id": one.claim.id,
                "claim": one.claim.text,
                "vital": one.claim.vital,
                "covered": None if cover == "unknown" else cover == "covered",
                "cover": cover,
                "chunks": len(one.said),
                "full_ranks": list(one.ranks("full")),
                "partial_ranks": list(one.ranks("partial")),
                "conflicting_ranks": list(one.ranks("contradicts")),
                "failed_ranks": list(one.ranks(None)),
                "asked_together": one.asked,
                "together": one.together,
                "quote": one.claim.quote,
                "query": result.trace.query,
                "tags": list(result.trace.tags),
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
CLAIM_TYPES = {
    "trace_id": "string",
    "claim_id": "string",
    "claim": "string",
    "vital": "bool",
    "covered": "bool",
    "cover": "string",
    "chunks": "int64",
    "full_ranks": "int64s",
    "partial_ranks": "int64s",
    "conflicting_ranks": "int64s",
    "failed_ranks": "int64s",
    "asked_together": "bool",
    "together": "bool",
    "quote": "string",
    "query": "string",
    "tags": "strings",
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
    "expected_grade": "double",
    "grade_probabilities": "doubles",
    "stage": "string",
    "label": "int64",
    "retriever_score": "double",
    "title": "string",
    "text": "string",
}

"""The type of each column, as PyArrow names it, so that a column of nothing keeps its type; a list's with an
`s` at the end."""


def table_of(run: Run, table: TableName) -> tuple[dict[str, str], Iterator[dict[str, Any]]]:
    """Return the columns of a table with their types, and its rows."""
    if table == "claims":
        return CLAIM_TYPES, claim_rows(run)
    if table == "traces":
        return TRACE_TYPES | dict.fromkeys(run.manifest.metrics, "double") | {"tags": "strings"}, trace_rows(
            run
        )
    return VERDICT_TYPES, verdict_rows(run)


def write_parquet(run: Run, path: Path, table: TableName = "verdicts") -> None:
    """Write one of the tables as Parquet, a block of rows at a time.

    Args:
        run: The run.
        path: The file.
        table: Which one.

    Raises:
        ConfigError: PyArrow is not installed.
    """
    pyarrow, parquet = load_arrow()
    kinds = {
        "string": pyarrow.string(),
        "int64": pyarrow.int64(),
        "bool": pyarrow.bool_(),
        "double": pyarrow.float64(),
        "strings": pyarrow.list_(pyarrow.string()),
        "int64s": pyarrow.list_(pyarrow.int64()),
        "doubles": pyarrow.list_(pyarrow.float64()),
    }
    types, rows = table_of(run, table)
    schema = pyarrow.schema([pyarrow.field(name, kinds[kind]) for name, kind in types.items()])
    with replacing(path) as file, parquet.ParquetWriter(file, schema) as writer:
        for block in blocks(rows, _BLOCK):
            writer.write_table(pyarrow.Table.from_pylist(block, schema=schema))
