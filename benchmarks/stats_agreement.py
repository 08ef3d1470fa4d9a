"""How often intervals of agreement cover, for few traces and good judges (a part of `stats_calibration`)."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from benchmarks.lines import Line
from judge_eval.stats import agreement_of, figures_of_agreement

Floats = npt.NDArray[np.float64]

PREVALENCE = 0.1
JUDGES = ((0.99, 0.99), (0.9, 0.6), (0.6, 0.95), (0.8, 0.95))
"""Sensitivity and specificity."""
VALUES = np.array([0.0, 1.0])
FIGURES = (
    *("kappa", "alpha_nominal", "ac1", "accuracy", "bias"),
    *("precision_ge1", "recall_ge1", "specificity_ge1", "auc_ge1"),
)


def drawn_tables(rng: np.random.Generator, traces: int, chunks: int, judge: tuple[float, float]) -> Floats:
    """Return the counts of (judge, label) in each trace, shape (traces, 2, 2)."""
    return rng.multinomial(chunks, cells(judge).ravel(), size=traces).reshape(-1, 2, 2).astype(np.float64)


def cells(judge: tuple[float, float]) -> Floats:
    """Return the chance of each pair of verdict and label, shape (2, 2)."""
    hit, pass_ = judge
    p = PREVALENCE
    return np.array([[(1 - p) * pass_, p * (1 - hit)], [(1 - p) * (1 - pass_), p * hit]])


def agreement_coverage(
    simulations: int,
    seed: int = 7,
    traces: tuple[int, ...] = (20, 50, 100),
    judges: tuple[tuple[float, float], ...] = JUDGES,
) -> list[Line]:
    """How often does each interval hold the truth, and how many have no width?"""
    rng = np.random.default_rng(seed)
    lines = []
    narrow = made = 0
    for judge in judges:
        many = np.stack([cells(judge) * 1e9] * 2)
        exact = agreement_of(many, VALUES, replicates=100)
        truth = {name: exact[name].value or 0.0 for name in FIGURES}
        for chunks in (1, 5):
            for n in traces:
                covered = dict.fromkeys(FIGURES, 0)
                defined = dict.fromkeys(FIGURES, 0)
                for k in range(simulations):
                    result = agreement_of(drawn_tables(rng, n, chunks, judge), VALUES, replicates=500, seed=k)
                    for name in FIGURES:
                        interval = result[name].interval
                        if interval is not None:
                            defined[name] += 1
                            covered[name] += interval.low - 1e-9 <= truth[name] <= interval.high + 1e-9
                            narrow += interval.high - interval.low < 1e-9
                made += sum(defined.values())
                where = f"{judge[0]:g}/{judge[1]:g}, {chunks} chunks, {n} traces"
                lines += [
                    Line(f"{name}, {where}", covered[name] / defined[name], defined[name], 0.93, 1.0)
                    for name in FIGURES
                ]
    return [*lines, Line("intervals of agreement without width", narrow / made, made, 0.0, 0.0)]


SHARES = {
    "accuracy": figures_of_agreement.ACCURACY,
    "precision": figures_of_agreement.PRECISION,
    "recall": figures_of_agreement.RECALL,
    "specificity": figures_of_agreement.SPECIFICITY,
}


def share_coverage(
    simulations: int, seed: int = 7, judges: tuple[tuple[float, float], ...] = JUDGES, sizes: tuple[int, ...] = (1, 5)
) -> list[Line]:
    """How often do the intervals of shares hold the truth? They resample nothing, so more draws are cheap."""
    lines = []
    for judge, chunks, n in itertools.product(judges, sizes, (20, 50, 100)):
        rng = np.random.default_rng((seed, n, chunks, int(judge[0] * 100)))
        for name, share in SHARES.items():
            truth, covered, defined = float(share(cells(judge) * 1e6)), 0, 0
            for _ in range(simulations):
                tables = drawn_tables(rng, n, chunks, judge)
                if np.isfinite(share(tables.sum(axis=0))):
                    low, high = share.bounds(tables, 0.95)
                    covered, defined = covered + (low - 1e-9 <= truth <= high + 1e-9), defined + 1
            where = f"{judge[0]:g}/{judge[1]:g}, {chunks} chunks, {n} traces"
            lines.append(Line(f"coverage, {name}, {where}", covered / defined, defined, 0.93, 1.0))
    return lines
