"""The columns of a run, from its Parquet parts where they fit its results, else from these."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import ConfigError
from judge_eval.files import is_plain, open_plain
from judge_eval.metrics.ragged import offsets_of
from judge_eval.runs.columns.packed import (
    NO_LABEL,
    WHYS,
    Columns,
    chunk_hash,
    id_hash,
    pack,
    put_labels,
)
from judge_eval.runs.columns.parquet import KEY, hash_number, load_arrow, parts_fit, parts_known
from judge_eval.runs.folder.files import TRACES, VERDICTS
from judge_eval.runs.folder.labels import Labelled, given_labels
from judge_eval.runs.folder.results import ResultsFile
from judge_eval.runs.folder.run import Run

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
) -> Columns:
    """Return the columns of a run: from its Parquet parts where they fit its results, else from these.

    Args:
        run: The run.
        metrics: Which scores to take.
        cluster: The key of `metadata` that groups traces.
        chunk_ids: Whether to take the ids of chunks.
        labels: Whether labels that were given since replace those of the dataset.
        probabilities: Whether to take the judge's probabilities.
    """
    given: Mapping[tuple[str, str], int] = {}
    if isinstance(run.results, Labelled):
        given, run = run.results.labels, Run(run.manifest, run.results.plain, run.folder)
    elif labels and run.folder is not None:
        there = given_labels(run.folder).items()
        given = {key: label.label for key, label in there if label.label is not None}
    names, wanted = tuple(metrics), chunk_ids or bool(given)
    columns = _from_parts(run, names, cluster, wanted, probabilities)
    if columns is None:
        columns = pack(run.results, names, cluster, chunk_ids=wanted, probabilities=probabilities)
    if given:
        changed = columns.labels.copy()
        put_labels(columns, given, changed)
        columns = replace(columns, labels=changed)
    return columns


def _from_parts(
    run: Run, metrics: tuple[str, ...], cluster: str, chunk_ids: bool, probabilities: bool
) -> Columns | None:
    """Read the parts; None where there are none, or they are of other results."""
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
        if not parts_known(run.manifest, paths):
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
) -> tuple[Columns, NDArray[np.int64]]:
    n, m = traces.metadata.num_rows, verdicts.metadata.num_rows
    ids, questions = np.empty((n, 2), np.uint64), np.empty(n, np.uint64)
    clusters, sizes = np.zeros(n, np.uint64), np.empty(n, np.int64)
    scores, places = np.empty((n, len(metrics))), np.empty((n, 2), np.int64)
    at = 0
    for batch in traces.iter_batches(_ROWS, columns=[*_COLUMNS, *metrics], use_threads=False):
        here = slice(at, at + len(batch))
        at += len(batch)
        columns = {name: batch.column(name) for name in batch.schema.names}
        digests = b"".join(map(id_hash, columns["trace_id"].to_pylist()))
        ids[here] = np.frombuffer(digests, np.uint64).reshape(-1, 2)
        questions[here] = columns["question"].to_numpy()
        sizes[here] = columns["chunks"].to_numpy()
        places[here, 0], places[here, 1] = columns["offset"].to_numpy(), columns["line"].to_numpy()
        if columns["cluster"].null_count < len(batch):
            clusters[here] = [
                0 if name is None else hash_number(chunk_hash(name))
                for name in columns["cluster"].to_pylist()
            ]
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
            names[here] = _by_name(columns["chunk_id"], lambda name: hash_number(chunk_hash(name)))
        if probabilities:  # parts of older versions lack the column, and the results are read
            likely[here] = columns["confidence"].to_numpy(zero_copy_only=False)
        passages[here] = columns["passage"].to_numpy()
        grades[here] = columns["grade"].fill_null(0).to_numpy(zero_copy_only=False)
        failed = columns["grade"].is_null().to_numpy(zero_copy_only=False)
        if failed.any():
            whys = [WHYS.index(why) for why in columns["why"].drop_null().to_pylist()]
            grades[here][failed] = -1 - np.array(whys)
        labels[here] = columns["label"].fill_null(NO_LABEL).to_numpy(zero_copy_only=False)
    if at != m or int(sizes.sum()) != m:
        raise ValueError("the parts do not fit together")
    starts = offsets_of(sizes)
    return (
        Columns(metrics, ids, questions, clusters, scores, starts, names, passages, grades, labels, likely),
        places,
    )


def _by_name(column: Any, make: Any) -> Any:
    """Map a column of few different names, each once."""
    table = np.array([make(name) for name in column.dictionary.to_pylist()], dtype=np.uint64)
    return table[column.indices.to_numpy()]
