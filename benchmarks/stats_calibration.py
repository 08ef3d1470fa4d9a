"""Simulations of how often tests reject true nulls and intervals cover the truth.

Run with `python -m benchmarks.stats_calibration [simulations]`; seeded, a few minutes for the default 10,000.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from judge_eval.comparison.deciding import decide_drop
from judge_eval.comparison.findings import Difference
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
        error = math.sqrt(max(0.0, self.rate * (1 - self.rate)) / self.simulations)  # of a share
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


def drawn_ap(rng: np.random.Generator, zeros: float, ones: float, traces: int) -> Floats:
    """Return average precisions with these shares of zeros and ones, the others uniform from .2 to .95."""
    chance, between = rng.random(traces), np.round(rng.uniform(0.2, 0.95, traces), 3)
    return np.where(chance < zeros, 0.0, np.where(chance < zeros + ones, 1.0, between))


SMALL = (
    # name, draw, true mean, least coverage at n = 10 and at n = 50, greatest width over t's at n = 50
    ("AP, 15% zeros, 60% ones", partial(drawn_ap, zeros=0.15, ones=0.60), 0.74375, 0.90, 0.93, 1.15),
    ("AP, 5% zeros, 85% ones", partial(drawn_ap, zeros=0.05, ones=0.85), 0.9075, 0.90, 0.93, None),
    ("AP, 2% zeros, 95% ones", partial(drawn_ap, zeros=0.02, ones=0.95), 0.96725, 0.88, 0.92, None),
    ("hit rate .90", lambda rng, traces: (rng.random(traces) < 0.90) * 1.0, 0.90, 0.92, 0.92, None),
    ("hit rate .97", lambda rng, traces: (rng.random(traces) < 0.97) * 1.0, 0.97, 0.92, 0.92, None),
    ("NDCG like Beta(5, 2)", lambda rng, traces: rng.beta(5, 2, traces), 5 / 7, 0.93, 0.93, 1.15),
)


def small_samples(simulations: int, seed: int = 5) -> list[Line]:
    """How often does the interval of few bounded values cover, and how wide is it beside Student's?"""
    rng = np.random.default_rng(seed)
    lines = []
    for name, draw, truth, at_ten, at_fifty, wide in SMALL:
        for n in (5, 10, 20, 50):
            covered = width = student = 0.0
            for _ in range(simulations):
                x = draw(rng, traces=n)
                made = mean_interval(x, limits=(0.0, 1.0)).interval
                t = mean_interval(x, limits=(0.0, 1.0), method="t").interval
                covered += truth in made
                width += made.high - made.low
                student += t.high - t.low if t else 0.0
            least = at_fifty if n == 50 else at_ten if n >= 10 else None
            bounds = (None, None) if least is None else (least, 1.0)
            lines.append(Line(f"coverage, {name}, n={n}", covered / simulations, simulations, *bounds))
            if n == 50 and wide is not None:
                lines.append(Line(f"width over t's, {name}, n={n}", width / student, simulations, 0.0, wide))
    return lines


PAIRS = (
    # name, loss, and how baseline and candidate differ where the true drop is that loss
    ("hits lost in 3 of 100", 0.03, lambda rng, n: (rng.random(n) < 0.03) * -1.0),
    ("hits lost in 13 of 100, won in 3", 0.10, lambda rng, n: drawn_pairs(rng, n, 0.13, 0.03)),
    ("hits lost in 30 of 100, won in 20", 0.10, lambda rng, n: drawn_pairs(rng, n, 0.30, 0.20)),
    ("AP lost in 6 of 100", 0.03, lambda rng, n: (rng.random(n) < 0.06) * -np.round(rng.random(n), 3)),
    ("AP moved everywhere", 0.05, lambda rng, n: np.round(rng.uniform(-0.45, 0.35, n), 3)),
)


def drawn_pairs(rng: np.random.Generator, n: int, lost: float, won: float) -> Floats:
    """Return -1, 0 or 1 for each pair of hits and misses."""
    chance = rng.random(n)
    return np.where(chance < lost, -1.0, np.where(chance < lost + won, 1.0, 0.0))


def gate_errors(simulations: int, seed: int = 6) -> list[Line]:
    """Where the true drop is just the limit: how often does a gate say that it is less, or more?"""
    rng = np.random.default_rng(seed)
    lines = []
    for name, limit, draw in PAIRS:
        for n in (5, 10, 20, 50):
            outcomes = {"passed": 0, "failed": 0, "undecided": 0}
            for _ in range(simulations):
                d = draw(rng, n)
                binary = bool(np.isin(d, (-1.0, 0.0, 1.0)).all())
                before = (d < 0) * 1.0 if binary else np.full(n, 0.5)
                test = compare_paired(before, before + d, limits=(0.0, 1.0), permutations=100)
                difference = Difference(
                    metric="AP", candidate=1, p=1.0, p_holm=1.0,
                    **{name: getattr(test, name) for name in SAME},
                )  # fmt: skip
                outcomes[decide_drop(difference, limit)[0]] += 1
            for kind in ("passed", "failed"):
                rate = outcomes[kind] / simulations
                lines.append(Line(f"type I, {kind}: {name}, n={n}", rate, simulations, 0.0, 0.06))
    return lines


SAME = (
    "n", "baseline_mean", "candidate_mean", "difference", "lower", "upper", "standard_error", "wins", "ties",
    "losses",
)  # fmt: skip


def simulate(simulations: int) -> list[Line]:
    """Run all simulations."""
    return [
        *paired_null(simulations),
        *clustered_null(simulations),
        *mean_coverage(simulations, traces=20),
        *mean_coverage(simulations),
        *corrected_coverage(simulations),
        *small_samples(max(100, simulations // 5)),
        *gate_errors(max(100, simulations // 5)),
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
