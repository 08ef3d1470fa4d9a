"""Drawing a sample of a run for people to label, as many as a half width takes by labelling it in simulation."""

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from typing import Literal, NamedTuple, get_args

import numpy as np

from judge_eval.data.labels import Labels
from judge_eval.data.spreadsheets import changed_by_spreadsheets
from judge_eval.errors import ConfigError, DataError
from judge_eval.metrics import parse_metric
from judge_eval.record import Record
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import main_metric
from judge_eval.runs.scoring.rescore import rescore, scale_of
from judge_eval.schema import Outcome
from judge_eval.spelling import option
from judge_eval.stats._arrays import Floats
from judge_eval.study.chunk_means import ChunkSample, expected_metric, mean_of_chunks, relevance_model, uses_chunks
from judge_eval.study.correct import mean_by_traces
from judge_eval.study.matching import label_scale
from judge_eval.study.sample import Chosen, ChunkWorth, SampleBy, choose_chunks, choose_traces, chunk_worth
from judge_eval.study.systems import JudgedRun, metric_both_ways

RIGHT = 0.9
"""The share of verdicts that is taken to be right, of each grade, before there is a label."""
DRAWS = 6
_STEPS = 6
_NEAR = 0.15
_FASTEST = 3.0
"""The most that a width counts over the target: a draw without an interval asks for nine times as many labels."""
LEAST = 20
Unit = Literal["traces", "chunks"]
Drawing = Literal["none", "neyman", "uncertain"]


class PlannedSample(Record):
    """One way to draw, and what it takes."""

    unit: Unit
    by: str
    """How traces are drawn (`none`, `neyman`, `uncertain`), or chunks (`none`, or `metric`: directed at it)."""
    n: int
    """How many traces, or chunks, to label."""
    chunks: int
    """How many chunks people read, on average."""
    half_width: float
    """Of the corrected mean, expected."""
    reached: bool
    """Whether that is the target; else there are too few to label."""


class LabelPlan(Record):
    """What a half width takes."""

    metric: str
    target: float
    pilot: int
    """Labelled chunks from which the judge's errors are known; with 0 they are assumed."""
    options: tuple[PlannedSample, ...]
    """The fewest chunks first."""

    def best(self, unit: Unit, by: str | None = None) -> PlannedSample | None:
        """Return the way of this unit that takes the fewest labels; None if there is none."""
        return next((o for o in self.options if o.unit == unit and by in (None, o.by)), None)


def _grade(outcome: Outcome) -> int | None:
    return outcome.grade if outcome.kind == "verdict" else None


def parse_target(text: str) -> tuple[str, float]:
    """Read `METRIC=HALF-WIDTH`.

    Raises:
        ConfigError: It is not that.
    """
    name, _, number = text.rpartition("=")
    try:
        half = float(number)
    except ValueError:
        half = 0.0
    if not name or not 0 < half < 1:
        raise ConfigError(f"{option('target')} {text!r}: write METRIC=HALF-WIDTH, such as AP@5=0.03")
    return str(parse_metric(name.strip())), half


class LabelPlanner:
    """Labels a run in simulation, by a model of which chunks of a trace are relevant together (`RelevanceModel`).

    Args:
        run: The run.
        metric: Its metric whose mean is to be corrected.
        pilot: Labels so far, from which the judge's errors are taken; without them `RIGHT` of all verdicts are right.
        seed: Of all draws.
    """

    def __init__(self, run: Run, metric: str, pilot: Labels | None = None, *, seed: int = 0) -> None:
        names = run.manifest.metrics
        run = run if metric in names else rescore(run, [*names, metric])
        self.run = run.replace(results=tuple(run.results))  # read once: each simulated draw goes through them
        self._judged = JudgedRun.of(self.run)
        self.metric, self.pilot, self._seed = metric, pilot, seed
        self._worth: dict[str, ChunkWorth] = {}
        own, rng = scale_of(self.run), np.random.default_rng(seed)
        self._scale = own if pilot is None else label_scale(pilot, own, None)
        known = self._assumed(rng) if pilot is None else pilot
        sample = ChunkSample.of(self._judged, known, parse_metric(metric).cutoff)
        self._model, _ = relevance_model(sample, sample.verdict, self._scale)
        counts: dict[int | None, list[float]] = {}
        for result in self.run.results:
            for o in result.outcomes:
                row = counts.setdefault(_grade(o), [0.5] * len(self._scale.grades))
                if (label := known.grades.get((result.trace_id, o.chunk_id))) is not None:
                    row[label - self._scale.minimum] += 1
        self._counts = {grade: np.array(row) for grade, row in counts.items()}
        self._labels = [self._draw(rng) for _ in range(DRAWS)]
        self._values = [metric_both_ways(self._judged, labels, metric) for labels in self._labels]

    def _assumed(self, rng: np.random.Generator) -> Labels:
        labels, grades = Labels(), list(self._scale.grades)
        for result in self.run.results:
            for o, right in zip(result.outcomes, rng.random(len(result.outcomes)) < RIGHT, strict=True):
                others = [grade for grade in grades if grade != _grade(o)]
                grade = _grade(o) if right else None
                labels.grades[result.trace_id, o.chunk_id] = int(rng.choice(others)) if grade is None else grade
        return labels

    def _draw(self, rng: np.random.Generator) -> Labels:
        levels, traces, depth = self._model.chances.shape
        level = (rng.random((traces, 1)) > self._model.shares.cumsum(axis=1)).sum(axis=1).clip(0, levels - 1)
        relevant = rng.random((traces, depth)) < self._model.chances[level, np.arange(traces)]
        grades = np.array(self._scale.grades)
        side = grades >= self._scale.relevant
        ends = {}
        for grade, row in self._counts.items():
            for kind, part in ((None, row), (True, row * side), (False, row * ~side)):
                ends[grade, kind] = part.cumsum() / part.sum()
        keys, rows, open_ = list[tuple[str, str]](), list[Floats](), list[bool]()
        for result, known in zip(self.run.results, relevant.tolist(), strict=True):
            for rank, o in enumerate(result.outcomes):
                keys.append((result.trace_id, o.chunk_id))
                rows.append(ends[_grade(o), known[rank] if rank < depth else None])
                open_.append(len(grades) > 2 or rank >= depth)
        spots = np.zeros(len(rows))
        spots[open_] = rng.random(sum(open_))
        drawn = (spots[:, None] >= np.array(rows)).sum(axis=1)
        return Labels(dict(zip(keys, grades[drawn].tolist(), strict=True)), sources=("a simulation",))

    @cached_property
    def spread(self) -> dict[str, float]:
        """By trace how far its labels are expected to be from what the judge predicts, >= 0."""
        # From draws of its own: widths measured on the draws that chose the traces would be too small. Traces with the
        # same verdicts are alike.
        rng, depth = np.random.default_rng((self._seed, 1)), parse_metric(self.metric).cutoff
        signs = {r.trace_id: "".join(o.sign for o in r.outcomes[:depth]) for r in self.run.results}
        squares: dict[str, list[float]] = {}
        for _ in range(DRAWS):
            judge, human = metric_both_ways(self._judged, self._draw(rng), self.metric)
            names = [name for name in human if judge.get(name) is not None]
            y, f = (np.array([side[name] for name in names], dtype=np.float64) for side in (human, judge))
            slope = float(np.mean((y - y.mean()) * (f - f.mean()))) / max(float(f.var()), 1e-12)
            rest = y - min(1.0, max(0.0, slope)) * f
            for name, square in zip(names, ((rest - rest.mean()) ** 2).tolist(), strict=True):
                squares.setdefault(signs[name], []).append(square)
        return {name: float(np.mean(squares[sign])) ** 0.5 for name, sign in signs.items() if sign in squares}

    def choose(self, unit: Unit, by: str, n: int, seed: int, without: Sequence[str] = ()) -> list[Chosen]:
        """Choose traces or chunks in this way."""
        if unit == "chunks":
            if by not in self._worth:
                self._worth[by] = chunk_worth(self.run, self.metric if by == "metric" else None)
            return choose_chunks(self.run, n, seed=seed, worth=self._worth[by])
        spread = None if by == "none" else self.spread
        return choose_traces(self.run, n, by=by, seed=seed, spread=spread, without=without)  # type: ignore[arg-type]

    def covering(self, planned: PlannedSample, seed: int, without: Sequence[str] = ()) -> list[Chosen]:
        """Choose as planned; where single chunks miss the deepest rank, as many more as it takes to reach it."""
        depth = parse_metric(self.metric).cutoff
        deepest = max((len(result.outcomes[:depth]) for result in self.run.results), default=0)
        n, most = planned.n, self._most_chunks()
        while True:
            chosen = self.choose(planned.unit, planned.by, n, seed, without)
            if planned.unit == "traces" or n == most or any(pick.reaches(deepest) for pick in chosen):
                return chosen
            n = min(most, n + max(1, n // 10))

    def plan(self, target: float) -> LabelPlan:
        """Find for each way of drawing the fewest labels that are expected to give this half width.

        Raises:
            DataError: The run has too few traces.
        """
        ways: list[tuple[Unit, str]] = [("traces", by) for by in get_args(Drawing)]
        if uses_chunks(self.metric):
            directed = expected_metric(parse_metric(self.metric)) is not None
            ways += [("chunks", by) for by in ("none", "metric")[: 1 + directed]]
        options = [planned for unit, by in ways if (planned := self._planned(unit, by, target)) is not None]
        pilot = 0 if self.pilot is None else len(self.pilot)
        ordered = tuple(sorted(options, key=lambda o: (not o.reached, o.chunks)))
        return LabelPlan(metric=self.metric, target=target, pilot=pilot, options=ordered)

    def _planned(self, unit: Unit, by: str, target: float) -> PlannedSample | None:
        """Return the plan of one way; None if no simulated draw gives an interval."""
        sizes = [len(result.outcomes) for result in self.run.results if result.outcomes]
        most = len(sizes) - 1 if unit == "traces" else self._most_chunks() - 1
        if most < LEAST:
            raise DataError(f"{most + 1} {unit} are too few to plan labels; label them all")
        n, tried = min(most, max(LEAST, most // 5)), dict[int, float]()
        for _ in range(_STEPS):
            tried[n] = self._half_width(unit, by, n)
            n = int(np.clip(round(n * min(tried[n] / target, _FASTEST) ** 2), LEAST, most))
            if n in tried:
                break
        tried = {size: half for size, half in tried.items() if math.isfinite(half)}
        if not tried:
            return None
        # Widths are means of few draws: all that are near the target say together how many it takes.
        near = [(size, half) for size, half in tried.items() if abs(half / target - 1) < _NEAR] or [*tried.items()][-1:]
        n = int(np.clip(round(float(np.mean([size * (half / target) ** 2 for size, half in near]))), LEAST, most))
        half = float(np.mean([half * (size / n) ** 0.5 for size, half in near]))
        enough = half <= target * 1.03
        chunks = n if unit == "chunks" else round(n * sum(sizes) / len(sizes))
        return PlannedSample(unit=unit, by=by, n=n, chunks=chunks, half_width=half, reached=enough)

    def _most_chunks(self) -> int:
        depth = parse_metric(self.metric).cutoff
        return sum(len(result.outcomes[:depth]) for result in self.run.results)

    def _half_width(self, unit: Unit, by: str, n: int) -> float:
        halves = []
        draws = zip(self._labels, self._values, strict=True)
        for draw, (labels, (judge, human)) in enumerate(islice(draws, DRAWS // 2 if unit == "chunks" else DRAWS)):
            part = Labels(sources=labels.sources)
            for pick in self.choose(unit, by, n, self._seed + draw):
                trace = pick.result.trace_id
                part.chances[trace] = pick.probability
                for outcome in pick.result.outcomes if pick.chunks is None else ():
                    part.grades[trace, outcome.chunk_id] = labels.grades[trace, outcome.chunk_id]
                for chunk, chance in (pick.chunks or {}).items():
                    part.grades[trace, chunk] = labels.grades[trace, chunk]
                    part.chunk_chances[trace, chunk] = chance
            try:
                if unit == "chunks":
                    mean, _ = mean_of_chunks(self._judged, part, self.metric, judge, {}, alone=False)
                else:
                    labelled = {t: human[t] for t in part.chances}
                    mean, _ = mean_by_traces(self._judged, judge, labelled, part, self.metric)
            except DataError:  # the draw misses a rank, as the one for people must not (`covering`)
                continue
            if mean.interval is not None:
                halves.append((mean.interval.high - mean.interval.low) / 2)
        return float(np.mean(halves)) if halves else float("inf")


DEFAULT_SIZE = 50
"""How many traces, or chunks, are drawn if nobody says how many."""


class DrawnSample(NamedTuple):
    """What to label, and the plan that says so."""

    chosen: list[Chosen]
    plan: LabelPlan | None = None
    planned: PlannedSample | None = None
    """The way of the plan that was taken."""


def draw_sample(
    run: Run,
    n: int | None = None,
    *,
    target: str | None = None,
    by: SampleBy | None = None,
    chunks: bool = False,
    metric: str | None = None,
    pilot: Labels | None = None,
    seed: int = 0,
) -> DrawnSample:
    """Choose traces, or single chunks, for people to label.

    Args:
        run: The run.
        n: How many; None takes `DEFAULT_SIZE`.
        target: `METRIC=HALF-WIDTH`: as many as give the corrected mean this half width, drawn the cheapest way.
        by: How traces are drawn (see `choose_traces`); None gives all the same chance, or with a target takes the best.
        chunks: Whether to choose single chunks.
        metric: Of single chunks: prefer those whose label can move it.
        pilot: Labels so far: their traces are not chosen again, and a plan learns from them.
        seed: Of the draw.

    Raises:
        ConfigError: Options contradict each other, or the target cannot be reached.
    """
    done = sorted({trace for trace, _ in (*pilot.grades, *pilot.ties)} if pilot is not None else ())
    if chunks and (by not in (None, "none") or done):
        raise ConfigError(f"{option('chunks')} draws from all chunks; leave {option('by')} and {option('without')} out")
    if metric is not None and not chunks:
        raise ConfigError(f"{option('metric')} directs a choice of single chunks; add {option('chunks')}")
    if target is not None:
        if n is not None or metric is not None:
            raise ConfigError(
                f"{option('target')} says how many to label, and of which metric; leave {option('n')} and "
                f"{option('metric')} out"
            )
        name, half = parse_target(target)
        planner = LabelPlanner(run, name, pilot, seed=seed)
        plan = planner.plan(half)
        planned = plan.best("chunks" if chunks else "traces", by)
        if planned is None and by:
            raise ConfigError(f"labels cannot be planned with {option('by', by)}")
        if planned is None:
            what = "whole traces" if chunks else "all traces"
            raise ConfigError(f"label {what} for {name}: no plan gives an interval")
        if not planned.reached:
            raise ConfigError(
                f"{name} +-{half:g} is not reached: labels of all {planned.n + 1:,} {planned.unit} would give "
                f"+-{planned.half_width:.3f}; judge more traces, or take a wider target"
            )
        return DrawnSample(planner.covering(planned, seed, done), plan, planned)
    size = n or DEFAULT_SIZE
    if chunks:
        return DrawnSample(choose_chunks(run, size, metric=metric, seed=seed))
    if by in ("neyman", "uncertain"):
        name = main_metric(run.manifest.metrics) or run.manifest.metrics[0]
        return DrawnSample(LabelPlanner(run, name, pilot, seed=seed).choose("traces", by, size, seed, done))
    return DrawnSample(choose_traces(run, size, by=by or "none", seed=seed, without=done))


def ids_changed_by_spreadsheets(chosen: Sequence[Chosen]) -> list[str]:
    """Return the ids of traces and chunks that a spreadsheet would read as numbers or dates."""
    ids = {id_ for pick in chosen for id_ in (pick.result.trace_id, *(c.id for c in pick.result.trace.chunks))}
    return sorted(filter(changed_by_spreadsheets, ids))
