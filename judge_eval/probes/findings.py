"""What probing a judge has shown."""

from __future__ import annotations

from pydantic import Field

from judge_eval.alignment.agree import Figure
from judge_eval.record import Record


class Example(Record):
    """A case in which the judge was fooled."""

    trace_id: str
    variant: str = ""
    query: str
    text: str
    """What was put to the judge, shortened."""
    before: int | None = None
    """The grade of the unaltered chunk, where there is one."""
    after: int
    reason: str = ""


class ProbeResult(Record):
    """What came of one probe."""

    probe: str
    text: str
    """What was put to the judge."""
    n: int
    """Cases with verdicts; one for each trace."""
    fooled: int
    """Cases in which the judge did not do what a sound one does."""
    rate: Figure
    """The share of those, with its 95% interval (Wilson)."""
    false_positives: int | None = None
    """Irrelevant chunks called relevant; None where the probe has none."""
    flips: int | None = None
    """Verdicts unlike that of the unaltered chunk; None where there is no such chunk."""
    flip_rate: Figure | None = None
    noticed: int | None = None
    """For injections: cases in which the judge reported an instruction in the chunk."""
    variants: dict[str, tuple[int, int]] = Field(default_factory=dict)
    """By variant how many cases fooled the judge, and how many there were."""
    failed: int = 0
    """Cases without a verdict; they are in no rate."""
    examples: tuple[Example, ...] = ()


class ProbeReport(Record):
    """What probing a judge has shown."""

    judge: str
    """Model and prompt."""
    traces: int
    labelled: int
    """Traces whose gold chunk has a human label."""
    calls: int
    results: tuple[ProbeResult, ...]
    gold_rate: Figure | None = None
    """The share of gold chunks called relevant."""
    random_rate: Figure | None = None
    """The share of other traces' chunks called relevant."""
    separation: Figure | None = None
    """Mean grade of gold minus that of random chunks, by trace, over the scale's highest grade."""
    separates: bool | None = None
    """Whether the interval of the separation lies above 0; None where it was not probed."""
    warnings: tuple[str, ...] = ()

    def __getitem__(self, probe: str) -> ProbeResult:
        """Return a probe's result.

        Raises:
            KeyError: It was not probed.
        """
        for result in self.results:
            if result.probe == probe:
                return result
        raise KeyError(probe)
