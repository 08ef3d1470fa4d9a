"""Planned labels: the width that is reached, and intervals at every look (a part of `stats_calibration`)."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import product

import numpy as np

from benchmarks.lines import Line
from benchmarks.stats_labels import JUDGES, judged_traces
from judge_eval.data.labels import Labels
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import Evaluator
from judge_eval.llm.fake.fake_backend import FakeBackend
from judge_eval.schema import Chunk, Trace
from judge_eval.stats import ppi_mean
from judge_eval.stats.sequential import sequential_mean
from judge_eval.study.correct import correct
from judge_eval.study.label_plan import LabelPlanner
from judge_eval.study.systems import JudgedRun, metric_both_ways

CHUNKS = 5


def sequential_coverage(
    simulations: int, seed: int = 91, traces: int = 500, judges: tuple[int, ...] = (0, 3, 4)
) -> list[Line]:
    """How often do all intervals from the 10th label to the 300th hold the mean of the traces?"""
    lines = []
    for place in judges:
        rng, held = np.random.default_rng((seed, place)), 0
        for _ in range(simulations):
            y, f = judged_traces(rng, place, traces)
            order = rng.permutation(traces)[:300]
            mean = float(y.mean())
            held += all(mean in interval for interval in sequential_mean(y[order], f[order], f)[9:])
        lines.append(
            Line(f"coverage at every look, mean {JUDGES[place][0]}", held / simulations, simulations, 0.95, 1.0)
        )
    return lines


def stopped_coverage(
    simulations: int,
    seed: int = 93,
    traces: int = 500,
    judges: tuple[int, ...] = tuple(range(len(JUDGES))),
    targets: tuple[float, ...] = (0.06, 0.04),
    hits: tuple[bool, ...] = (False, True),
) -> list[Line]:
    """Labelling stops when the half width is the target: coverage of the ordinary interval there, and the labels.

    A look every five labels from the 20th on, at most 400 of the traces. `hits` are hit rates in place of AP. Beside it
    is the interval that holds at every look, whatever makes people stop. The truth is the mean of very many traces.
    """
    lines, looks = [], range(20, 401, 5)
    for place, hit, target in product(judges, hits, targets):
        rng = np.random.default_rng((seed, place, hit, int(target * 1000)))
        many = judged_traces(np.random.default_rng(99), place, 400_000)[0]
        truth = float((many > 0).mean() if hit else many.mean())
        held, taken = np.zeros(2), np.zeros(2)
        for _ in range(simulations):
            y, f = (((side > 0) * 1.0 if hit else side) for side in judged_traces(rng, place, traces))
            every = sequential_mean(y[: looks[-1]], f[: looks[-1]], f)
            ordinary = (ppi_mean(y[:n], f[:n], f[n:], limits=(0.0, 1.0)).interval for n in looks)
            for way, intervals in enumerate((ordinary, (every[n - 1] for n in looks))):
                for n, made in zip(looks, intervals, strict=True):  # noqa: B007  the last ones are read below
                    if made is not None and (made.high - made.low) / 2 <= target:
                        break
                held[way] += made is not None and truth in made
                taken[way] += n
        what = f"{'HitRate' if hit else 'AP'}, mean {truth:.2f}, judge {JUDGES[place][3:]}, +-{target:g}"
        lines.append(Line(f"coverage where the width says stop, {what}", held[0] / simulations, simulations, 0.92, 1.0))
        lines.append(Line(f"  --sequential, {what}", held[1] / simulations, simulations))
        lines.append(Line(f"labels over those of --sequential, {what}", taken[0] / taken[1], simulations))
    return lines


def simulated_run(
    rng: np.random.Generator, traces: int, share: tuple[float, float], right: tuple[float, float], metric: str
) -> tuple[EvalRun, Labels]:
    """Judge traces whose relevance is drawn, by a judge of this sensitivity and specificity; return the truth too."""
    truth, answers, asked = Labels(sources=("truth",)), dict[Hashable, int](), list[Trace]()
    for t in range(traces):
        chance = rng.beta(*share)
        names = [f"c{t}-{c}" for c in range(CHUNKS)]
        for name in names:
            label = int(rng.random() < chance)
            truth.grades[f"t{t}", name] = label
            answers[f"t{t}", name] = label if rng.random() < right[1 - label] else 1 - label
        chunks = [Chunk(id=name, text=f"text {name}") for name in names]
        asked.append(Trace(id=f"t{t}", query=f"question {t}", reference="answer", chunks=chunks))
    evaluator = Evaluator(FakeBackend.table(answers), prompt="support/binary", metrics=[metric], cache=False)
    with evaluator:
        return evaluator.evaluate(asked), truth


def planned_width(
    simulations: int,
    seed: int = 92,
    traces: int = 500,
    target: float = 0.045,
    right: tuple[float, float] = (0.9, 0.9),
    pilot: int = 60,
    ways: tuple[str, ...] = ("none", "neyman", "uncertain", "chunks"),
) -> list[Line]:
    """The width over the plan, and the coverage, of labels drawn as planned; and the labels over simple random ones.

    Relevance is rare and in few traces; the judge's errors are known from `pilot` traces, of all without chance.
    """
    rng = np.random.default_rng(seed)
    ratios: dict[str, list[float]] = {way: [] for way in ways}
    labels: dict[str, list[float]] = {way: [] for way in ways}
    held = dict.fromkeys(ways, 0)
    for k in range(simulations):
        run, truth = simulated_run(rng, traces, (0.15, 1.5), right, "AP@5")
        people = _mean(run, truth)
        known = Labels({key: label for key, label in truth.grades.items() if int(key[0][1:]) < pilot})
        planner = LabelPlanner(run, "AP@5", known, seed=k)
        plan = planner.plan(target)
        for way in ways:
            chosen = plan.best("chunks", "metric") if way == "chunks" else plan.best("traces", way)
            assert chosen is not None
            part = Labels(sources=("labels",))
            for pick in planner.choose(chosen.unit, chosen.by, chosen.n, k + 1000):
                part.chances[pick.result.trace_id] = pick.probability
                for chunk in pick.to_label(0):
                    key = pick.result.trace_id, chunk.id
                    part.grades[key] = truth.grades[key]
                    if pick.chunks is not None:
                        part.chunk_chances[key] = pick.chance(chunk)
            if way == "chunks":
                part.chances.clear()
            low, high = correct(run, part, ["AP@5"]).means["AP@5"].interval or (0.0, 0.0)
            ratios[way].append((high - low) / 2 / target)
            labels[way].append(chosen.chunks)
            held[way] += low <= people <= high
    lines = []
    for way in ways:
        what = f"{way}, {pilot} pilot traces"
        lines.append(Line(f"width over plan, {what}", float(np.mean(ratios[way])), simulations, 0.9, 1.1))
        lines.append(Line(f"coverage of planned labels, {what}", held[way] / simulations, simulations, 0.93, 1.0))
        saved = 1 - float(np.mean(labels[way])) / float(np.mean(labels["none"]))
        bounds = (0.25, 1.0) if way in ("neyman", "uncertain") else (None, None)
        lines.append(Line(f"labels saved against simple random traces, {way}", saved, simulations, *bounds))
    return lines


def _mean(run: EvalRun, truth: Labels) -> float:
    return float(np.mean(list(metric_both_ways(JudgedRun.of(run), truth, "AP@5")[1].values())))
