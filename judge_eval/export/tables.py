"""A run as three tables: one row a trace, one row a verdict, one row a claim."""

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

from judge_eval.export.format import Format
from judge_eval.files import csv_text, replacing
from judge_eval.installed import import_extra
from judge_eval.runs.folder.judgedclaims import judged_claims
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run, blocks
from judge_eval.safe_text import safe_cell

TableName: TypeAlias = Literal["verdicts", "traces", "claims"]
TABLE_NAMES: tuple[TableName, ...] = ("verdicts", "traces", "claims")
_BLOCK = 5000


def trace_rows(run: Run) -> Iterator[dict[str, Any]]:
    """Yield a flat row for every trace."""
    for result in run.results:
        trace = result.trace
        yield {
            "trace_id": result.trace_id,
            "conversation": trace.conversation or None,
            "query": trace.query,
            "reference": trace.reference,
            "answer": trace.answer,
            "chunks": len(trace.chunks),
            "failed": result.failed,
            "relevant_total": trace.relevant_total,
            "tags": list(trace.tags),
            **{name: result.scores.get(name) for name in run.manifest.metrics},
        }


def result_rows(result: TraceResult) -> Iterator[dict[str, Any]]:
    """Yield a flat row for every chunk of one trace; None if a verdict or its absence says nothing."""
    for place, (chunk, outcome) in enumerate(zip(result.trace.chunks, result.outcomes, strict=True)):
        row: dict[str, Any] = dict.fromkeys(VERDICT_TYPES)
        row |= {key: value for key, value in outcome if key in row}
        if outcome.kind == "no_verdict":
            row["reason"] = outcome.detail
        votes = {name: grades[place] for name, grades in result.votes.items()}  # of a panel or a cascade
        yield row | {
            "trace_id": result.trace_id,
            "rank": place + 1,
            "votes": json.dumps(votes, ensure_ascii=False) if votes else None,
            "label": chunk.label,
            "retriever_score": chunk.score,
            "title": chunk.title,
            "text": chunk.text,
        }


def claim_rows(run: Run) -> Iterator[dict[str, Any]]:
    """Yield a flat row for every claim of every trace that was judged by claims, in the reference's order."""
    # `covered` is None if a missing verdict could have shown the claim covered. `together` is None if nobody
    # asked whether all chunks cover it together, or the answer failed (`asked_together` tells which).
    for result in run.results:
        for judged in judged_claims(result.claims, result.outcomes) or ():
            cover = judged.cover
            yield {
                "trace_id": result.trace_id,
                "claim_id": judged.claim.id,
                "claim": judged.claim.text,
                "vital": judged.claim.vital,
                "covered": None if cover == "unknown" else cover == "covered",
                "cover": cover,
                "chunks": len(judged.verdicts),
                "full_ranks": list(judged.ranks("full")),
                "partial_ranks": list(judged.ranks("partial")),
                "conflicting_ranks": list(judged.ranks("contradicts")),
                "failed_ranks": list(judged.ranks(None)),
                "asked_together": judged.asked,
                "together": judged.together,
                "quote": judged.claim.quote,
                "query": result.trace.query,
                "tags": list(result.trace.tags),
            }


TRACE_TYPES = {
    "trace_id": "string", "conversation": "string", "query": "string", "reference": "string", "answer": "string",
    "chunks": "int64", "failed": "int64", "relevant_total": "int64",
}  # fmt: skip
CLAIM_TYPES = {
    "trace_id": "string", "claim_id": "string", "claim": "string", "vital": "bool",
    "covered": "bool", "cover": "string", "chunks": "int64",
    "full_ranks": "int64s", "partial_ranks": "int64s", "conflicting_ranks": "int64s", "failed_ranks": "int64s",
    "asked_together": "bool", "together": "bool", "quote": "string", "query": "string", "tags": "strings",
}  # fmt: skip
VERDICT_TYPES = {
    "trace_id": "string", "rank": "int64", "chunk_id": "string", "grade": "int64", "relevant": "bool",
    "why": "string", "reason": "string", "evidence": "string", "evidence_found": "bool",
    "instruction_in_chunk": "bool", "confidence": "double", "expected_grade": "double",
    "grade_probabilities": "doubles", "stage": "string", "votes": "string", "label": "int64",
    "retriever_score": "double", "title": "string", "text": "string",
}  # fmt: skip
"""The type of each column, as PyArrow names it, so that a column of nothing keeps its type; a list's with an
`s` at the end."""


def table_of(run: Run, table: TableName) -> tuple[dict[str, str], Iterator[dict[str, Any]]]:
    """Return the columns of a table with their types, and its rows."""
    if table == "claims":
        return CLAIM_TYPES, claim_rows(run)
    if table == "traces":
        return TRACE_TYPES | dict.fromkeys(run.manifest.metrics, "double") | {"tags": "strings"}, trace_rows(run)
    return VERDICT_TYPES, chain.from_iterable(map(result_rows, run.results))


def write_parquet(run: Run, path: Path, table: TableName = "verdicts") -> None:
    """Write one of the tables as Parquet, a block of rows at a time."""
    pyarrow, parquet = import_extra("Parquet needs PyArrow", "parquet", "pyarrow", "pyarrow.parquet")
    types, rows = table_of(run, table)
    fields = []
    for name, kind in types.items():
        value = pyarrow.type_for_alias(kind.removesuffix("s"))
        fields.append((name, pyarrow.list_(value) if kind.endswith("s") else value))
    schema = pyarrow.schema(fields)
    with replacing(path) as file, parquet.ParquetWriter(file, schema) as writer:
        for block in blocks(rows, _BLOCK):
            writer.write_table(pyarrow.Table.from_pylist(block, schema=schema))


def table_csv(run: Run, table: TableName, *, safe_cells: bool = False) -> Iterator[str]:
    """Yield a table as CSV, a line each: lists with spaces between ranks, commas between texts."""
    types, rows = table_of(run, table)
    head: list[list[object]] = [[*types]]
    cells: Iterator[list[object]] = ([_cell(row.get(name)) for name in types] for row in rows)
    for row in chain(head, cells):
        yield csv_text([[safe_cell(cell) for cell in row] if safe_cells else row])


def table_lines(run: Run, table: TableName) -> Iterator[str]:
    """Yield a table as JSON Lines."""
    for row in table_of(run, table)[1]:
        yield json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


def table_json(run: Run, table: TableName) -> Iterator[str]:
    """Yield a table as one JSON array, an object a row."""
    begun = False
    for line in table_lines(run, table):
        yield (",\n " if begun else "[\n ") + line.rstrip("\n")
        begun = True
    yield "\n]\n" if begun else "[]\n"


def _cell(value: object) -> object:
    if isinstance(value, list):
        return (" " if all(isinstance(item, int) for item in value) else ", ").join(map(str, value))
    return "" if value is None else value


TABLE_WRITERS: Mapping[str, Callable[[Run, TableName], Iterator[str]]] = {
    "csv": table_csv,
    "jsonl": table_lines,
    "json": table_json,
}
"""The text formats that hold a table."""
EXPORTS = (Format("parquet", write_parquet, (".parquet",), writes=True),)
