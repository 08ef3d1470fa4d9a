"""Writing Parquet parts beside a run's results, and telling whether they are of these results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from judge_eval.errors import RunError, needs_extra
from judge_eval.files import replacing, write_atomically
from judge_eval.runs.columns.packed import label_code, passage_hash, question_hash
from judge_eval.runs.folder.files import MANIFEST, TRACES, VERDICTS, locked
from judge_eval.runs.folder.index import cluster_of
from judge_eval.runs.folder.integrity import sha256_of
from judge_eval.runs.folder.records import Manifest, TraceResult
from judge_eval.runs.folder.results import ResultsFile
from judge_eval.runs.folder.run import Run, load_manifest

KEY = b"judge_eval"
_BLOCK = 4096


def write_parts(run: Run) -> tuple[Path, Path]:
    """Write the parts of a run in a folder: `traces.parquet` and `verdicts.parquet`.

    They name the size and the SHA-256 of the results they were made from, and are read only as long as the
    results are these: the results stay what counts. The manifest takes in their own digests, in the folder
    and in the run in hand.

    Raises:
        ConfigError: PyArrow is not installed.
        RunError: The run has no folder, is being written, was changed, or the parts cannot be written.
    """
    arrow, parquet = load_arrow()
    if run.folder is None or not isinstance(run.results, ResultsFile):
        raise RunError("a run in memory has no parts; judge it into a folder")
    paths = run.folder / TRACES, run.folder / VERDICTS
    try:
        with locked(run.folder):
            _write(run.results, run.manifest, paths, arrow, parquet)
            _take_in(run, paths)
    except OSError as error:
        raise RunError(f"the parts cannot be written: {error.strerror or error}", file=run.folder) from None
    return paths


def _write(
    results: ResultsFile, manifest: Manifest, paths: tuple[Path, Path], arrow: Any, parquet: Any
) -> None:
    metrics, cluster = manifest.metrics, manifest.intervals.cluster
    origin = json.dumps(_origin(results.path, metrics, cluster)).encode()
    traces = _traces_schema(arrow, metrics).with_metadata({KEY: origin})
    verdicts = _verdicts_schema(arrow).with_metadata({KEY: origin})
    with (
        replacing(paths[0]) as first,
        replacing(paths[1]) as second,
        parquet.ParquetWriter(first, traces) as trace_file,
        parquet.ParquetWriter(second, verdicts) as verdict_file,
    ):
        for rows, chunks in _blocks(results, metrics, cluster):
            trace_file.write_table(arrow.Table.from_pylist(rows, schema=traces))
            verdict_file.write_table(arrow.Table.from_pylist(chunks, schema=verdicts))


def _take_in(run: Run, paths: tuple[Path, Path]) -> None:
    """Note the digests of the parts in the manifest of a run that has those of its results."""
    assert run.folder is not None
    there = load_manifest(run.folder)
    if there.seal is None:
        return
    parts = {path.name: sha256_of(path) for path in paths}
    results = there.seal.model_copy(update={"parts": parts})
    run.manifest = there.model_copy(update={"results": results})
    write_atomically(run.folder / MANIFEST, run.manifest.model_dump_json(indent=2).encode() + b"\n")


def load_arrow() -> tuple[Any, Any]:
    """Import PyArrow and its Parquet module.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise needs_extra("Parquet needs PyArrow", "parquet") from None
    return pyarrow, pyarrow.parquet


def _origin(results: Path, metrics: Sequence[str], cluster: str) -> dict[str, Any]:
    """Say which results parts are made from, and how."""
    size = results.stat().st_size
    return {"v": 1, "bytes": size, "sha256": sha256_of(results), "metrics": list(metrics), "cluster": cluster}


def _traces_schema(arrow: Any, metrics: Sequence[str]) -> Any:
    fields = [
        ("position", arrow.int64()),
        ("trace_id", arrow.string()),
        ("chunks", arrow.int32()),
        ("failed", arrow.int32()),
        ("relevant_total", arrow.int64()),
        ("tags", arrow.list_(arrow.string())),
        ("cluster", arrow.string()),
        ("question", arrow.uint64()),
        ("offset", arrow.int64()),
        ("line", arrow.int64()),
        *((name, arrow.float64()) for name in metrics),
    ]
    return arrow.schema(fields)


def _verdicts_schema(arrow: Any) -> Any:
    name = arrow.dictionary(arrow.int32(), arrow.string())
    fields = [
        ("trace_id", arrow.string()),
        ("rank", arrow.int32()),
        ("chunk_id", name),
        ("grade", arrow.int8()),
        ("relevant", arrow.bool_()),
        ("confidence", arrow.float64()),
        ("why", name),
        ("label", arrow.int8()),
        ("passage", arrow.uint64()),
    ]
    return arrow.schema(fields)


def _blocks(
    results: ResultsFile, metrics: Sequence[str], cluster: str
) -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Yield the rows of both parts, a block of traces at a time."""
    places = iter(results.places.tolist())
    rows: list[dict[str, Any]] = []
    chunks: list[dict[str, Any]] = []
    for result, (offset, line) in zip(results, places, strict=True):
        trace = result.trace
        question = question_hash(trace.query, trace.reference, trace.answer)
        row = {
            "position": result.position,
            "trace_id": result.trace_id,
            "chunks": len(trace.chunks),
            "failed": result.failed,
            "relevant_total": trace.relevant_total,
            "tags": list(trace.tags),
            "cluster": cluster_of(trace, cluster),
            "question": hash_number(question),
            "offset": offset,
            "line": line,
        }
        rows.append(row | {name: result.scores.get(name) for name in metrics})
        chunks += _chunk_rows(result)
        if len(rows) == _BLOCK:
            yield rows, chunks
            rows, chunks = [], []
    if rows:
        yield rows, chunks


def _chunk_rows(result: TraceResult) -> Iterator[dict[str, Any]]:
    for rank, (chunk, outcome) in enumerate(zip(result.trace.chunks, result.outcomes, strict=True), 1):
        judged = outcome if outcome.kind == "verdict" else None
        yield {
            "trace_id": result.trace_id,
            "rank": rank,
            "chunk_id": chunk.id,
            "grade": None if judged is None else judged.grade,
            "relevant": None if judged is None else judged.relevant,
            "confidence": None if judged is None else judged.confidence,
            "why": outcome.why if outcome.kind == "no_verdict" else None,
            "label": None if chunk.label is None else label_code(chunk.label),
            "passage": hash_number(passage_hash(chunk.title, chunk.text)),
        }


def hash_number(digest: bytes) -> int:
    """Return the 8 bytes of a hash as the number that the parts hold."""
    return int(np.frombuffer(digest, dtype=np.uint64)[0])


def parts_fit(origin: Any, path: Path, metrics: Sequence[str], cluster: str) -> bool:
    """Tell whether parts hold what is wanted, and were made from the results that are there now."""
    if not isinstance(origin, dict) or origin.get("v") != 1 or origin.get("cluster") != cluster:
        return False
    if not set(metrics) <= set(origin.get("metrics", ())) or origin.get("bytes") != path.stat().st_size:
        return False
    return _origin(path, origin["metrics"], cluster) == origin


def parts_known(manifest: Manifest, paths: Sequence[Path]) -> bool:
    """Tell whether parts are those that the manifest names; one without digests names none, and takes any."""
    results = manifest.seal
    return results is None or all(results.parts.get(path.name) == sha256_of(path) for path in paths)
