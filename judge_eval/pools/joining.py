"""Lists of several runs over the same questions, joined: one place and one verdict for each chunk."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Any, Final, Literal, NoReturn, Self, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from judge_eval.errors import RunError
from judge_eval.metrics.ragged import offsets_of
from judge_eval.note import Note
from judge_eval.record import Record
from judge_eval.runs.columns.graded_trace import cluster_of
from judge_eval.runs.columns.verdict_table import (
    AnyResult,
    Codes,
    Hashes,
    Places,
    Small,
    chunks_at,
    codes,
    find_ids,
    id_hashes,
    light_results,
    occurrences,
    stated_once,
    verdict_table,
)
from judge_eval.runs.folder.describing import made_of
from judge_eval.runs.folder.records import name_of
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.safe_text import counted
from judge_eval.schema import Scale
from judge_eval.spelling import option


class Texts(Sequence[str]):
    """Texts such as ids of chunks: their bytes and 8 more, in place of the 60 or so of a string each."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._data, self._ends = bytearray(), array("q", [0])
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add a text."""
        self._data += text.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._data))

    def extend(self, texts: Texts) -> None:
        """Add all of other texts."""
        before = len(self._data)
        self._data += texts._data
        self._ends.extend(array("q", [before + end for end in texts._ends[1:]]))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        return self._data[self._ends[at] : self._ends[at + 1]].decode("utf-8", "surrogatepass")


J = TypeVar("J", bound="Joined")

Settling: TypeAlias = Literal["majority", "first", "refuse"]
"""Which verdict counts if runs disagree on a chunk: that of most runs (of equally many the earliest run's),
that of the first run that has one, or none: the pool is refused."""
SETTLED: Final[Mapping[Settling, str]] = {
    "majority": "the grade that most runs give counts, of equally many the earliest run's",
    "first": "the grade of the run that was named first counts",
    "refuse": "no pool is made",
}
NO_GRADE: Final = -1
MOST_CONFLICTS: Final = 20
"""How many conflicts a pool names."""
_TEAM = "team:"
_NAN = float("nan")


class System(Record):
    """A run whose lists made a pool."""

    name: str
    run: str
    """Its id."""
    team: str = ""
    """Whose it is, by its tag `team:NAME`; runs of one team are left out together. Else its own name."""
    depth: int = Field(default=0, ge=0)
    """The length of its longest list."""
    made_of: tuple[str, ...] = ()
    """The ids of the runs whose chunks a what-if put into its lists."""


class Conflict(Record):
    """A chunk on which the verdicts of runs differ."""

    question: str
    chunk: str
    verdicts: dict[str, int]
    """The grade by system."""
    settled: int
    """The grade that counts."""


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """The lists of several runs for the questions that all of them have, with a grade for each chunk.

    A chunk is known by its id; where one id stands for different texts of a question, by its text. A chunk whose id
    only one run has joins one with the same text. The chunks of question q are `starts[q]` to `starts[q + 1]`.
    """

    scale: Scale
    systems: tuple[System, ...]
    questions: tuple[tuple[str, int], ...]
    """Id of each question, and the hash of what it asks (0 if unknown)."""
    tags: tuple[tuple[str, ...], ...]
    clusters: tuple[str | None, ...]
    starts: Places
    chunk_ids: Sequence[str]
    passages: Hashes
    """Hash of title and text, 0 without a text."""
    grades: Small
    """On the scale; -1 without a verdict."""
    lists: tuple[tuple[Places, Places], ...]
    """By system, the chunks of each list in rank order, and where the list of each question begins."""
    depth: int | None = None
    """How many ranks of each list entered the pool; None: all."""
    settling: Settling = "majority"
    n_conflicts: int = 0
    conflicts: tuple[Conflict, ...] = ()
    """The first of them."""
    doubts: tuple[Note, ...] = ()

    def span(self, row: int) -> range:
        """Return the places of a question's chunks."""
        return range(int(self.starts[row]), int(self.starts[row + 1]))

    @property
    def rows(self) -> Places:
        """The question of each chunk."""
        return np.repeat(np.arange(len(self.questions)), np.diff(self.starts))

    def part(self, start: int, stop: int) -> Self:
        """Return some questions, those of rows `start` to `stop`."""
        first, last = self.starts[[start, stop]].tolist()
        lists = []
        for places, starts in self.lists:
            begin, end = starts[[start, stop]].tolist()
            lists.append((places[begin:end] - first, starts[start : stop + 1] - begin))
        named = {name: getattr(self, name)[start:stop] for name in ("questions", "tags", "clusters")}
        of_chunks = {name: getattr(self, name)[first:last] for name in ("chunk_ids", "passages", "grades")}
        starts = self.starts[start : stop + 1] - first
        return replace(self, starts=starts, lists=tuple(lists), **named, **of_chunks)


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """What one system retrieved, before it is joined: columns of questions and, one after the other, of chunks."""

    system: System | None
    """None: what others judged."""
    scale: Scale
    questions: Sequence[tuple[str, int]]
    """As in `Joined`, like the next columns."""
    tags: Sequence[tuple[str, ...]]
    clusters: Sequence[str | None]
    starts: Places
    chunk_ids: Sequence[str]
    hashes: Hashes
    """Of `chunk_ids`."""
    passages: Hashes
    """Hash of title and text, 0 without a text; repeats in a list differ."""
    grades: Small
    scores: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """The retriever's scores, NaN without one."""


class _Names:
    """What a table has hashes of, or nothing, as its results are read."""

    def __init__(self, cluster: str, scores: bool) -> None:
        self._cluster, self._scored, self._tags_seen = cluster, scores, dict[tuple[str, ...], tuple[str, ...]]()
        self.positions = array("q")
        self.questions: list[str] = []
        self.tags: list[tuple[str, ...]] = []
        self.clusters: list[str | None] = []
        self.chunk_ids = Texts()
        self.blank = array("q")
        """The places of chunks without a text."""
        self.scores = array("d")

    def add(self, result: AnyResult) -> None:
        """Add a result."""
        trace = result.trace
        if trace.answerable is False:
            return
        self.positions.append(result.position)
        self.questions.append(result.trace_id)
        self.tags.append(self._tags_seen.setdefault(trace.tags, trace.tags))  # few differ: one tuple serves many traces
        self.clusters.append(cluster_of(trace, self._cluster))
        for chunk in trace.chunks:
            if not chunk.text or chunk.text.isspace():
                self.blank.append(len(self.chunk_ids))
            self.chunk_ids.append(chunk.id)
        if self._scored:
            self.scores.extend([_NAN if chunk.score is None else chunk.score for chunk in trace.chunks])


def read_lists(run: Run, *, scores: bool = True) -> Lists:
    """Read the lists of a run, with verdicts and retriever's `scores`, in one pass if nobody has read its results."""
    names = _Names(run.manifest.intervals.cluster, scores)
    table = verdict_table(run, (), take=names.add).answered()
    if not np.array_equal(names.positions, table.positions):  # the table was known, or is in another order
        names = _Names(run.manifest.intervals.cluster, scores)
        for result in light_results(run):
            names.add(result)
    passages, again = table.passages, occurrences(codes(table.rows, table.passages))
    if again.any():
        passages = passages + again.astype(np.uint64)
    if names.blank:
        passages = passages.copy()
        passages[np.frombuffer(names.blank, dtype=np.int64)] = 0
    team = next((tag.removeprefix(_TEAM) for tag in run.tags if tag.startswith(_TEAM)), "")
    name = name_of(run.label, run.id)
    made = made_of(run.manifest).get("runs")
    parents = tuple(map(str, made)) if isinstance(made, list | tuple) else ()
    return Lists(
        System(name=name, run=run.id, team=team or name, made_of=parents),
        scale_of(run),
        list(zip(names.questions, table.questions.tolist(), strict=True)),
        names.tags,
        names.clusters,
        table.starts,
        names.chunk_ids,
        table.chunk_ids,
        passages,
        np.maximum(table.grades, NO_GRADE),
        np.frombuffer(names.scores, dtype=np.float64),
    )


def named_apart(sources: Sequence[Lists]) -> list[Lists]:
    """Check that no run is given twice, and tell systems of one name apart by their ids."""
    systems = [source.system for source in sources if source.system is not None]
    runs = Counter(system.run for system in systems)
    if twice := [system.name for system in systems if runs[system.run] > 1]:
        raise RunError(f"run {twice[0]} is given twice; name each run once")
    names = Counter(system.name for system in systems)
    out = []
    for source in sources:
        if (system := source.system) is not None:
            name = system.name if names[system.name] == 1 else f"{system.name} ({system.run[:8]})"
            team = system.team if system.team != system.name else name
            depth = int(np.diff(source.starts).max(initial=0))
            source = replace(source, system=system.model_copy(update={"name": name, "team": team, "depth": depth}))
        out.append(source)
    return out


BLOCK: Final = 8192
"""How many questions are joined at a time."""


def join(
    sources: Sequence[Lists],
    kind: type[J],
    *,
    depth: int | None = None,
    settling: Settling,
    doubts: Iterable[Note] = (),
    rows: Places | None = None,
) -> J:
    """Join lists over the same questions; of each, the first `depth` ranks bring their grades.

    The order of the sources counts if verdicts differ; `rows` is what `common_rows` returned of them, if it is known.

    Raises:
        RunError: The scales differ, a grade is off the scale, there is no common question, or verdicts differ and
            `settling` is `refuse`.
    """
    first, scale = sources[0], _one_scale(sources)
    rows = common_rows(sources) if rows is None else rows
    blocks = [
        _join_block(sources, rows[:, start : start + BLOCK], depth, settling)
        for start in range(0, rows.shape[1], BLOCK)
    ]
    if settling == "refuse" and (disputed := [each for block in blocks for each in block.conflicts]):
        _refuse(disputed[0], sum(block.n_conflicts for block in blocks))
    notes = [*dict.fromkeys(doubts)]
    if left := max(len(source.questions) for source in sources) - rows.shape[1]:
        notes.append(Note(kind="left out", count=left))
    if by_text := sum(block.by_text for block in blocks):
        notes.append(Note(kind="joined by text", count=by_text))
    asked = [[source.questions[row][1] for row in at.tolist()] for source, at in zip(sources, rows, strict=True)]
    ids = (first.questions[row][0] for row in rows[0].tolist())
    ends = np.cumsum([0, *(len(block.grades) for block in blocks)]).tolist()
    chunk_ids = Texts()
    for block in blocks:
        chunk_ids.extend(block.chunk_ids)
    return kind(
        scale=scale,
        systems=tuple(source.system for source in sources if source.system is not None),
        questions=tuple(zip(ids, map(max, zip(*asked, strict=True)), strict=True)),
        tags=tuple(each or () for each in _first_stated(sources, "tags", rows)),
        clusters=tuple(_first_stated(sources, "clusters", rows)),
        starts=offsets_of(np.concatenate([block.sizes for block in blocks])),
        chunk_ids=chunk_ids,
        passages=np.concatenate([block.passages for block in blocks]),
        grades=np.concatenate([block.grades for block in blocks]),
        lists=tuple(
            (
                np.concatenate([block.lists[number] + np.int64(end) for block, end in zip(blocks, ends, strict=False)]),
                offsets_of(np.diff(source.starts)[rows[number]]),
            )
            for number, source in enumerate(sources)
            if source.system is not None
        ),
        depth=depth,
        settling=settling,
        n_conflicts=sum(block.n_conflicts for block in blocks),
        conflicts=tuple(islice((each for block in blocks for each in block.conflicts), MOST_CONFLICTS)),
        doubts=tuple(notes),
    )


def _one_scale(sources: Sequence[Lists]) -> Scale:
    """Return the scale of all sources, whose grades are on it."""
    scale = sources[0].scale
    for source in sources:
        mine, its = ((s.minimum, s.maximum, s.relevant) for s in (scale, source.scale))
        if mine != its:
            name = "judgments" if source.system is None else source.system.name
            raise RunError(
                f"the scales differ: {name} has grades {its[0]} to {its[1]}, relevant from {its[2]}; the first "
                f"has {mine[0]} to {mine[1]}, relevant from {mine[2]}. Pool runs that were judged on one scale"
            )
        known = source.grades[source.grades >= 0]
        wrong = known[(known < scale.minimum) | (known > scale.maximum)]
        if wrong.size:
            raise RunError(f"the grade {wrong[0]} is off the scale {scale.minimum} to {scale.maximum}")
    return scale


def _refuse(first: Conflict, count: int) -> NoReturn:
    given = ", ".join(f"{name} {grade}" for name, grade in first.verdicts.items())
    raise RunError(
        f"{counted(count, 'chunk has', 'chunks have')} different verdicts; the first is {first.chunk!r} of question "
        f"{first.question!r} ({given}); choose a rule, such as {option('conflicts', 'majority')}"
    )


def _first_stated(sources: Sequence[Lists], column: str, rows: Places) -> Iterator[Any]:
    """Yield for each question what the first source with something to say has in a column."""
    columns = [getattr(source, column) for source in sources]
    for at in rows.T.tolist():
        values = (values[row] for values, row in zip(columns, at, strict=True))
        yield next((value for value in values if value), None)


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Some questions, joined."""

    sizes: Places
    """How many chunks each question has."""
    chunk_ids: Texts
    passages: Hashes
    grades: Small
    lists: list[Codes]
    """By source, the chunks of all lists in rank order."""
    by_text: int
    """In how many questions chunks are joined by text."""
    n_conflicts: int
    conflicts: list[Conflict]


def _join_block(sources: Sequence[Lists], rows: Places, depth: int | None, settling: Settling) -> _Block:
    """Join what the sources have of some questions."""
    entries = [chunks_at(source.starts, at) for source, at in zip(sources, rows, strict=True)]
    ends = np.cumsum([0, *(len(places) for _, places, _ in entries)]).tolist()
    spans = [slice(start, end) for start, end in pairwise(ends)]
    question = np.concatenate([questions for questions, _, _ in entries])
    rank = np.concatenate([ranks for _, _, ranks in entries])
    hashes, passages, grades = (
        np.concatenate([getattr(source, name)[at] for source, (_, at, _) in zip(sources, entries, strict=True)])
        for name in ("hashes", "passages", "grades")
    )
    ids, texts = codes(question, hashes), codes(question, passages)
    with_text = passages != 0
    by_text = np.zeros(rows.shape[1], dtype=np.bool_)
    a_passage = np.zeros(len(ids), dtype=np.uint64)
    a_passage[ids[with_text]] = passages[with_text]
    by_text[question[with_text & (a_passage[ids] != passages)]] = True
    by_id = ~by_text[question]
    keys = np.where(by_id | ~with_text, ids, len(ids) + texts)
    place, shown = _places(spans, keys, np.where(with_text, texts, -1), by_id)
    order = np.argsort(question[shown], kind="stable")
    shown, where = shown[order], np.argsort(order)
    place = where[place]

    counts = grades >= 0
    for source, span in zip(sources, spans, strict=True):
        if source.system is not None and depth is not None:
            counts[span] &= rank[span] <= depth
    counting = np.flatnonzero(counts)
    joined = np.full(len(shown), NO_GRADE, dtype=np.int8)
    joined[place[counting[::-1]]] = grades[counting[::-1]]  # of repeats the last one stays: the first run's
    disputed = np.unique(place[counting[joined[place[counting]] != grades[counting]]])

    from_source = np.searchsorted(ends, shown, side="right") - 1
    names = [
        sources[source].chunk_ids[int(entries[source][1][at - ends[source]])]
        for source, at in zip(from_source.tolist(), shown.tolist(), strict=True)
    ]
    times = occurrences(ids[shown])
    for at in np.flatnonzero(times).tolist():
        names[at] = f"{names[at]}~{times[at] + 1}"
    conflicts: list[Conflict] = []
    voting = counting[np.isin(place[counting], disputed)]
    voting = voting[np.argsort(place[voting], kind="stable")]
    for votes in np.split(voting, np.flatnonzero(np.diff(place[voting])) + 1) if len(disputed) else ():
        by: dict[str, int] = {}
        for at in votes.tolist():
            system = sources[bisect_right(ends, at) - 1].system
            by["judgments" if system is None else system.name] = int(grades[at])
        at = int(place[votes[0]])
        if settling == "majority":
            often = Counter(by.values())
            joined[at] = max(often, key=often.__getitem__)
        if len(conflicts) < MOST_CONFLICTS:
            asked = sources[0].questions[rows[0, question[shown[at]]]][0]
            conflicts.append(Conflict(question=asked, chunk=names[at], verdicts=by, settled=int(joined[at])))
    return _Block(
        sizes=np.bincount(question[shown], minlength=rows.shape[1]),
        chunk_ids=Texts(names),
        passages=passages[shown],
        grades=joined,
        lists=[place[span].astype(np.int32) for span in spans],
        by_text=int(by_text.sum()),
        n_conflicts=len(disputed),
        conflicts=conflicts,
    )


def _places(spans: Sequence[slice], keys: Places, texts: Places, by_id: NDArray[np.bool_]) -> tuple[Places, Places]:
    """Return the place of each entry's chunk, numbered as they are first seen, and the entry that each was seen by.

    An entry of a source's span is known by its key. One that is known by its id may join a chunk of another list with
    the same text (a code, -1 without one).
    """
    place = np.empty(len(keys), dtype=np.int64)
    of_key, of_text = np.full(2 * len(keys), -1), np.full(len(keys) + 1, -1)
    taken, shown = np.full(len(keys) + 1, -1), [np.empty(0, dtype=np.int64)]
    count = 0
    for number, span in enumerate(spans):
        key, text = keys[span], texts[span]
        at = of_key[key]
        taken[at[at >= 0]] = number
        unknown = np.flatnonzero((at < 0) & by_id[span] & (text >= 0))
        alike = of_text[text[unknown]]
        free = (alike >= 0) & (taken[alike] != number)  # a list has a chunk once
        unknown, alike = unknown[free], alike[free]
        alike, once = np.unique(alike, return_index=True)
        at[unknown[once]] = alike
        new = np.flatnonzero(at < 0)
        _, once, which = np.unique(key[new], return_index=True, return_inverse=True)
        seen = np.argsort(np.argsort(once))
        at[new] = count + seen[which.reshape(-1)]
        shown.append(span.start + new[np.sort(once)])
        count += len(once)
        of_key[key] = at
        first = np.flatnonzero((text >= 0) & (of_text[text] < 0))[::-1]
        of_text[text[first]] = at[first]
        place[span] = at
    return place, np.concatenate(shown)


QuestionColumns: TypeAlias = tuple[Hashes, Hashes]
"""Of questions the hashes of their ids, and what they ask (0 if unknown)."""


def asked_by(questions: Sequence[tuple[str, int]]) -> QuestionColumns:
    """Return the columns of `Joined.questions`."""
    return id_hashes(id_ for id_, _ in questions), np.array([asked for _, asked in questions], dtype=np.uint64)


def partners(first: QuestionColumns, second: QuestionColumns) -> Places:
    """Return the row of each first question among the second ones, -1 without one."""
    # A question is the same if id and text agree. One without a partner of its id (a made id changes with the
    # chunks) joins the one that asks the same, if there is just one.
    (ids, asked), (others, its) = first, second
    rows = find_ids(ids, others)
    there = np.flatnonzero((rows >= 0) & (asked != 0))
    theirs = its[rows[there]]
    rows[there[(theirs != 0) & (theirs != asked[there])]] = -1
    (once, here), (once_too, by_text) = stated_once(asked), stated_once(its)
    same, at, to = np.intersect1d(once, once_too, assume_unique=True, return_indices=True)
    alone = (same != 0) & (rows[here[at]] < 0)
    rows[here[at[alone]]] = by_text[to[alone]]
    return rows


def common_rows(sources: Sequence[Lists]) -> Places:
    """Return the rows of each question that all sources have, in the order of the first, shape (sources, questions)."""
    first, *others = (asked_by(source.questions) for source in sources)
    rows = np.array([np.arange(len(first[1])), *(partners(first, other) for other in others)])
    rows = rows[:, (rows >= 0).all(axis=0)]
    if not rows.size:
        raise RunError("the runs have no question in common; questions are joined by id and by what they ask")
    return rows
