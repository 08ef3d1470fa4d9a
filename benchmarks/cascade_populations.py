"""Whom the simulations of a cascade draw: judges whose chance of an error is known at each confidence."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from judge_eval.confidence import CONFIDENCE_GRID
from judge_eval.stats.distributions import beta_cdf

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

GRID = np.array(CONFIDENCE_GRID)


@dataclass(frozen=True)
class Population:
    """Chunks of which the chance of each error is known at each confidence, so that every risk is exact."""

    weights: Floats
    """The share of chunks at each confidence .50, .51, ... 1.00."""
    cheap_wrong: Floats
    """The cheap judge's chance to err there (against the target), over all traces."""
    strong_wrong: Floats
    """The strong judge's chance to err there, given the trace independent of the cheap one's; 0 where it is
    the target."""
    hard: float = 0.0
    """The share of hard traces, in which the cheap judge errs four times as often as over all."""

    def risks(self) -> Floats:
        """Return the risk at each threshold of the grid, then that of escalating all, shape (52,)."""
        kept = np.append(np.cumsum((self.weights * self.cheap_wrong)[::-1])[::-1], 0.0)
        escalated = np.append(0.0, np.cumsum(self.weights * self.strong_wrong))
        risks: Floats = kept + escalated
        return risks

    def kept(self) -> Floats:
        """Return the share of chunks kept at each threshold, then 0 for escalating all."""
        return np.append(np.cumsum(self.weights[::-1])[::-1], 0.0)

    def draw(
        self, rng: np.random.Generator, traces: int, chunks: int = 1, hard: Bools | None = None
    ) -> tuple[Ints, Floats, Floats]:
        """Draw traces with their chunks: places on the grid, errors of the cheap judge, of the strong one.

        Args:
            rng: The source of chance.
            traces: How many.
            chunks: How many of each, which share whether their trace is hard.
            hard: Which traces are hard, shape (traces,); None draws them.

        Returns:
            Three arrays of shape (traces, chunks), errors as 0 and 1.
        """
        places = rng.choice(GRID.size, size=(traces, chunks), p=self.weights)
        hard = rng.random(traces) < self.hard if hard is None else hard
        chance = self.cheap_wrong[places]
        if self.hard:
            often = np.minimum(1.0, 4 * chance)
            chance = np.where(hard[:, None], often, (chance - self.hard * often) / (1 - self.hard))
        cheap = rng.random(places.shape) < chance
        strong = rng.random(places.shape) < self.strong_wrong[places]
        return places, cheap.astype(np.float64), strong.astype(np.float64)


def cheap_judge(errors: float = 0.12) -> Population:
    """Return a judge whose errors fall with its confidence c, against a strong judge that is the target.

    With s = 2c - 1, from 0 where it does not know to 1 where it is sure: s has the distribution Beta(5, 1)
    (c is rounded to two decimals, as servers send it), and the chance of an error is 1.4 (1 - s)^1.5, but .9
    at most.

    Args:
        errors: The share of its verdicts that are wrong.
    """
    edges = np.clip(2 * (np.append(GRID, 1.01) - 0.005) - 1, 0, 1)
    weights = np.diff([beta_cdf(float(edge), 5, 1) for edge in edges])
    falling = (2 - 2 * GRID) ** 1.5
    chance = np.minimum(0.9, errors / float(weights @ falling) * falling)
    return Population(weights / weights.sum(), chance, np.zeros_like(chance))


def against_people() -> Population:
    """Return the same cheap judge beside a strong one that errs in 2% where the other is sure, up to 12%."""
    return replace(cheap_judge(), strong_wrong=0.02 + 0.2 * (1 - GRID))


def no_better() -> Population:
    """Return two judges that both err in 10.1%, whatever the confidence: no threshold is within 10%."""
    even = np.full(GRID.size, 0.101)
    return Population(np.full(GRID.size, 1 / GRID.size), even, even)


CLUSTERED = replace(cheap_judge(), hard=0.2)
"""The same cheap judge, where a fifth of the clusters are hard in all of their traces."""


def clusters_of(
    rng: np.random.Generator, clusters: int, *, even: bool = False
) -> tuple[Ints, tuple[Ints, Floats, Floats]]:
    """Draw clusters of traces, a fifth of them hard as a whole, with one random chunk of each trace.

    Args:
        rng: The source of chance.
        clusters: How many.
        even: Whether each has ten traces; else from 1 to 9, hard ones thrice as many.

    Returns:
        The cluster of each trace, and what `Population.draw` gives of the traces' chunks, shape (traces, 1).
    """
    hard = rng.random(clusters) < CLUSTERED.hard
    sizes = np.full(clusters, 10) if even else rng.integers(1, 10, clusters) * np.where(hard, 3, 1)
    owners = np.repeat(np.arange(clusters), sizes)
    return owners, CLUSTERED.draw(rng, owners.size, hard=hard[owners])
