"""What a sweep of one setting of a what-if found."""

from judge_eval.record import Record
from judge_eval.stats.figure import Figure


class SweepPoint(Record):
    """What one value gives over all questions."""

    value: float
    mean: Figure
    difference: Figure
    """From the first run's own lists, paired."""


class SweepReport(Record):
    """A parameter through its values, and the winner on questions that had no say in choosing it."""

    metric: str
    parameter: str
    recipe: str
    """The other settings."""
    baseline: str
    """The run whose lists the differences are from."""
    questions: int
    points: tuple[SweepPoint, ...]
    chosen: tuple[float, float]
    """The best value of each half of the questions."""
    held_out: Figure
    """The mean over all questions, each under the value that the other half chose."""
    held_out_difference: Figure
    less_is_better: bool = False
