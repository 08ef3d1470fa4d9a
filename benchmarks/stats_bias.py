"""How often biases of a judge are seen, there or not (a part of `stats_calibration`)."""

from __future__ import annotations

import numpy as np

from benchmarks.lines import Line
from judge_eval.study.bias import estimate_biases

CHUNKS = 10
FEATURES = ("length", "rank", "echo", "kinship =yes")


def bias_power(simulations: int, seed: int = 93, traces: int = 150, odds: float = 0.8) -> list[Line]:
    """Of four features one has a bias: how often is it seen, and how often another one? And any, where none has?

    The judge's sensitivity and specificity are .9 and .85, and vary by trace; features go with relevance. `odds` is the
    change of the log odds for one standard deviation more, twice that for kinship.
    """
    rng, seen, others, alarms, held = np.random.default_rng(seed), 0, 0, 0, 0
    for k in range(simulations):
        biased = FEATURES[k % len(FEATURES)]
        relevant = (rng.random((traces, CHUNKS)) < rng.beta(1.5, 3, (traces, 1))).astype(float).ravel()
        features = {name: rng.normal(size=relevant.size) + 0.5 * relevant for name in FEATURES}
        features[FEATURES[3]] = (rng.random(relevant.size) < 0.3 + 0.2 * relevant).astype(float)
        codes = np.repeat(np.arange(traces), CHUNKS)
        base = np.where(relevant > 0, 2.2, -1.7) + rng.normal(0, 0.5, traces)[codes]
        size = 2 * odds if "=" in biased else odds
        for there in (True, False):
            z = base + there * size * (features[biased] - features[biased].mean())
            verdict = (rng.random(z.size) < 1 / (1 + np.exp(-z))).astype(float)
            biases = {bias.feature: bias for bias in estimate_biases(verdict, relevant, features, codes)}
            values = {name for name, bias in biases.items() if bias.verdict == "biased"}
            if there:
                seen, others = seen + (biased in values), others + bool(values - {biased})
            else:
                alarms += bool(values)
                held += sum(b.interval is not None and b.interval[0] <= 0 <= b.interval[1] for b in biases.values())
    what = f"{traces} traces, log odds {odds:g}"
    return [
        Line(f"bias seen, {what}", seen / simulations, simulations, 0.9, 1.0),
        Line(f"another feature called biased, {what}", others / simulations, simulations, 0.0, 0.06),
        Line(f"any false alarm without a bias, {what}", alarms / simulations, simulations, 0.0, 0.06),
        Line(f"coverage of no effect, {what}", held / simulations / len(FEATURES), simulations, 0.93, 0.98),
    ]
