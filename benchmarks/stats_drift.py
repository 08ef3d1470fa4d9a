"""How often a judge under observation raises an alarm, changed and not (a part of `stats_calibration`)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.lines import Line
from judge_eval.stats.drift import LOOKS_A_YEAR, WINDOWS, same_judge

WEEKS = 4
ACCURACY = 0.9


def drift_alarms(
    simulations: int, seed: int = 81, noise: float = 0.02, fall: float = 0.05, up: float = 0.0, anchors: int = 200
) -> list[Line]:
    """Weekly looks at a judge asked 5 times before: alarms in a year if it did not change, else within four weeks.

    Args:
        simulations: How many judges.
        seed: Of all draws.
        noise: The chance that an answer is not the judge's usual one.
        fall: The share of anchors whose right verdict becomes wrong before the first look.
        up: The share whose wrong verdict becomes right.
        anchors: How many chunks are asked about.
    """
    rng = np.random.default_rng(seed)
    alarms = 0
    for _ in range(simulations):
        usual = rng.random(anchors) < ACCURACY
        before = np.stack([_asked(rng, usual, noise) for _ in range(5)], axis=1)
        for share, was in ((fall, True), (up, False)):
            there = np.flatnonzero(usual == was)
            usual[rng.choice(there, min(len(there), round(share * anchors)), replace=False)] = not was
        looks: list[npt.NDArray[np.float64]] = []
        for _ in range(WEEKS if fall else LOOKS_A_YEAR):
            looks.append(_asked(rng, usual, noise))
            tests = [same_judge(before, np.stack(looks[-w:], axis=1)) for w in WINDOWS if len(looks) >= w]
            if any(test.alarm() for test in tests):
                alarms += 1
                break
    what = f"a fall of {fall:.1%} (and {up:.1%} up) seen in four weeks" if fall else "false alarms in a year"
    low, high = (0.8, 1.0) if fall else (0.0, 0.05)
    return [Line(f"{what}, {anchors} anchors, repeats flip {noise:.0%}", alarms / simulations, simulations, low, high)]


def _asked(rng: np.random.Generator, usual: npt.NDArray[np.bool_], noise: float) -> npt.NDArray[np.float64]:
    return np.where(rng.random(len(usual)) < noise, ~usual, usual).astype(np.float64)
