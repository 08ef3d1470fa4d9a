"""What a cascade costs beside each of its judges alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from judge_eval.stats.cascade_fit import CascadeFit

CascadeChoice = Literal["cheap", "strong", "cascade"]


@dataclass(frozen=True, slots=True)
class CascadeCost:
    """The cost of a thousand verdicts, in the unit that was given, such as dollars."""

    cheap: float
    """By the cheap judge alone."""
    strong: float
    """By the strong judge alone."""
    cascade: float
    """By the cascade: the cheap judge for all, the strong one for what is escalated."""
    coverage: float
    """The share of verdicts that the cheap judge keeps."""
    break_even: float | None
    """The coverage from which on a cascade costs less than the strong judge alone; None where none does."""
    choice: CascadeChoice
    """The cheapest that keeps the target where the fit holds: a plain judge if cheaper, or just as good."""

    def __str__(self) -> str:
        costs = f"a thousand verdicts: cheap {self.cheap:.4g}, strong {self.strong:.4g}, "
        costs += f"cascade {self.cascade:.4g} with {self.coverage:.0%} kept"
        if self.choice == "cascade":
            return (
                f"{costs}; the cascade saves {1 - self.cascade / self.strong:.0%} of the strong judge's cost"
            )
        if self.choice == "cheap":
            return f"{costs}; the cheap judge alone is as good: nothing was escalated"
        if self.break_even is None:
            return f"{costs}; the strong judge alone is cheaper, whatever is kept"
        return (
            f"{costs}; the strong judge alone is no dearer: a cascade pays above {self.break_even:.0%} kept"
        )


def cascade_cost(fit: CascadeFit, cheap: float, strong: float) -> CascadeCost:
    """Return what a thousand verdicts cost by the cheap judge, by the strong one, by the cascade of both.

    The cascade costs cheap + (1 - coverage) * strong a verdict. A judge that reads a whole trace at once is
    paid for a trace as soon as one of its chunks is escalated: then these figures are too low.

    Args:
        fit: The cascade's threshold, with the share it keeps.
        cheap: What one verdict of the cheap judge costs, >= 0.
        strong: What one of the strong judge costs, >= 0, in the same unit.

    Returns:
        The costs, with the choice they suggest. The cheap judge alone is one only where every item was kept.

    Raises:
        ValueError: A cost is negative or not finite; what is unknown is not 0.
    """
    for name, cost in (("cheap", cheap), ("strong", strong)):
        if not (cost >= 0 and math.isfinite(cost)):
            raise ValueError(f"{name}: {cost!r} is no cost of a verdict")
    cascade = cheap + (1 - fit.coverage) * strong
    choice: CascadeChoice = "cascade"
    if fit.kept == 0 or cascade >= strong:
        choice = "strong"
    elif fit.kept == fit.n:
        choice = "cheap"
    return CascadeCost(
        cheap=1000 * cheap,
        strong=1000 * strong,
        cascade=1000 * cascade,
        coverage=fit.coverage,
        break_even=cheap / strong if cheap < strong else None,
        choice=choice,
    )
