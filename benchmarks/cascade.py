"""Simulations of a cascade's threshold: how often its risk is above alpha, and how much it keeps.

Run with `python -m benchmarks cascade`; seeded, about half a minute for the default 1,000 draws of each size.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.cascade_populations import (
    CLUSTERED,
    GRID,
    Floats,
    Ints,
    Population,
    against_people,
    cheap_judge,
    clusters_of,
    no_better,
)
from judge_eval.stats import CascadeFit, fit_cascade, fit_cascade_to_people
from judge_eval.trials.paired_pilot import draw_clusters

SIZES = (60, 100, 200, 300)
EXPECTED_KEPT = {60: 0.46, 100: 0.53, 200: 0.61, 300: 0.66}
"""What a cascade should keep with a cheap judge that is wrong in 12%, within .05."""
RELEVANT = 0.4
"""The share of chunks that are relevant; errors do not depend on it here."""


@dataclass(frozen=True)
class Drawn:
    """One fit beside what is true of it."""

    fit: CascadeFit
    risk: float
    kept: float
    kept_risk: float | None
    """The true share of errors within the kept; None where nothing is."""
    over_strong: float

    @property
    def violates(self) -> bool:
        """Whether the fit says that it holds, and its risk is above alpha."""
        return self.fit.holds and self.risk > self.fit.alpha


def draws(
    population: Population, n: int, simulations: int, *, people: bool = False, alpha: float = 0.05, seed: int = 1
) -> Iterator[Drawn]:
    """Fit a threshold to one random chunk of each of n traces of five chunks, again and again.

    Args:
        population: What is drawn from.
        n: How many traces a fit has.
        simulations: How many fits.
        people: Whether people are the target, and the strong judge errs too.
        alpha: The greatest risk.
        seed: Seed of the draws.
    """
    rng = np.random.default_rng([seed, n])
    risks, kept = population.risks(), population.kept()
    within = np.append(np.cumsum((population.weights * population.cheap_wrong)[::-1])[::-1], 0.0)
    for _ in range(simulations):
        parts = population.draw(rng, n, 5)
        first = rng.integers(0, 5, n)
        places, cheap, strong = (part[np.arange(n), first] for part in parts)
        fit = fit_to(places, cheap, strong, rng, people=people, alpha=alpha)
        at = place_of(fit)
        yield Drawn(
            fit=fit,
            risk=float(risks[at]),
            kept=float(kept[at]),
            kept_risk=float(within[at] / kept[at]) if kept[at] > 0 else None,
            over_strong=float(risks[at] - risks[-1]),
        )


def place_of(fit: CascadeFit) -> int:
    """Return the place of a threshold on the grid, the one after its end for escalating all."""
    return GRID.size if fit.threshold is None else round(fit.threshold * 100) - 50


def fit_to(
    places: Ints, cheap: Floats, strong: Floats, rng: np.random.Generator, *, people: bool, alpha: float
) -> CascadeFit:
    """Turn errors into verdicts, and fit a threshold to them."""
    truth = (rng.random(places.size) < RELEVANT).astype(np.float64)
    if people:
        answers, thought = np.abs(truth - cheap), np.abs(truth - strong)
        return fit_cascade_to_people(GRID[places], answers, thought, truth, alpha=alpha)
    return fit_cascade(GRID[places], np.abs(truth - cheap), truth, alpha=alpha)


@dataclass(frozen=True)
class Row:
    """What many fits to samples of one size came to."""

    name: str
    n: int
    simulations: int
    above: float
    """The share of fits that say they hold, and whose risk is above alpha."""
    kept: float
    """The mean share of verdicts kept."""
    expected: float | None = None
    """What share should be kept, within .05; None: no matter."""
    inside: float | None = None
    """How often the interval of the risk within the kept covers it; None where nothing was kept."""
    compared: float | None = None
    """The same for the difference from the strong judge alone."""
    bounded: bool = True
    """Whether the risk is promised to be kept."""

    @property
    def sound(self) -> bool:
        """Whether all promises are kept, up to two standard errors of a simulated 5%."""
        slack = 2 * math.sqrt(0.05 * 0.95 / self.simulations)
        covered = [rate for rate in (self.inside, self.compared) if rate is not None]
        near = self.expected is None or abs(self.kept - self.expected) <= 0.05
        return near and (not self.bounded or self.above <= 0.05 + slack) and min([1.0, *covered]) >= 0.95 - slack

    def __str__(self) -> str:
        expected = "" if self.expected is None else f" ({self.expected:.2f})"
        others = " | ".join("-" if rate is None else f"{rate:.3f}" for rate in (self.inside, self.compared))
        figures = f"{self.n} | {self.above:.3f} | {self.kept:.3f}{expected} | {others}"
        return f"| {self.name} | {figures} | {'ok' if self.sound else 'BROKEN'} |"


HEAD = """\
| population | n | risk above alpha | kept (expected) | kept risk in interval | difference in interval | |
|---|---|---|---|---|---|---|"""


def measured(name: str, found: list[Drawn], *, expected: float | None = None) -> Row:
    """Return the rates of some fits of one size."""
    shares = [e.kept_risk in e.fit.kept_risk.interval for e in found if e.fit.kept and e.kept_risk is not None]
    compared = [e.over_strong in e.fit.over_strong.interval for e in found if e.fit.over_strong is not None]
    return Row(
        name=name,
        n=found[0].fit.n,
        simulations=len(found),
        above=sum(each.violates for each in found) / len(found),
        kept=float(np.mean([each.fit.coverage for each in found])),
        expected=expected,
        inside=sum(shares) / len(shares) if shares else None,
        compared=sum(compared) / len(compared) if compared else None,
    )


def strong_target(simulations: int, n: int) -> Row:
    """Fit to the strong judge's verdicts."""
    result = list(draws(cheap_judge(), n, simulations))
    return measured("strong judge is the target", result, expected=EXPECTED_KEPT[n])


def hard_traces(simulations: int, n: int) -> Row:
    """Fit to the strong judge's verdicts where errors come in hard traces."""
    result = list(draws(replace(cheap_judge(), hard=0.2), n, simulations, seed=2))
    return measured("the same, a fifth of traces hard", result, expected=EXPECTED_KEPT[n])


def people_target(simulations: int, n: int) -> Row:
    """Fit to people's labels, from which the strong judge errs too."""
    result = list(draws(against_people(), n, simulations, people=True, alpha=0.1, seed=3))
    return measured("people are the target, alpha .10", result)


def hopeless(simulations: int, n: int) -> Row:
    """Fit to people's labels where no threshold is within alpha, and each has its chance to look so."""
    result = list(draws(no_better(), n, simulations, people=True, alpha=0.1, seed=4))
    return measured("the same, both err in .101 everywhere", result)


def several_a_trace(simulations: int, n: int) -> Row:
    """Fit to all five chunks of n / 5 traces, a fifth of them hard: what must not be done."""
    population = replace(cheap_judge(), hard=0.2)
    rng = np.random.default_rng([5, n])
    risks = population.risks()
    kept, above = 0.0, 0
    for _ in range(simulations):
        places, cheap, strong = population.draw(rng, n // 5, 5)
        fit = fit_to(places.ravel(), cheap.ravel(), strong.ravel(), rng, people=False, alpha=0.05)
        kept += fit.coverage / simulations
        above += risks[place_of(fit)] > 0.05
    return Row("five chunks a trace (not allowed)", n, simulations, above / simulations, kept, bounded=False)


def one_a_cluster(simulations: int, n: int) -> Row:
    """Fit to one trace of each of n clusters, as `cascade fit` draws them from 2 n of all sizes.

    The risk is that of a random trace of a random cluster.
    """
    rng = np.random.default_rng([6, n])
    risks = CLUSTERED.risks()
    kept, above = 0.0, 0
    for simulation in range(simulations):
        owners, (places, cheap, strong) = clusters_of(rng, 2 * n)
        at = np.array(draw_clusters([str(owner) for owner in owners], n, simulation))
        fit = fit_to(places[at, 0], cheap[at, 0], strong[at, 0], rng, people=False, alpha=0.05)
        kept += fit.coverage / simulations
        above += risks[place_of(fit)] > 0.05
    return Row("one trace a cluster", n, simulations, above / simulations, kept, EXPECTED_KEPT[n])


def ten_a_cluster(simulations: int, n: int) -> Row:
    """Fit to n traces of n / 10 clusters, as if they were independent: what must not be done."""
    rng = np.random.default_rng([7, n])
    risks = CLUSTERED.risks()
    kept, above = 0.0, 0
    for _ in range(simulations):
        _, parts = clusters_of(rng, n // 10, even=True)
        places, cheap, strong = (part[:, 0] for part in parts)
        fit = fit_to(places, cheap, strong, rng, people=False, alpha=0.05)
        kept += fit.coverage / simulations
        above += risks[place_of(fit)] > 0.05
    return Row("ten traces a cluster (not allowed)", n, simulations, above / simulations, kept, bounded=False)


SIMULATIONS = (
    strong_target, hard_traces, people_target, hopeless, several_a_trace, one_a_cluster, ten_a_cluster,
)  # fmt: skip


def main() -> int:
    """Print all rates as a table; 1 where one breaks its bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=1_000)
    simulations = parser.parse_args().simulations
    rows = [simulate(simulations, n) for simulate in SIMULATIONS for n in SIZES]
    print(HEAD, *rows, sep="\n")
    return 0 if all(row.sound for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
