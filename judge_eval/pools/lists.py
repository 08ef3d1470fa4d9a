"""New ranked lists of the chunks that runs have retrieved."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np

from judge_eval.errors import ConfigError, DataError, MetricError
from judge_eval.metrics import mmr
from judge_eval.metrics.fusion import Fusion, Items, RankedLists, interleaved, normalised, number_in, parameters
from judge_eval.metrics.ragged import offsets_of
from judge_eval.metrics.table import Values
from judge_eval.pools.joining import Joined, Settling, common_rows, join, named_apart, read_lists
from judge_eval.pools.recipe import Recipe
from judge_eval.pools.scoring import settled
from judge_eval.record import trusted, uncollected
from judge_eval.runs.columns.cuts import refuse_other_cuts
from judge_eval.runs.columns.verdict_table import Places, Small, chunks_at
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.schema import Chunk, ClaimsJudged, Judgment, Outcome, Trace
from judge_eval.spelling import option

_CUT: Final = re.compile(r"\s*score\s*(>=|<=)\s*(\S+)\s*")


BLOCK: Final = 256
"""How many questions are read at a time."""


class JoinedRuns:
    """Runs over the same questions, joined as in a pool: by their tables at once, then read some questions at a time.

    Raises:
        RunError: The runs have no question in common, their scales or cuts differ, or verdicts differ and `settling`
            is `refuse`.
    """

    def __init__(self, runs: Sequence[Run], settling: Settling) -> None:
        self._runs, self._lists = runs, named_apart([read_lists(run) for run in runs])
        self.places = common_rows(self._lists)
        """By run, where its results of the common questions are."""
        self.joined = join(self._lists, Joined, settling=settling, rows=self.places)
        refuse_other_cuts(runs, "lists made of both would hold the same text twice; judge the fused lists of one cut")

    def __len__(self) -> int:
        return len(self.places[0])

    def left(self, run: int) -> Places:
        """Return where a run's results of the other questions are."""
        return np.setdiff1d(np.arange(len(self._lists[run].questions)), self.places[run])

    def __iter__(self) -> Iterator[KnownChunks]:
        for start in range(0, len(self), BLOCK):
            part = self.places[:, start : start + BLOCK]
            with uncollected():
                results = [[*run.results_at(at, calls=False)] for run, at in zip(self._runs, part, strict=True)]
            entries = [chunks_at(each.starts, at)[1] for each, at in zip(self._lists, part, strict=True)]
            yield KnownChunks(
                self.joined.part(start, start + part.shape[1]),
                results,
                [each.grades[at] for each, at in zip(self._lists, entries, strict=True)],
                [each.scores[at] for each, at in zip(self._lists, entries, strict=True)],
            )


class KnownChunks:
    """The chunks of joined lists: each as the first run that has it shows it, with the outcome that counts.

    By run: the results that the lists are of, the grades of its `own` chunks (-1 without a verdict), their scores (NaN
    without one).
    """

    def __init__(
        self, joined: Joined, results: Sequence[Sequence[TraceResult]], own: Sequence[Small], scores: Sequence[Values]
    ) -> None:
        self.joined, self.results, self.scores = joined, results, scores
        self.questions = self.joined.rows
        grades, count = self.joined.grades, len(self.questions)
        # The lists of all runs one after the other: which entry shows a chunk, and whose outcome counts.
        entries = int(sum(len(places) for places, _ in self.joined.lists))
        shown, fitting = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
        for (places, _), given in zip(reversed(self.joined.lists), reversed(own), strict=True):
            entries -= len(places)
            where, fits = entries + np.arange(len(places)), (given >= 0) & (given == grades[places])
            shown[places], fitting[places[fits]] = where, where[fits]
        each = [*chain.from_iterable(results)]
        chunks = [*chain.from_iterable([result.trace.chunks for result in each])]
        outcomes = [*chain.from_iterable([result.outcomes for result in each])]
        self._grades: list[int] = grades.tolist()
        self._shown = [chunks[at] for at in shown.tolist()]
        self._sources = np.where(fitting < 0, shown, fitting)
        self._outcomes = [outcomes[at] for at in self._sources.tolist()]
        self._each = each if any(result.votes or result.claims for result in each) else []
        self._starts = offsets_of([len(result.outcomes) for result in each])
        self._counted = bytearray(count)
        self._words: dict[int, Counter[str]] = {}
        self._alike: Items | None = None

    def chunks(self, places: list[int], scores: list[float]) -> tuple[Chunk, ...]:
        """Return chunks as the new list shows them; a score of NaN is none."""
        shown, names = self._shown, self.joined.chunk_ids
        made = [
            trusted(Chunk, {**shown[place].__dict__, "id": names[place], "score": score if score == score else None})
            for place, score in zip(places, scores, strict=True)
        ]
        return tuple(made)

    def outcomes(self, places: list[int]) -> tuple[Outcome, ...]:
        """Return the outcomes of chunks that count."""
        for place in places:
            if not self._counted[place]:
                self._counted[place] = True
                outcome, name, grade = self._outcomes[place], self.joined.chunk_ids[place], self._grades[place]
                outcome = outcome if outcome.chunk_id == name else outcome.replace(chunk_id=name)
                self._outcomes[place] = outcome if grade < 0 else settled(outcome, grade, self.joined.scale)
        return tuple([self._outcomes[place] for place in places])

    def judgment(self, row: int, places: list[int]) -> Judgment:
        """Return what is known of a list of the question in a row: the outcomes, with their votes and claims."""
        outcomes = self.outcomes(places)
        fields: dict[str, Any] = {
            "trace_id": self.joined.questions[row][0],
            "outcomes": outcomes,
            "calls": (),
            "parts": {},
        }
        fields |= {"votes": self._votes(places, outcomes), "claims": self._claims(row, places)}
        return trusted(Judgment, fields)

    def _votes(self, places: list[int], outcomes: Sequence[Outcome]) -> dict[str, tuple[int | None, ...]]:
        """Return the votes behind outcomes; none unless the same voters were asked about every chunk."""
        if not self._each:
            return {}
        entries = self._sources[places]
        owners = np.searchsorted(self._starts, entries, side="right") - 1
        ranks = (entries - self._starts[owners]).tolist()
        votes = [self._each[owner].votes for owner in owners.tolist()]
        names = {tuple(each) for each, outcome in zip(votes, outcomes, strict=True) if outcome.kind == "verdict"}
        if len(names) != 1:
            return {}
        pairs = list(zip(votes, ranks, strict=True))
        return {name: tuple([v[name][rank] if name in v else None for v, rank in pairs]) for name in names.pop()}

    def _claims(self, row: int, places: list[int]) -> ClaimsJudged | None:
        """Return the claims by which all runs judged a question; None if they differ."""
        # Whether chunks cover a claim together was asked about the chunks of a run; of others nobody knows.
        judged = [results[row] for results in self.results] if self._each else []
        known = [result.claims for result in judged if result.claims is not None]
        if not known or len(known) < len(judged) or any(each.claims != known[0].claims for each in known):
            return None
        names = {self.joined.chunk_ids[place] for place in places}
        for result, claims in zip(judged, known, strict=True):
            if {outcome.chunk_id for outcome in result.outcomes} == names:
                return claims
        asked = [claim for each in known for claim in each.together]
        return ClaimsJudged(claims=known[0].claims, together=dict.fromkeys(asked))

    @property
    def alike(self) -> Items:
        """The first chunk of the same question with the same title and text, of each chunk."""
        if self._alike is None:
            first: dict[tuple[int, str, str | None], int] = {}
            keys = zip(self.questions.tolist(), self._shown, strict=True)
            self._alike = np.array(
                [first.setdefault((row, c.text, c.title), place) for place, (row, c) in enumerate(keys)], dtype=np.int64
            )
        return self._alike

    def words(self, place: int) -> Counter[str]:
        """Count the words of a chunk."""
        if place not in self._words:
            self._words[place] = Counter(re.findall(r"\w+", self._shown[place].text.casefold()))
        return self._words[place]


class ListMaker:
    """Makes the lists of a recipe.

    Raises:
        ConfigError: A setting cannot be read.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._fusion = None if recipe.fuse is None else Fusion.parse(recipe.fuse)
        self._least: tuple[str, float] | None = None
        if recipe.threshold is not None:
            match = _CUT.fullmatch(recipe.threshold)
            if match is None:
                raise ConfigError(f"{recipe.threshold!r}: write score>=x or score<=x")
            self._least = match[1], number_in(recipe.threshold, match[2])
        self._lambda: float | None = None
        if recipe.rerank is not None:
            _, params = parameters(recipe.rerank, {"mmr": ("lambda",)})
            self._lambda = number_in(recipe.rerank, params.get("lambda", ".5"))
            if not 0 <= self._lambda <= 1:
                raise MetricError(f"{recipe.rerank}: lambda must be between 0 and 1")

    def lists(self, chunks: KnownChunks) -> tuple[RankedLists, Values]:
        """Make the lists of all questions of a block.

        Returns:
            The chunks of each list in rank order, and their scores, NaN without one.

        Raises:
            DataError: Scores are needed, and a chunk has none.
        """
        joined, questions = chunks.joined, chunks.questions
        lists, by_score = list(joined.lists), self._fusion is not None and self._fusion.method != "rrf"
        needed = by_score or self._least is not None or len(lists) == 1
        scores = [*chunks.scores] if needed else []
        if self._least is not None:
            lists, scores = self._above(chunks, scores)
        if by_score:
            self._check(chunks, lists, scores)
        if self._fusion is not None:
            order, sums = self._fusion.fuse(lists, scores, questions)
            values = sums[order]
        elif self.recipe.interleave:
            order = interleaved(lists, questions)
            values = np.full(len(order), np.nan)
        else:
            order, values = lists[0][0], scores[0]
        if self.recipe.dedup:
            first = np.sort(np.unique(chunks.alike[order], return_index=True)[1])
            order, values = order[first], values[first]
        starts = _starts(questions[order], len(joined.questions))
        if self._lambda is not None:
            spans = [slice(start, end) for start, end in pairwise(starts.tolist())]
            moved = [span.start + self._diverse(chunks, order[span], values[span]) for span in spans]
            again = np.concatenate([np.empty(0, dtype=np.int64), *moved])
            order, values = order[again], values[again]
        elif self.recipe.cut is not None:
            kept = np.arange(len(order)) - starts[questions[order]] < self.recipe.cut
            order, values = order[kept], values[kept]
        return (order, _starts(questions[order], len(joined.questions))), values

    def made(self, chunks: KnownChunks) -> Iterator[tuple[Trace, Judgment]]:
        """Yield the new list of each question, with what is known of its chunks."""
        (order, starts), scores = self.lists(chunks)
        places, values, begins = order.tolist(), scores.tolist(), starts.tolist()
        for row, (question, _) in enumerate(chunks.joined.questions):
            span = slice(begins[row], begins[row + 1])
            trace, listed = chunks.results[0][row].trace, chunks.chunks(places[span], values[span])
            fields = {name: getattr(trace, name) for name in Trace.model_fields}
            if any(results[row].trace.search_query != trace.search_query for results in chunks.results):
                fields["search_query"] = None  # a list that is made of two wordings has no single one
            yield trusted(Trace, {**fields, "id": question, "chunks": listed}), chunks.judgment(row, places[span])

    def _above(self, chunks: KnownChunks, scores: list[Values]) -> tuple[list[RankedLists], list[Values]]:
        """Leave out the chunks beyond the threshold."""
        assert self._least is not None
        sign, value = self._least
        lists, kept = [], []
        for (places, _), each in zip(chunks.joined.lists, scores, strict=True):
            if np.isnan(each).any():
                name = chunks.joined.chunk_ids[places[np.isnan(each)][0]]
                raise DataError(f"chunk {name!r} has no score; a threshold needs the retriever's scores")
            there = each >= value if sign == ">=" else each <= value
            left = places[there]
            lists.append((left, _starts(chunks.questions[left], len(chunks.joined.questions))))
            kept.append(each[there])
        return lists, kept

    @staticmethod
    def _check(chunks: KnownChunks, lists: list[RankedLists], scores: list[Values]) -> None:
        """Refuse lists without scores, or whose scores rise with the rank, as distances do."""
        for system, (places, starts), each in zip(chunks.joined.systems, lists, scores, strict=True):
            rows, (begin, end) = np.flatnonzero(np.diff(starts)), (starts[:-1], starts[1:])
            rising = rows[each[begin[rows]] < each[end[rows] - 1]]
            for faulty, what in (
                (chunks.questions[places[np.isnan(each)]], "a chunk has no score"),
                (rising, "scores rise with the rank"),
            ):
                if faulty.size:
                    question, _ = chunks.joined.questions[faulty[0]]
                    ranks = f"; {option('fuse', 'rrf')} needs ranks alone"
                    raise DataError(f"run {system.name}, trace {question!r}: {what}{ranks}")

    def _diverse(self, chunks: KnownChunks, places: Items, scores: Values) -> Items:
        """Order by maximal marginal relevance, at most as many as are kept; see `mmr`."""
        if not places.size:
            return places
        words = [chunks.words(place) for place in places.tolist()]
        columns = {word: place for place, word in enumerate(dict.fromkeys(word for each in words for word in each))}
        vectors = np.zeros((len(places), max(1, len(columns))))
        for place, each in enumerate(words):
            vectors[place, [columns[word] for word in each]] = list(each.values())
        by_rank = np.isnan(scores).any()
        relevance = normalised(np.zeros(len(scores)), "rank") if by_rank else normalised(scores, "min-max")
        return mmr(relevance, embeddings=vectors, lambda_=self._lambda or 0.0, k=self.recipe.cut)


def _starts(questions: Items, count: int) -> Items:
    """Return where the list of each question begins, given the question of each chunk in order."""
    return offsets_of(np.bincount(questions, minlength=count))
