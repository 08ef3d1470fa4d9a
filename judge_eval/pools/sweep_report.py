"""What a sweep of one setting of a what-if found."""

from judge_eval.record import Record
from judge_eval.safe_text import signed_pair
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

    @property
    def sentence(self) -> str:
        """What the sweep shows, in words."""
        values = " and ".join(f"{value:g}" for value in dict.fromkeys(self.chosen))
        moved = self.held_out_difference
        halves = (
            "both halves of the questions choose"
            if len(set(self.chosen)) == 1
            else "the halves of the questions choose"
        )
        return (
            f"{halves} {self.parameter}={values}; on the questions that did not choose it {self.metric} is "
            f"{self.held_out.text}, {signed_pair(moved.value or 0.0, moved.interval)} against {self.baseline}"
        )
