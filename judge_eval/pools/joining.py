"""Lists of several runs over the same questions, joined: one place and one verdict for each chunk."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeVar

import numpy as np
from pydantic import Field

from judge_eval.errors import RunError
from judge_eval.metrics.ragged import offsets_of
from judge_eval.record import Record, uncollected
from judge_eval.runs.columns.verdict_table import Hashes, Places, Small, passage_number, question_number
from judge_eval.runs.folder.describing import made_of
from judge_eval.runs.folder.journal import cluster_of
from judge_eval.runs.folder.records import TraceResult, name_of
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.safe_text import counted
from judge_eval.schema import Chunk, Scale
from judge_eval.spelling import option

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
    doubts: tuple[str, ...] = ()
    """What a reader should know of how it was joined."""

    def span(self, row: int) -> range:
        """Return the places of a question's chunks."""
        return range(int(self.starts[row]), int(self.starts[row + 1]))

    @property
    def rows(self) -> Places:
        """The question of each chunk."""
        return np.repeat(np.arange(len(self.questions)), np.diff(self.starts))


@dataclass(slots=True)
class Lists:
    """What one system retrieved, before it is joined; None: what others judged."""

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
        """Add the list of a question."""
        self.questions.append((question, asked))
        self.tags.append(tags)
        self.clusters.append(cluster)
        self.sizes.append(len(ids))
        self.ids.extend(ids)
        self.passages.extend(passages)
        self.grades.extend(grades)

    def take(self, result: TraceResult, asked: int, cluster: str, passages: Sequence[int]) -> None:
        """Add the list of a result; `cluster` is the key of its cluster."""
        trace = result.trace
        ids = [chunk.id for chunk in trace.chunks]
        grades = [NO_GRADE if o.kind == "no_verdict" else o.grade for o in result.outcomes]
        self.add(result.trace_id, asked, trace.tags, cluster_of(trace, cluster), ids, passages, grades)


class PassageNumbers(dict[tuple[str | None, str], int]):
    """The number of each title and text, made once; see `passage_number`."""

    def __init__(self) -> None:
        super().__init__()
        self._blank: set[int] = set()

    def __missing__(self, key: tuple[str | None, str]) -> int:
        title, text = key
        number = self[key] = passage_number(title, text)
        if not text or text.isspace():
            self._blank.add(number)
        return number

    def of(self, chunks: Sequence[Chunk]) -> list[int]:
        """Return the number of each chunk."""
        return [self[chunk.title, chunk.text] for chunk in chunks]

    def apart(self, numbers: list[int]) -> list[int]:
        """Return numbers of a list's chunks to join by: 0 without a text, and repeats differ."""
        if self._blank:
            numbers = [0 if number in self._blank else number for number in numbers]
        if len(set(numbers)) == len(numbers):
            return numbers
        seen: Counter[int] = Counter()
        apart = []
        for each in numbers:
            apart.append((each + seen[each]) % 2**64 if each else 0)
            seen[each] += 1
        return apart


def passages_of(chunks: Sequence[Chunk]) -> list[int]:
    """Return the number of each chunk's title and text, 0 without a text; repeats in a list differ."""
    numbers = PassageNumbers()
    return numbers.apart(numbers.of(chunks))


def read_lists(run: Run) -> Lists:
    """Read the lists of a run, with their verdicts."""
    source, cluster = _unread(run), run.manifest.intervals.cluster
    for result in run.results_at(np.arange(len(run.results)), calls=False):
        source.take(result, question_number(result.trace), cluster, passages_of(result.trace.chunks))
    return source


def _unread(run: Run) -> Lists:
    team = next((tag.removeprefix(_TEAM) for tag in run.tags if tag.startswith(_TEAM)), "")
    name = name_of(run.label, run.id)
    made = made_of(run.manifest).get("runs")
    parents = tuple(map(str, made)) if isinstance(made, list | tuple) else ()
    return Lists(System(name=name, run=run.id, team=team or name, made_of=parents), scale_of(run))


BLOCK: Final = 256
"""How many questions are joined at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class JoinedBlock:
    """Some questions of runs that are read side by side."""

    joined: Joined
    results: tuple[Sequence[TraceResult], ...]
    """By run those of the pool's questions."""
    grades: tuple[Small, ...]
    """By run those of its chunks, -1 without a verdict."""


class JoinedRuns:
    """Runs over the same questions, joined as in a pool, some questions at a time: each result is read once.

    Args:
        runs: One run or more.
        settling: Which verdict counts if runs disagree; `refuse` refuses at the first block with such a chunk.

    Raises:
        RunError: The runs have no question in common, or their scales differ.
    """

    def __init__(self, runs: Sequence[Run], settling: Settling) -> None:
        self._runs, self._settling = runs, settling
        self.systems = tuple(each.system for each in named_apart(map(_unread, runs)) if each.system is not None)
        questions = [[(q.id, question_number(q)) for q in run.questions()] for run in runs]
        self.places = np.array(_common(questions)).T
        """By run, where its results of the common questions are."""
        self._asked = [np.array([asked for _, asked in each], dtype=np.uint64) for each in questions]

    def __len__(self) -> int:
        return len(self.places[0])

    def left(self, run: int) -> Places:
        """Return where a run's results of the other questions are."""
        return np.setdiff1d(np.arange(len(self._runs[run].results)), self.places[run])

    def __iter__(self) -> Iterator[JoinedBlock]:
        for start in range(0, len(self), BLOCK):
            numbers = PassageNumbers()
            parts: list[Lists] = []
            results: list[list[TraceResult]] = []
            with uncollected():
                for run, system, places, asked in zip(self._runs, self.systems, self.places, self._asked, strict=True):
                    part, cluster, some = _unread(run), run.manifest.intervals.cluster, places[start : start + BLOCK]
                    part.system = system
                    parts.append(part)
                    results.append([])
                    for result, hash_ in zip(run.results_at(some, calls=False), asked[some].tolist(), strict=True):
                        part.take(result, hash_, cluster, numbers.apart(numbers.of(result.trace.chunks)))
                        results[-1].append(result)
            rows = [(row,) * len(parts) for row in range(len(results[0]))]
            yield JoinedBlock(
                Join(parts, None, self._settling).into(Joined, (), rows),
                tuple(results),
                tuple(np.array(part.grades, dtype=np.int8) for part in parts),
            )


def named_apart(given: Iterable[Lists]) -> list[Lists]:
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


class Join:
    """Joins lists over the same questions; of each, the first `depth` ranks bring their grades."""

    def __init__(self, sources: list[Lists], depth: int | None, settling: Settling) -> None:
        self.sources, self.depth, self.settling = sources, depth, settling
        self.ids: list[str] = []
        self.passages, self.grades = array("Q"), array("b")
        self.places = [array("q") for _ in sources]
        self.sizes = [array("q") for _ in sources]
        self.chunks = array("q")
        self.disputed: set[int] = set()
        self.by_text = 0

    def into(self, kind: type[J], doubts: Iterable[str], rows: Sequence[tuple[int, ...]] | None = None) -> J:
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
            notes.append(f"in {are} one id has different texts; there chunks are joined by text")
        grades = np.array(self.grades, dtype=np.int8)
        asked = [max(source.questions[row[place]][1] for place, source in enumerate(self.sources)) for row in rows]
        return kind(
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
        )

    def _kept(self, what: str, row: tuple[int, ...]) -> Any:
        """Return what the first source with something to say has of a question."""
        values = (getattr(source, what)[at] for source, at in zip(self.sources, row, strict=True))
        return next((value for value in values if value), None)

    def _question(self, cells: Sequence[slice]) -> None:
        """Join what the sources have of one question."""
        named = {
            each
            for source, cell in zip(self.sources, cells, strict=True)
            for each in zip(source.ids[cell], source.passages[cell], strict=True)
            if each[1]
        }
        by_text = len({name for name, _ in named}) < len(named)
        self.by_text += by_text
        places: dict[str | int, int] = {}
        texts: dict[int, int] = {}
        times: dict[str, int] = {}
        ids, judged, begin = self.ids, self.grades, len(self.ids)
        for source, cell, listed, sizes in zip(self.sources, cells, self.places, self.sizes, strict=True):
            names, passages = source.ids[cell], source.passages[cell]
            limit = len(names) if source.system is None else self.depth or len(names)
            taken: set[int] | None = None
            for rank, (name, passage, grade) in enumerate(zip(names, passages, source.grades[cell], strict=True)):
                key = passage or name if by_text else name
                place = places.get(key)
                if place is None:
                    if not by_text and (place := texts.get(passage)) is not None:
                        taken = taken or {places[each] for each in names if each in places}
                        place = None if place in taken else place
                    if place is None:
                        place = len(ids)
                        count = times[name] = times.get(name, 0) + 1
                        ids.append(name if count == 1 else f"{name}~{count}")
                        self.passages.append(passage)
                        judged.append(NO_GRADE)
                    places[key] = place
                if passage:
                    texts.setdefault(passage, place)
                if taken is not None:
                    taken.add(place)
                listed.append(place)
                if grade >= 0 and rank < limit and judged[place] != grade:
                    if judged[place] >= 0:
                        self.disputed.add(place)
                    else:
                        judged[place] = grade
            sizes.append(len(names))
        self.chunks.append(len(ids) - begin)

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
