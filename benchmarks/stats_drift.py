"""How often `drift` calls a judge changed, changed and not (a part of `stats_calibration`)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.lines import Line
from judge_eval.stats.paired import exact_sign_flip

LEVEL = 0.05
RELEVANT = 0.35
"""The share of chunks that the judge usually calls relevant."""


def drift_alarms(
    simulations: int, seed: int = 81, size: int = 1, noise: float = 0.02, mood: float = 0.0, fall: float = 0.0
) -> list[Line]:
    """Return how often a second run of a judge on the same 400 chunks is called drift.

    Args:
        simulations: How many pairs of runs.
        seed: Of all draws.
        size: Chunks that one reply covers: 1 is pointwise, more is listwise.
        noise: The chance that a verdict is not the judge's usual one.
        mood: The chance that a whole reply errs one way: each of its verdicts turns the same way with a chance of .8.
        fall: The share of chunks whose usual verdict was relevant, and is irrelevant in the second run.
    """
    rng = np.random.default_rng(seed)
    replies = 400 // size
    alarms = 0
    for _ in range(simulations):
        usual = rng.random((replies, size)) < RELEVANT
        before = _judged(rng, usual, noise, mood)
        if fall:
            relevant = np.flatnonzero(usual)
            usual.flat[rng.choice(relevant, min(len(relevant), round(fall * usual.size)), replace=False)] = False
        net = _judged(rng, usual, noise, mood).sum(axis=1) - before.sum(axis=1)
        alarms += exact_sign_flip(net) <= LEVEL
    how = "pointwise" if size == 1 else f"lists of {size}"
    how += f", {noise:.0%} noise" + (f", {mood:.0%} of replies err as a whole" if mood else "")
    what = f"drift seen: fall of {fall:.1%}" if fall else "drift, false alarms"
    error = (LEVEL * (1 - LEVEL) / simulations) ** 0.5
    bounds = (None, None) if fall else (0.0, LEVEL + 3 * error)
    return [Line(f"{what}, {how}", alarms / simulations, simulations, *bounds)]


def _judged(rng: np.random.Generator, usual: npt.NDArray[np.bool_], noise: float, mood: float) -> npt.NDArray[np.int64]:
    verdicts = np.where(rng.random(usual.shape) < noise, ~usual, usual)
    moody, way = rng.random((len(usual), 1)) < mood, rng.random((len(usual), 1)) < 0.5
    return np.where(moody & (rng.random(usual.shape) < 0.8), way, verdicts).astype(np.int64)
