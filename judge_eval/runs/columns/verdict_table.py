"""The verdicts of a run as a table, read once: columns of numbers for traces and for chunks, without their texts."""

from __future__ import annotations

import re
import sys
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Final, Self, TypeAlias, get_args
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from judge_eval.digest import digest_parts, with_history
from judge_eval.errors import NO_FAILURE, Why
from judge_eval.metrics.ragged import offsets_of
from judge_eval.runs.columns.graded_trace import DEFAULT_CLUSTER, GradedTrace, cluster_of
from judge_eval.runs.folder.journal import AskedTrace, ResultsFile, by_position, read_result
from judge_eval.runs.folder.labels import Labelled, given_labels
from judge_eval.runs.folder.lines import ResultLine, TraceLine, decode
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run, scale_of
from judge_eval.schema import Trace

Hashes: TypeAlias = NDArray[np.uint64]
Places: TypeAlias = NDArray[np.int64]
Small: TypeAlias = NDArray[np.int8]
Codes: TypeAlias = NDArray[np.int32]
"""Places in `TraceTable.names`."""

WHYS: Final = get_args(Why)
"""Why there is no verdict, in the order of its codes in `TraceTable.grades`: -1, -2, ...; new ones come last."""
_NO_FAILURE: Final = -1 - WHYS.index(NO_FAILURE)
NO_LABEL: Final = -1
_NAN: Final = float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class TraceTable:
    """Judged traces as columns of numbers, without their texts.

    The chunks of all traces follow each other: those of trace k are `starts[k]` to `starts[k + 1]`.
    """

    metrics: tuple[str, ...]
    positions: Places
    """Of each trace in the dataset."""
    clusters: Hashes
    """Of the cluster's id; 0 where a trace carries none."""
    scores: NDArray[np.float64]
    """Shape (traces, metrics); NaN where failed verdicts leave none."""
    letters: Places
    """How long the chunks of each trace are together, in characters."""
    names: tuple[tuple[str, ...], ...]
    """What the columns of codes say, each once."""
    tags: Codes
    unanswerable: NDArray[np.bool_]
    """Whether the dataset says that nothing answers the question: such a trace is in no mean."""
    starts: Places
    """Shape (traces + 1,)."""
    grades: Small
    """The verdict's grade; below 0 the reason why there is none, see `WHYS`."""

    def __len__(self) -> int:
        return len(self.positions)

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
        return chunks_at(self.starts, traces)

    def column(self, metric: str) -> NDArray[np.float64]:
        """Return the scores of a metric, shape (traces,)."""
        return self.scores[:, self.metrics.index(metric)]

    def at(self, traces: Places) -> Self:
        """Return the table of some traces, in this order."""
        _, chunks, _ = self.chunks_of(traces)
        moved: dict[str, Any] = {"starts": offsets_of(self.sizes[traces])}
        for name in {field.name for field in fields(self)} - {"metrics", "names", "starts"}:
            column = getattr(self, name)
            if name not in _OF_CHUNKS:
                moved[name] = column[traces]
            elif len(column):
                moved[name] = column[chunks]
        return replace(self, **moved)

    def in_order(self) -> Self:
        """Return the table by position; of traces with the same position only the last."""
        order = by_position(self.positions)
        return self if order is None else self.at(order)

    def answered(self) -> Self:
        """Return the table without the traces that nothing answers."""
        return self.at(np.flatnonzero(~self.unanswerable)) if self.unanswerable.any() else self


@dataclass(frozen=True, slots=True, eq=False)
class VerdictTable(TraceTable):
    """The verdicts of a run, about 300 bytes a trace of ten chunks, however long its texts are.

    Texts are hashes of 64 bits (ids of traces of 128), to tell them apart; texts to show are read from the results.
    """

    ids: Hashes
    """Of each trace's id, shape (traces, 2)."""
    questions: Hashes
    """Of query, reference and answer, shape (traces,)."""
    searches: Hashes
    """Of what was searched, shape (traces,): the query if nothing else."""
    languages: Codes
    """What metadata or tags state of the trace, else what its chunks state."""
    scripts: Codes
    """The most frequent script of the question."""
    sources: Codes
    chunk_ids: Hashes
    """Shape (chunks,)."""
    passages: Hashes
    """Of title and text."""
    labels: Small
    """The label that came with the chunk; -1 where there is none."""
    likely: NDArray[np.float64]
    """The judge's probability that the chunk is relevant, NaN where it told none; empty if it told none of any."""

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """The judge's probability that each chunk is relevant, NaN where it told none."""
        return self.likely if self.likely.size else np.full(self.grades.size, np.nan)

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Which chunks have no verdict though somebody was to be asked."""
        return np.asarray((self.grades < 0) & (self.grades != _NO_FAILURE))

    def only(self, metrics: Sequence[str]) -> VerdictTable:
        """Return the table with the scores of these metrics, in this order."""
        if tuple(metrics) == self.metrics:
            return self
        places = [self.metrics.index(name) for name in metrics]
        return replace(self, metrics=tuple(metrics), scores=self.scores[:, places])

    def with_labels(self, labels: Mapping[tuple[str, str], int]) -> VerdictTable:
        """Return the table with these labels in place of its own."""
        changed = self.labels.copy()
        put_labels(self, labels, changed)
        return replace(self, labels=changed)


@dataclass(frozen=True, slots=True, eq=False)
class ScoredTraces(TraceTable):
    """What means and their intervals are computed from."""

    low: NDArray[np.float64]
    """The least that a score can be, shape (traces, metrics): the score if there is one, NaN without bounds."""
    high: NDArray[np.float64]
    graded: NDArray[np.object_]
    """What scoring reads of a trace (`GradedTrace`) of which an answer is missing; None of the others."""


NAMED: Final = ("tags", "languages", "scripts", "sources")
"""The columns of a `VerdictTable` that are places in `names`."""
_OF_CHUNKS: Final = frozenset({"chunk_ids", "passages", "grades", "labels", "likely"})


def chunks_at(starts: Places, traces: Places) -> tuple[Places, Places, Places]:
    """Return for each chunk of n traces: which trace (from 0), its place among all, its rank (from 1)."""
    sizes = np.diff(starts)[traces]
    rows = np.repeat(np.arange(len(traces)), sizes)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rows, starts[traces][rows] + within, within + 1


def codes(rows: Places, values: Hashes) -> Places:
    """Number equal values of a row alike: from 0, ascending by row and then by value."""
    order = np.lexsort((values, rows))
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (np.diff(rows[order]) != 0) | (np.diff(values[order]) != 0)
    out = np.empty(len(order), dtype=np.int64)
    out[order] = np.cumsum(new) - 1
    return out


def occurrences(codes: Places) -> Places:
    """Return how often each code stood before."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    out = np.empty(len(order), dtype=np.int64)
    out[order] = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return out


def stated_once(values: Hashes) -> tuple[Hashes, Places]:
    """Return the values that stand once, ascending, and their places."""
    unlike, places, counts = np.unique(values, return_index=True, return_counts=True)
    return unlike[counts == 1], places[counts == 1]


def id_hash(text: str) -> bytes:
    """Return the 16 bytes for the id of a trace."""
    return digest_parts([text])[:16]


def id_hashes(texts: Iterable[str]) -> Hashes:
    """Return the hashes of the ids of traces, shape (traces, 2)."""
    return _hashes(b"".join(map(id_hash, texts))).reshape(-1, 2)


@lru_cache(maxsize=4096)  # ids such as c1, c2, ... stand in all traces
def chunk_hash(text: str) -> bytes:
    """Return the 8 bytes for the id of a chunk."""
    return digest_parts([text])[:8]


def passage_number(title: str | None, text: str) -> int:
    """Return the number for title and text of a chunk, of 64 bits."""
    return hash_number(digest_parts([title or "", text])[:8])


def question_hash(asked: Trace | TraceLine | AskedTrace) -> bytes:
    """Return the 8 bytes for what a trace asks: conversation, query, reference and answer; a missing one is empty."""
    digest = digest_parts([asked.query, asked.reference or "", asked.answer or ""])
    return with_history(digest, asked.history)[:8]


def hash_number(digest: bytes) -> int:
    """Return the 8 bytes of a hash as a number, as columns hold them."""
    return int.from_bytes(digest, sys.byteorder)


def label_code(label: int | None) -> int:
    """Return the code of a label in `VerdictTable.labels`; a label that is not a grade stays one that is not."""
    return NO_LABEL if label is None else max(NO_LABEL, min(label, 99))


class _Columns:
    """Takes in results for a `TraceTable` of some metrics' scores; the key `cluster` of `metadata` groups traces."""

    def __init__(self, metrics: Sequence[str], cluster: str, named: Sequence[str]) -> None:
        self._metrics, self._cluster = tuple(metrics), cluster
        self._positions, self._sizes, self._letters = array("q"), array("q"), array("q")
        self._scores, self._clusters = array("d"), array("Q")
        self._grades, self._unanswerable = array("b"), array("b")
        self._codes = {name: array("i") for name in named}
        self._names: dict[tuple[str, ...], int] = {}

    def __len__(self) -> int:
        return len(self._positions)

    def _add(self, result: TraceResult | ResultLine, *named: tuple[str, ...]) -> None:
        trace = result.trace
        self._positions.append(result.position)
        self._sizes.append(len(result.outcomes))
        self._letters.append(sum([len(chunk.text) for chunk in trace.chunks]))
        self._unanswerable.append(trace.answerable is False)
        cluster = cluster_of(trace, self._cluster)
        self._clusters.append(0 if cluster is None else hash_number(chunk_hash(cluster)))
        self._grades.extend([o.grade if o.kind == "verdict" else -1 - WHYS.index(o.why) for o in result.outcomes])
        for name in self._metrics:
            value = result.scores.get(name)
            self._scores.append(_NAN if value is None else value)
        for column, names in zip(self._codes.values(), named, strict=True):
            column.append(self._names.setdefault(names, len(self._names)))

    def _columns(self) -> dict[str, Any]:
        """Return the fields of the table."""
        return {
            "metrics": self._metrics,
            "positions": np.frombuffer(self._positions, dtype=np.int64),
            "clusters": np.frombuffer(self._clusters, dtype=np.uint64),
            "scores": np.frombuffer(self._scores, dtype=np.float64).reshape(len(self), len(self._metrics)),
            "letters": np.frombuffer(self._letters, dtype=np.int64),
            "names": tuple(self._names),
            "unanswerable": np.frombuffer(self._unanswerable, dtype=np.bool_),
            "starts": offsets_of(np.frombuffer(self._sizes, dtype=np.int64)),
            "grades": np.frombuffer(self._grades, dtype=np.int8),
            **{name: np.frombuffer(each, dtype=np.int32) for name, each in self._codes.items()},
        }


class ScoreColumns(_Columns):
    """Makes what means are computed from, of results in the order of their positions or not."""

    def __init__(self, metrics: Sequence[str], cluster: str = DEFAULT_CLUSTER) -> None:
        super().__init__(metrics, cluster, ("tags",))
        self._bounds: dict[int, dict[str, tuple[float, float]]] = {}
        self._graded: dict[int, GradedTrace] = {}

    def add(self, result: TraceResult) -> None:
        """Add a result; a later one of the same position takes its place in order."""
        if result.bounds:
            self._bounds[len(self)] = result.bounds
        if result.failed or (result.claims and None in result.claims.together.values()):
            self._graded[len(self)] = GradedTrace.of(result.trace, result.outcomes)
        self._add(result, result.trace.tags)

    def done(self) -> ScoredTraces:
        """Return the table of what was added."""
        columns = self._columns()
        low, high = columns["scores"].copy(), columns["scores"].copy()
        for row, bounds in self._bounds.items():
            for place, name in enumerate(self._metrics):
                if name in bounds and np.isnan(low[row, place]):
                    low[row, place], high[row, place] = bounds[name]
        graded = np.full(len(self), None, dtype=np.object_)
        for row, trace in self._graded.items():
            graded[row] = trace
        return ScoredTraces(**columns, low=low, high=high, graded=graded)


class TableBuilder(_Columns):
    """Makes a table of the verdicts of results, one after the other."""

    def __init__(self, metrics: Sequence[str], cluster: str) -> None:
        super().__init__(metrics, cluster, NAMED)
        self._hashes = {name: bytearray() for name in ("ids", "questions", "searches", "chunk_ids")}
        self._passages, self._labels, self._likely = array("Q"), array("b"), array("d")

    def add(self, result: TraceResult | ResultLine) -> None:
        """Add the result of a trace."""
        trace, outcomes, hashes = result.trace, result.outcomes, self._hashes
        if len(outcomes) != len(trace.chunks):
            raise ValueError(f"{len(outcomes)} outcomes for {len(trace.chunks)} chunks")
        before = len(self._grades)
        self._add(result, *named_of(trace))
        hashes["ids"] += id_hash(result.trace_id)
        hashes["questions"] += question_hash(trace)
        hashes["searches"] += chunk_hash((trace.search_query or trace.query).strip())
        hashes["chunk_ids"] += b"".join([chunk_hash(chunk.id) for chunk in trace.chunks])
        self._passages.extend([passage_number(chunk.title, chunk.text) for chunk in trace.chunks])
        self._labels.extend([label_code(chunk.label) for chunk in trace.chunks])
        likely = [o.confidence if o.kind == "verdict" else None for o in outcomes]
        if self._likely or any(each is not None for each in likely):
            if not self._likely:
                self._likely.extend([_NAN] * before)
            self._likely.extend([_NAN if each is None else each for each in likely])

    def done(self) -> VerdictTable:
        """Return the table of what was added."""
        hashes: dict[str, Any] = {name: _hashes(data) for name, data in self._hashes.items()}
        return VerdictTable(
            **self._columns(),
            **{**hashes, "ids": hashes["ids"].reshape(-1, 2)},
            passages=np.frombuffer(self._passages, dtype=np.uint64),
            labels=np.frombuffer(self._labels, dtype=np.int8),
            likely=np.frombuffer(self._likely, dtype=np.float64),
        )


def named_of(trace: Trace | TraceLine) -> tuple[tuple[str, ...], ...]:
    """Return the tags, languages, script and sources of a trace."""
    languages = _stated(trace, "language", _language_elsewhere(trace))
    return trace.tags, languages, (script_of(trace.query),), _stated(trace, "source", None)


def _stated(trace: Trace | TraceLine, key: str, elsewhere: object) -> tuple[str, ...]:
    """Return what a trace's metadata, or those of its chunks, state under a key."""
    own = (trace.metadata.get(key) if trace.metadata else None) or elsewhere
    every = [own] if own else [chunk.metadata.get(key) for chunk in trace.chunks if chunk.metadata]
    return tuple(sorted({str(value) for value in every if value}))


def _language_elsewhere(trace: Trace | TraceLine) -> object:
    """Return the language by `lang` of the metadata, or by a tag such as `lang:de`."""
    stated = trace.metadata.get("lang") if trace.metadata else None
    if stated:
        return stated
    tags = (re.fullmatch(r"lang(?:uage)?[:=]\s*(.+)", tag, re.IGNORECASE) for tag in trace.tags)
    return next((tag[1] for tag in tags if tag), None)


@lru_cache(maxsize=4096)
def _script_of_letter(sign: str) -> str:
    name = unicodedata.name(sign, "UNKNOWN").split()[0]
    return "LATIN" if name == "FULLWIDTH" else name


def script_of(text: str) -> str:
    """Return the most frequent script of a text, in brackets, since it stands for a language that is not stated."""
    if text.isascii():
        return "(Latin script)" if any(map(str.isalpha, text)) else "(no letters)"
    scripts = Counter(_script_of_letter(sign) for sign in text if sign.isalpha())
    if not scripts:
        return "(no letters)"
    if scripts.keys() & {"HIRAGANA", "KATAKANA"}:
        return "(Japanese script)"
    (script, _), *_ = scripts.most_common(1)
    return f"({'Han' if script == 'CJK' else script.capitalize()} script)"


def table_from(results: Iterable[TraceResult], metrics: Sequence[str], cluster: str = "cluster") -> VerdictTable:
    """Make a table of results in memory."""
    builder = TableBuilder(metrics, cluster)
    for result in results:
        builder.add(result)
    return builder.done()


def put_labels(table: VerdictTable, labels: Mapping[tuple[str, str], int], onto: Small) -> int:
    """Write labels by trace and chunk into a column, and return how many are of chunks of the run."""
    matched = 0
    names = list(dict.fromkeys(trace for trace, _ in labels))
    rows = dict(zip(names, find_ids(id_hashes(names), table.ids).tolist(), strict=True))
    for (trace, chunk), label in labels.items():
        row = rows[trace]
        if row >= 0:
            start, end = table.starts[row : row + 2]
            places = start + np.flatnonzero(table.chunk_ids[start:end] == hash_number(chunk_hash(chunk)))
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


def chunk_hashes(names: Iterable[str]) -> Hashes:
    """Return the hashes of the ids of chunks as `VerdictTable.chunk_ids` holds them."""
    return _hashes(b"".join(map(chunk_hash, names)))


def cluster_hashes(clusters: Iterable[str | None]) -> Hashes:
    """Return the hashes of clusters' ids as `VerdictTable.clusters` holds them."""
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


AnyResult: TypeAlias = TraceResult | ResultLine
_TABLES: WeakKeyDictionary[Sequence[TraceResult], dict[str, VerdictTable]] = WeakKeyDictionary()
"""The tables of results that are in use, by the key of their clusters."""


def verdict_table(
    run: Run,
    metrics: Sequence[str] | None = None,
    cluster: str | None = None,
    *,
    labels: int | None = None,
    take: Callable[[AnyResult], None] | None = None,
) -> VerdictTable:
    """Return the table of a run.

    Args:
        run: The run.
        metrics: Those of its metrics whose scores are wanted; None takes all.
        cluster: The key of `metadata` that groups traces; None takes the run's own.
        labels: The least label that counts as relevant, which puts the labels that were given on the run's page in
            place of those of the dataset; None takes the dataset's.
        take: Called with each result, if the table is not known and the results are read for it.
    """
    key, results = cluster or run.manifest.intervals.cluster, run.results
    if isinstance(results, Labelled):
        later, plain = results.labels, Run(run.manifest, results.plain, run.folder)
    else:
        given = {} if labels is None or run.folder is None else given_labels(run.folder, labels, scale_of(run))
        later, plain = {name: label.label for name, label in given.items() if label.label is not None}, run
    table = _table(plain, key, take)
    table = table if metrics is None else table.only(metrics)
    return table.with_labels(later) if later else table


def light_results(run: Run, places: Places | None = None) -> Iterator[AnyResult]:
    """Yield the results, or those at some places, without what only people read: in a third of the time."""
    results = run.results
    if not isinstance(results, ResultsFile) or not results.is_checked:
        yield from results if places is None else run.results_at(places)
        return
    for _, line, number in results.lines(places):
        yield _light(line, results, number)


def _light(line: bytes, results: ResultsFile, number: int) -> AnyResult:
    try:
        return decode(line)
    except ValueError:  # the strict reader says what is wrong with it
        return read_result(line, results.path, number, checked=True)


def keep_table(results: Sequence[TraceResult], cluster: str, table: VerdictTable) -> None:
    """Keep the table that was computed of results, for as long as these are in use."""
    _TABLES.setdefault(results, {})[cluster] = table


def _table(run: Run, cluster: str, take: Callable[[AnyResult], None] | None) -> VerdictTable:
    results, metrics = run.results, run.manifest.metrics
    known = {} if isinstance(results, list | tuple) else _TABLES.get(results, {})
    if cluster in known and (not isinstance(results, ResultsFile) or results.unchanged()):
        return known[cluster]
    if not isinstance(results, ResultsFile):
        return table_from(results, metrics, cluster)
    builder, fast = TableBuilder(metrics, cluster), results.is_checked  # else a key that stands twice must be found

    def add(line: bytes, number: int) -> None:
        result = _light(line, results, number) if fast else read_result(line, results.path, number)
        builder.add(result)
        if take is not None:
            take(result)

    results.read(add)
    table = builder.done().in_order()
    keep_table(results, cluster, table)
    return table
