"""New ranked lists made of the verdicts of runs, without a call."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from judge_eval.digest import digest_json
from judge_eval.errors import ConfigError, DataError
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import Evaluator
from judge_eval.judges.imported import ImportedVerdicts
from judge_eval.llm.backend import Identity, Unavailable
from judge_eval.llm.options import Options
from judge_eval.metrics import Metric, mmr
from judge_eval.metrics.fusion import Fusion, interleaved, normalised, number_in, parameters
from judge_eval.pools.pool import Pool, Settling
from judge_eval.pools.scoring import settled
from judge_eval.ranges import check_ranges
from judge_eval.runs.folder.records import IMPORT, TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.schema import Chunk, Outcome, Trace, repeats_of
from judge_eval.spelling import option

_CUT = re.compile(r"\s*score\s*(>=|<=)\s*(\S+)\s*")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a list is made, in this order: threshold, fusion or interleaving, dedup, rerank, cut."""

    fuse: str | None = None
    interleave: bool = False
    threshold: str | None = None
    dedup: bool = False
    rerank: str | None = None
    cut: int | None = None

    def __str__(self) -> str:
        named = [self.threshold, self.fuse, "interleave" if self.interleave else None]
        named += ["dedup" if self.dedup else None, self.rerank, None if self.cut is None else f"cut {self.cut}"]
        return ", ".join(each for each in named if each)

    def check(self, runs: int) -> None:
        """Check that the settings can be read and fit so many runs."""
        joins = (self.fuse is not None) + self.interleave
        if joins > 1 or (joins == 1) != (runs > 1):
            several = "one run is not fused; name another" if runs == 1 else f"{runs} runs make one list by"
            raise ConfigError(f"{several} {option('fuse', 'rrf')} or {option('interleave', True)}, one of the two")
        if not str(self):
            raise ConfigError(f"say what to try, such as {option('cut', 5)} or {option('dedup', 'text')}")
        check_ranges({"cut": self.cut})


def what_if(
    runs: Sequence[Run],
    *,
    fuse: str | None = None,
    interleave: bool = False,
    threshold: str | None = None,
    dedup: bool = False,
    rerank: str | None = None,
    cut: int | None = None,
    metrics: Sequence[str | Metric] | None = None,
    conflicts: Settling = "majority",
    out: str | Path | None = None,
    label: str | None = None,
    tags: Sequence[str] = (),
) -> EvalRun:
    """Make a run of new lists from the verdicts of runs over the same questions, without a call.

    Runs are joined as `Pool.of` does. A chunk that no run has a verdict of stays a `NoVerdict`, so that means
    have bounds. The manifest says of which runs it was made, and how.

    Args:
        runs: One run or more; the order counts for ties and weights.
        fuse: `rrf:k=60`, `combsum`, `combmnz` or `weighted:a=.3`; see `Fusion`.
        interleave: Take the next chunk of each run in turn.
        threshold: `score>=x` or `score<=x`, by the retrievers' scores.
        dedup: Drop a chunk that reads like an earlier one.
        rerank: `mmr:lambda=.7`; relevance is the list's score from 0 to 1 (its rank without scores),
            similarity the cosine of word counts.
        cut: How many chunks to keep.
        metrics: Names or values of metrics; None takes those of the first run.
        conflicts: Which verdict counts if runs disagree; see `Pool.of`.
        out: The folder of runs; None keeps the run in memory.
        label: What people call the run; None takes the recipe.
        tags: Words to group and filter by.

    Raises:
        ConfigError: The settings cannot be read, or do not fit so many runs.
        DataError: Scores are needed, and a chunk has none.
        RunError: The runs have no question in common, or their scales differ.
    """
    recipe = Recipe(fuse, interleave, threshold, dedup, rerank, cut)
    recipe.check(len(runs))
    pool = Pool.of(runs, conflicts=conflicts)
    outcomes: dict[tuple[str, str], Outcome] = {}
    maker = _Maker(recipe, pool)
    rows = [run.results_at(places) for run, places in zip(runs, pool.origins, strict=True)]
    traces = [maker.trace(row, results, outcomes) for row, results in enumerate(zip(*rows, strict=True))]
    names = " and ".join(system.name for system in pool.systems)
    first = runs[0].manifest
    source: dict[str, Any] = {
        "file": names,
        "sha256": digest_json([str(recipe), conflicts, [run.id for run in runs]]),
        "verdicts": sum(each.kind == "verdict" for each in outcomes.values()),
        "unmatched": 0,
        "what_if": {"recipe": str(recipe), "conflicts": conflicts, "runs": [run.id for run in runs]},
        "run": {"id": first.id, "judge": first.judge, "backend": first.backend},
    }
    judge = ImportedVerdicts(lambda trace, chunk: outcomes[trace, chunk], pool.scale, source)
    backend = Unavailable(Identity(IMPORT, names), names, "a what-if makes no call")
    with Evaluator(
        backend,
        judge=judge,
        metrics=metrics or first.metrics,
        cache=False,
        options=Options(offline=True),
        intervals=first.intervals,
    ) as evaluator:
        return evaluator.evaluate(traces, out=out, label=label or str(recipe), tags=tags, name=f"{recipe} of {names}")


class _Maker:
    def __init__(self, recipe: Recipe, pool: Pool) -> None:
        self.recipe, self.pool = recipe, pool
        self.fusion = None if recipe.fuse is None else Fusion.parse(recipe.fuse)
        self.least: tuple[str, float] | None = None
        if recipe.threshold is not None:
            match = _CUT.fullmatch(recipe.threshold)
            if match is None:
                raise ConfigError(f"{recipe.threshold!r}: write score>=x or score<=x")
            self.least = match[1], number_in(recipe.threshold, match[2])
        self.lambda_: float | None = None
        if recipe.rerank is not None:
            _, params = parameters(recipe.rerank, {"mmr": ("lambda",)})
            self.lambda_ = number_in(recipe.rerank, params.get("lambda", ".5"))

    def trace(self, row: int, results: Sequence[TraceResult], outcomes: dict[tuple[str, str], Outcome]) -> Trace:
        """Make the list of a question, and note what is known of its chunks."""
        pool, (question, _) = self.pool, self.pool.questions[row]
        lists, scores, chunks = [], [], dict[int, Chunk]()
        known: dict[int, tuple[bool, Outcome]] = {}
        for (places, starts), result in zip(pool.lists, results, strict=True):
            kept = []
            here = places[starts[row] : starts[row + 1]].tolist()
            for at, chunk, outcome in zip(here, result.trace.chunks, result.outcomes, strict=True):
                chunks.setdefault(at, chunk)
                agrees = outcome.kind == "verdict" and outcome.grade == int(pool.grades[at])
                if at not in known or agrees > known[at][0]:
                    known[at] = agrees, outcome
                if self._keeps(chunk):
                    kept.append((at, chunk.score))
            lists.append([at for at, _ in kept])
            scores.append([score for _, score in kept])
        ranked = self._ranked(lists, scores, question)
        if self.recipe.dedup:
            again = repeats_of([chunks[at] for at, _ in ranked])
            ranked = [pair for pair, repeat in zip(ranked, again, strict=True) if not repeat]
        if self.lambda_ is not None:
            ranked = [ranked[place] for place in self._diverse(ranked, chunks)]
        made = []
        for at, score in ranked[: self.recipe.cut]:
            name = pool.chunk_ids[at]
            made.append(chunks[at].model_copy(update={"id": name, "score": score}))
            outcome, grade = known[at][1].model_copy(update={"chunk_id": name}), int(pool.grades[at])
            outcomes[question, name] = outcome if grade < 0 else settled(outcome, grade, pool.scale)
        fields = {name: getattr(results[0].trace, name) for name in Trace.model_fields}
        return Trace.parse({**fields, "id": question, "chunks": made})

    def _keeps(self, chunk: Chunk) -> bool:
        if self.least is None:
            return True
        if chunk.score is None:
            raise DataError(f"chunk {chunk.id!r} has no score; a threshold needs the retriever's scores")
        sign, value = self.least
        return chunk.score >= value if sign == ">=" else chunk.score <= value

    def _ranked(
        self, lists: list[list[int]], scores: list[list[float | None]], question: str
    ) -> list[tuple[int, float | None]]:
        if self.fusion is None:
            if self.recipe.interleave:
                return [(at, None) for at in interleaved(lists)]
            return list(zip(lists[0], scores[0], strict=True))
        numbers = [[score for score in each if score is not None] for each in scores]
        if self.fusion.method != "rrf":
            for system, each, plain in zip(self.pool.systems, scores, numbers, strict=True):
                ranks = f"; {option('fuse', 'rrf')} needs ranks alone"
                if len(plain) < len(each):
                    raise DataError(f"run {system.name}, trace {question!r}: a chunk has no score{ranks}")
                if plain and plain[0] < plain[-1]:
                    raise DataError(f"run {system.name}, trace {question!r}: scores rise with the rank{ranks}")
        return [*self.fusion.fuse(lists, numbers)]

    def _diverse(self, ranked: list[tuple[int, float | None]], chunks: dict[int, Chunk]) -> list[int]:
        """Order by maximal marginal relevance; see `mmr`."""
        if not ranked:
            return []
        words = [Counter(re.findall(r"\w+", chunks[at].text.casefold())) for at, _ in ranked]
        columns = {word: place for place, word in enumerate(dict.fromkeys(word for each in words for word in each))}
        vectors = np.zeros((len(ranked), max(1, len(columns))))
        for place, each in enumerate(words):
            vectors[place, [columns[word] for word in each]] = list(each.values())
        scores = [score for _, score in ranked if score is not None]
        relevance = normalised(scores if len(scores) == len(ranked) else [0.0] * len(ranked), "min-max")
        if len(scores) < len(ranked):
            relevance = normalised(relevance.tolist(), "rank")
        order: list[int] = mmr(relevance, embeddings=vectors, lambda_=self.lambda_ or 0.0).tolist()
        return order
