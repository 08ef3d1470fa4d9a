"""How often gates are wrong, pass unchanged runs and plan enough traces (a part of `stats_calibration`)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.lines import Line
from benchmarks.stats_differences import POPULATIONS, Draw
from judge_eval.compare.comparison import Difference
from judge_eval.compare.gate import decide_drop, planned_traces
from judge_eval.stats import PairedComparison, compare_paired

Floats = npt.NDArray[np.float64]

SAME = (
    "n", "baseline_mean", "candidate_mean", "difference", "lower", "upper", "t_lower", "t_upper",
    "baseline_range", "standard_error", "wins", "ties", "losses", "n_open",
)  # fmt: skip


def difference_of(test: PairedComparison, metric: str = "AP") -> Difference:
    """Return the record that a gate reads."""
    return Difference(
        metric=metric, candidate=1, p=1.0, p_holm=1.0,
        method=test.interval.method if test.interval else None,
        **{name: getattr(test, name) for name in SAME},
    )  # fmt: skip


def pairs_lost(lost: float, won: float) -> Draw:
    """Draw hits lost and won."""

    def draw(rng: np.random.Generator, n: int) -> Floats:
        chance = rng.random(n)
        return np.where(chance < lost, -1.0, np.where(chance < lost + won, 1.0, 0.0))

    return draw


def rare_losers(share: float, size: float, noise: float) -> Draw:
    """Draw a great loss of few traces, and noise of the others."""

    def draw(rng: np.random.Generator, n: int) -> Floats:
        lost = rng.random(n) < share
        return np.where(lost, -size, np.clip(rng.normal(0, noise, n), -0.25, 0.25))

    return draw


PAIRS: tuple[tuple[str, float, Draw], ...] = (
    ("hits lost in 3 of 100", 0.03, pairs_lost(0.03, 0.0)),
    ("hits lost in 13 of 100, won in 3", 0.10, pairs_lost(0.13, 0.03)),
    ("hits lost in 30 of 100, won in 20", 0.10, pairs_lost(0.30, 0.20)),
    ("AP lost in 6 of 100", 0.03, lambda rng, n: (rng.random(n) < 0.06) * -np.round(rng.random(n), 3)),
    ("AP moved everywhere", 0.05, lambda rng, n: np.round(rng.uniform(-0.45, 0.35, n), 3)),
    ("normal, sd .1", 0.05, lambda rng, n: np.clip(rng.normal(-0.05, 0.1, n), -0.75, 0.25)),
    ("-1 in 5%, noise of sd .05", 0.05, rare_losers(0.05, 1.0, 0.05)),
    ("-.8 in 6.25%, noise of sd .02", 0.05, rare_losers(0.0625, 0.8, 0.02)),
    ("-.5 in 10%, noise of sd .05", 0.05, rare_losers(0.10, 0.5, 0.05)),
    ("-.25 in 20%, noise of sd .05", 0.05, rare_losers(0.20, 0.25, 0.05)),
)
"""Name, loss, and how baseline and candidate differ where the true drop is that loss."""


def judged(d: Floats, before: Floats | None = None) -> PairedComparison:
    """Compare a candidate that differs by `d` with a baseline of .75, or what leaves room for `d`."""
    if before is None:
        binary = bool(np.isin(d, (-1.0, 0.0, 1.0)).all())
        before = (d < 0) * 1.0 if binary else np.clip(0.75, np.maximum(0, -d), np.minimum(1, 1 - d))
    return compare_paired(before, before + d, limits=(0.0, 1.0), permutations=1, planning=False)


def gate_errors(
    simulations: int,
    seed: int = 6,
    populations: Sequence[int] = range(len(PAIRS)),
    traces: Sequence[int] = (5, 10, 20, 50, 100, 200),
) -> list[Line]:
    """Where the true drop is just the limit: how often does a gate say that it is less, or more?

    Three of five baseline values are 1, as average precisions are; every second one is .75 in all traces,
    if these have so much to lose.
    """
    lines = []
    for place in populations:
        name, limit, draw = PAIRS[place]
        flat = draw(np.random.default_rng(0), 1000).min() >= -0.75
        for n in traces:
            rng = np.random.default_rng((seed, place, n))
            outcomes = Counter[str]()
            for k in range(simulations):
                d = draw(rng, n)
                before = None
                if (k % 2 or not flat) and not np.isin(d, (-1.0, 0.0, 1.0)).all():
                    before = np.where(rng.random(n) < 0.6, 1.0, 0.5)
                    before = np.clip(before, np.maximum(0, -d), np.minimum(1, 1 - d))
                outcomes[decide_drop(difference_of(judged(d, before)), limit)[0]] += 1
            for kind in ("passed", "failed"):
                rate = outcomes[kind] / simulations
                lines.append(Line(f"type I, {kind}: {name}, n={n}", rate, simulations, 0.0, 0.06))
    return lines


def betting_rejects(d: Floats, limit: float, *, fixed: bool) -> bool:
    """Return whether betting shows a drop below the limit at .05 (Waudby-Smith and Ramdas 2024).

    Capital that bets on the mean of (d + 1) / 2 being above (1 - limit) / 2; `fixed`: bets for this number of
    traces, looked at once; else for all times, looked at after every trace.
    """
    x, null, n = (d + 1) / 2, (1 - limit) / 2, d.size
    t = np.arange(1, n + 1)
    means = (0.5 + np.cumsum(x)) / (t + 1)
    spread = (0.25 + np.cumsum((x - means) ** 2)) / (t + 1)
    before = np.concatenate([[0.25], spread[:-1]])
    scale = n if fixed else t * np.log(1 + t)
    bets = np.minimum(np.sqrt(2 * math.log(20) / (before * scale)), 0.5 / null)
    capital = np.cumsum(np.log1p(bets * (x - null)))
    return bool((capital[-1] if fixed else capital.max()) >= math.log(20))


def gate_power(simulations: int, seed: int = 10, traces: Sequence[int] = (20, 50, 100, 200)) -> list[Line]:
    """Unchanged runs, differences of standard deviation .1, limit .05: how many pass, by which bound?"""
    lines = []
    for n in traces:
        rng = np.random.default_rng((seed, n))
        passed = Counter[str]()
        for _ in range(simulations):
            d = np.clip(rng.normal(0, 0.1, n), -0.25, 0.25)
            known = difference_of(judged(d))
            passed["Gaffke's bound"] += known.lost[2] is not None and known.lost[2] < 0.05
            passed["betting, n fixed"] += betting_rejects(d, 0.05, fixed=True)
            passed["betting, at any time"] += betting_rejects(d, 0.05, fixed=False)
            passed["now, baseline .75"] += decide_drop(known, 0.05)[0] == "passed"
            before = np.where(rng.random(n) < 0.6, 1.0, 0.4)
            before = np.clip(before, np.maximum(0, -d), np.minimum(1, 1 - d))
            passed["now, baseline up to 1"] += decide_drop(difference_of(judged(d, before)), 0.05)[0] == "passed"
        for way, count in passed.items():
            least = {50: 0.85, 100: 0.95, 200: 0.95}.get(n) if way == "now, baseline .75" else None
            bounds = (None, None) if least is None else (least, 1.0)
            lines.append(Line(f"power, {way}, n={n}", count / simulations, simulations, *bounds))
    return lines


def gate_planning(
    simulations: int,
    seed: int = 11,
    populations: Sequence[int] = range(len(POPULATIONS)),
    pilots: Sequence[int] = (20, 50),
) -> list[Line]:
    """A gate is undecided and names a number of traces: does a new sample of so many decide, and as it said?

    The limit is .05 above the true drop, and .04 below it where there is so much. A pilot misleads if its drop is
    on the other side of the limit than the true one: then a sample of the planned size decides otherwise.
    """
    lines = []
    for place in populations:
        name, truth, draw = POPULATIONS[place]
        for limit in (0.05 - truth, -0.04 - truth):
            if limit <= 0.005:
                continue
            true = "passed" if -truth < limit else "failed"
            for n in pilots:
                rng = np.random.default_rng((seed, place, n))
                count = Counter[str]()
                for _ in range(simulations):
                    known = difference_of(judged(draw(rng, n)))
                    if decide_drop(known, limit)[0] != "undecided":
                        continue
                    wanted = planned_traces(known, limit)[1]
                    if wanted is None:
                        continue
                    message = "passed" if known.lost[0] < limit else "failed"
                    outcome = decide_drop(difference_of(judged(draw(rng, min(wanted, 10_000)))), limit)[0]
                    count["advised"] += 1
                    count["decided"] += outcome != "undecided"
                    count["led"] += message == true
                    count["as said"] += message == outcome
                    count["led as said"] += message == true == outcome
                where, led, advised = f"{name}, limit {limit:.2f}, pilot of {n}", count["led"], count["advised"]
                if advised >= 20:
                    lines.append(Line(f"planned traces decide, {where}", count["decided"] / advised, advised, 0.75, 1))
                    lines.append(Line(f"  as said, misled or not, {where}", count["as said"] / advised, advised))
                    lines.append(Line(f"pilots that mislead, {where}", (advised - led) / simulations, simulations))
                if led >= 20:
                    rate = count["led as said"] / led
                    lines.append(Line(f"planned traces decide as said, {where}", rate, led, 0.75, 1))
    return lines
