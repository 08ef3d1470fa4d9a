"""The Parquet files beside a run's results: writing them, and reading the columns of a run from them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import ConfigError, RunError
from judge_eval.files import is_plain, open_plain, replacing, write_atomically
from judge_eval.installed import import_extra
from judge_eval.metrics.ragged import offsets_of
from judge_eval.runs.columns import packed
from judge_eval.runs.folder.integrity import are_parts_sealed, sha256_of, with_parts
from judge_eval.runs.folder.journal import ResultsFile, cluster_of
from judge_eval.runs.folder.labels import Labelled, given_labels
from judge_eval.runs.folder.records import Manifest, TraceResult
from judge_eval.runs.folder.run import Run, load_manifest
from judge_eval.runs.folder.run_files import MANIFEST, TRACES, VERDICTS, locked, os_errors

KEY = b"judge_eval"
_BLOCK = 4096


def write_parts(run: Run) -> tuple[Path, Path]:
    """Write `traces.parquet` and `verdicts.parquet` beside the results of a run."""
    # They contain the size and the SHA-256 of the results, and are read only while the results match. Their
    # own digests are added to the manifest, in the folder and in `run`.
    arrow, parquet = load_arrow()
    if run.folder is None or not isinstance(run.results, ResultsFile):
        raise RunError("a run in memory has no Parquet files; judge it into a folder")
    paths = run.folder / TRACES, run.folder / VERDICTS
    with os_errors("the Parquet files cannot be written", run.folder), locked(run.folder):
        _write(run.results, run.manifest, paths, arrow, parquet)
        there = load_manifest(run.folder)
        if there.seal is not None:
            parts = {path.name: sha256_of(path) for path in paths}
            run.manifest = there.but(results=with_parts(there.seal, parts))
            write_atomically(run.folder / MANIFEST, run.manifest.model_dump_json(indent=2).encode() + b"\n")
    return paths


def _write(results: ResultsFile, manifest: Manifest, paths: tuple[Path, Path], arrow: Any, parquet: Any) -> None:
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


def load_arrow() -> tuple[Any, Any]:
    """Import PyArrow and its Parquet module."""
    arrow, parquet = import_extra("Parquet needs PyArrow", "parquet", "pyarrow", "pyarrow.parquet")
    return arrow, parquet


def _origin(results: Path, metrics: Sequence[str], cluster: str) -> dict[str, Any]:
    size = results.stat().st_size
    return {"v": 1, "bytes": size, "sha256": sha256_of(results), "metrics": list(metrics), "cluster": cluster}


def _traces_schema(arrow: Any, metrics: Sequence[str]) -> Any:
    fields = [
        ("position", "int64"), ("trace_id", "string"), ("chunks", "int32"), ("failed", "int32"),
        ("relevant_total", "int64"), ("tags", arrow.list_(arrow.string())), ("cluster", "string"),
        ("question", "uint64"), ("offset", "int64"), ("line", "int64"),
    ]  # fmt: skip
    return arrow.schema([*fields, *((name, "float64") for name in metrics)])


def _verdicts_schema(arrow: Any) -> Any:
    name = arrow.dictionary(arrow.int32(), arrow.string())
    fields = [
        ("trace_id", "string"), ("rank", "int32"), ("chunk_id", name), ("grade", "int8"), ("relevant", "bool"),
        ("confidence", "float64"), ("why", name), ("stage", name), ("label", "int8"), ("passage", "uint64"),
    ]  # fmt: skip
    return arrow.schema(fields)


def _blocks(
    results: ResultsFile, metrics: Sequence[str], cluster: str
) -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    places = iter(results.places.tolist())
    rows: list[dict[str, Any]] = []
    chunks: list[dict[str, Any]] = []
    for result, (offset, line) in zip(results, places, strict=True):
        trace = result.trace
        question = packed.question_hash(trace.query, trace.reference, trace.answer)
        row = {
            "position": result.position,
            "trace_id": result.trace_id,
            "chunks": len(trace.chunks),
            "failed": result.failed,
            "relevant_total": trace.relevant_total,
            "tags": list(trace.tags),
            "cluster": cluster_of(trace, cluster),
            "question": packed.hash_number(question),
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
        yield {
            "trace_id": result.trace_id,
            "rank": rank,
            "chunk_id": chunk.id,
            **{name: getattr(outcome, name, None) for name in ("grade", "relevant", "confidence", "stage", "why")},
            "label": None if chunk.label is None else packed.label_code(chunk.label),
            "passage": packed.passage_number(chunk.title, chunk.text),
        }


def parts_fit(origin: Any, path: Path, metrics: Sequence[str], cluster: str) -> bool:
    """Return whether Parquet files hold the wanted columns and were made from the current results."""
    if not isinstance(origin, dict) or origin.get("v") != 1 or origin.get("cluster") != cluster:
        return False
    if not set(metrics) <= set(origin.get("metrics", ())) or origin.get("bytes") != path.stat().st_size:
        return False
    return _origin(path, origin["metrics"], cluster) == origin


def foreign_row(run: Run) -> tuple[str, int] | None:
    """Find a Parquet file and its row (from 1) that does not follow from the results; None if all do."""
    with suppress(ConfigError):
        arrow, parquet = load_arrow()
        assert run.folder is not None
        assert isinstance(run.results, ResultsFile)
        place, number = TRACES, 0
        try:
            with (
                open_plain(run.folder / TRACES) as first,
                open_plain(run.folder / VERDICTS) as second,
                parquet.ParquetFile(first) as traces,
                parquet.ParquetFile(second) as verdicts,
            ):
                origin = json.loads((traces.schema_arrow.metadata or {})[KEY])
                if not parts_fit(origin, run.results.path, (), origin["cluster"]):
                    return TRACES, 1
                blocks = _blocks(run.results, origin["metrics"], origin["cluster"])
                for place, stored, expected in (
                    (TRACES, _rows_of(traces), (row for rows, _ in blocks for row in rows)),
                    (VERDICTS, _rows_of(verdicts), chain.from_iterable(map(_chunk_rows, run.results))),
                ):
                    for number, (row, true) in enumerate(zip_longest(stored, expected), 1):
                        if not row or not true or not row.items() <= true.items():
                            return place, number
        except (arrow.ArrowException, OSError, KeyError, ValueError, TypeError):
            return place, number + 1
    return None


def _rows_of(file: Any) -> Iterator[dict[str, Any]]:
    for batch in file.iter_batches(_BLOCK, use_threads=False):
        yield from batch.to_pylist()


_ROWS = 32_768
_COLUMNS = ("trace_id", "question", "cluster", "chunks", "offset", "line")


def columns_of(
    run: Run,
    metrics: Sequence[str],
    cluster: str,
    *,
    chunk_ids: bool = False,
    labels: bool = False,
    probabilities: bool = False,
) -> packed.Columns:
    """Return the columns of a run: from its Parquet files if they match the results, else from these."""
    later_labels: Mapping[tuple[str, str], int] = {}
    if isinstance(run.results, Labelled):
        later_labels, run = run.results.labels, Run(run.manifest, run.results.plain, run.folder)
    elif labels and run.folder is not None:
        there = given_labels(run.folder).items()
        later_labels = {key: label.label for key, label in there if label.label is not None}
    names, wanted = tuple(metrics), chunk_ids or bool(later_labels)
    columns = _from_parts(run, names, cluster, wanted, probabilities)
    if columns is None:
        columns = packed.pack(run.results, names, cluster, chunk_ids=wanted, probabilities=probabilities)
    if later_labels:
        changed = columns.labels.copy()
        packed.put_labels(columns, later_labels, changed)
        columns = replace(columns, labels=changed)
    return columns


def _from_parts(
    run: Run, metrics: tuple[str, ...], cluster: str, chunk_ids: bool, probabilities: bool
) -> packed.Columns | None:
    """Read the Parquet files; None if there are none, or they are of other results."""
    results = run.results
    if not isinstance(results, ResultsFile) or run.folder is None:
        return None
    paths = run.folder / TRACES, run.folder / VERDICTS
    if not all(is_plain(path) for path in paths):
        return None
    try:
        arrow, parquet = load_arrow()
    except ConfigError:  # the results say the same, only slower
        return None
    try:
        seal = run.manifest.seal
        if seal is None or not are_parts_sealed(seal):
            return None
        if any(seal.parts.get(path.name) != sha256_of(path) for path in paths):
            return None
        with (
            open_plain(paths[0]) as first,
            open_plain(paths[1]) as second,
            parquet.ParquetFile(first) as traces,
            parquet.ParquetFile(second) as verdicts,
        ):
            origins = [json.loads((part.schema_arrow.metadata or {})[KEY]) for part in (traces, verdicts)]
            if origins[0] != origins[1] or not parts_fit(origins[0], results.path, metrics, cluster):
                return None
            columns, places = _read(traces, verdicts, metrics, chunk_ids, probabilities)
            return columns if results.placed(places, origins[0]["sha256"]) else None
    except (arrow.ArrowException, OSError, KeyError, ValueError):  # damaged: the results are there
        return None


def _read(
    traces: Any, verdicts: Any, metrics: tuple[str, ...], chunk_ids: bool, probabilities: bool
) -> tuple[packed.Columns, NDArray[np.int64]]:
    n, m = traces.metadata.num_rows, verdicts.metadata.num_rows
    ids, questions = np.empty((n, 2), np.uint64), np.empty(n, np.uint64)
    clusters, sizes = np.zeros(n, np.uint64), np.empty(n, np.int64)
    scores, places = np.empty((n, len(metrics))), np.empty((n, 2), np.int64)
    at = 0
    for batch in traces.iter_batches(_ROWS, columns=[*_COLUMNS, *metrics], use_threads=False):
        here = slice(at, at + len(batch))
        at += len(batch)
        columns = {name: batch.column(name) for name in batch.schema.names}
        ids[here] = packed.id_hashes(columns["trace_id"].to_pylist())
        questions[here] = columns["question"].to_numpy()
        sizes[here] = columns["chunks"].to_numpy()
        places[here, 0], places[here, 1] = columns["offset"].to_numpy(), columns["line"].to_numpy()
        if columns["cluster"].null_count < len(batch):
            clusters[here] = packed.cluster_hashes(columns["cluster"].to_pylist())
        for column, name in enumerate(metrics):
            scores[here, column] = columns[name].to_numpy(zero_copy_only=False)
    names, passages = np.empty(m if chunk_ids else 0, np.uint64), np.empty(m, np.uint64)
    grades, labels = np.empty(m, np.int8), np.empty(m, np.int8)
    likely = np.empty(m if probabilities else 0)
    at = 0
    wanted = [*(["chunk_id"] if chunk_ids else []), *(["confidence"] if probabilities else [])]
    wanted += ["grade", "why", "label", "passage"]
    for batch in verdicts.iter_batches(_ROWS, columns=wanted, use_threads=False):
        here = slice(at, at + len(batch))
        at += len(batch)
        columns = {name: batch.column(name) for name in batch.schema.names}
        if chunk_ids:
            ids_of_chunks = columns["chunk_id"]
            hashes = [packed.hash_number(packed.chunk_hash(name)) for name in ids_of_chunks.dictionary.to_pylist()]
            names[here] = np.array(hashes, dtype=np.uint64)[ids_of_chunks.indices.to_numpy()]
        if probabilities:
            likely[here] = columns["confidence"].to_numpy(zero_copy_only=False)
        passages[here] = columns["passage"].to_numpy()
        grades[here] = columns["grade"].fill_null(0).to_numpy(zero_copy_only=False)
        failed = columns["grade"].is_null().to_numpy(zero_copy_only=False)
        if failed.any():
            whys = [packed.WHYS.index(why) for why in columns["why"].drop_null().to_pylist()]
            grades[here][failed] = -1 - np.array(whys)
        labels[here] = columns["label"].fill_null(packed.NO_LABEL).to_numpy(zero_copy_only=False)
    if at != m or int(sizes.sum()) != m:
        raise ValueError("the parts do not fit together")
    starts = offsets_of(sizes)
    return (
        packed.Columns(metrics, ids, questions, clusters, scores, starts, names, passages, grades, labels, likely),
        places,
    )
