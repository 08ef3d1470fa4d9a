"""How often intervals of differences cover, and planning figures hold (a part of `stats_calibration`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.lines import Line
from judge_eval.stats import PairedComparison, compare_paired
from judge_eval.stats.distributions import t_ppf

Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]


def _either(lost: float, won: float, by: float) -> Draw:
    """Draw losses and gains of one size."""

    def draw(rng: np.random.Generator, n: int) -> Floats:
        chance = rng.random(n)
        return np.where(chance < lost, -by, np.where(chance < lost + won, by, 0.0))

    return draw


def _mostly_tied(rng: np.random.Generator, n: int) -> Floats:
    return np.where(rng.random(n) < 0.7, 0.0, np.clip(rng.normal(0, 0.3, n), -1, 1))


def _noisy(rng: np.random.Generator, n: int) -> Floats:
    return (rng.random(n) < 0.1) * -0.5 + rng.normal(0, 0.05, n)


POPULATIONS: tuple[tuple[str, float, Draw], ...] = (
    ("-.5 in 10%", -0.05, _either(0.10, 0.0, 0.5)),
    ("-1 in 5%", -0.05, _either(0.05, 0.0, 1.0)),
    ("-.3 in 13%, +.3 in 3%", -0.03, _either(0.13, 0.03, 0.3)),
    ("normal, sd .1", 0.0, lambda rng, n: np.clip(rng.normal(0, 0.1, n), -1, 1)),
    ("uniform, -.45 to .35", -0.05, lambda rng, n: rng.uniform(-0.45, 0.35, n)),
    ("70% ties, else normal, sd .3", 0.0, _mostly_tied),
    ("uniform, -1 to 0, in 6%", -0.03, lambda rng, n: (rng.random(n) < 0.06) * -rng.random(n)),
    ("-.5 in 10%, noise of sd .05", -0.05, _noisy),
)
"""Name, true mean, and how to draw differences between -1 and 1."""


def detectable(
    simulations: int,
    seed: int = 13,
    populations: Sequence[int] = range(len(POPULATIONS)),
    traces: Sequence[int] = (10, 20, 50),
    metrics: Sequence[int] = (1, 5),
) -> list[Line]:
    """Traces "can show a difference of d": do new ones whose true difference is d show it, under Holm?

    Shown: p is at most .05 over the number of metrics.
    """
    lines = []
    for place in populations:
        name, truth, draw = POPULATIONS[place]
        for n, many in itertools.product(traces, metrics):
            rng = np.random.default_rng((seed, place, n, many))
            outcome = shown = 0
            for k in range(simulations):
                result = compare_differences(draw(rng, n), many, planning=True)
                if result.detectable is None:
                    continue
                outcome += 1
                shift = result.detectable * (1 if k % 2 else -1) - truth
                shown += is_shown(compare_differences(np.clip(draw(rng, n) + shift, -1, 1), many), many)
            where = f"{name}, {many} metrics, n={n}"
            if outcome >= 20:
                lines.append(Line(f"told differences are shown, {where}", shown / outcome, outcome, 0.70, 1.0))
    return lines


def unreachable(simulations: int, seed: int = 14) -> list[Line]:
    """Five traces, or seven under five metrics: nothing is significant, and no difference is told."""
    lines = []
    for n, many in ((5, 1), (7, 5)):
        rng, outcome = np.random.default_rng((seed, n)), 0
        for k in range(simulations):
            d = POPULATIONS[k % len(POPULATIONS)][2](rng, n) - k % 3 * 0.2
            result = compare_differences(np.clip(d, -1, 1), many, planning=True)
            outcome += result.detectable is not None or is_shown(result, many)
        where = f"{many} metrics, n={n}"
        lines.append(
            Line(f"differences told or shown where none can be, {where}", outcome / simulations, simulations, 0.0, 0.0)
        )
    return lines


def compare_differences(d: Floats, comparisons: int = 1, *, planning: bool = False) -> PairedComparison:
    """Compare a candidate that differs by `d` with a baseline that leaves room for it."""
    before = np.clip(0.5, np.maximum(0, -d), np.minimum(1, 1 - d))
    return compare_paired(before, before + d, limits=(0.0, 1.0), comparisons=comparisons, planning=planning)


def is_shown(found: PairedComparison, comparisons: int) -> bool:
    """Return whether a comparison says that there is a difference."""
    return found.p <= 0.05 / comparisons


def skewed_null(simulations: int, seed: int = 15, traces: Sequence[int] = (10, 20, 50)) -> list[Line]:
    """-.5 in 10% about its mean: how often is p at most .05, and does it contradict the interval?"""
    lines = []
    for n in traces:
        rng, small, unlike = np.random.default_rng((seed, n)), 0, 0
        for _ in range(simulations):
            result = compare_differences(POPULATIONS[0][2](rng, n) + 0.05)
            assert result.interval is not None
            small += result.p <= 0.05
            unlike += (result.p <= 0.05) == (0 in result.interval)
        where = f"-.5 in 10%, n={n}"
        lines.append(Line(f"p at most .05 under the null, {where}", small / simulations, simulations, 0.0, 0.06))
        lines.append(Line(f"p and interval that contradict, {where}", unlike / simulations, simulations, 0.0, 0.0))
    return lines


def compared(d: Floats) -> tuple[float, float]:
    """Return the interval of differences of a metric from 0 to 1."""
    # A part of each value that is no limit keeps the differences from being those of rates.
    before = np.clip(-d, 0.0, 1.0)
    result = compare_paired(before, before + d, limits=(0.0, 1.0), planning=False)
    interval = result.interval
    assert interval is not None
    return interval.low, interval.high


def difference_coverage(
    simulations: int,
    seed: int = 8,
    traces: Sequence[int] = (5, 10, 20, 50, 100, 200),
    populations: Sequence[int] = range(len(POPULATIONS)),
) -> list[Line]:
    """How often does the interval of a difference hold the truth, and how wide is it beside Student's?"""
    lines = []
    outside = 0
    for place, n in itertools.product(populations, traces):
        name, truth, draw = POPULATIONS[place]
        rng, covered, by_student, width, student = np.random.default_rng((seed, place, n)), 0, 0, 0.0, 0.0
        for _ in range(simulations):
            d = draw(rng, n)
            low, high = compared(d)
            covered += low - 1e-9 <= truth <= high + 1e-9
            outside += low < -1 or high > 1
            width += high - low
            half = t_ppf(0.975, n - 1) * float(d.std(ddof=1)) / n**0.5
            student += 2 * half
            by_student += abs(d.mean() - truth) <= half
        where = f"{name}, n={n}"
        lines.append(Line(f"coverage, difference, {where}", covered / simulations, simulations, 0.93, 1.0))
        lines.append(Line(f"  Student's: difference, {where}", by_student / simulations, simulations))
        if name.startswith("normal") and n >= 50:
            lines.append(Line(f"width over t's, {where}", width / student, simulations, 0.0, 1.3))
    total = simulations * len(populations) * len(traces)
    return [*lines, Line("intervals of differences beyond the range", outside / total, total, 0.0, 0.0)]
