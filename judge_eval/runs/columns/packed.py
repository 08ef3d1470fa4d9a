"""A run as columns: the few numbers a trace that comparing, measuring and reporting need, packed."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from judge_eval.digest import digest_parts
from judge_eval.errors import Why
from judge_eval.metrics.ragged import offsets_of
from judge_eval.runs.folder.journal import cluster_of
from judge_eval.runs.folder.records import TraceResult

Hashes: TypeAlias = NDArray[np.uint64]
Places: TypeAlias = NDArray[np.int64]
Small: TypeAlias = NDArray[np.int8]

WHYS: Final = get_args(Why)
"""Why there is no verdict, in the order of its codes in `Columns.grades`: -1, -2, ...; new ones come last."""
NO_LABEL: Final = -1


@dataclass(frozen=True, slots=True)
class Columns:
    """The traces of a run in columns, about 160 bytes a trace of ten chunks, however long its texts are.

    Texts are hashes of 64 bits (ids of traces of 128), to tell them apart; texts to show are read from the
    results. The chunks of all traces follow each other: those of trace k are `starts[k]` to `starts[k + 1]`.
    """

    metrics: tuple[str, ...]
    ids: Hashes
    """Of each trace's id, shape (traces, 2)."""
    questions: Hashes
    """Of query, reference and answer, shape (traces,)."""
    clusters: Hashes
    """Of the cluster's id; 0 where a trace carries none."""
    scores: NDArray[np.float64]
    """Shape (traces, metrics); NaN where failed verdicts leave none."""
    starts: Places
    """Shape (traces + 1,)."""
    chunk_ids: Hashes
    """Shape (chunks,); empty where they were not asked for."""
    passages: Hashes
    """Of title and text."""
    grades: Small
    """The verdict's grade; below 0 the reason why there is none, see `WHYS`."""
    labels: Small
    """The label that came with the chunk; -1 where there is none."""
    probabilities: NDArray[np.float64]
    """The judge's that the chunk is relevant, NaN where it told none; empty where they were not asked for."""

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def sizes(self) -> Places:
        """How many chunks each trace has."""
        return np.diff(self.starts)

    @property
    def rows(self) -> Places:
        """The place of each chunk's trace."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def per_trace(self, chunks: NDArray[np.bool_]) -> Places:
        """Count the chunks of each trace of which something holds."""
        total = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(chunks, dtype=np.int64)])
        return np.diff(total[self.starts])

    def chunks_of(self, traces: Places) -> tuple[Places, Places, Places]:
        """Return for each chunk of n traces: which trace (from 0), its place among all, its rank (from 1)."""
        sizes = self.sizes[traces]
        rows = np.repeat(np.arange(len(traces)), sizes)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return rows, self.starts[traces][rows] + within, within + 1

    def column(self, metric: str) -> NDArray[np.float64]:
        """Return the scores of a metric, shape (traces,)."""
        return self.scores[:, self.metrics.index(metric)]

    def at(self, traces: Places) -> Columns:
        """Return the columns of some traces, in this order."""
        _, chunks, _ = self.chunks_of(traces)
        of_traces = {name: getattr(self, name)[traces] for name in ("ids", "questions", "clusters", "scores")}
        of_chunks = {name: each[chunks] for name in _OF_CHUNKS if len(each := getattr(self, name))}
        return replace(self, starts=offsets_of(self.sizes[traces]), **of_traces, **of_chunks)

    def only(self, metrics: Sequence[str]) -> Columns:
        """Return the columns with the scores of these metrics, in this order."""
        places = [self.metrics.index(name) for name in metrics]
        return replace(self, metrics=tuple(metrics), scores=self.scores[:, places])


_OF_CHUNKS: Final = ("chunk_ids", "passages", "grades", "labels", "probabilities")


def id_hash(text: str) -> bytes:
    """Return the 16 bytes for the id of a trace."""
    return digest_parts([text])[:16]


def id_hashes(texts: Iterable[str]) -> Hashes:
    """Return the hashes of the ids of traces, shape (traces, 2)."""
    return _hashes(b"".join(map(id_hash, texts))).reshape(-1, 2)


def chunk_hash(text: str) -> bytes:
    """Return the 8 bytes for the id of a chunk."""
    return digest_parts([text])[:8]


def passage_number(title: str | None, text: str) -> int:
    """Return the number for title and text of a chunk, of 64 bits."""
    return hash_number(digest_parts([title or "", text])[:8])


def question_hash(query: str, reference: str | None, answer: str | None) -> bytes:
    """Return the 8 bytes for the question of a trace."""
    return digest_parts([query, reference or "", answer or ""])[:8]


def hash_number(digest: bytes) -> int:
    """Return the 8 bytes of a hash as a number, as columns hold them."""
    return int.from_bytes(digest, sys.byteorder)


def label_code(label: int | None) -> int:
    """Return the code of a label in `Columns.labels`; a label that is not a grade stays one that is not."""
    return NO_LABEL if label is None else max(NO_LABEL, min(label, 99))


class Packer:
    """Packs results into columns, one after the other.

    `metrics` says which scores to keep, `cluster` which key of `metadata` groups traces; ids of chunks and
    the judge's probabilities (8 bytes a chunk) are kept on request.
    """

    def __init__(
        self, metrics: Sequence[str], cluster: str = "cluster", *, chunk_ids: bool = False, probabilities: bool = False
    ) -> None:
        self._metrics, self._cluster, self._with_ids = tuple(metrics), cluster, chunk_ids
        self._probabilities = array("d") if probabilities else None
        self._ids, self._questions, self._clusters = bytearray(), bytearray(), bytearray()
        self._chunk_ids, self._passages = bytearray(), array("Q")
        self._scores = array("d")
        self._sizes = array("l")
        self._grades, self._labels = array("b"), array("b")

    def add(self, result: TraceResult, passages: Iterable[int] | None = None) -> None:
        """Pack a result; `passages` are the numbers of its chunks if they are known (see `passage_number`)."""
        trace = result.trace
        self._ids += id_hash(result.trace_id)
        self._questions += question_hash(trace.query, trace.reference, trace.answer)
        cluster = cluster_of(trace, self._cluster)
        self._clusters += bytes(8) if cluster is None else chunk_hash(cluster)
        for name in self._metrics:
            value = result.scores.get(name)
            self._scores.append(float("nan") if value is None else value)
        self._sizes.append(len(trace.chunks))
        if self._with_ids:
            self._chunk_ids += b"".join([chunk_hash(chunk.id) for chunk in trace.chunks])
        self._passages.extend(passages or [passage_number(chunk.title, chunk.text) for chunk in trace.chunks])
        outcomes = result.outcomes
        self._grades.extend([o.grade if o.kind == "verdict" else -1 - WHYS.index(o.why) for o in outcomes])
        labels = [c.label for c, _ in zip(trace.chunks, outcomes, strict=True)]
        self._labels.extend([NO_LABEL if label is None else label_code(label) for label in labels])
        if self._probabilities is not None:
            likely = [o.confidence if o.kind == "verdict" else None for o in outcomes]
            self._probabilities.extend([float("nan") if each is None else each for each in likely])

    def done(self) -> Columns:
        """Return the columns of what was packed."""
        return Columns(
            metrics=self._metrics,
            ids=_hashes(self._ids).reshape(-1, 2),
            questions=_hashes(self._questions),
            clusters=_hashes(self._clusters),
            scores=np.frombuffer(self._scores, dtype=np.float64).reshape(len(self._sizes), len(self._metrics)),
            starts=offsets_of(np.frombuffer(self._sizes, dtype=np.dtype("l"))),
            chunk_ids=_hashes(self._chunk_ids),
            passages=np.frombuffer(self._passages, dtype=np.uint64),
            grades=np.frombuffer(self._grades, dtype=np.int8),
            labels=np.frombuffer(self._labels, dtype=np.int8),
            probabilities=np.frombuffer(self._probabilities or b"", dtype=np.float64),
        )


def pack(
    results: Iterable[TraceResult],
    metrics: Sequence[str],
    cluster: str = "cluster",
    *,
    chunk_ids: bool = False,
    probabilities: bool = False,
) -> Columns:
    """Pack results into columns; see `Packer`."""
    packer = Packer(metrics, cluster, chunk_ids=chunk_ids, probabilities=probabilities)
    for result in results:
        packer.add(result)
    return packer.done()


def put_labels(columns: Columns, labels: Mapping[tuple[str, str], int], onto: Small) -> int:
    """Write labels by trace and chunk into a column, and return how many are of chunks of the run."""
    matched = 0
    names = list(dict.fromkeys(trace for trace, _ in labels))
    rows = dict(zip(names, find_ids(id_hashes(names), columns.ids).tolist(), strict=True))
    for (trace, chunk), label in labels.items():
        row = rows[trace]
        if row >= 0:
            start, end = columns.starts[row : row + 2]
            places = start + np.flatnonzero(columns.chunk_ids[start:end] == hash_number(chunk_hash(chunk)))
            onto[places] = label_code(label)
            matched += len(places)
    return matched


def find_ids(wanted: Hashes, among: Hashes) -> Places:
    """Return the row of each id, shape (n, 2), among others, shape (m, 2), each once; -1 if absent."""
    places = np.full(len(wanted), -1, dtype=np.int64)
    if not len(among) or not len(wanted):
        return places
    order = np.lexsort((among[:, 1], among[:, 0]))
    high = among[order, 0]
    at = np.searchsorted(high, wanted[:, 0])
    left = np.arange(len(wanted))
    while left.size:  # a second round only where two ids share their first 64 bits
        left = left[at[left] < len(order)]
        left = left[high[at[left]] == wanted[left, 0]]
        rows = order[at[left]]
        same = among[rows, 1] == wanted[left, 1]
        places[left[same]] = rows[same]
        left = left[~same]
        at[left] += 1
    return places


def _hashes(data: bytes | bytearray) -> Hashes:
    return np.frombuffer(data, dtype=np.uint64)


def cluster_hashes(clusters: Iterable[str | None]) -> Hashes:
    """Return the hashes of clusters' ids as `Columns.clusters` holds them."""
    numbers = [0 if name is None else hash_number(chunk_hash(name)) for name in clusters]
    return np.array(numbers, dtype=np.uint64)


def cluster_codes(clusters: Hashes) -> list[int] | None:
    """Number the clusters of traces, one for each trace without; None if no two traces share one."""
    if len(np.unique(clusters[clusters != 0])) == np.count_nonzero(clusters):
        return None
    names, codes = np.unique(clusters, return_inverse=True)
    alone = np.flatnonzero(clusters == 0)
    codes[alone] = len(names) + np.arange(len(alone))
    return [int(code) for code in codes]
