"""What a comparison finds: differences of metrics, traces that changed, what became of limits."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from judge_eval.note import Note
from judge_eval.record import Record, Shown
from judge_eval.runs.folder.records import FORMAT, Aggregate, SliceBy, name_of
from judge_eval.runs.scoring.aggregate import less_is_better
from judge_eval.runs.scoring.slices import SliceFigure
from judge_eval.stats import PairedComparison

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
        """What can be said at the 5% level: `same` where no trace differs, else by `p_holm`."""
        if not self.wins and not self.losses and not self.n_open:
            return "same"
        if self.p_holm > 0.05:
            return "unclear"
        return "higher" if self.difference > 0 else "lower"


class DifferencePart(Record):
    """What retrieval, or the judge, contributes to a difference."""

    value: float
    interval: tuple[float, float] | None = None
    """95%, of the same kind as that of the difference, by whole traces; None under two.

    An envelope: it also holds if chunks of one run alone are less often relevant than shared ones, and flip half to
    twice as often."""
    lower: float | None = None
    """The one-sided 95% lower bound, likewise."""
    upper: float | None = None
    t_lower: float | None = None
    """Student's bound, likewise, where it was shown to hold."""
    t_upper: float | None = None
    standard_error: float | None = None
    reach: tuple[float, float] = (0.0, 0.0)
    """How much further down (<= 0) and up the interval reaches because of chunks of one run alone."""

    @property
    def wide(self) -> bool:
        """Whether chunks of one run alone make up more than half of the interval."""
        low, high = self.interval or (0.0, 0.0)
        return self.reach[1] - self.reach[0] > 0.5 * (high - low)


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
        return not part.wide or part.interval is None or not part.interval[0] < 0 < part.interval[1]


@dataclass(frozen=True, kw_only=True)
class PairOfRuns:
    """Two runs of a comparison of all pairs, by their places in `Comparison.runs`."""

    first: int
    second: int
    difference: float
    """Mean of the second minus mean of the first, over the traces that all runs have a value for."""
    p: float
    """Adjusted for all pairs by Holm's method, in (0, 1]."""
    metric: str


class ReadPoint(Record):
    """What both runs read within so many words, with the evidence of both."""

    words: int
    baseline: float
    candidate: float
    difference: float
    interval: tuple[float, float] | None = None
    """95% of the difference at this point alone."""


class CutsFound(Record):
    """How the documents of a candidate are cut, beside those of the baseline, and what reading them word by word shows.

    Pairs are of the baseline and the candidate.
    """

    candidate: int = Field(ge=1)
    """Its place in `Comparison.runs`."""
    differ: bool
    """Whether they are cut differently, so that metrics that count chunks are not compared."""
    share: float | None
    """Of the chunks whose text both runs retrieved, how many lie in other chunks; None without any."""
    same: int
    """Of these chunks, those with the same words in both."""
    recut: int
    """And the others."""
    sampled: bool
    """Whether some 500 of the traces were held against each other, and not all."""
    median_words: tuple[float, float]
    """Of the chunks."""
    reached: tuple[int, int] | None = None
    """How many words, or more, the lists have in 90% of the questions; None, as what follows, if they were not read."""
    budget: int = 0
    """The largest round number that both reach; 0 if there is none."""
    repeated: tuple[float, float] | None = None
    """Which share of the words repeats words further up in its list."""
    same_text: int = 0
    """How many common traces have the same words in the same order."""
    false_support: tuple[int, int] | None = None
    """Of the chunks that people labelled irrelevant: how many the judge found relevant, and all; None under 10."""
    validated: tuple[str, ...] | None = ()
    """The labelled sets that these are of, in `validation.json` beside the runs; None if it cannot be read, empty if
    they are labels of the runs."""
    quoted: bool = True
    """Whether the judges of both quote words of chunks; else evidence cannot be placed."""
    unquoted: tuple[float, float] | None = None
    """Which share of each run's supporting verdicts quotes no words of its chunk: all its words are evidence then."""
    headline: str | None = None
    """The metric in words that is looked at first; None if there is none."""
    alone: dict[str, tuple[float, float] | None] = Field(default_factory=dict)
    """By metric in words the means with the evidence of each run's own verdicts."""
    curve_of: str | None = None
    """Which metric the curve is of, without its cutoff."""
    curve: tuple[ReadPoint, ...] = ()
    """The means by the words read, from few to many."""
    by_chunks: dict[str, tuple[float, float] | None] = Field(default_factory=dict)
    """By metric that counts chunks the means, which are not compared; empty unless the cuts differ."""


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
    searched: tuple[str, str] | None = None
    """What was searched in the baseline and in the candidate, shortened; None if it is the same."""
    claims_lost: int = 0
    """Claims that are covered in the baseline alone."""
    claims_won: int = 0


class ClaimChange(Record):
    """A claim of one trace that is covered in one of two runs alone."""

    trace_id: str
    """In the baseline."""
    query: str
    """The question, shortened."""
    text: str
    vital: bool
    kind: Literal["lost", "won"]
    """Lost: covered in the baseline alone; won: in the candidate alone."""
    before: str
    """What the baseline's chunks say of it, a sign a rank, as `JudgedClaim.signs` draws them."""
    after: str
    read: tuple[int | None, int | None] | None = None
    """After how many words of either list its evidence has been read, None if never; None if the cuts are the same."""


class ShareMoved(Record):
    """The share of the claims known in both runs that is covered in each, over all common traces."""

    before: float
    after: float
    difference: float
    """After minus before: what was won less what was lost, over the claims."""
    interval: tuple[float, float] | None = None
    """95% of the difference, by whole traces or clusters of them; None under two of these."""
    method: str | None = None
    clusters: int
    """How many traces, or clusters of traces, the claims are of."""


class ClaimsMoved(Record):
    """The claims of the common traces in the baseline and in one candidate."""

    candidate: int = Field(ge=1)
    """Its place in `Comparison.runs`."""
    lost: int
    won: int
    lost_vital: int
    won_vital: int
    covered: int
    """Covered in both."""
    missed: int
    """Covered in neither."""
    unknown: int
    """A missing verdict leaves it open in one of them; neither won nor lost."""
    unpaired: int
    """In one of the two references' claims alone, where both traces were judged by claims."""
    not_judged: int = 0
    """Common traces that one of the runs could not judge by claims."""
    differing: int = 0
    """Common traces whose claims are not the same in both runs, in words or in what is vital."""
    differing_traces: tuple[str, ...] = ()
    """The ids of the first of them."""
    share: ShareMoved | None = None
    """None where no claim is known in both."""
    words: int | None = None
    """Within how many words of a list a claim must be read, with the evidence of both runs, to be covered; None if the
    documents are cut alike, so that a chunk that supports it covers it."""
    changes: tuple[ClaimChange, ...] = ()
    """Lost ones first, vital ones before others; at most `NAMED_CLAIMS`."""


@dataclass(frozen=True, kw_only=True)
class SliceDifference(Difference):
    """A difference in one slice of the traces that a limit is on."""

    by: SliceBy
    name: str
    limit: float
    """The limit on what may be lost."""
    p_lost: float | None
    """One-sided p of the hypothesis that no more than the limit was lost; None if there are too few traces for one."""
    movers: tuple[TraceChange, ...] = ()
    """The traces of the slice that lost most, if more than the limit was lost."""


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


@dataclass(frozen=True, kw_only=True)
class LimitedDrop:
    """What was lost, where a limit is on all traces."""

    difference: Difference
    shared: float | None = None
    """Across two judges which share of the chunks has both verdicts: the limit is on retrieval's part alone."""


@dataclass(frozen=True, kw_only=True)
class LimitedSlices:
    """What was lost in the slices that one limit is on."""

    worst: SliceDifference
    """The one that lost most, of those that failed if any did, else of those that are undecided."""
    tested: int
    """How many have traces enough."""
    too_few: int
    """And how many have not."""
    failed: tuple[SliceDifference, ...]
    undecided: int
    limited: int
    """How many slices the gate limits in this candidate; the test of each is corrected for them."""
    sees: tuple[tuple[SliceDifference, float | None], ...]
    """Of the largest slice and of the smallest the least drop that is seen, unless one failed."""
    another_judge: bool
    """Whether another judge judged the baseline, whose part is not left out."""


class Check(Record):
    """What became of one limit."""

    kind: LimitKind
    metric: str
    part: str = ""
    """The slice that is limited, such as `tag=ids`; `tag`: each slice by tag."""
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
    warns: bool = False
    """Whether it passes with a warning, because it is undecided."""
    sees: float | None = None
    """Of a limit on a change, the least true drop for which it fails in 80 of 100 samples of so many traces; None if
    there is none, or for another limit."""
    movers: tuple[TraceChange, ...] = ()
    """The traces that lost most, where the check failed against a baseline."""
    worst: tuple[TraceValue, ...] = ()
    """The traces with the worst values, where a limit on the mean failed; if failed verdicts leave it open, traces
    without a value."""
    baseline: str = Field(default="", exclude=True)
    """The name of the run that it was compared with, under a limit on a change."""
    basis: Aggregate | LimitedDrop | LimitedSlices | CutsFound = Field(exclude=True)
    """What the outcome is about: a mean, what was lost, or documents that are cut differently."""

    @property
    def title(self) -> str:
        """The limit as it is written: `max-drop AP@5[tag=ids]=0.1`."""
        return f"{self.kind} {self.metric}{self.part and f'[{self.part}]'}={self.limit:g}"


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
    first_known: bool = False
    """Whether there is such a question, of which no failed verdict hides the rank."""
    another_judge: bool = False
    """Whether another judge judged it: then its scores are worse or better, and perhaps not it."""


class WordingAgainst(Record):
    """One other wording against the baseline's."""

    candidate: int = Field(ge=1)
    """The place of its run in `Comparison.runs`."""
    net: float
    """Its mean minus the baseline's: `more` - `less`."""
    interval: tuple[float, float] | None = None
    """95%, of the net."""
    more: float = Field(ge=0)
    """What the questions that gain add to the mean."""
    less: float = Field(ge=0)
    """What the questions that lose take from it."""
    questions_more: int = Field(ge=0)
    questions_less: int = Field(ge=0)


class WordingSplit(Record):
    """A metric's loss in the baseline: 1 - `mean` = `other` + `every`."""

    metric: str
    mean: float
    n: int
    """Questions that all these runs have."""
    clusters: int | None = None
    """Conversations, if questions share one."""
    other: float
    """What the best of the other wordings that were run finds more, chosen question by question afterwards: at most
    this is the wording's, since chance counts for it."""
    other_interval: tuple[float, float] | None = None
    every: float
    """What is lost whatever was searched: the retriever's or the corpus's."""
    every_interval: tuple[float, float] | None = None
    against: tuple[WordingAgainst, ...]


class Comparison(Shown, Record):
    """Two runs or more on the same traces; the first is the baseline.

    `print(comparison)` shows what `judge-eval compare` prints.
    """

    def __str__(self) -> str:
        return repr(self) if Shown.print_ is None else Shown.print_(self)

    v: int = FORMAT
    runs: tuple[RunRef, ...]
    warnings: tuple[Note, ...] = ()
    """What makes the comparison doubtful: other judge, prompt or data, unpaired traces, failures."""
    notes: tuple[Note, ...] = ()
    """What differs as it should, such as the retrieved chunks."""
    paired: tuple[int, ...]
    """How many traces each candidate has in common with the baseline."""
    only_baseline: tuple[int, ...]
    only_candidate: tuple[int, ...]
    openings: tuple[Opening, ...] = ()
    """What is to be said first, of each candidate that has a value in common with the baseline."""
    differences: tuple[Difference, ...]
    attributions: tuple[Attribution, ...] = ()
    """Whose change each difference is, of each candidate that another judge judged than the baseline."""
    cuts: tuple[CutsFound, ...] = Field(default=(), exclude_if=lambda cuts: not cuts)
    """Of each candidate whose documents are, or may be, cut differently, or that is compared in words."""
    wordings: tuple[WordingSplit, ...] = Field(default=(), exclude_if=lambda splits: not splits)
    """By metric which part of the baseline's loss is the wording's, where runs searched in other words."""
    slices: tuple[SliceFigure, ...] = ()
    """The change of each metric by slice of the traces, where it was asked for."""
    limited: tuple[SliceDifference, ...] = ()
    """The differences in slices that a gate limits."""
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

    def cuts_of(self, candidate: int = 1) -> CutsFound | None:
        """Return how the documents of a candidate are cut; None if as in the baseline, and nothing counts words."""
        return next((each for each in self.cuts if each.candidate == candidate), None)

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
