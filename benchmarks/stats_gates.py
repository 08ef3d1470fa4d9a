"""How often gates are wrong, pass unchanged runs and plan enough traces (a part of `stats_calibration`)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from benchmarks.lines import Line
from benchmarks.stats_differences import POPULATIONS, Draw
from judge_eval.compare.comparison import Difference
from judge_eval.compare.gate import decide_drop, planned_traces, seen_drop, seen_in_slice
from judge_eval.stats import PairedComparison, compare_paired, holm

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


def judged(d: Floats, before: Floats | None = None, *, level: float = 0.95) -> PairedComparison:
    """Compare a candidate that differs by `d` with a baseline of .75, or what leaves room for `d`."""
    if before is None:
        binary = bool(np.isin(d, (-1.0, 0.0, 1.0)).all())
        before = (d < 0) * 1.0 if binary else np.clip(0.75, np.maximum(0, -d), np.minimum(1, 1 - d))
    return compare_paired(before, before + d, limits=(0.0, 1.0), level=level, planning=False)


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


CALM: tuple[tuple[str, Draw], ...] = (
    (
        "70% ties, else normal, sd .3",
        lambda rng, n: np.where(rng.random(n) < 0.7, 0.0, np.clip(rng.normal(0, 0.3, n), -1, 1)),
    ),
    ("hits lost in 5 of 100, won in 5", pairs_lost(0.05, 0.05)),
    ("-.45 in 10%, else +.05", lambda rng, n: np.where(rng.random(n) < 0.1, -0.45, 0.05)),
)
"""Differences whose true mean is 0."""
SIZES = (8, 12, 15, 20, 30, 60)
"""How many traces slices have, one after the other."""


def slices_called(slices: Sequence[Floats], limit: float) -> tuple[list[bool], list[bool], list[bool]]:
    """Return which slices the table calls different, which it called so before, and which break a limit on each.

    Before: Student's p, never below that of 4,999 drawn sign flips, and under 20 traces no answer.
    """
    made = [judged(d) for d in slices]
    clear = [test.interval is not None and 0 not in test.interval for test in made]
    table = [bool(p <= 0.05 and out) for p, out in zip(holm([test.p for test in made]), clear, strict=True)]
    old = holm(
        [1.0 if d.size < 20 else max(compare_paired(np.zeros(d.size), d, planning=False).p, 1 / 5000) for d in slices]
    )
    # A gate calls no slice broken where none is at the first step of Holm's method.
    bounds = [judged(d, level=1 - 0.05 / len(slices)).upper for d in slices]
    return table, [p <= 0.05 for p in old], [bound is not None and -bound > limit for bound in bounds]


def slice_alarms(
    simulations: int, seed: int = 16, populations: Sequence[int] = range(len(CALM)), slices: Sequence[int] = (5, 20, 60)
) -> list[Line]:
    """Comparisons in which no slice changed: in how many is any called different, or fails a limit of 0.05 a slice?

    The last figure is of slices that all lost just the limit.
    """
    simulations = min(simulations, 200)
    lines = []
    for place in populations:
        name, draw = CALM[place]
        for many in slices:
            rng, count = np.random.default_rng((seed, place, many)), Counter[str]()
            for _ in range(simulations):
                calm = [draw(rng, SIZES[k % len(SIZES)]) for k in range(many)]
                table, old, gate = slices_called(calm, 0.05)
                lost = [np.clip(draw(rng, SIZES[k % len(SIZES)]) - 0.05, -1, 1) for k in range(many)]
                at_limit = [judged(d, level=1 - 0.05 / many).upper for d in lost]
                count["table"] += any(table)
                count["  before, table"] += any(old)
                count["gate"] += any(gate)
                count["gate at the limit"] += any(bound is not None and -bound > 0.05 for bound in at_limit)
            for what in ("table", "  before, table", "gate", "gate at the limit"):
                bounds = (None, None) if what.startswith(" ") else (0.0, 0.08)  # .05, and two errors of 200 draws
                lines.append(Line(f"{what}, {many} slices: {name}", count[what] / simulations, simulations, *bounds))
    return lines


def slice_power(
    simulations: int,
    seed: int = 17,
    slices: Sequence[int] = (5, 20, 60),
    traces: Sequence[int] = (5, 8, 10, 15, 20, 30),
) -> list[Line]:
    """One slice of many dies: its AP of 1, 1/2 or 1/3 falls to 0. How often is it found by table and by gate (0.2)?"""
    simulations = min(simulations, 200)
    lines = []
    for many in slices:
        for n in traces:
            rng, count = np.random.default_rng((seed, many, n)), Counter[str]()
            for _ in range(simulations):
                died = -rng.choice([1.0, 0.5, 1 / 3], n, p=[0.5, 0.3, 0.2])
                others = [CALM[0][1](rng, SIZES[k % len(SIZES)]) for k in range(many - 1)]
                table, old, gate = slices_called([died, *others], 0.2)
                count["table"] += table[0]
                count["  before, table"] += old[0]
                count["gate"] += gate[0]
            lines += [
                Line(f"{what}, found, {many} slices, n={n}", count[what] / simulations, simulations)
                for what in ("table", "  before, table", "gate")
            ]
    return lines


def gate_sight(
    simulations: int,
    seed: int = 18,
    traces: Sequence[int] = (20, 50, 100, 200, 500),
    spreads: Sequence[float] = (0.1, 0.2, 0.3),
    slices: Sequence[int] = (1, 5, 20),
) -> list[Line]:
    """A gate of .05 "sees drops of d": of new traces with this drop, how often does it fail? Normal differences.

    With several slices it is a limit on each: one slice drops, and the others stay as they are.
    """
    lines = []
    for n, spread, many in product(traces, spreads, slices):
        rng, told, failed, count = np.random.default_rng((seed, n, int(100 * spread), many)), 0.0, 0, 0
        for _ in range(simulations):
            before = difference_of(judged(np.clip(rng.normal(0, spread, n), -1, 1)))
            sees = seen_drop(before, 0.05) if many == 1 else seen_in_slice(before, 0.05, many)
            if sees is None:
                continue
            d = np.clip(rng.normal(0, spread, n) - sees, -1, 1)
            told, count = told + sees, count + 1
            if many == 1:
                failed += decide_drop(difference_of(judged(d)), 0.05)[0] == "failed"
            else:
                upper = judged(d, level=1 - 0.05 / many).upper
                failed += upper is not None and -upper > 0.05
        if count:
            where = f"n={n}, spread {spread}" + (f", one of {many} slices" if many > 1 else "")
            lines.append(Line(f"  drop that a gate of .05 sees, {where}", told / count, count))
            lines.append(Line(f"gates fail for the drop they see, {where}", failed / count, count, 0.70, 1.0))
    return lines
