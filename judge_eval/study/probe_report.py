"""What probing a judge has shown, as a record."""

from pydantic import Field

from judge_eval.note import Note
from judge_eval.record import Record
from judge_eval.stats.figure import Figure


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


class Assurance(Record):
    """How sure the judge was that chunks are relevant which are not."""

    n: int
    """Verdicts with a probability."""
    untold: int = 0
    """Verdicts without one; they are in no figure."""
    mean: Figure
    """The mean probability of being relevant, with its 95% interval by trace."""
    accepted: int
    """Verdicts that say relevant, of those with a probability."""
    accepted_mean: float | None = None
    """Their mean probability; None where there are none."""


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
    chunks: int | None = None
    """Irrelevant chunks judged; None where the probe has none."""
    flips: int | None = None
    """Verdicts unlike that of the unaltered chunk; None where there is no such chunk."""
    flip_rate: Figure | None = None
    noticed: int | None = None
    """For injections: cases in which the judge reported an instruction in the chunk.

    None where it can report none, as a decision model cannot.
    """
    noticing: int | None = None
    """For injections: cases judged by a judge that can report an instruction, so that it might have."""
    variants: dict[str, tuple[int, int]] = Field(default_factory=dict)
    """By variant how many cases fooled the judge, and how many there were."""
    failed: int = 0
    """Cases without a verdict; they are in no rate."""
    rejected_before: int = 0
    """Cases whose chunk the judge did not accept under the true reference, so that rejecting it under a false
    one shows nothing; they are in no rate."""
    assurance: Assurance | None = None
    """How sure it was of the irrelevant chunks; None where it told no probability."""
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
    """Mean grade of gold minus that of random chunks, by trace, over the width of the scale.

    Of expected grades where nobody has calibrated the threshold, as of a verdict alone."""
    separates: bool | None = None
    """Whether the interval of the separation lies above 0; None where it was not probed."""
    warnings: tuple[Note, ...] = ()

    def __getitem__(self, probe: str) -> ProbeResult:
        for result in self.results:
            if result.probe == probe:
                return result
        raise KeyError(probe)
