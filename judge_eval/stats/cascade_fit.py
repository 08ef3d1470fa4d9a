"""What fitting a cascade's threshold found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from judge_eval.stats.estimate import Estimate

CascadeTarget = Literal["strong", "people"]


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What one threshold would do to the items it was fitted on."""

    threshold: float
    errors: int
    """How many answers of the cascade are not the target's."""
    kept: int
    """How many of the cheap judge's verdicts would stand."""


@dataclass(frozen=True, slots=True)
class CascadeFit:
    """A threshold for the cheap judge's confidence, with what it rests on."""

    target: CascadeTarget
    """Whose answer is right: the strong judge's, or people's."""
    alpha: float
    """The greatest risk wanted: the share of the cascade's answers that are not the target's."""
    level: float
    """How sure it is that the risk is at most alpha, such as 0.95."""
    n: int
    """How many items it was fitted on, one a trace."""
    needed: int
    """The fewest items that can show anything, if none errs; with fewer, all is escalated."""
    allowed: int | None
    """The most errors under which a threshold passes; None where n is too small for any."""
    threshold: float | None
    """Keep a verdict whose confidence reaches it (`is_sure`); None: escalate all."""
    holds: bool
    """Whether the risk of this answer is at most alpha at the level.

    Always so with the strong judge as the target: escalating all never differs from it. With people as the
    target it is false where not even escalating all was shown to be within alpha."""
    errors: int
    """The cascade's answers that are not the target's, at the threshold (or with all escalated)."""
    bound: float | None
    """The upper bound of the risk at the level, at most alpha; None where nothing holds.

    Clopper and Pearson's for the errors that were allowed. That for the errors which were seen would hold for
    a threshold fixed beforehand, but not for one that was chosen by them."""
    kept: int
    """The items whose cheap verdict stands."""
    kept_risk: Estimate
    """The share of errors within the kept, with an exact interval that holds for all thresholds at once."""
    wrongly_relevant: int
    """Errors in which the cascade says relevant and the target not."""
    wrongly_irrelevant: int
    """Errors in which the target says relevant and the cascade not."""
    cheap_alone: Estimate
    """The share of the cheap judge's own verdicts that are not the target's, exact interval."""
    strong_alone: Estimate | None
    """The same of the strong judge, where people are the target."""
    over_strong: Estimate | None
    """The cascade's risk minus the strong judge's, on the same items, where people are the target.

    The score interval for paired rates, widened to hold for all thresholds at once; None where all is
    escalated, because then there is no difference."""
    curve: tuple[CurvePoint, ...]
    """Every threshold of the grid, ascending."""

    @property
    def coverage(self) -> float:
        """The share of items whose cheap verdict stands."""
        return self.kept / self.n if self.n else 0.0

    def __str__(self) -> str:
        whose = "the strong judge's" if self.target == "strong" else "people's"
        if self.allowed is None:
            said = f"escalate all: {self.n} traces are too few, at least {self.needed} are needed"
        else:
            counted = f"answers other than {whose}: {self.errors} of {self.n}, {self.allowed} allowed"
            if not self.holds:
                said = f"escalate all, without a guarantee; {counted}"
            elif self.threshold is None:
                said = f"escalate all: no threshold leaves few enough; {counted}"
            else:
                said = f"keep from {self.threshold:.2f}: {self.coverage:.0%} kept; {counted}"
                said += f"; risk at most {self.bound:.3g}"
        return f"{said} (alpha {self.alpha:g}, level {self.level:g})"
