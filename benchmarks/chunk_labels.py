"""Simulations of means from labels of single chunks: bias, coverage, and the gain over whole traces."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from benchmarks.lines import Line
from judge_eval.metrics import GradeTable, parse_metric
from judge_eval.stats.chunk_correction import (
    ChunkLabels,
    ExpectedMetric,
    RelevanceModel,
    chunk_mean,
    expected_by_verdict,
)
from judge_eval.stats.correction import CorrectedMean, ppi_mean

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
DESIGNS = ("uniform", "directed")
"""Which chunks are labelled: all with one chance; or by how much their label can move the mean."""
RIGHT = 0.9, 0.8
"""The judge's sensitivity and specificity, unless others are named."""


def draw(
    rng: np.random.Generator, traces: int, chunks: int, sensitivity: float, specificity: float, *, clustered: bool
) -> tuple[Floats, Ints]:
    """Draw relevance, which chunks of a trace share, and verdicts; clustered: errors go by trace."""
    chance = rng.beta(1.2, 2, size=(traces, 1))
    log_odds = np.log(chance / (1 - chance)) + np.linspace(0.6, -0.6, chunks)
    relevant: Floats = np.where(rng.random((traces, chunks)) < 1 / (1 + np.exp(-log_odds)), 1.0, 0.0)
    spread = 2 * rng.beta(2, 2, size=(traces, 1)) if clustered else np.ones((traces, 1))
    missed, raised = (1 - sensitivity) * spread, (1 - specificity) * spread
    noise = rng.random(relevant.shape)
    return relevant, np.where(relevant > 0, noise >= missed, noise < raised).astype(np.int64)


def metric_of(name: str) -> ExpectedMetric:
    """Return a metric over rows of relevance."""

    def compute(rows: Floats) -> Floats:
        offsets = np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1]
        return parse_metric(name).compute(GradeTable(rows.astype(np.int8).ravel(), offsets, maximum=1))

    return compute


def expected(name: str, chunks: int) -> ExpectedMetric:
    """Return the mean of a metric over chunks that are relevant by chance."""
    metric = parse_metric({"AP": "EAP", "RR": "SoftRR", "P": "SoftP", "DCG": "EDCG"}[name])

    def compute(chances: Floats) -> Floats:
        offsets = np.arange(len(chances) + 1, dtype=np.int64) * chunks
        flat = np.clip(chances.ravel(), 0, 1)
        grades = np.zeros(flat.size, dtype=np.int8)
        return metric.compute(GradeTable(grades, offsets, maximum=1, probable=flat, expected=flat))

    return compute


@cache
def truth_of(name: str, chunks: int) -> float:
    """Return the mean of a metric over very many traces."""
    relevant, _ = draw(np.random.default_rng(99), 200_000, chunks, *RIGHT, clustered=False)
    return float(metric_of(name)(relevant).mean())


def chances(name: str, verdicts: Ints, labels: int, design: str) -> Floats:
    """Return each chunk's chance to be labelled, shape (M,)."""
    size = verdicts.size
    if design == "uniform":
        return np.full(size, labels / size)
    guess = np.where(verdicts > 0, 0.75, 0.1)
    chunks = guess.shape[1]
    compute, worth = expected(name, chunks), np.empty(guess.shape)
    for rank in range(chunks):
        on, off = guess.copy(), guess.copy()
        on[:, rank], off[:, rank] = 1, 0
        worth[:, rank] = np.abs(compute(on) - compute(off))
    worth *= np.sqrt(guess * (1 - guess))
    directed = 0.2 / size + 0.8 * worth.ravel() / worth.sum()
    result: Floats = np.minimum(1.0, labels * directed)
    return result


def estimate(
    rng: np.random.Generator,
    name: str,
    chunks: int,
    traces: int,
    labels: int,
    design: str,
    *,
    clustered: bool = False,
    right: tuple[float, float] = RIGHT,
) -> CorrectedMean:
    """Draw traces, label some chunks, and estimate the mean."""
    relevant, verdicts = draw(rng, traces, chunks, *right, clustered=clustered)
    chance = chances(name, verdicts, labels, design)
    picked = np.flatnonzero(rng.random(chance.size) < chance)
    trace, rank = picked // chunks, picked % chunks
    label, weight = relevant[trace, rank], 1 / chance[picked]
    if name in ("P", "DCG"):
        share = expected_by_verdict(verdicts.ravel(), picked, label, weight)
        effect: Floats = np.full(chunks, 1 / chunks) if name == "P" else 1 / np.log2(np.arange(2.0, chunks + 2))
        base: Floats = share.reshape(relevant.shape) @ effect
        parts = ChunkLabels(trace, effect[rank], label, share[picked], weight)
    else:
        compute = expected(name, chunks)
        model = RelevanceModel.fit(verdicts, np.ones(relevant.shape), trace, rank, label, weight)
        base, effect = model.expect(compute), model.effect(compute, trace, rank)
        parts = ChunkLabels(trace, effect, label, model.relevance[trace, rank], weight)
    return chunk_mean(base, parts)


def whole_traces(
    rng: np.random.Generator,
    name: str,
    chunks: int,
    traces: int,
    labels: int,
    *,
    clustered: bool = False,
    right: tuple[float, float] = RIGHT,
) -> CorrectedMean:
    """Draw traces, label as many chunks in whole traces, and estimate the mean by PPI++."""
    relevant, verdicts = draw(rng, traces, chunks, *right, clustered=clustered)
    judged: Floats = verdicts.astype(np.float64)
    y, p, n = metric_of(name)(relevant), metric_of(name)(judged), labels // chunks
    return ppi_mean(y[:n], p[:n], p[n:])


METRICS = ("P", "DCG", "AP", "RR")


def coverage(simulations: int, seed: int = 8, metrics: tuple[str, ...] = METRICS) -> list[Line]:
    """How often does the interval of each metric and design hold the truth, and how wide is it?

    Its width is beside that of as many labels in whole traces.
    """
    lines = []
    for name in metrics:
        for chunks, design, clustered in itertools.product((5, 10), DESIGNS, (False, True)):
            rng = np.random.default_rng((seed, METRICS.index(name), chunks, DESIGNS.index(design), clustered))
            held, width, whole = 0, 0.0, 0.0
            for _ in range(simulations):
                made = estimate(rng, name, chunks, 300, 150, design, clustered=clustered).interval
                other = whole_traces(rng, name, chunks, 300, 150, clustered=clustered).interval
                assert made is not None
                assert other is not None
                held += truth_of(name, chunks) in made
                width, whole = width + made.high - made.low, whole + other.high - other.low
            errors = "clustered" if clustered else "independent"
            where = f"150 {design} chunk labels, {name}@{chunks}, {errors} errors"
            lines.append(Line(f"coverage, {where}", held / simulations, simulations, 0.90, 1.0))
            lines.append(Line(f"width over whole traces', {where}", width / whole, simulations))
    return lines


GAINS = (("P", 10, RIGHT), ("DCG", 10, RIGHT), ("P", 10, (0.95, 0.95)), ("DCG", 10, (0.95, 0.95)),
         ("AP", 5, (0.95, 0.95)), ("AP", 10, (0.95, 0.95)), ("AP", 10, RIGHT))  # fmt: skip
"""Metrics and judges for which single chunks take fewer labels than whole traces."""


def gains(
    simulations: int,
    seed: int = 9,
    cases: Sequence[tuple[str, int, tuple[float, float]]] = GAINS,
    labels: tuple[int, ...] = (150, 300),
    traces: int = 500,
) -> list[Line]:
    """How many labels of single chunks fewer give the half width of whole traces? 1 - ratio of widths squared."""
    lines = []
    for (name, chunks, right), clustered in itertools.product(cases, (False, True)):
        rng, ratios = np.random.default_rng((seed, METRICS.index(name), chunks, clustered)), []
        for count in labels:
            widths = np.zeros(2)
            for _ in range(simulations):
                design = "directed" if name == "AP" else "uniform"
                made = estimate(rng, name, chunks, traces, count, design, clustered=clustered, right=right).interval
                other = whole_traces(rng, name, chunks, traces, count, clustered=clustered, right=right).interval
                widths += [each.high - each.low if each is not None else np.nan for each in (made, other)]
            ratios.append(widths[0] / widths[1])
        where = f"{name}@{chunks}, judge {right[0]} / {right[1]}, {'clustered' if clustered else 'independent'} errors"
        bounds = (None, None) if clustered and name == "AP" else (0.2, 1.0)
        lines.append(
            Line(f"labels saved by single chunks, {where}", 1 - float(np.mean(ratios)) ** 2, simulations, *bounds)
        )
    return lines


def hit_rates(simulations: int, seed: int = 12) -> list[Line]:
    """How often does the bounded interval of a corrected hit rate hold, of whole traces with labels?

    Beside it is Student's interval of the same labels; the judge is right about 95% of the chunks.
    """
    lines = []
    for labels, clustered in itertools.product((20, 40, 60), (False, True)):
        rng = np.random.default_rng((seed, labels, clustered))
        truth = draw(rng, 200_000, 5, 0.95, 0.95, clustered=clustered)[0].max(axis=1).mean()
        bounded = plain = 0
        for _ in range(simulations):
            relevant, verdicts = draw(rng, 300, 5, 0.95, 0.95, clustered=clustered)
            y, p = (rows.max(axis=1).astype(float) for rows in (relevant, verdicts))
            made = ppi_mean(y[:labels], p[:labels], p[labels:], limits=(0, 1)).interval
            usual = ppi_mean(y[:labels], p[:labels], p[labels:]).interval
            bounded += made is not None and truth in made
            plain += usual is not None and truth in usual
        where = f"corrected HitRate@5, {labels} traces, {'clustered' if clustered else 'independent'} errors"
        lines.append(Line(f"coverage, {where}", bounded / simulations, simulations, 0.93, 1.0))
        lines.append(Line(f"coverage of Student's, {where}", plain / simulations, simulations))
    return lines
