"""New ranked lists made of the verdicts of runs, without a call."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np
from numpy.typing import NDArray

from judge_eval.digest import digest_json
from judge_eval.errors import ConfigError, DataError
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import Evaluator
from judge_eval.judges.imported import ImportedVerdicts
from judge_eval.judges.kept import KeptVerdicts
from judge_eval.llm.backend import Identity, Unavailable
from judge_eval.llm.options import Options
from judge_eval.metrics import Metric, mmr, parse_metric
from judge_eval.metrics.fusion import Fusion, interleaved, normalised, number_in, parameters
from judge_eval.pools.pool import Pool, Settling
from judge_eval.pools.recipe import Recipe, Recipes
from judge_eval.pools.scoring import settled
from judge_eval.pools.sweep_report import SweepPoint, SweepReport
from judge_eval.runs.columns.packed import cluster_codes
from judge_eval.runs.columns.parquet import columns_of
from judge_eval.runs.folder.records import IMPORT, TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import less_is_better, limits_of
from judge_eval.runs.scoring.figure import Figure
from judge_eval.runs.scoring.opened import opened
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.schema import Chunk, Outcome, Trace, repeats_of
from judge_eval.settings import with_keywords
from judge_eval.spelling import option
from judge_eval.stats import mean_interval

Floats = NDArray[np.float64]
MOST_VALUES: Final = 101
"""How many values one sweep tries."""
_WHERE: Final[Mapping[str, str]] = {
    "k": "fuse",
    "a": "fuse",
    "lambda": "rerank",
    "threshold": "threshold",
    "cut": "cut",
}
"""Which setting of a recipe each parameter stands in."""
_CUT = re.compile(r"\s*score\s*(>=|<=)\s*(\S+)\s*")


class NewLists:
    """The lists that a recipe makes of runs, with what is known of their chunks.

    Args:
        runs: One run or more over the same questions; the order counts for ties and weights.
        recipe: How the lists are made.
        conflicts: Which verdict counts if runs disagree; see `Pool.of`.

    Raises:
        ConfigError: The settings cannot be read, or do not fit so many runs.
        DataError: Scores are needed, and a chunk has none.
        RunError: The runs have no question in common, or their scales differ.
    """

    def __init__(self, runs: Sequence[Run], recipe: Recipe, conflicts: Settling = "majority") -> None:
        recipe.check(len(runs))
        self.recipe, self.first, self.pool = recipe, runs[0].manifest, Pool.of(runs, conflicts=conflicts)
        self._outcomes: dict[tuple[str, str], Outcome] = {}
        maker = _Maker(recipe, self.pool)
        rows = [run.results_at(places) for run, places in zip(runs, self.pool.origins, strict=True)]
        self.traces = [maker.trace(row, results, self._outcomes) for row, results in enumerate(zip(*rows, strict=True))]
        self.names = " and ".join(system.name for system in self.pool.systems)
        self.source = {"recipe": str(recipe), "conflicts": conflicts, "runs": [run.id for run in runs]}

    def evaluator(self, asked: Evaluator | None = None, metrics: Sequence[str | Metric] | None = None) -> Evaluator:
        """Return an evaluator that takes over the known verdicts, and asks about the others, if somebody is asked.

        Args:
            asked: Who judges chunks without a verdict; None: nobody, and they stay so.
            metrics: Names or values of metrics; None takes those of the first run.

        Raises:
            ConfigError: The judge's scale is not that of the runs.
        """
        metrics, first, made = metrics or self.first.metrics, self.first, {"what_if": {**self.source, "of": self.names}}
        if asked is not None:
            judge = KeptVerdicts(asked.judge, lambda t, c: self._outcomes.get((t, c.id)), made, scale=self.pool.scale)
            other = asked.with_judge(judge)
            other.scorer, other.intervals = Scorer(metrics, self.pool.scale, by_claims=judge.by_claims), first.intervals
            return other
        source: dict[str, Any] = {
            "file": self.names,
            "sha256": digest_json([*self.source.values()]),
            "verdicts": sum(each.kind == "verdict" for each in self._outcomes.values()),
            "unmatched": 0,
            "what_if": self.source,
            "run": {"id": first.id, "judge": first.judge, "backend": first.backend},
        }
        imported = ImportedVerdicts(lambda trace, chunk: self._outcomes[trace, chunk], self.pool.scale, source)
        backend = Unavailable(Identity(IMPORT, self.names), self.names, "a what-if makes no call")
        options = Options(offline=True)
        return Evaluator(
            backend, judge=imported, metrics=metrics, cache=False, options=options, intervals=first.intervals
        )

    def run(self, evaluator: Evaluator, *, label: str | None = None, **keeping: Any) -> EvalRun:
        """Judge the lists with what `evaluator` returned; the keywords are those of `Evaluator.evaluate`."""
        recipe = str(self.recipe)
        return evaluator.evaluate(self.traces, label=label or recipe, name=f"{recipe} of {self.names}", **keeping)


@with_keywords(Recipe)
def what_if(
    runs: Sequence[Run],
    *,
    metrics: Sequence[str | Metric] | None = None,
    conflicts: Settling = "majority",
    judge_missing: Evaluator | None = None,
    out: str | Path | None = None,
    label: str | None = None,
    tags: Sequence[str] = (),
    **recipe: Unpack[Recipes],
) -> EvalRun:
    """Make a run of new lists from the verdicts of runs over the same questions, without a call.

    Runs are joined as `Pool.of` does. A chunk that no run has a verdict of stays a `NoVerdict`, so that means
    have bounds, unless somebody is asked about it. The manifest says of which runs it was made, and how.

    Args:
        runs: One run or more; the order counts for ties and weights.
        metrics: Names or values of metrics; None takes those of the first run.
        conflicts: Which verdict counts if runs disagree; see `Pool.of`.
        judge_missing: Who judges the chunks without a verdict, and no others; None makes no call.
        out: The folder of runs; None keeps the run in memory.
        label: What people call the run; None takes the recipe.
        tags: Words to group and filter by.
        fuse: `rrf:k=60`, `combsum`, `combmnz` or `weighted:a=.3`; see `Fusion`.
        interleave: Take the next chunk of each run in turn.
        threshold: `score>=x` or `score<=x`, by the retrievers' scores.
        dedup: Drop a chunk that reads like an earlier one.
        rerank: `mmr:lambda=.7`; relevance is the list's score from 0 to 1 (its rank without scores),
            similarity the cosine of word counts.
        cut: How many chunks to keep.

    Raises:
        ConfigError: The settings cannot be read, or do not fit so many runs.
        DataError: Scores are needed, and a chunk has none.
        RunError: The runs have no question in common, or their scales differ.
    """
    lists = NewLists(runs, Recipe(**recipe), conflicts)
    with lists.evaluator(judge_missing, metrics) as evaluator:
        return lists.run(evaluator, out=out, label=label, tags=tags)


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


@with_keywords(Recipe)
def sweep(
    runs: Sequence[Run],
    values: str,
    *,
    metric: str | Metric | None = None,
    conflicts: Settling = "majority",
    seed: int = 0,
    **recipe: Unpack[Recipes],
) -> SweepReport:
    """Try one setting of a what-if with many values, without a call.

    The questions (or their clusters) are dealt into two halves. Each half chooses its best value, and each question
    counts under the value that the other half chose: that mean is not flattered by the choice.

    Args:
        runs: As of `what_if`; differences are from the first run's own lists.
        values: `k=10,30,60` or `a=0:1:.1` (from, to, step); the parameter is `k` or `a` of a fusion, `lambda` of
            `mmr`, `threshold` (of `score>=x`) or `cut`.
        metric: What to choose by; None takes the first of the first run.
        conflicts: As of `what_if`, like the following settings.
        seed: Of the halves.
        fuse: The fusion whose `k` or `a` is tried.
        interleave: Take the next chunk of each run in turn.
        threshold: The sign of the threshold that is tried.
        dedup: Drop a chunk that reads like an earlier one.
        rerank: `mmr`, whose `lambda` is tried.
        cut: How many chunks to keep.

    Returns:
        The curve and the held-out value.

    Raises:
        ConfigError: The values cannot be read, or the parameter is of a setting that is not used.
    """
    parameter, numbers = read_values(values)
    base = Recipe(**recipe)
    name = str(parse_metric(metric) if metric is not None else runs[0].manifest.metrics[0])
    tried = [_with(base, parameter, number) for number in numbers]
    tables = [_scores(runs, each, name, conflicts) for each in tried]
    own = _scores(runs[:1], Recipe(cut=10**9), name, conflicts)
    rows = {question: place for place, question in enumerate(own[1].tolist())}
    matched = np.array([rows.get(question, -1) for question in tables[0][1].tolist()])
    if (matched < 0).any():
        raise ConfigError("the questions of a list are not those of the first run")
    before, table = own[0][matched], np.column_stack([values for values, _, _ in tables])
    clusters = tables[0][2]
    known = ~np.isnan(np.column_stack([table, before])).any(axis=1)
    table, before = table[known], before[known]
    codes = None if clusters is None else np.array(clusters)[known]
    if not len(table):
        raise ConfigError(f"{name} has no value for any question")
    sign = -1.0 if less_is_better(name) else 1.0
    half = _halves(len(table) if codes is None else codes, seed)
    best = [int(np.argmax((sign * table[half == side]).mean(axis=0))) if (half == side).any() else 0 for side in (0, 1)]
    held = np.where(half == 0, table[:, best[1]], table[:, best[0]])
    limits = limits_of(name, table, before)
    low, high = limits or (None, None)
    span = None if low is None or high is None else (low - high, high - low)

    def figure(column: Floats, bounds: tuple[float | None, float | None] | None) -> Figure:
        return Figure.of(mean_interval(column, clusters=None if codes is None else codes.tolist(), limits=bounds))

    return SweepReport(
        metric=name,
        parameter=parameter,
        recipe=str(base),
        baseline=runs[0].name,
        questions=len(table),
        points=tuple(
            SweepPoint(value=number, mean=figure(column, limits), difference=figure(column - before, span))
            for number, column in zip(numbers, table.T, strict=True)
        ),
        chosen=(numbers[best[0]], numbers[best[1]]),
        held_out=figure(held, limits),
        held_out_difference=figure(held - before, span),
        less_is_better=sign < 0,
    )


def read_values(text: str) -> tuple[str, list[float]]:
    """Read `NAME=V,V,...` or `NAME=FROM:TO:STEP`.

    Raises:
        ConfigError: There is no such parameter, fewer than two values or more than 101.
    """
    name, equals, rest = text.partition("=")
    name = name.strip()
    if not equals or name not in _WHERE:
        raise ConfigError(
            f"{text!r}: write PARAMETER=VALUES, such as k=10,30,60 or a=0:1:.1, with one of {', '.join(_WHERE)}"
        )
    span = [number_in(text, part) for part in rest.split(":")] if ":" in rest else None
    if span is None:
        numbers = [number_in(text, part) for part in rest.split(",")]
    elif len(span) == 3 and span[2] > 0 and (span[1] - span[0]) / span[2] <= MOST_VALUES:
        numbers = [round(span[0] + span[2] * k, 10) for k in range(int((span[1] - span[0]) / span[2] + 1e-9) + 1)]
    else:
        raise ConfigError(f"{text!r}: write FROM:TO:STEP with at most {MOST_VALUES} values, such as a=0:1:.1")
    numbers = list(dict.fromkeys(numbers))
    if not 2 <= len(numbers) <= MOST_VALUES:
        raise ConfigError(f"{text!r}: {len(numbers)} values; give 2 to {MOST_VALUES}")
    return name, numbers


def _with(recipe: Recipe, parameter: str, number: float) -> Recipe:
    """Put a value into a recipe."""
    if parameter == "cut":
        if number != int(number) or number < 1:
            raise ConfigError(f"cut={number:g}: a cut is a whole number of at least 1")
        return replace(recipe, cut=int(number))
    if parameter == "threshold":
        sign = "<=" if "<=" in (recipe.threshold or "") else ">="
        return replace(recipe, threshold=f"score{sign}{number!r}")
    where = _WHERE[parameter]
    setting: str | None = getattr(recipe, where)
    method = {"k": "rrf", "a": "weighted", "lambda": "mmr"}[parameter]
    if setting is None or setting.partition(":")[0].strip() != method:
        raise ConfigError(f"{parameter} is a parameter of {method}; name it, and leave {parameter} to the sweep")
    others = [
        part for part in setting.partition(":")[2].split(",") if part and not re.match(rf"\s*{parameter}\s*=", part)
    ]
    text = f"{method}:" + ",".join([*others, f"{parameter}={number!r}"])
    return replace(recipe, rerank=text) if where == "rerank" else replace(recipe, fuse=text)


def _scores(
    runs: Sequence[Run], recipe: Recipe, metric: str, conflicts: Settling
) -> tuple[Floats, NDArray[np.uint64], list[int] | None]:
    """Return the metric of each question (expected where verdicts failed), the questions, and their clusters."""
    made = what_if(runs, **recipe.keywords(), metrics=[metric], conflicts=conflicts)
    columns = columns_of(made, (metric,), made.manifest.intervals.cluster)
    return opened(made, columns).value[:, 0], columns.questions, cluster_codes(columns.clusters)


def _halves(units: int | NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Deal questions, or whole clusters, into two halves."""
    names = np.arange(units) if isinstance(units, int) else np.unique(units, return_inverse=True)[1].reshape(-1)
    count = int(names.max()) + 1
    side = np.random.default_rng(seed).permutation(count) % 2
    return np.asarray(side[names], dtype=np.int64)
