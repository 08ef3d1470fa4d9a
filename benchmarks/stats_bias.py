"""How often biases of a judge are seen, there or not (a part of `stats_calibration`)."""

from __future__ import annotations

import numpy as np

from benchmarks.lines import Line
from judge_eval import Chunk, Evaluator, Trace
from judge_eval.data.labels import Labels
from judge_eval.llm.fake.fake_backend import create
from judge_eval.study.bias import bias_report, estimate_biases

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
        Line(f"any false alarm without a bias, {what}", alarms / simulations, simulations, 0.0, 0.05),
        Line(f"coverage of no effect, {what}", held / simulations / len(FEATURES), simulations, 0.93, 0.98),
    ]


STATED = {"length": 1.0, "echo": 2.0, "kinship": 2.0, "rank": 3.0}
"""Changes of the log odds of the fake judge: with each doubling, from none to all words, of its kin, down the list."""
WORDS = ("river", "stone", "cloud", "maple", "tiger", "violin", "copper", "lantern", "orbit", "pepper", "saddle")


def fake_biases(simulations: int, seed: int = 94, traces: int = 80) -> list[Line]:
    """Runs of `fake/biased`, texts and all: how often is its one stated bias seen, and what is seen if it has none?

    Its sensitivity and specificity are .9; a bias by rank is that of a judge that reads the list.
    """
    rng, seen, others, alarms = np.random.default_rng(seed), 0, 0, 0
    for k in range(simulations):
        name = tuple(STATED)[k % len(STATED)]
        data = [_texts(rng, t) for t in range(traces)]
        labels = Labels({(t.id, c.id): int(c.label or 0) for t in data for c in t.chunks})
        for stated in ({name: STATED[name]}, {}):
            mode = "listwise" if name == "rank" else "pointwise"
            judge = create("biased", seed=seed + k, **stated)
            with Evaluator(judge, prompt="support/binary", mode=mode, metrics=["P@5"], cache=False) as evaluator:
                report = bias_report(evaluator.evaluate(data), labels)
            found = {bias.feature.split()[0] for bias in report.biases if bias.verdict == "biased"}
            if stated:
                seen, others = seen + (name in found), others + bool(found - {name})
            else:
                alarms += bool(found)
    what = f"of fake/biased, {traces} traces"
    return [
        Line(f"stated bias seen, {what}", seen / simulations, simulations, 0.9, 1.0),
        Line(f"another feature called biased, {what}", others / simulations, simulations, 0.0, 0.06),
        Line(f"any false alarm without a bias, {what}", alarms / simulations, simulations, 0.0, 0.05),
    ]


def _texts(rng: np.random.Generator, number: int) -> Trace:
    letters = ["".join(rng.choice(list("bdfgklmnprstvz"), 7)) for _ in range(10)]
    answer, question, chunks = " ".join(letters[:5]), " ".join(letters[5:]), list[Chunk]()
    for place in range(8):
        relevant, kin, echo = rng.random(3) < (0.4, 0.4, 0.4)
        parts = [answer if relevant else "nothing of note", question if echo else "", "biased" if kin else ""]
        text = ". ".join([*filter(None, parts), " ".join(rng.choice(WORDS, rng.integers(10, 120)))])
        origin = {"origin": "fake/biased" if kin else "x/other"}
        chunks.append(Chunk(id=f"c{place}", text=text, label=int(relevant), metadata=origin))
    return Trace(id=f"t{number}", query=question, reference=answer, chunks=chunks)
