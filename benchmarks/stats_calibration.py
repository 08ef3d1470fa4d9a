"""Simulations of how often tests reject true nulls and intervals cover the truth.

Run with `python -m benchmarks.stats_calibration [simulations]`; seeded, a few minutes for the default 10,000.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from judge_eval.stats import (
    Sample,
    compare_paired,
    mean_interval,
    ppi_mean,
    ppi_mean_sampled,
    stratified_sample,
)

Floats = npt.NDArray[np.float64]

CHUNKS = 5
ALPHA, BETA = 2.0, 3.0
"""Each trace draws its chance of a relevant chunk from Beta(2, 3)."""
SENSITIVITY, FALSE_POSITIVES = 0.9, 0.25
"""The simulated judge is lenient, as LLM judges tend to be."""


@dataclass(frozen=True)
class Line:
    """One simulated rate, beside the bounds that it must keep."""

    name: str
    rate: float
    simulations: int
    low: float | None = None
    high: float | None = None

    @property
    def kept(self) -> bool:
        """Whether the rate lies within its bounds."""
        return (self.low is None or self.low <= self.rate) and (self.high is None or self.rate <= self.high)

    def __str__(self) -> str:
        error = math.sqrt(self.rate * (1 - self.rate) / self.simulations)
        bounds = (
            ""
            if self.low is None
            else f"  bounds [{self.low:.2f}, {self.high:.2f}] {'ok' if self.kept else 'BROKEN'}"
        )
        return f"{self.name:<62} {self.rate:.4f} +- {error:.4f}{bounds}"


def average_precision(grades: npt.NDArray[np.bool_]) -> Floats:
    """Return AP over the last axis: the mean precision at the relevant ranks, 0 where there is none."""
    hits = grades.cumsum(axis=-1)
    precision = hits / np.arange(1, grades.shape[-1] + 1)
    found: Floats = (precision * grades).sum(axis=-1) / np.maximum(hits[..., -1], 1)
    return found


def true_mean() -> float:
    """Return the exact mean AP of the simulated traces, over all patterns of relevance."""
    patterns = (np.arange(2**CHUNKS)[:, None] >> np.arange(CHUNKS)) & 1
    ones = patterns.sum(axis=1)
    log = [
        math.lgamma(ALPHA + k) + math.lgamma(BETA + CHUNKS - k) - math.lgamma(ALPHA + BETA + CHUNKS)
        for k in ones.tolist()
    ]
    scale = math.lgamma(ALPHA) + math.lgamma(BETA) - math.lgamma(ALPHA + BETA)
    return float(np.exp(np.array(log) - scale) @ average_precision(patterns.astype(bool)))


def draw_relevance(rng: np.random.Generator, traces: int, systems: int = 1) -> npt.NDArray[np.bool_]:
    """Return relevance of shape (systems, traces, chunks); systems share each trace's chance."""
    chance = rng.beta(ALPHA, BETA, size=(traces, 1))
    return rng.random((systems, traces, CHUNKS)) < chance


def paired_null(simulations: int, seed: int = 1, traces: int = 15) -> list[Line]:
    """Two retrievers of equal quality, few traces: how often is a difference claimed at .05?"""
    rng = np.random.default_rng(seed)
    by_t = by_flip = 0
    for _ in range(simulations):
        found = compare_paired(*average_precision(draw_relevance(rng, traces, 2)))
        by_t += found.p_t is not None and found.p_t <= 0.05
        by_flip += found.p_randomisation <= 0.05
    return [
        Line(f"type I error, paired t, n={traces}", by_t / simulations, simulations, 0.03, 0.06),
        Line(f"type I error, sign flips, n={traces}", by_flip / simulations, simulations, 0.03, 0.06),
    ]


def clustered_null(simulations: int, seed: int = 2, clusters: int = 20, size: int = 5) -> list[Line]:
    """Traces of one document share a difference that is 0 on average: how often is one claimed at .05?"""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(clusters), size).tolist()
    robust = flips = naive = 0
    for _ in range(simulations):
        shared = np.repeat(rng.normal(0, 0.2, clusters), size)
        d = shared + rng.normal(0, 0.2, clusters * size)
        zero = np.zeros_like(d)
        found = compare_paired(zero, d, clusters=ids, permutations=999)
        robust += found.p_t is not None and found.p_t <= 0.05
        flips += found.p_randomisation <= 0.05
        interval = mean_interval(d).interval
        naive += interval is not None and 0 not in interval
    return [
        Line(f"clustered null, CR1 with t(G-1), G={clusters}", robust / simulations, simulations, 0.03, 0.07),
        Line(
            f"clustered null, clusters' signs flipped, G={clusters}",
            flips / simulations,
            simulations,
            0.03,
            0.07,
        ),
        Line("clustered null, t that ignores the clusters", naive / simulations, simulations),
    ]


def mean_coverage(simulations: int, seed: int = 3, traces: int = 50) -> list[Line]:
    """How often does the interval of mean AP cover the true mean?"""
    rng = np.random.default_rng(seed)
    truth = true_mean()
    covered = 0
    for _ in range(simulations):
        interval = mean_interval(average_precision(draw_relevance(rng, traces)[0])).interval
        covered += interval is not None and truth in interval
    return [Line(f"coverage, t interval, n={traces}", covered / simulations, simulations, 0.93, 0.97)]


def corrected_coverage(simulations: int, seed: int = 4, labelled: int = 50, traces: int = 500) -> list[Line]:
    """How often do the corrected and the uncorrected interval cover the true mean AP of the retriever?"""
    rng = np.random.default_rng(seed)
    truth = true_mean()
    random = stratified = labels = judge_only = 0
    for k in range(simulations):
        relevant = draw_relevance(rng, traces)[0]
        noise = rng.random(relevant.shape)
        y = average_precision(relevant)
        p = average_precision(np.where(relevant, noise < SENSITIVITY, noise < FALSE_POSITIVES))
        random += truth in ppi_mean(y[:labelled], p[:labelled], p[labelled:]).interval
        sample: Sample = stratified_sample(np.digitize(p, [0.25, 0.5, 0.75]).tolist(), labelled, seed=k)
        stratified += truth in ppi_mean_sampled(y[list(sample.chosen)], p, sample).interval
        alone, uncorrected = mean_interval(y[:labelled]).interval, mean_interval(p).interval
        labels += alone is not None and truth in alone
        judge_only += uncorrected is not None and truth in uncorrected
    return [
        Line(
            f"coverage, PPI++, {labelled} labelled of {traces}", random / simulations, simulations, 0.93, 0.97
        ),
        Line(
            f"coverage, PPI++, {labelled} labelled, stratified",
            stratified / simulations,
            simulations,
            0.93,
            0.97,
        ),
        Line(f"coverage, the {labelled} labels alone", labels / simulations, simulations, 0.93, 0.97),
        Line("coverage, judge only", judge_only / simulations, simulations),
    ]


def simulate(simulations: int) -> list[Line]:
    """Run all simulations."""
    return [
        *paired_null(simulations),
        *clustered_null(simulations),
        *mean_coverage(simulations, traces=20),
        *mean_coverage(simulations),
        *corrected_coverage(simulations),
    ]


def main() -> int:
    """Print all rates; 1 where one breaks its bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=10_000)
    lines = simulate(parser.parse_args().simulations)
    for line in lines:
        print(line)
    return 0 if all(line.kept for line in lines) else 1


if __name__ == "__main__":
    raise SystemExit(main())
