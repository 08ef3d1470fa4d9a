"""New ranked lists made of the verdicts of runs, without a call."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from judge_eval.background_loop import background_loop
from judge_eval.compare.compare import compare
from judge_eval.compare.comparison import Comparison
from judge_eval.data.memory import row_name
from judge_eval.data.reading import is_url
from judge_eval.data.remarks import TraceIds
from judge_eval.digest import digest_json
from judge_eval.engine import BLOCK, Item, Judged, Source
from judge_eval.errors import ConfigError, DataError
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import Evaluator
from judge_eval.judges import Judge
from judge_eval.judges.imported import ImportedVerdicts, KeptVerdicts
from judge_eval.llm.backend import Identity, Unavailable
from judge_eval.llm.options import Options
from judge_eval.llm.stack import Stack
from judge_eval.metrics import Metric, parse_metric
from judge_eval.metrics.fusion import number_in
from judge_eval.notebook import shown_by_default
from judge_eval.pools.fitting import SweepPoint, SweepReport
from judge_eval.pools.joining import Settling
from judge_eval.pools.lists import JoinedRuns, ListMaker
from judge_eval.pools.recipe import Recipe, Recipes
from judge_eval.record import trusted
from judge_eval.runs.columns.verdict_table import ScoreColumns, cluster_codes
from judge_eval.runs.folder.records import IMPORT, Dataset, TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.judging.session import RunSession, begin, open_journal
from judge_eval.runs.keeping.mirror import MIRRORS, check_place, place_of_runs, written
from judge_eval.runs.options import Keeping
from judge_eval.runs.scoring.aggregate import filled_columns, less_is_better, limits_of
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.schema import Judgment, NoVerdict, Trace
from judge_eval.settings import with_keywords
from judge_eval.stats import mean_interval
from judge_eval.stats.figure import Figure

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


class NewLists:
    """The lists that a recipe makes of runs, with what is known of their chunks; see `what_if`.

    Raises:
        ConfigError: The settings cannot be read, or do not fit so many runs.
        RunError: The runs have no question in common.
    """

    def __init__(self, runs: Sequence[Run], recipe: Recipe, conflicts: Settling = "majority") -> None:
        recipe.check(len(runs))
        self.recipe, self.runs, self.first, self.scale = recipe, runs, runs[0].manifest, scale_of(runs[0])
        self.read, self.maker = JoinedRuns(runs, conflicts), ListMaker(recipe)
        self.names = " and ".join(system.name for system in self.read.joined.systems)
        self.source = {"recipe": str(recipe), "conflicts": conflicts, "runs": [run.id for run in runs]}

    def __iter__(self) -> Iterator[tuple[Trace, Judgment]]:
        """Make the lists one by one, with what is known of their chunks.

        Raises:
            DataError: Scores are needed, and a chunk has none.
        """
        for chunks in self.read:
            for trace, judgment in self.maker.made(chunks):
                yield Trace.parse(dict(trace)), judgment

    def evaluator(self, asked: Evaluator | None = None, metrics: Sequence[str | Metric] | None = None) -> Evaluator:
        """Return an evaluator that takes over the known verdicts, and asks `asked` about the others, if not None.

        Raises:
            ConfigError: The judge's scale or claims are not those of the runs.
        """
        metrics, first, made = metrics or self.first.metrics, self.first, {"what_if": {**self.source, "of": self.names}}
        if asked is not None:
            known = {trace.id: judgment for trace, judgment in self}
            judge = KeptVerdicts(asked.chosen_judge, known, made, scale=self.scale)
            other = asked.with_judge(judge)
            other.scorer, other.intervals = Scorer(metrics, self.scale, by_claims=judge.by_claims), first.intervals
            return other
        source: dict[str, Any] = {
            "file": self.names,
            "sha256": digest_json([*self.source.values()]),
            "verdicts": 0,
            "unmatched": 0,
            "what_if": self.source,
            "run": {"id": first.id, "judge": first.judge, "backend": first.backend},
        }
        imported = ImportedVerdicts(_nowhere, self.scale, source)
        imported.by_claims = all(map(_judged_by_claims, self.runs))
        backend = Unavailable(Identity(IMPORT, self.names), self.names, "a what-if makes no call")
        return Evaluator(
            backend,
            judge=imported,
            metrics=metrics,
            cache=False,
            options=Options(offline=True),
            intervals=first.intervals,
        )

    def run(
        self, evaluator: Evaluator, *, out: str | Path | None = None, label: str | None = None, tags: Sequence[str] = ()
    ) -> EvalRun:
        """Judge the lists with what `evaluator` returned; see `what_if`."""
        name, kept = f"{self.recipe} of {self.names}", Keeping(out=out, label=label or str(self.recipe), tags=tags)
        if not isinstance(evaluator.chosen_judge, ImportedVerdicts):
            traces = [trace for trace, _ in self]
            return evaluator.evaluate(traces, name=name, out=out, label=kept.label, tags=kept.tags)
        try:
            return background_loop.run(self._kept(evaluator, name, kept))
        except DataError as error:  # the data of a run in a folder were never in doubt
            if error.run_folder is not None:
                shutil.rmtree(error.run_folder, ignore_errors=True)
            raise

    async def _kept(self, evaluator: Evaluator, name: str, kept: Keeping) -> EvalRun:
        out = kept.out
        root = None if out is None else place_of_runs(out) if is_url(out) else Path(out)
        if root in MIRRORS:
            await asyncio.to_thread(check_place, root)
        known = _Known(self, evaluator.check)
        context = replace(evaluator.calling(), driver=known)
        manifest = begin(Dataset(name=name, traces=len(self.read)), context, evaluator.intervals)
        manifest = manifest.replace(label=kept.label, tags=tuple(kept.tags))
        journal, rows = open_journal(manifest, root, None, context)
        first = journal.manifest if journal else manifest
        session = known.session = RunSession(first, context, journal, shown_by_default(), rows=rows)
        session.push_every = kept.push_every
        with written(root) if root and is_url(out) else nullcontext():
            async for _ in session.results(known.numbered()):
                pass
            return EvalRun.of(session.run())

    def compared(self, made: EvalRun, keep: int) -> Iterator[Comparison]:
        """Compare each run, as the baseline, with the new one, and name so many changed traces."""
        for run in self.runs:
            yield compare(run, made, metrics=made.manifest.metrics, keep=keep)


class _Known:
    """Judges new lists by what is known of their chunks, in place of the engine."""

    stack: Stack | None = None

    def __init__(self, lists: NewLists, check: Callable[[Trace], None]) -> None:
        self._lists, self._check = lists, check
        self._judgments: dict[int, Judgment] = {}
        self.session: RunSession

    def numbered(self) -> Iterator[tuple[int, Trace]]:
        """Make the lists, with their positions; the last of them completes what the manifest says of the verdicts."""
        ids, verdicts, position = TraceIds("in row", self.session.remarks.add), 0, 0
        for chunks in self._lists.read:
            for made, judgment in self._lists.maker.made(chunks):
                try:
                    trace = ids.admit(Trace.parse(dict(made)), position)
                    self._check(trace)
                except DataError as error:
                    raise error.at(file=row_name(position, row=made)) from None
                verdicts += sum([outcome.kind == "verdict" for outcome in judgment.outcomes])
                self._judgments[position] = judgment
                yield position, trace
                position += 1
        judge = self.session.context.judge.describe()
        judge["imported"] = {**judge["imported"], "verdicts": verdicts}
        self.session.manifest = self.session.manifest.replace(judge=judge)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is open."""

    def judging_by(self, judge: Judge) -> Self:  # noqa: ARG002
        """Return itself: nobody is asked."""
        return self

    def take(self) -> list[Judged]:
        """Return nothing: what was made is judged at once."""
        return []

    async def results(self, source: Source) -> AsyncIterator[list[Judged]]:
        """Judge a block of traces at a time."""
        assert isinstance(source, Iterator)
        while items := list(islice(source, BLOCK)):
            yield [Judged(item.position, item.trace, self._judgment(item)) for item in items]
            await asyncio.sleep(0)

    def _judgment(self, item: Item) -> Judgment:
        return self._judgments.pop(item.position).replace(trace_id=item.trace.id)


def _judged_by_claims(run: Run) -> bool:
    return next((result.claims is not None for result in run.results if result.outcomes), False)


def _nowhere(trace: str, chunk: str) -> NoVerdict:
    raise AssertionError(f"chunk {chunk!r} of {trace!r} was judged when its list was made")


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
    tried = [ListMaker(_with(base, parameter, number)) for number in numbers]
    for maker in tried:
        maker.recipe.check(len(runs))
    columns = [_Column(runs[0], name) for _ in (None, *tried)]
    read = JoinedRuns(runs, conflicts)
    for chunks in read:
        columns[0].add((result.trace, result.judgment) for result in chunks.results[0])
        for maker, column in zip(tried, columns[1:], strict=True):
            column.add(maker.made(chunks))
    columns[0].add((each.trace, each.judgment) for each in runs[0].results_at(read.left(0), calls=False))
    before, *made = [column.values()[: len(read)] for column in columns]
    table, clusters = np.column_stack(made), columns[1].clusters(len(read))
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
        return mean_interval(column, clusters=None if codes is None else codes.tolist(), limits=bounds)

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


class _Column:
    """A metric of lists that are made one after the other."""

    def __init__(self, first: Run, metric: str) -> None:
        self._scorer = Scorer([metric], scale_of(first), by_claims=_judged_by_claims(first))
        self._columns = ScoreColumns(self._scorer.names, first.manifest.intervals.cluster)

    def add(self, judged: Iterable[tuple[Trace, Judgment]]) -> None:
        """Score lists."""
        block = list(judged)
        for trace, _ in block:
            try:
                self._scorer.check(trace)
            except DataError as error:
                raise error.at(file=f"trace {trace.id!r}") from None
        graded = [(trace, judgment.outcomes) for trace, judgment in block]
        scored = self._scorer.score(graded, claims=[judgment.claims for _, judgment in block])
        for (trace, outcomes), (scores, bounds) in zip(graded, scored, strict=True):
            fields = {"position": len(self._columns), "trace_id": trace.id, "digest": "", "calls": (), "votes": {}}
            fields |= {"outcomes": outcomes, "scores": scores, "bounds": bounds, "claims": None, "trace": trace}
            self._columns.add(trusted(TraceResult, fields))

    def values(self) -> Floats:
        """Return the value of each list, the expected one where verdicts failed."""
        (column,) = filled_columns(self._columns.done(), self._scorer).values()
        return column.value

    def clusters(self, count: int) -> list[int] | None:
        """Return the codes of the clusters of the first lists; see `cluster_codes`."""
        return cluster_codes(self._columns.done().clusters[:count])


def _halves(units: int | NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Deal questions, or whole clusters, into two halves."""
    names = np.arange(units) if isinstance(units, int) else np.unique(units, return_inverse=True)[1].reshape(-1)
    count = int(names.max()) + 1
    side = np.random.default_rng(seed).permutation(count) % 2
    return np.asarray(side[names], dtype=np.int64)
