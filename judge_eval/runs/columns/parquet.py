"""The Parquet files beside a run's results: writing them, and reading the columns of a run from them."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import ConfigError, RunError
from judge_eval.files import is_plain, open_plain, replacing, write_atomically
from judge_eval.installed import import_extra
from judge_eval.metrics.ragged import offsets_of
from judge_eval.runs.columns import verdict_table as table
from judge_eval.runs.folder.integrity import file_digest, with_digests
from judge_eval.runs.folder.journal import ResultsFile, cluster_of
from judge_eval.runs.folder.records import Manifest, TraceResult
from judge_eval.runs.folder.run import Run, load_manifest
from judge_eval.runs.folder.run_files import MANIFEST, RESULTS, TRACES, VERDICTS, locked, os_errors

_BLOCK = 4096


def write_parts(run: Run) -> tuple[Path, Path]:
    """Write `traces.parquet` and `verdicts.parquet` beside the results of a run."""
    # Their digests are added to that of the results in the manifest, in the folder and in `run`; they are read only
    # while all three match.
    arrow, parquet = load_arrow()
    if run.folder is None or not isinstance(run.results, ResultsFile):
        raise RunError("a run in memory has no Parquet files; judge it into a folder")
    paths = run.folder / TRACES, run.folder / VERDICTS
    with os_errors("the Parquet files cannot be written", run.folder), locked(run.folder):
        there = load_manifest(run.folder)
        _write(run.results, there, paths, arrow, parquet)
        if there.files:
            parts = {path.name: file_digest(path) for path in paths}
            run.manifest = with_digests(there, {**there.files, **parts})
            write_atomically(run.folder / MANIFEST, run.manifest.model_dump_json(indent=2).encode() + b"\n")
    return paths


def _write(results: ResultsFile, manifest: Manifest, paths: tuple[Path, Path], arrow: Any, parquet: Any) -> None:
    metrics, cluster = manifest.metrics, manifest.intervals.cluster
    traces, verdicts = _traces_schema(arrow, metrics), _verdicts_schema(arrow)
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


def _traces_schema(arrow: Any, metrics: Sequence[str]) -> Any:
    fields = [
        ("position", "int64"), ("trace_id", "string"), ("chunks", "int32"), ("failed", "int32"),
        ("relevant_total", "int64"), ("tags", arrow.list_(arrow.string())), ("cluster", "string"),
        ("question", "uint64"), ("searched", "uint64"), ("letters", "int64"), ("answerable", "bool"),
        ("languages", arrow.list_(arrow.string())),
        ("scripts", "string"), ("sources", arrow.list_(arrow.string())), ("offset", "int64"), ("line", "int64"),
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
        tags, languages, (script,), sources = table.named_of(trace)
        row = {
            "position": result.position,
            "trace_id": result.trace_id,
            "chunks": len(trace.chunks),
            "failed": result.failed,
            "relevant_total": trace.relevant_total,
            "tags": list(tags),
            "cluster": cluster_of(trace, cluster),
            "question": table.question_number(trace),
            "searched": table.hash_number(table.chunk_hash((trace.search_query or trace.query).strip())),
            "letters": sum(len(chunk.text) for chunk in trace.chunks),
            "answerable": trace.answerable,
            "languages": list(languages),
            "scripts": script,
            "sources": list(sources),
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
            "label": None if chunk.label is None else table.label_code(chunk.label),
            "passage": table.passage_number(chunk.title, chunk.text),
        }


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
                blocks = _blocks(run.results, run.manifest.metrics, run.manifest.intervals.cluster)
                for place, stored, expected in (
                    (TRACES, _rows_of(traces), (row for rows, _ in blocks for row in rows)),
                    (VERDICTS, _rows_of(verdicts), chain.from_iterable(map(_chunk_rows, run.results))),
                ):
                    for number, (row, true) in enumerate(zip_longest(stored, expected), 1):
                        if row != true:
                            return place, number
        except (arrow.ArrowException, OSError, KeyError, ValueError, TypeError):
            return place, number + 1
    return None


def _rows_of(file: Any) -> Iterator[dict[str, Any]]:
    for batch in file.iter_batches(_BLOCK, use_threads=False):
        yield from batch.to_pylist()


_ROWS = 32_768
_NUMBERS = {
    "position": "positions", "question": "questions", "searched": "searches", "chunks": "sizes",
    "letters": "letters", "offset": "offset", "line": "line",
}  # fmt: skip
"""VerdictTable of numbers in `traces.parquet`, and what a table calls them."""


def table_from_parts(run: Run, metrics: tuple[str, ...], cluster: str) -> table.VerdictTable | None:
    """Read the Parquet files; None if there are none, or they are of other results."""
    results = run.results
    if not isinstance(results, ResultsFile) or run.folder is None:
        return None
    paths = run.folder / TRACES, run.folder / VERDICTS
    if cluster != run.manifest.intervals.cluster or not all(is_plain(path) for path in paths):
        return None
    try:
        arrow, parquet = load_arrow()
    except ConfigError:  # the results say the same, only slower
        return None
    try:
        files = run.manifest.files
        if any(files.get(path.name) != file_digest(path) for path in (*paths, results.path)):
            return None
        with (
            open_plain(paths[0]) as first,
            open_plain(paths[1]) as second,
            parquet.ParquetFile(first) as traces,
            parquet.ParquetFile(second) as verdicts,
        ):
            read, places = _read(traces, verdicts, metrics)
            return read if results.placed(places, files[RESULTS].sha256) else None
    except (arrow.ArrowException, OSError, KeyError, ValueError):  # damaged: the results are there
        return None


def _read(traces: Any, verdicts: Any, metrics: tuple[str, ...]) -> tuple[table.VerdictTable, NDArray[np.int64]]:
    n, m = traces.metadata.num_rows, verdicts.metadata.num_rows
    numbers: dict[str, Any] = {name: np.empty(n, np.int64) for name in _NUMBERS.values()}
    numbers |= {name: np.empty(n, np.uint64) for name in ("questions", "searches")}
    ids, clusters, scores = np.empty((n, 2), np.uint64), np.zeros(n, np.uint64), np.empty((n, len(metrics)))
    unanswerable = np.empty(n, np.bool_)
    codes, names = {name: np.empty(n, np.int32) for name in table.NAMED}, dict[tuple[str, ...], int]()
    at = 0
    wanted = ["trace_id", "cluster", "answerable", *_NUMBERS, *table.NAMED, *metrics]
    for batch in traces.iter_batches(_ROWS, columns=wanted, use_threads=False):
        here = slice(at, at + len(batch))
        at += len(batch)
        columns = {name: batch.column(name) for name in batch.schema.names}
        ids[here] = table.id_hashes(columns["trace_id"].to_pylist())
        unanswerable[here] = ~columns["answerable"].fill_null(True).to_numpy(zero_copy_only=False)
        for name, called in _NUMBERS.items():
            numbers[called][here] = columns[name].to_numpy()
        for name in table.NAMED:
            listed = [(each,) if isinstance(each, str) else tuple(each) for each in columns[name].to_pylist()]
            codes[name][here] = [names.setdefault(each, len(names)) for each in listed]
        if columns["cluster"].null_count < len(batch):
            clusters[here] = table.cluster_hashes(columns["cluster"].to_pylist())
        for column, name in enumerate(metrics):
            scores[here, column] = columns[name].to_numpy(zero_copy_only=False)
    chunk_ids, passages = np.empty(m, np.uint64), np.empty(m, np.uint64)
    grades, labels, likely = np.empty(m, np.int8), np.empty(m, np.int8), np.empty(m)
    at = 0
    wanted = ["chunk_id", "confidence", "grade", "why", "label", "passage"]
    for batch in verdicts.iter_batches(_ROWS, columns=wanted, use_threads=False):
        here = slice(at, at + len(batch))
        at += len(batch)
        columns = {name: batch.column(name) for name in batch.schema.names}
        ids_of_chunks = columns["chunk_id"]
        hashes = table.chunk_hashes(ids_of_chunks.dictionary.to_pylist())
        chunk_ids[here] = hashes[ids_of_chunks.indices.to_numpy()]
        likely[here] = columns["confidence"].to_numpy(zero_copy_only=False)
        passages[here] = columns["passage"].to_numpy()
        grades[here] = columns["grade"].fill_null(0).to_numpy(zero_copy_only=False)
        failed = columns["grade"].is_null().to_numpy(zero_copy_only=False)
        if failed.any():
            whys = [table.WHYS.index(why) for why in columns["why"].drop_null().to_pylist()]
            grades[here][failed] = -1 - np.array(whys)
        labels[here] = columns["label"].fill_null(table.NO_LABEL).to_numpy(zero_copy_only=False)
    sizes = numbers.pop("sizes")
    if at != m or int(sizes.sum()) != m:
        raise ValueError("the parts do not fit together")
    places = np.column_stack([numbers.pop("offset"), numbers.pop("line")])
    read = table.VerdictTable(
        metrics=metrics,
        ids=ids,
        clusters=clusters,
        scores=scores,
        names=tuple(names),
        unanswerable=unanswerable,
        starts=offsets_of(sizes),
        chunk_ids=chunk_ids,
        passages=passages,
        grades=grades,
        labels=labels,
        likely=np.empty(0) if np.isnan(likely).all() else likely,
        **numbers,
        **codes,
    )
    return read, places
