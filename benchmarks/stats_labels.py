"""How often a corrected mean covers with few labelled traces (a part of `stats_calibration`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from benchmarks.lines import Line
from judge_eval.stats import ppi_mean, ppi_mean_sampled, stratified_sample

Floats = npt.NDArray[np.float64]
CHUNKS, TRACES = 5, 500
LIMITS = (0.0, 1.0)
JUDGES = (
    # mean AP, the traces' chances of a relevant chunk (Beta), the judge's sensitivity and false positives
    (".86", 6.0, 1.6, 0.90, 0.25),
    (".91", 8.0, 1.2, 0.95, 0.20),
    (".97", 20.0, 1.0, 0.95, 0.20),
    (".86, good judge", 6.0, 1.6, 0.98, 0.05),
    (".54", 2.0, 3.0, 0.90, 0.25),
    (".24", 1.0, 6.0, 0.90, 0.05),
)


def average_precision(grades: npt.NDArray[np.bool_]) -> Floats:
    """Return AP over the last axis: the mean precision at the relevant ranks, 0 where there is none."""
    hits = grades.cumsum(axis=-1)
    precision = hits / np.arange(1, grades.shape[-1] + 1)
    result: Floats = (precision * grades).sum(axis=-1) / np.maximum(hits[..., -1], 1)
    return result


def judged_traces(rng: np.random.Generator, place: int, traces: int) -> tuple[Floats, Floats]:
    """Return the AP of traces by people and by the judge."""
    _, alpha, beta, hit, false = JUDGES[place]
    relevant = rng.random((traces, CHUNKS)) < rng.beta(alpha, beta, (traces, 1))
    noise = rng.random(relevant.shape)
    return average_precision(relevant), average_precision(np.where(relevant, noise < hit, noise < false))


@cache
def true_ap(place: int) -> float:
    """Return the mean AP of very many traces."""
    return float(judged_traces(np.random.default_rng(99), place, 400_000)[0].mean())


def few_labels(
    simulations: int, seed: int = 12, judges: Sequence[int] = range(len(JUDGES)), labelled: Sequence[int] = (20, 40)
) -> list[Line]:
    """How often does the corrected interval hold the truth: labels at random, and in strata by grade?"""
    lines = []
    for place in judges:
        for n in labelled:
            rng, covered, width = np.random.default_rng((seed, place, n)), Counter[str](), Counter[str]()
            for k in range(simulations):
                y, p = judged_traces(rng, place, TRACES)
                sample = stratified_sample(np.digitize(p, [0.25, 0.5, 0.75, 0.999]).tolist(), n, seed=k)
                for limits in (LIMITS, None):
                    values = {
                        "": ppi_mean(y[:n], p[:n], p[n:], limits=limits),
                        " in strata": ppi_mean_sampled(y[list(sample.chosen)], p, sample, limits=limits),
                    }
                    for way, mean in values.items():
                        interval = mean.interval.within(*LIMITS) if mean.interval else None
                        if interval is not None:
                            key = f"PPI++, mean {JUDGES[place][0]}, {n} labels{way}"
                            key = f"coverage, {key}" if limits else f"  Student's: {key}"
                            covered[key] += true_ap(place) in interval
                            width[key] += interval.high - interval.low
            for key, count in covered.items():
                bounds = (0.93, 1.0) if key.startswith("coverage") else (None, None)
                lines.append(Line(key, count / simulations, simulations, *bounds))
            made = [width[key] for key in covered]
            lines += [
                Line(f"width over Student's: {key[10:]}", made[i] / made[i + 2], simulations)
                for i, key in enumerate(list(covered)[:2])
            ]
    return lines
