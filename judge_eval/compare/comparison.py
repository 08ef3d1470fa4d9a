"""What a comparison finds: differences of metrics, traces that changed, what became of limits."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field

from judge_eval.compare.moved_claims import ClaimsMoved
from judge_eval.record import Record, Shown
from judge_eval.runs.folder.records import FORMAT, name_of
from judge_eval.runs.scoring.aggregate import less_is_better
from judge_eval.runs.scoring.slices import SliceFigure
from judge_eval.safe_text import signed_pair
from judge_eval.stats import PairDifference, PairedComparison

LimitKind = Literal["fail-under", "max-drop", "non-inferior", "fail-over", "max-rise"]
GateOutcome = Literal["passed", "failed", "undecided"]
Way = Literal["better", "worse", "unsure"]
Change = Literal["retrieval", "verdicts", "both", "claims", "scores"]
"""What changed in a trace: what was retrieved, the verdict on the same chunk, both; where none of these did,
whether a claim is covered, or only its scores."""


class RunRef(Record):
    """Which run, for people."""

    id: str
    label: str | None = None
    href: str | None = None
    traces: int = 0
    failed_verdicts: int = 0

    @property
    def name(self) -> str:
        """The label, else the start of the id."""
        return name_of(self.label, self.id)


@dataclass(frozen=True, kw_only=True)
class Difference(PairedComparison):
    """One metric of one candidate against the baseline; differences are candidate minus baseline.

    Traces with failed verdicts (`n_open`) count with expected values: the interval covers all values that they could
    have, and only those of which the sign is known are wins or losses. These are by what is better: under
    `less_is_better` a win is a fall.
    """

    metric: str
    candidate: int
    """Its place in `Comparison.runs`, from 1."""
    n_excluded: int = 0
    """Common traces left out because a verdict failed in one of the two and the metric has no bounds."""
    n_undefined: int = 0
    """Common traces left out because one of the two has nothing to measure: no claim of the kind."""
    method: str | None = None
    """How the interval is made: `t`, `CR1 t` under clusters, `score` of two rates, or `gaffke`."""
    p_holm: float
    """`p` adjusted for all metrics and candidates of this comparison (Holm)."""
    less_is_better: bool = False
    """Whether a rise of the metric is for the worse."""

    @property
    def too_few(self) -> bool:
        """Whether the traces vary, and are so few that no difference the metric can have would be shown."""
        return self.detectable is None and bool(self.standard_error)

    @property
    def p_shown(self) -> float | None:
        """`p_holm`; None where it alone would mislead: it is small, and the interval holds 0.

        The test is of differences that are symmetric about 0. Skewed ones whose mean is 0 are not: of ten
        that fall by .5 in one of ten traces, it rejects in 37 of 100 samples.
        """
        return None if self.p_holm <= 0.05 and self.interval is not None and not self.clear else self.p_holm

    @property
    def clear(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]

    @property
    def clear_in_number(self) -> bool:
        """Whether at least twice as many traces lost as won, or won as lost, and ten or more in all."""
        most, fewest = max(self.wins, self.losses), min(self.wins, self.losses)
        return most + fewest >= 10 and most >= 2 * fewest

    @property
    def way(self) -> Way:
        """Whether the candidate is better or worse; `unsure` where the interval holds 0, or there is none."""
        if self.interval is None or not self.clear:
            return "unsure"
        return "better" if (self.interval[0] > 0) != self.less_is_better else "worse"

    @property
    def lost(self) -> tuple[float, float | None, float | None]:
        """How much worse the candidate is, whichever way is worse, with its one-sided 95% bounds."""
        if self.less_is_better:
            return self.difference, self.lower, self.upper
        least, most = (None if end is None else 0.0 - end for end in (self.upper, self.lower))
        return 0.0 - self.difference, least, most

    @property
    def most_lost_by_student(self) -> float | None:
        """What was lost at most, by Student's bound; None where it was not shown to hold."""
        if self.t_lower is None or self.t_upper is None:
            return None
        return self.t_upper if self.less_is_better else 0.0 - self.t_lower

    @property
    def finding(self) -> Literal["higher", "lower", "same", "unclear"]:
        """What can be said at the 5% level: `same` where no trace differs, else by `p_holm` and interval."""
        if not self.wins and not self.losses and not self.n_open:
            return "same"
        if self.p_holm > 0.05 or (self.interval is not None and not self.clear):
            return "unclear"
        return "higher" if self.difference > 0 else "lower"


LEAST_SHARED: Final = 0.6
"""With a smaller share of chunks in both runs, intervals of the parts of a difference are envelopes."""


class DifferencePart(Record):
    """What retrieval, or the judge, contributes to a difference."""

    value: float
    interval: tuple[float, float] | None = None
    """95%, by whole traces; None under two. If less than `LEAST_SHARED` of the chunks are in both runs, an envelope:
    it also holds if those of one run alone flip half to twice as often."""
    lower: float | None = None
    """The one-sided 95% lower bound, likewise."""
    upper: float | None = None


class Attribution(Record):
    """A difference between runs of two judges, split in two; `compare/attribution.py` says how."""

    metric: str
    candidate: int = Field(ge=1)
    """Its place in `Comparison.runs`."""
    n: int
    """How many traces are compared."""
    difference: float
    """The sum of the two parts."""
    interval: tuple[float, float] | None
    shared: float
    """Which share of the chunks that the metric reads is in both runs, 0 to 1."""
    judges: str
    """Which judge took whose place."""
    retrieval: DifferencePart
    judge: DifferencePart
    less_is_better: bool = False

    def is_known(self, part: DifferencePart) -> bool:
        """Tell whether a part's sign does not hang on how often the chunks of one run alone flip."""
        return self.shared >= LEAST_SHARED or not (part.interval and part.interval[0] < 0 < part.interval[1])

    @property
    def sentence(self) -> str:
        """Whose change the difference is, in words."""
        size, span = signed_pair(abs(self.difference), None).split(" ")[0][1:], ""
        if self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]:
            what = f"{self.metric} {'fell' if self.difference < 0 else 'rose'} by {size}"
            span = " " + signed_pair(0, self.interval).partition(" ")[2]
        else:
            what = f"no difference in {self.metric} is shown: {signed_pair(self.difference, self.interval)}"
        shared = f"{self.shared:.0%} of the chunks have both verdicts"
        sides = (self.judge, f"by the judge ({self.judges})"), (self.retrieval, "by retrieval")
        parts = [f"{signed_pair(part.value, part.interval)} {who}" for part, who in sides if self.is_known(part)]
        if len(parts) == len(sides):
            return f"{what}{span}: {', '.join(parts)}; {shared}"
        unknown = [
            f"{who} {signed_pair(0, part.interval).partition(' ')[2]}"
            for part, who in reversed(sides)
            if not self.is_known(part)
        ]
        parts.append(f"it cannot be told {'how much ' if parts else 'whether '}{' or '.join(unknown)}")
        return f"{what}{span}: {', '.join(parts)}, since only {shared}"


@dataclass(frozen=True, kw_only=True)
class PairOfRuns(PairDifference):
    """Two runs of a comparison of all pairs, by their places in `Comparison.runs`.

    The difference is that of the second and the first, over the traces that all runs have a value for.
    """

    metric: str


class Flip(Record):
    """One chunk that got another grade."""

    chunk_id: str
    before: int | None
    """The baseline's grade; None where it had no verdict."""
    after: int | None


class TraceChange(Record):
    """A trace that changed between the baseline and a candidate."""

    candidate: int = Field(ge=1)
    trace_id: str
    query: str
    """The question, shortened."""
    kind: Change
    before: str
    """The baseline's verdicts, a sign a rank: `+` relevant, `.` not, a digit where graded, `!` failed."""
    after: str
    moves: tuple[str, ...]
    """For each rank of the candidate where that chunk stood in the baseline; empty where it is new."""
    flips: tuple[Flip, ...] = ()
    differences: dict[str, float]
    """By metric, candidate minus baseline; a metric without a value in one of them is left out."""
    claims_lost: int = 0
    """Claims that are covered in the baseline alone."""
    claims_won: int = 0


MOST_MOVERS = 5
"""How many traces a failed limit names."""


class TraceValue(Record):
    """What a trace adds to a mean."""

    trace_id: str
    query: str
    """The question, shortened."""
    value: float | None
    verdicts: str
    """A sign a rank, as in `TraceChange`."""


class Check(Record):
    """What became of one limit."""

    kind: LimitKind
    metric: str
    run: str
    """The name of the run that was checked."""
    limit: float
    value: float | None
    """The mean under `fail-under` and `fail-over`, else what was lost against the baseline: the fall of the
    mean, or its rise if less is better. None if there is none."""
    interval: tuple[float, float] | None = None
    outcome: GateOutcome
    """`undecided`: the traces neither show that the limit was kept nor that it was not."""
    passed: bool
    """Whether this lets the gate pass: `passed`, or undecided where that was allowed."""
    sentence: str
    """Which limit, and by how much it was missed or met, or what would decide it."""
    movers: tuple[TraceChange, ...] = ()
    """The traces that lost most, where the check failed against a baseline."""
    worst: tuple[TraceValue, ...] = ()
    """The traces with the worst values, where a limit on the mean failed; if failed verdicts leave it open, traces
    without a value."""


class Checks(Shown, list[Check]):
    """What became of all limits."""

    @property
    def passed(self) -> bool:
        """Whether the gate lets the runs pass."""
        return all(check.passed for check in self)


class Opening(Record):
    """What a comparison says first of a candidate, by the metric that is looked at first."""

    candidate: int = Field(ge=1)
    """Its place in `Comparison.runs`."""
    metric: str
    finding: Literal["worse", "better", "unclear", "same"]
    """`worse` and `better` only where the 95% interval of the difference leaves 0 out."""
    first_before: int | None = None
    """Of the questions that lost (under `better`, that won) the median rank of the first relevant chunk in
    the baseline; None where the median one has none, or there is no such question."""
    first_after: int | None = None
    """The same in the candidate."""
    rest: str
    """The sentence but for whom it is about."""
    another_judge: bool = False
    """Whether another judge judged it: then its scores are worse or better, and perhaps not it."""

    def sentence(self, who: str, *, several: bool = False) -> str:
        """Return the sentence; `who` is the candidate, named in each sentence if there are several."""
        if self.finding in ("worse", "better"):
            return f"{who} {'scores' if self.another_judge else 'is'} {self.rest}"
        return f"{who}: {self.rest}" if several else self.rest


class Comparison(Shown, Record):
    """Two runs or more on the same traces; the first is the baseline."""

    v: int = FORMAT
    runs: tuple[RunRef, ...]
    warnings: tuple[str, ...] = ()
    """What makes the comparison doubtful: other judge, prompt or data, unpaired traces, failures."""
    notes: tuple[str, ...] = ()
    """What differs as it should, such as the retrieved chunks."""
    paired: tuple[int, ...]
    """How many traces each candidate has in common with the baseline."""
    only_baseline: tuple[int, ...]
    only_candidate: tuple[int, ...]
    sentences: tuple[str, ...] = ()
    """What is to be said first, a sentence a candidate, each under its name."""
    openings: tuple[Opening, ...] = ()
    """What these sentences say, of each candidate that has a value in common with the baseline."""
    differences: tuple[Difference, ...]
    attributions: tuple[Attribution, ...] = ()
    """Whose change each difference is, of each candidate that another judge judged than the baseline."""
    slices: tuple[SliceFigure, ...] = ()
    """The change of each metric by slice of the traces, where it was asked for."""
    pairs: tuple[PairOfRuns, ...] = ()
    """All pairs of three runs or more."""
    changed: tuple[dict[Change, int], ...]
    """For each candidate how many traces changed in which way."""
    traces: tuple[TraceChange, ...] = ()
    """The changed traces that moved most, of each candidate at most as many as were asked for."""
    claims: tuple[ClaimsMoved, ...] = ()
    """The claims won and lost, of each candidate that was judged by claims as the baseline was."""
    checks: tuple[Check, ...] = ()
    """What became of the limits, where a gate was asked for."""

    @property
    def baseline(self) -> RunRef:
        """The run the others are compared with."""
        return self.runs[0]

    @property
    def claims_told(self) -> list[str]:
        """What was won and lost of the claims, a sentence a candidate, each under its name."""
        several = len(self.runs) > 2
        return [(f"{self.runs[c.candidate].name}, " if several else "") + c.sentence for c in self.claims]

    def of(self, candidate: int = 1) -> Iterator[Difference]:
        """Yield the differences of one candidate, metric by metric."""
        return (each for each in self.differences if each.candidate == candidate)

    def __getitem__(self, metric: str) -> Difference:
        """Return a metric's difference of the first candidate.

        Raises:
            KeyError: It was not compared.
        """
        return {each.metric: each for each in self.of(1)}[metric]

    def attribution(self, metric: str, candidate: int = 1) -> Attribution | None:
        """Return whose change a metric's difference is; None if one judge judged both runs, or it cannot be split."""
        return next((a for a in self.attributions if a.metric == metric and a.candidate == candidate), None)

    def movers(self, metric: str, candidate: int = 1, most: int = MOST_MOVERS) -> list[TraceChange]:
        """Return the traces that moved a metric most, the greatest loss first."""
        sign = -1.0 if less_is_better(metric) else 1.0
        moved = [t for t in self.traces if t.candidate == candidate and t.differences.get(metric)]
        return sorted(moved, key=lambda t: sign * t.differences[metric])[:most]
