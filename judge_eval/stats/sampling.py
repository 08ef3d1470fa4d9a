"""Which traces to label next."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from judge_eval.stats._arrays import Ints, group_codes


@dataclass(frozen=True, slots=True)
class Sample:
    """A random choice of traces with the chance that each one had."""

    chosen: tuple[int, ...]
    """Positions of the chosen traces, ascending."""
    probabilities: tuple[float, ...]
    """The chance of every trace to be chosen, in (0, 1], chosen or not."""

    @property
    def weights(self) -> tuple[float, ...]:
        """For each chosen trace the inverse of its chance to be chosen."""
        return tuple(1 / self.probabilities[k] for k in self.chosen)

    def __str__(self) -> str:
        return f"{len(self.chosen)} of {len(self.probabilities)} traces"


def simple_random_sample(n: int, size: int, *, seed: int = 0) -> Sample:
    """Choose traces at random without replacement, all with the same chance.

    Args:
        n: How many traces there are.
        size: How many to choose, 1 <= size <= n.
        seed: Seed; equal seeds choose equally.

    Raises:
        ValueError: The size is out of its range.
    """
    return stratified_sample([0] * n, size, seed=seed)


def stratified_sample(
    strata: Iterable[Hashable],
    size: int,
    *,
    allocation: Literal["proportional", "equal"] = "equal",
    seed: int = 0,
) -> Sample:
    """Choose traces at random within strata, such as the judged grade.

    Each stratum gives two traces at least, or all it has, so that its variance can be seen and no trace is
    without a chance. The rest goes by `allocation`: in proportion to the strata's sizes, or the same number
    to each as far as they last.

    Figures of such a sample must be weighted by `Sample.weights`, as `ppi_mean_sampled` does.

    Args:
        strata: The stratum of each trace, n of them.
        size: How many to choose, from the number of strata up to n.
        allocation: `equal` looks hardest at rare strata, `proportional` at none.
        seed: Seed; equal seeds choose equally.

    Raises:
        ValueError: The size or the allocation is out of its range.
    """
    ids = list(strata)
    codes, groups = group_codes(ids, len(ids), "strata")
    if allocation not in ("proportional", "equal"):
        raise ValueError(f"allocation: {allocation!r} is none of 'proportional', 'equal'")
    if not max(1, groups) <= size <= len(ids):
        raise ValueError(
            f"size: {size} must lie between {max(1, groups)} (one a stratum) and {len(ids)} (all)"
        )
    available = np.bincount(codes, minlength=groups)
    take = _allocate(available, size, allocation)
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(np.flatnonzero(codes == k), size=int(take[k]), replace=False) for k in range(groups)]
    probabilities = (take / available)[codes]
    return Sample(tuple(sorted(np.concatenate(chosen).tolist())), tuple(probabilities.tolist()))


def _allocate(available: Ints, size: int, allocation: str) -> Ints:
    """Share the sample out, one trace at a time, to the stratum furthest below its due (Sainte-Lague)."""
    due = available.astype(np.float64) if allocation == "proportional" else np.ones(available.size)
    take = np.zeros(available.size, dtype=np.int64)
    least = np.minimum(available, 2)
    for _ in range(size):
        # What is owed to each comes before any share, and one to each before two.
        owed = np.where(take < least, take, np.inf)
        shares = np.where(take < available, (take + 0.5) / due, np.inf)
        take[int(np.argmin(owed if np.isfinite(owed).any() else shares))] += 1
    return take
