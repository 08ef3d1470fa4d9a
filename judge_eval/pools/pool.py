"""A pool: what several runs retrieved for the same questions, joined, with one verdict for each chunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from judge_eval import limits
from judge_eval.errors import ConfigError, DataError, RunError
from judge_eval.files import json_list, read_named, replacing, writing_named
from judge_eval.metrics.ragged import offsets_of
from judge_eval.note import Note
from judge_eval.pools.joining import NO_GRADE, Conflict, Joined, Lists, Settling, System, join, named_apart, read_lists
from judge_eval.record import KEPT, Record, data_error
from judge_eval.runs.columns.cuts import refuse_other_cuts
from judge_eval.runs.columns.verdict_table import Places, chunk_hashes, passage_number
from judge_eval.runs.folder.describing import judge_differences
from judge_eval.runs.folder.run import Run
from judge_eval.schema import Chunk, Scale
from judge_eval.spelling import option


@dataclass(frozen=True, slots=True, eq=False)
class Pool(Joined):
    """What several runs retrieved for the questions that all of them have, with a grade for each chunk.

    See `Joined` for how chunks are joined.
    """

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
            RunError: There is no run, no common question, the scales differ, the runs cut the same documents
                differently, or `conflicts="refuse"` and verdicts differ.
            ConfigError: `depth` is below 1.
        """
        if depth is not None and depth < 1:
            raise ConfigError(f"{option('depth', depth)}: a pool takes at least 1 rank of each list")
        given = list(runs)
        depth = depth or next((each.depth for each in given if isinstance(each, Pool)), None)
        sources = [
            part
            for each in given
            for part in (each.parts() if isinstance(each, Pool) else [read_lists(each, scores=False)])
        ]
        if not sources:
            raise RunError("a pool needs a run; name one or more")
        refuse_other_cuts(
            [each for each in given if not isinstance(each, Pool)],
            "recall of a pool counts chunks; compare the words read (`judge-eval compare`, `run.compare`)",
        )
        return join(named_apart(sources), cls, depth=depth, settling=conflicts, doubts=_differing(given))

    @classmethod
    def from_qrels(cls, qrels: Mapping[str, Mapping[str, int]], scale: Scale) -> Pool:
        """Make a pool of judgments alone, by question and chunk; a negative grade is "in the pool, unjudged".

        Raises:
            RunError: A grade is off the scale.
        """
        names = [name for judged in qrels.values() for name in judged]
        grades = [max(grade, NO_GRADE) for judged in qrels.values() for grade in judged.values()]
        source = Lists(
            None,
            scale,
            questions=[(question, 0) for question in qrels],
            tags=[()] * len(qrels),
            clusters=[None] * len(qrels),
            starts=offsets_of([len(judged) for judged in qrels.values()]),
            chunk_ids=names,
            hashes=chunk_hashes(names),
            passages=np.zeros(len(names), dtype=np.uint64),
            grades=np.array(grades, dtype=np.int8),
        )
        return join([source], cls, settling="first")

    @classmethod
    def load(cls, path: str | Path) -> Pool:
        """Read a pool that `save` wrote.

        Raises:
            DataError: The file is not a pool, or its parts do not fit together.
        """
        try:
            file = PoolFile.model_validate_json(read_named(Path(path)), context=KEPT)
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
        return cls(
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

    def save(self, path: str | Path) -> None:
        """Write the pool to a JSON file, with its systems, lists, grades and how conflicts were settled."""
        head = PoolFile(questions=(), **{name: getattr(self, name) for name in _HEAD})
        text = head.model_dump_json().removesuffix("]}")
        with writing_named(Path(path)), replacing(Path(path)) as file:
            file.writelines(part.encode() for part in json_list(text, _lines(self), "]}"))

    @property
    def qrels(self) -> dict[str, dict[str, int]]:
        """The grades by question and chunk id, -1 without a verdict, as TREC's qrels have them."""
        pooled = self.pooled
        return {
            question: {self.chunk_ids[at]: int(self.grades[at]) for at in self.span(row) if pooled[at]}
            for row, (question, _) in enumerate(self.questions)
        }

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
        """Return which chunks only this team's runs, and what-ifs made of them, brought into the pool."""
        runs = {each.run for each in self.systems if each.team == team}
        mine = np.array([each.run in runs or not runs.isdisjoint(each.made_of) for each in self.systems])
        in_depth = self.found(self.depth)
        unique: NDArray[np.bool_] = np.any(in_depth[:, mine], axis=1) & ~np.any(in_depth[:, ~mine], axis=1)
        return unique

    def parts(self) -> list[Lists]:
        """Return what it was made of: the lists of each system, then the chunks that none retrieved."""
        listed = np.flatnonzero(~np.any(self.found(None), axis=1))
        unlisted = listed, offsets_of(np.bincount(self.rows[listed], minlength=len(self.questions)))
        hashes = chunk_hashes(self.chunk_ids)
        grades = np.where(self.pooled, self.grades, NO_GRADE).astype(np.int8)
        return [
            Lists(
                system,
                self.scale,
                self.questions,
                self.tags,
                self.clusters,
                starts,
                [self.chunk_ids[at] for at in places.tolist()],
                hashes[places],
                self.passages[places],
                grades[places],
            )
            for system, (places, starts) in zip((*self.systems, None), (*self.lists, unlisted), strict=True)
            if system is not None or len(places)
        ]


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


def passages_of(chunks: Sequence[Chunk]) -> list[int]:
    """Return the number of each chunk's title and text, 0 without a text; repeats in a list differ."""
    seen: Counter[int] = Counter()
    numbers = []
    for chunk in chunks:
        number = passage_number(chunk.title, chunk.text) if chunk.text.strip() else 0
        numbers.append((number + seen[number]) % 2**64 if number else 0)
        seen[number] += 1
    return numbers


def _differing(given: Sequence[Run | Pool]) -> Iterator[Note]:
    """Say which runs were judged otherwise than the first."""
    runs = [each for each in given if isinstance(each, Run)]
    for run in runs[1:]:
        for differs in judge_differences(runs[0].manifest, run.manifest):
            yield Note(kind="another judge", names=(run.name,), differs=differs)
    yield from (doubt for each in given if isinstance(each, Pool) for doubt in each.doubts)


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
    doubts: tuple[Note, ...] = ()
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
