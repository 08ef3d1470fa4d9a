"""What a comparison finds: differences of metrics, traces that changed, what became of limits."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from judge_eval.record import Record
from judge_eval.runs.folder.records import name_of
from judge_eval.runs.folder.wording import interval

LimitKind = Literal["fail-under", "max-drop", "non-inferior", "fail-over", "max-rise"]
Outcome = Literal["passed", "failed", "undecided"]
Way = Literal["better", "worse", "unsure"]
Change = Literal["retrieval", "verdicts", "both", "claims", "scores"]
"""What changed in a trace: what was retrieved, the verdict on the same chunk, both; where none of these did,
whether a claim is covered, or only its scores."""
CHANGE_WORDS: Final[dict[Change, str]] = {
    "retrieval": "retrieval changed",
    "verdicts": "verdict flipped",
    "both": "retrieval changed, verdict flipped",
    "claims": "claim won or lost",
    "scores": "scored otherwise",
}


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


class Difference(Record):
    """One metric of one candidate against the baseline; differences are candidate minus baseline."""

    metric: str
    candidate: int = Field(ge=1)
    """Its place in `Comparison.runs`."""
    n: int
    """How many traces both have a value for."""
    n_excluded: int = 0
    """Common traces left out because a verdict failed in one of the two."""
    n_undefined: int = 0
    """Common traces left out because one of the two has nothing to measure: no claim of the kind."""
    clusters: int | None = None
    baseline_mean: float
    candidate_mean: float
    difference: float
    interval: tuple[float, float] | None = None
    """95% of the difference; None under two traces, and where equal differences allow none."""
    method: str | None = None
    """How the interval is made: `t`, `CR1 t` under clusters, `score` of two rates, or `gaffke`."""
    lower: float | None = None
    """The one-sided 95% lower bound of the difference, which decides gates; None as the interval."""
    upper: float | None = None
    """The one-sided 95% upper bound, likewise."""
    standard_error: float | None = None
    """Of the difference; None under two traces."""
    p_t: float | None = None
    """Two-sided p of the paired t test."""
    p: float
    """Two-sided p of the sign-flip randomisation test."""
    exact: bool = False
    """Whether all sign flips were enumerated."""
    p_holm: float
    """`p` adjusted for all metrics and candidates of this comparison (Holm)."""
    dz: float | None = None
    """Cohen's dz: the mean difference over its standard deviation; None without variation."""
    wins: int
    """Traces where the candidate is better."""
    ties: int
    losses: int
    """Traces where it is worse."""
    less_is_better: bool = False
    """Whether a rise of the metric is for the worse."""
    detectable: float | None = None
    """The smallest true difference that this many traces show with 80% power.

    None without variation, and where it lies beyond any difference that the metric can have.
    """

    @property
    def too_few(self) -> bool:
        """Whether the traces vary, and are so few that no difference the metric can have would be shown."""
        return self.detectable is None and bool(self.standard_error)

    @property
    def clear(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]

    @property
    def way(self) -> Way:
        """Whether the candidate is better or worse; `unsure` where the interval holds 0, or there is none."""
        if self.interval is None or not self.clear:
            return "unsure"
        return "better" if (self.interval[0] > 0) != self.less_is_better else "worse"

    @property
    def lost(self) -> tuple[float, float | None, float | None]:
        """How much worse the candidate is: the fall of the mean, or its rise where less is better.

        With its one-sided 95% bounds, what was lost at least and at most.
        """
        if self.less_is_better:
            return self.difference, self.lower, self.upper
        least, most = (None if end is None else 0.0 - end for end in (self.upper, self.lower))
        return 0.0 - self.difference, least, most

    @property
    def finding(self) -> Literal["higher", "lower", "same", "unclear"]:
        """What can be said at the 5% level: `same` where no trace differs, else by `p_holm` and interval."""
        if not self.wins and not self.losses:
            return "same"
        if self.p_holm > 0.05 or (self.interval is not None and not self.clear):
            return "unclear"
        return "higher" if self.difference > 0 else "lower"

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        if self.finding == "same":
            return f"no difference in {self.metric}: all {self.n} traces score the same"
        size = f"{self.difference:+.4f}"
        if self.interval is not None:
            size += f" {interval(self.interval, '+')}"
        if self.finding == "unclear" and self.clear:
            return f"{self.metric}: {size}; the test does not show it, p={self.p_holm:.3g}"
        if self.finding == "unclear":
            least = "" if self.detectable is None else f"; these traces could show {self.detectable:.4f}"
            if self.too_few:
                least = "; these traces are too few to show any difference"
            return f"no difference shown in {self.metric}: {size}, p={self.p_holm:.3g}{least}"
        means = f", which is {'worse' if self.difference > 0 else 'better'}" if self.less_is_better else ""
        return f"{self.metric} is {self.finding}{means}: {size}, p={self.p_holm:.3g}"


class PairOfRuns(Record):
    """Two runs of a comparison of all pairs."""

    metric: str
    first: int
    second: int
    """Places in `Comparison.runs`."""
    difference: float
    """Second minus first, over the traces that all runs have a value for."""
    p: float
    """Adjusted for all pairs (randomised paired Tukey HSD)."""


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

    @property
    def what(self) -> str:
        """What changed, in words, with the claims that were won and lost."""
        told = [] if self.kind == "claims" else [CHANGE_WORDS[self.kind]]
        for n, word in ((self.claims_lost, "lost"), (self.claims_won, "won")):
            told += [f"{n} claim{'s' if n != 1 else ''} {word}"] if n else []
        return ", ".join(told)


class Check(Record):
    """What became of one limit."""

    kind: LimitKind
    metric: str
    run: str
    """The name of the run that was checked."""
    limit: float
    value: float | None
    """The mean under `fail-under` and `fail-over`, else what was lost against the baseline: the fall of the
    mean, or its rise where less is better. None where there is none."""
    interval: tuple[float, float] | None = None
    outcome: Outcome
    """`undecided`: the traces neither show that the limit was kept nor that it was not."""
    passed: bool
    """Whether this lets the gate pass: `passed`, or undecided where that was allowed."""
    sentence: str
    """Which limit, and by how much it was missed or met, or what would decide it."""
    movers: tuple[TraceChange, ...] = ()
    """The traces that lost most, where the check failed against a baseline."""
