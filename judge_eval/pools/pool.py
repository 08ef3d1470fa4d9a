"""A pool: what several runs retrieved for the same questions, joined, with one verdict for each chunk."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from judge_eval import limits
from judge_eval.errors import ConfigError, DataError, RunError
from judge_eval.files import replacing
from judge_eval.metrics.ragged import offsets_of
from judge_eval.record import KEPT, Record, data_error, uncollected
from judge_eval.runs.columns.packed import Hashes, Packer, Places, Small, hash_number, passage_number, question_hash
from judge_eval.runs.folder.describing import judge_differences
from judge_eval.runs.folder.journal import AskedTrace, cluster_of
from judge_eval.runs.folder.records import TraceResult, name_of
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.safe_text import counted
from judge_eval.schema import Chunk, Scale, Trace
from judge_eval.spelling import option

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


class System(Record):
    """A run whose lists made a pool."""

    name: str
    run: str
    """Its id."""
    team: str = ""
    """Whose it is, by its tag `team:NAME`; runs of one team are left out together. Else its own name."""
    depth: int = Field(default=0, ge=0)
    """The length of its longest list."""


class Conflict(Record):
    """A chunk on which the verdicts of runs differ."""

    question: str
    chunk: str
    verdicts: dict[str, int]
    """The grade by system."""
    settled: int
    """The grade that counts."""


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """What several runs retrieved for the questions that all of them have, with a grade for each chunk.

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
    doubts: tuple[str, ...] = ()
    """What a reader should know of how it was joined."""
    origins: tuple[Places, ...] = ()
    """By run, where its results of the questions are, if it was just made of runs alone."""
    _found: dict[int | None, NDArray[np.bool_]] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, runs: Iterable[Run | Pool], *, depth: int | None = None, conflicts: Settling = "majority") -> Pool:
        """Join runs over the same questions, and pools that were made before, into one pool.

        Args:
            runs: Runs, in a folder or in memory, and pools; the order counts if verdicts differ.
            depth: How many ranks of each list enter the pool; verdicts below are left out. None: as in the first
                pool, else all.
            conflicts: Which verdict counts if runs disagree; see `Settling`.

        Raises:
            RunError: There is no run, no common question, the scales differ, or `conflicts="refuse"` and
                verdicts differ.
            ConfigError: `depth` is below 1.
        """
        if depth is not None and depth < 1:
            raise ConfigError(f"{option('depth', depth)}: a pool takes at least 1 rank of each list")
        given = list(runs)
        depth = depth or next((each.depth for each in given if isinstance(each, Pool)), None)
        sources = [part for each in given for part in (each.parts() if isinstance(each, Pool) else [_read(each)])]
        if not sources:
            raise RunError("a pool needs a run; name one or more")
        return _Join(_named_apart(sources), depth, conflicts).pool(_differing(given))

    @classmethod
    def from_qrels(cls, qrels: Mapping[str, Mapping[str, int]], scale: Scale) -> Pool:
        """Make a pool of judgments alone, by question and chunk; a negative grade is "in the pool, unjudged".

        Raises:
            RunError: A grade is off the scale.
        """
        source = _Lists(None, scale)
        for question, judged in qrels.items():
            source.add(question, 0, (), None, list(judged), [0] * len(judged), [max(g, -1) for g in judged.values()])
        return _Join([source], None, "first").pool(())

    @classmethod
    def load(cls, path: str | Path) -> Pool:
        """Read a pool that `save` wrote.

        Raises:
            DataError: The file is not a pool, or its parts do not fit together.
        """
        return _load(Path(path))

    def save(self, path: str | Path) -> None:
        """Write the pool to a JSON file, with its systems, lists, grades and how conflicts were settled."""
        _write(self, Path(path))

    @property
    def qrels(self) -> dict[str, dict[str, int]]:
        """The grades by question and chunk id, -1 without a verdict, as TREC's qrels have them."""
        pooled = self.pooled
        return {
            question: {self.chunk_ids[at]: int(self.grades[at]) for at in self.span(row) if pooled[at]}
            for row, (question, _) in enumerate(self.questions)
        }

    def span(self, row: int) -> range:
        """Return the places of a question's chunks."""
        return range(int(self.starts[row]), int(self.starts[row + 1]))

    @property
    def rows(self) -> Places:
        """The question of each chunk."""
        return np.repeat(np.arange(len(self.questions)), np.diff(self.starts))

    @property
    def relevant(self) -> NDArray[np.bool_]:
        """Which chunks are known to be relevant."""
        return self.grades >= self.scale.relevant

    @property
    def pooled(self) -> NDArray[np.bool_]:
        """Which chunks are in the pool: those with a grade, and those that a run has within the depth."""
        in_depth, listed = np.any(self.found(self.depth), axis=1), np.any(self.found(None), axis=1)
        pooled: NDArray[np.bool_] = (self.grades >= 0) | in_depth | ~listed
        return pooled

    def ranks(self, system: int) -> Places:
        """Return the rank of each chunk in a system's list, from 1; 0 if it is not there."""
        places, starts = self.lists[system]
        ranks = np.zeros(len(self.grades), dtype=np.int64)
        ranks[places] = np.arange(len(places)) - np.repeat(starts[:-1], np.diff(starts)) + 1
        return ranks

    def found(self, k: int | None) -> NDArray[np.bool_]:
        """Return which systems have which chunk within the first `k` ranks, shape (chunks, systems)."""
        if k not in self._found:
            out = np.zeros((len(self.grades), len(self.systems)), dtype=np.bool_)
            for system in range(len(self.systems)):
                ranks = self.ranks(system)
                out[:, system] = (ranks > 0) & (ranks <= (k or len(ranks)))
            self._found[k] = out
        return self._found[k]

    def only_of(self, team: str) -> NDArray[np.bool_]:
        """Return which chunks only this team's runs brought into the pool."""
        in_depth, mine = self.found(self.depth), np.array([each.team == team for each in self.systems])
        unique: NDArray[np.bool_] = np.any(in_depth[:, mine], axis=1) & ~np.any(in_depth[:, ~mine], axis=1)
        return unique

    def parts(self) -> list[_Lists]:
        """Return what it was made of: the lists of each system, then the chunks that none retrieved."""
        out = []
        pooled, listed = self.pooled, np.any(self.found(None), axis=1)
        for system, (places, starts) in zip((*self.systems, None), (*self.lists, (None, None)), strict=True):
            source = _Lists(system, self.scale)
            for row, (question, asked) in enumerate(self.questions):
                if places is None or starts is None:
                    at = [place for place in self.span(row) if not listed[place]]
                else:
                    at = places[starts[row] : starts[row + 1]].tolist()
                grades = [int(self.grades[place]) if pooled[place] else NO_GRADE for place in at]
                ids, texts = [self.chunk_ids[place] for place in at], self.passages[at].tolist()
                source.add(question, asked, self.tags[row], self.clusters[row], ids, texts, grades)
            if system is not None or source.ids:
                out.append(source)
        return out


@dataclass(slots=True)
class _Lists:
    """What one system retrieved; None: what others judged."""

    system: System | None
    scale: Scale
    questions: list[tuple[str, int]] = field(default_factory=list)
    tags: list[tuple[str, ...]] = field(default_factory=list)
    clusters: list[str | None] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("q"))
    ids: list[str] = field(default_factory=list)
    passages: array[int] = field(default_factory=lambda: array("Q"))
    grades: array[int] = field(default_factory=lambda: array("b"))

    def add(
        self,
        question: str,
        asked: int,
        tags: tuple[str, ...],
        cluster: str | None,
        ids: Sequence[str],
        passages: Iterable[int],
        grades: Iterable[int],
    ) -> None:
        self.questions.append((question, asked))
        self.tags.append(tags)
        self.clusters.append(cluster)
        self.sizes.append(len(ids))
        self.ids.extend(ids)
        self.passages.extend(passages)
        self.grades.extend(grades)


def passages_of(chunks: Sequence[Chunk], known: Sequence[int] | None = None) -> list[int]:
    """Return the hash of each chunk's title and text, 0 without a text; repeats in a list differ."""
    known = known or [passage_number(chunk.title, chunk.text) for chunk in chunks]
    hashes = [0 if chunk.is_blank else number for chunk, number in zip(chunks, known, strict=True)]
    if len(set(hashes)) == len(hashes):
        return hashes
    seen: Counter[int] = Counter()
    for place, each in enumerate(hashes):
        hashes[place] = (each + seen[each]) % 2**64 if each else 0
        seen[each] += 1
    return hashes


def asked_of(trace: Trace | AskedTrace) -> int:
    """Return the hash of what a trace asks."""
    return hash_number(question_hash(trace.query, trace.reference, trace.answer))


def places_in(pool: Pool, span: range, chunks: Sequence[Chunk]) -> list[int | None]:
    """Return the place of each chunk of a list in the pool: by id if the texts agree, else by text."""
    by_id = {pool.chunk_ids[at]: at for at in span}
    by_text = {int(pool.passages[at]): at for at in span if pool.passages[at]}
    texts = passages_of(chunks)
    places = [by_id.get(chunk.id) for chunk in chunks]
    for rank, (at, text) in enumerate(zip(places, texts, strict=True)):
        if at is not None and text and pool.passages[at] and int(pool.passages[at]) != text:
            places[rank] = None
    taken = set(places)
    for rank, text in enumerate(texts):
        if places[rank] is None and (at := by_text.get(text)) not in taken:
            places[rank] = at
            taken.add(at)
    return places


def _read(run: Run) -> _Lists:
    source, cluster = _unread(run), run.manifest.intervals.cluster
    for result in run.results_at(np.arange(len(run.results)), calls=False):
        _take(source, result, cluster)
    return source


def _unread(run: Run) -> _Lists:
    team = next((tag.removeprefix(_TEAM) for tag in run.tags if tag.startswith(_TEAM)), "")
    name = name_of(run.label, run.id)
    return _Lists(System(name=name, run=run.id, team=team or name), scale_of(run))


def _take(source: _Lists, result: TraceResult, cluster: str, passages: Sequence[int] | None = None) -> None:
    trace = result.trace
    source.add(
        result.trace_id,
        asked_of(trace),
        trace.tags,
        cluster_of(trace, cluster),
        [chunk.id for chunk in trace.chunks],
        passages_of(trace.chunks, passages),
        [NO_GRADE if o.kind == "no_verdict" else o.grade for o in result.outcomes],
    )


BLOCK: Final = 256
"""How many questions are joined at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class JoinedBlock:
    """Some questions of runs that are read side by side."""

    pool: Pool
    results: tuple[Sequence[TraceResult], ...]
    """By run those of the pool's questions."""
    passages: tuple[Sequence[Sequence[int]], ...]
    """By run and question the number of each chunk's title and text."""


class SideBySide:
    """Runs over the same questions, joined as in a pool, some questions at a time: each result is read once.

    Args:
        runs: One run or more.
        settling: Which verdict counts if runs disagree; `refuse` refuses at the first block with such a chunk.

    Raises:
        RunError: The runs have no question in common, or their scales differ.
    """

    def __init__(self, runs: Sequence[Run], settling: Settling) -> None:
        self._runs, self._settling = runs, settling
        self.systems = tuple(each.system for each in _named_apart(map(_unread, runs)) if each.system is not None)
        self.places = np.array(_common([[(q.id, asked_of(q)) for q in run.questions()] for run in runs])).T
        """By run, where its results of the common questions are."""
        self.packers: list[Packer | None] = [None] * len(runs)
        """By run what packs its results as they are read."""

    def __len__(self) -> int:
        return len(self.places[0])

    def left(self, run: int) -> Places:
        """Return where a run's results of the other questions are."""
        return np.setdiff1d(np.arange(len(self._runs[run].results)), self.places[run])

    def __iter__(self) -> Iterator[JoinedBlock]:
        for start in range(0, len(self), BLOCK):
            numbers: dict[tuple[str | None, str], int] = {}
            parts: list[_Lists] = []
            results: list[list[TraceResult]] = []
            passages: list[list[list[int]]] = []
            with uncollected():
                for run, system, places, packer in zip(
                    self._runs, self.systems, self.places, self.packers, strict=True
                ):
                    part, cluster = _unread(run), run.manifest.intervals.cluster
                    part.system = system
                    parts.append(part)
                    results.append([])
                    passages.append([])
                    # All at once, while a result is at hand.
                    for result in run.results_at(places[start : start + BLOCK], calls=False):
                        known = _numbered(result.trace.chunks, numbers)
                        _take(part, result, cluster, known)
                        if packer is not None:
                            packer.add(result, known)
                        results[-1].append(result)
                        passages[-1].append(known)
            rows = [(row,) * len(parts) for row in range(len(results[0]))]
            yield JoinedBlock(_Join(parts, None, self._settling).pool((), rows), tuple(results), tuple(passages))


def _numbered(chunks: Sequence[Chunk], numbers: dict[tuple[str | None, str], int]) -> list[int]:
    """Return the numbers of chunks' passages, each made once."""
    made = []
    for chunk in chunks:
        key = chunk.title, chunk.text
        number = numbers.get(key)
        if number is None:
            number = numbers[key] = passage_number(*key)
        made.append(number)
    return made


def _named_apart(given: Iterable[_Lists]) -> list[_Lists]:
    """Check that no run is given twice, and tell systems of one name apart by their ids."""
    sources = list(given)
    systems = [source.system for source in sources if source.system is not None]
    runs = Counter(system.run for system in systems)
    if twice := [system.name for system in systems if runs[system.run] > 1]:
        raise RunError(f"run {twice[0]} is given twice; name each run once")
    names = Counter(system.name for system in systems)
    for source in sources:
        if (system := source.system) is not None:
            name = system.name if names[system.name] == 1 else f"{system.name} ({system.run[:8]})"
            team = system.team if system.team != system.name else name
            depth = max(source.sizes, default=0)
            source.system = system.model_copy(update={"name": name, "team": team, "depth": depth})
    return sources


def _differing(given: Sequence[Run | Pool]) -> Iterator[str]:
    """Say which runs were judged otherwise than the first."""
    runs = [each for each in given if isinstance(each, Run)]
    for run in runs[1:]:
        yield from (f"{run.name}: {text}" for text in judge_differences(runs[0].manifest, run.manifest))
    yield from (doubt for each in given if isinstance(each, Pool) for doubt in each.doubts)


class _Join:
    def __init__(self, sources: list[_Lists], depth: int | None, settling: Settling) -> None:
        self.sources, self.depth, self.settling = sources, depth, settling
        self.ids: list[str] = []
        self.passages, self.grades = array("Q"), array("b")
        self.places = [array("q") for _ in sources]
        self.sizes = [array("q") for _ in sources]
        self.chunks = array("q")
        self.disputed: set[int] = set()
        self.by_text = 0

    def pool(self, doubts: Iterable[str], rows: Sequence[tuple[int, ...]] | None = None) -> Pool:
        """Join the sources; `rows` are those of the common questions if they are known."""
        first = self.sources[0]
        scale = first.scale
        for source in self.sources:
            mine, its = ((s.minimum, s.maximum, s.relevant) for s in (scale, source.scale))
            if mine != its:
                name = "judgments" if source.system is None else source.system.name
                raise RunError(
                    f"the scales differ: {name} has grades {its[0]} to {its[1]}, relevant from {its[2]}; the first "
                    f"has {mine[0]} to {mine[1]}, relevant from {mine[2]}. Pool runs that were judged on one scale"
                )
            wrong = [g for g in set(source.grades) if g >= 0 and not scale.minimum <= g <= scale.maximum]
            if wrong:
                raise RunError(f"the grade {wrong[0]} is off the scale {scale.minimum} to {scale.maximum}")
        rows = rows or _common([source.questions for source in self.sources])
        starts = [offsets_of(source.sizes).tolist() for source in self.sources]
        for row in rows:
            self._question([slice(start[at], start[at + 1]) for start, at in zip(starts, row, strict=True)])
        lists = [
            (np.array(places, dtype=np.int64), offsets_of(sizes))
            for places, sizes, source in zip(self.places, self.sizes, self.sources, strict=True)
            if source.system is not None
        ]
        at = [row[0] for row in rows]
        notes = [*dict.fromkeys(doubts)]
        if left := max(len(source.questions) for source in self.sources) - len(rows):
            notes.append(f"{counted(left, 'question is', 'questions are')} not in all runs and left out")
        if self.by_text:
            are = counted(self.by_text, "question", "questions")
            notes.append(f"in {are} an id stands for different texts; there chunks are joined by text")
        grades = np.array(self.grades, dtype=np.int8)
        asked = [max(source.questions[row[place]][1] for place, source in enumerate(self.sources)) for row in rows]
        return Pool(
            scale=scale,
            systems=tuple(source.system for source in self.sources if source.system is not None),
            questions=tuple((first.questions[row][0], hash_) for row, hash_ in zip(at, asked, strict=True)),
            tags=tuple(self._kept("tags", row) or () for row in rows),
            clusters=tuple(self._kept("clusters", row) for row in rows),
            starts=offsets_of(self.chunks),
            chunk_ids=self.ids,
            passages=np.array(self.passages, dtype=np.uint64),
            grades=grades,
            lists=tuple(lists),
            depth=self.depth,
            settling=self.settling,
            n_conflicts=len(self.disputed),
            conflicts=tuple(self._settle(rows, starts, grades)),
            doubts=tuple(notes),
            origins=tuple(np.array(rows, dtype=np.int64).T),
        )

    def _kept(self, what: str, row: tuple[int, ...]) -> Any:
        """Return what the first source with something to say has of a question."""
        values = (getattr(source, what)[at] for source, at in zip(self.sources, row, strict=True))
        return next((value for value in values if value), None)

    def _question(self, cells: Sequence[slice]) -> None:
        """Join what the sources have of one question."""
        text_of: dict[str, int] = {}
        by_text = any(
            passage and text_of.setdefault(name, passage) != passage
            for source, cell in zip(self.sources, cells, strict=True)
            for name, passage in zip(source.ids[cell], source.passages[cell], strict=True)
        )
        self.by_text += by_text
        places: dict[str | int, int] = {}
        texts: dict[int, int] = {}
        named: Counter[str] = Counter()
        begin = len(self.ids)
        for number, (source, cell) in enumerate(zip(self.sources, cells, strict=True)):
            names, passages = source.ids[cell], source.passages[cell]
            taken = set() if by_text else {places[name] for name in names if name in places}
            limit = len(names) if source.system is None else self.depth or len(names)
            ranked = enumerate(zip(names, passages, source.grades[cell], strict=True))
            for rank, (name, passage, grade) in ranked:
                key = passage or name if by_text else name
                place = places.get(key)
                if place is None and passage and not by_text:
                    place = texts.get(passage)
                    place = None if place in taken else place
                if place is None:
                    place = len(self.ids)
                    named[name] += 1
                    self.ids.append(name if named[name] == 1 else f"{name}~{named[name]}")
                    self.passages.append(passage)
                    self.grades.append(NO_GRADE)
                places.setdefault(key, place)
                if passage:
                    texts.setdefault(passage, place)
                taken.add(place)
                self.places[number].append(place)
                if grade >= 0 and rank < limit:
                    if self.grades[place] < 0:
                        self.grades[place] = grade
                    elif self.grades[place] != grade:
                        self.disputed.add(place)
            self.sizes[number].append(len(names))
        self.chunks.append(len(self.ids) - begin)

    def _settle(
        self, rows: Sequence[tuple[int, ...]], starts: Sequence[list[int]], grades: Small
    ) -> Iterator[Conflict]:
        """Write the grade that counts for each disputed chunk, and name the first of them."""
        votes: dict[int, dict[str, int]] = {place: {} for place in sorted(self.disputed)}
        ends = offsets_of(self.chunks)
        for number, source in enumerate(self.sources if votes else ()):
            name = "judgments" if source.system is None else source.system.name
            begins = offsets_of(self.sizes[number])
            flat = np.array(self.places[number], dtype=np.int64)
            for at in np.flatnonzero(np.isin(flat, list(votes))).tolist():
                question = int(np.searchsorted(begins, at, side="right")) - 1
                rank = at - int(begins[question])
                grade = source.grades[starts[number][rows[question][number]] + rank]
                if grade >= 0 and (source.system is None or rank < (self.depth or rank + 1)):
                    votes[int(flat[at])][name] = grade
        for count, (place, by) in enumerate(votes.items()):
            row = int(np.searchsorted(ends, place, side="right")) - 1
            asked = self.sources[0].questions[rows[row][0]][0]
            given = ", ".join(f"{name} {grade}" for name, grade in by.items())
            if self.settling == "refuse":
                raise RunError(
                    f"{counted(len(votes), 'chunk has', 'chunks have')} different verdicts; the first is "
                    f"{self.ids[place]!r} of question {asked!r} ({given}); choose a rule, such as "
                    f"{option('conflicts', 'majority')}"
                )
            if self.settling == "majority":
                often = Counter(by.values())
                grades[place] = max(often, key=often.__getitem__)
            if count < MOST_CONFLICTS:
                settled = int(grades[place])
                yield Conflict(question=asked, chunk=self.ids[place], verdicts=by, settled=settled)


def partners(first: Sequence[tuple[str, int]], second: Sequence[tuple[str, int]]) -> list[int]:
    """Return the row of each first question among the second ones, -1 without one; see `Pool.questions`."""
    # A question is the same if id and text agree. One without a partner of its id (a made id changes with the
    # chunks) joins the one that asks the same, if there is just one.
    by_id = {question: row for row, (question, _) in enumerate(second)}
    often, alike = (Counter(asked for _, asked in questions) for questions in (second, first))
    by_text = {asked: row for row, (_, asked) in enumerate(second) if asked and often[asked] == 1}
    rows = []
    for question, asked in first:
        row = by_id.get(question)
        if row is not None and asked and second[row][1] not in (0, asked):
            row = None
        if row is None and alike[asked] == 1:
            row = by_text.get(asked)
        rows.append(-1 if row is None else row)
    return rows


def _common(questions: Sequence[Sequence[tuple[str, int]]]) -> list[tuple[int, ...]]:
    """Return the rows of each question that all sources have, in the order of the first."""
    first, *others = questions
    places = [range(len(first)), *(partners(first, other) for other in others)]
    if not (rows := [row for row in zip(*places, strict=True) if min(row) >= 0]):
        raise RunError("the runs have no question in common; questions are joined by id and by what they ask")
    return rows


_Grade = Annotated[int, Field(ge=0, le=limits.GRADE)]
_Hash = Annotated[int, Field(ge=0, lt=2**64)]


class PooledQuestion(Record):
    """A question of a pool, with its chunks."""

    id: str
    asked: _Hash = 0
    """Hash of what it asks; 0 if unknown."""
    tags: tuple[str, ...] = ()
    cluster: str | None = None
    chunks: tuple[tuple[str, _Hash, _Grade | None], ...]
    """Id, hash of title and text (0 without a text) and grade (null without a verdict) of each chunk."""
    lists: tuple[tuple[Annotated[int, Field(ge=0)], ...], ...]
    """By system the places of its chunks in rank order, from 0."""

    @model_validator(mode="after")
    def _fits(self) -> PooledQuestion:
        for places in self.lists:
            if len(set(places)) != len(places) or max(places, default=0) >= max(len(self.chunks), 1):
                raise ValueError("lists: each list names chunks of the question by their places, each once")
        return self


class PoolFile(Record):
    """What `Pool.save` writes."""

    kind: Literal["pool"] = "pool"
    v: Literal[1] = 1
    scale: Scale
    systems: tuple[System, ...]
    depth: int | None = Field(default=None, ge=1)
    settling: Settling = "majority"
    n_conflicts: int = Field(default=0, ge=0)
    conflicts: tuple[Conflict, ...] = ()
    doubts: tuple[str, ...] = ()
    questions: tuple[PooledQuestion, ...]

    @model_validator(mode="after")
    def _fits(self) -> PoolFile:
        for question in self.questions:
            if len(question.lists) != len(self.systems):
                raise ValueError(
                    f"question {question.id!r} has {len(question.lists)} lists of {len(self.systems)} systems"
                )
            if any(g is not None and g not in self.scale.grades for _, _, g in question.chunks):
                raise ValueError(f"question {question.id!r}: a grade is off the scale")
        return self


_HEAD = ("scale", "systems", "depth", "settling", "n_conflicts", "conflicts", "doubts")


def _write(pool: Pool, path: Path) -> None:
    """Write a pool, a line a question."""
    head = PoolFile(questions=(), **{name: getattr(pool, name) for name in _HEAD})
    text = head.model_dump_json().removesuffix("]}")
    try:
        with replacing(path) as file:
            file.write(text.encode())
            for row, line in enumerate(_lines(pool)):
                file.write(b",\n" if row else b"\n")
                file.write(line.encode())
            file.write(b"\n]}\n")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from None


def _lines(pool: Pool) -> Iterable[str]:
    grades = [None if grade < 0 else grade for grade in pool.grades.tolist()]
    for row, (question, asked) in enumerate(pool.questions):
        span = pool.span(row)
        hashes = pool.passages[span.start : span.stop].tolist()
        lists = [(places[starts[row] : starts[row + 1]] - span.start).tolist() for places, starts in pool.lists]
        yield PooledQuestion(
            id=question,
            asked=asked,
            tags=pool.tags[row],
            cluster=pool.clusters[row],
            chunks=tuple(
                zip(pool.chunk_ids[span.start : span.stop], hashes, grades[span.start : span.stop], strict=True)
            ),
            lists=tuple(map(tuple, lists)),
        ).model_dump_json(exclude_defaults=True)


def _load(path: Path) -> Pool:
    try:
        file = PoolFile.model_validate_json(path.read_bytes(), context=KEPT)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=str(path)) from None
    except ValidationError as error:
        raise DataError(f"not a pool: {data_error(error)}", file=str(path)) from None
    starts = offsets_of([len(question.chunks) for question in file.questions])
    chunks = [chunk for question in file.questions for chunk in question.chunks]
    lists = []
    for system in range(len(file.systems)):
        each = [question.lists[system] for question in file.questions]
        places = [start + place for start, named in zip(starts.tolist(), each, strict=False) for place in named]
        lists.append((np.array(places, dtype=np.int64), offsets_of([len(named) for named in each])))
    return Pool(
        questions=tuple((question.id, question.asked) for question in file.questions),
        tags=tuple(question.tags for question in file.questions),
        clusters=tuple(question.cluster for question in file.questions),
        starts=starts,
        chunk_ids=[chunk[0] for chunk in chunks],
        passages=np.array([chunk[1] for chunk in chunks], dtype=np.uint64),
        grades=np.array([NO_GRADE if chunk[2] is None else chunk[2] for chunk in chunks], dtype=np.int8),
        lists=tuple(lists),
        **{name: getattr(file, name) for name in _HEAD},
    )
