"""The records of a run: what is written into its folder."""

from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self, TypeAlias
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, Field

from judge_eval.errors import NEVER_ASKED, NO_FAILURE
from judge_eval.record import AsWritten, PlainObject, Record, Shown, trusted
from judge_eval.safe_text import printable, shortened
from judge_eval.schema import Call, ClaimsJudged, Judgment, Outcome, Stage, Trace

RESULTS: Final = "results.jsonl"
"""The file of a run's results."""
FORMAT = 1
"""The version of the files; a reader refuses versions above its own."""

IMPORT = "import"
"""The provider of a run whose verdicts were not judged by it but given elsewhere."""

Status = Literal["submitted", "running", "done", "incomplete", "failed", "interrupted"]
"""`incomplete`: ended, but verdicts or votes are missing; `interrupted`: stopped early; `failed`: ended by an
error. All three are resumable."""


def name_of(label: str | None, run_id: str) -> str:
    """Return the name of a run: its label, else the first eight characters of its id."""
    return label or run_id[:8]


_SHOWN = 7
"""How many verdicts a result prints."""

JUDGED = ("outcomes", "calls", "votes", "claims", "parts")
"""The fields that a result takes over from its judgment."""


class TraceResult(Shown, Record):
    """The result of one trace: a line of `results.jsonl`."""

    v: int = Field(default=FORMAT, ge=1, le=FORMAT)
    position: int = Field(ge=0)
    """The trace's place in the dataset, counted from 0."""
    trace_id: str
    digest: str
    """64 hexadecimal digits: `Trace.digest`."""
    outcomes: tuple[Outcome, ...]
    """One for each chunk, in rank order."""
    scores: dict[str, float | None]
    """By metric name; None where failed verdicts leave the metric without a value."""
    bounds: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """Where a score is None: the least and the greatest it could be, filling every gap alike."""
    calls: tuple[Call, ...] = ()
    votes: dict[str, tuple[int | None, ...]] = Field(default_factory=dict)
    """By member of a panel or stage of a cascade: its grade of each chunk, in rank order; None for none."""
    claims: ClaimsJudged | None = None
    """The claims it was judged by; None where it was not judged by claims."""
    parts: dict[str, Judgment] = Field(default_factory=dict)
    """While a verdict or a vote of a panel or a cascade is missing: what each member or stage said."""
    trace: Annotated[Trace, AsWritten()]

    @property
    def judgment(self) -> Judgment:
        """What was judged, without what was made of it."""
        return trusted(Judgment, {name: getattr(self, name) for name in ("trace_id", *JUDGED)})

    @property
    def beyond_total(self) -> bool:
        """Whether more chunks were judged relevant than the trace says exist."""
        total = self.trace.relevant_total
        return total is not None and sum(o.kind == "verdict" and o.relevant for o in self.outcomes) > total

    @property
    def failed(self) -> int:
        """How many chunks lack a verdict that they should have."""
        return sum(outcome.kind == "no_verdict" and outcome.why != NO_FAILURE for outcome in self.outcomes)

    def unsupported(self, imported: bool) -> int:
        """Count the relevant verdicts that rest on no quote found in their chunk, of judges that quote.

        Args:
            imported: Whether the verdicts were given elsewhere: who was never asked for a quote owes none.
        """
        return sum(o.kind == "verdict" and o.unsupported and bool(o.evidence or not imported) for o in self.outcomes)

    @property
    def fewer_votes(self) -> int:
        """How many verdicts of a panel rest on the votes of some of its members, not all."""
        count = 0
        for place, outcome in enumerate(self.outcomes if self.votes else ()):
            if outcome.kind == "verdict":
                panel = self if outcome.stage is None else self.parts.get(outcome.stage)
                votes = [column[place] for column in panel.votes.values()] if panel else []
                count += None in votes and set(votes) != {None}
        return count

    @property
    def lacks_answers(self) -> bool:
        """Whether a verdict, a vote of a panel or an answer about all chunks together is missing."""
        together = self.claims.together.values() if self.claims else ()
        return bool(self.failed or self.fewer_votes or None in together)

    @property
    def stages(self) -> Counter[Stage]:
        """How many verdicts each stage of a cascade gave; empty if the judge was not a cascade."""
        return Counter([o.stage for o in self.outcomes if o.kind == "verdict" and o.stage is not None])

    def __str__(self) -> str:
        """Show the question, the scores and the first verdicts, in at most ten lines."""
        scores = ", ".join(
            f"{name} {'none' if value is None else f'{value:.4f}'}" for name, value in self.scores.items()
        )
        lines = [f"{self.trace_id}: {shortened(self.trace.query, 100)}", scores or "no metric"]
        for rank, outcome in enumerate(self.outcomes[:_SHOWN], 1):
            verdict = f"grade {outcome.grade}" if outcome.kind == "verdict" else f"no verdict ({outcome.why})"
            reason = (outcome.reason or "") if outcome.kind == "verdict" else outcome.detail
            lines.append(
                f"{outcome.sign} {rank} {shortened(outcome.chunk_id, 30)}: {verdict} {shortened(reason, 70)}".rstrip()
            )
        rest = len(self.outcomes) - _SHOWN
        return "\n".join(map(printable, [*lines, *([f"... and {rest} more"] if rest > 0 else [])]))

    __repr__ = __str__


SliceBy: TypeAlias = Literal["tag", "language", "length", "source"]
"""What parts the traces of a run into slices."""


class Intervals(Record):
    """How the intervals of a run's means are made, and for which slices of its traces they are shown too."""

    method: Literal["auto", "t", "bca"] = "auto"
    """What suits the values, named beside each interval; or always Student's t (cluster-robust where traces
    carry a cluster), or the BCa bootstrap."""
    cluster: str = "cluster"
    """The key of a trace's `metadata` that says which traces belong together."""
    seed: int = 0
    """Of the bootstrap; equal seeds give equal intervals."""
    by: tuple[SliceBy, ...] = ()
    """Every figure is also shown by these; what is computed does not depend on it."""


class Quantiles(Record):
    """Percentiles of a metric over the traces of its mean, interpolated linearly."""

    p20: float
    p50: float
    p90: float


class TagMean(Record):
    """A metric over the traces that carry a tag."""

    mean: float | None
    """As in `Aggregate`; None if no trace has a value."""
    n: int = Field(ge=0)
    n_failed: int = Field(default=0, ge=0)
    interval: tuple[float, float] | None = None
    """As in `Aggregate`."""


class Aggregate(Record):
    """A metric over the traces of a run."""

    mean: float | None
    """Over all traces with something to measure, those with failed verdicts by their expected value.

    None if no trace has a value."""
    n: int = Field(ge=0)
    """How many traces have a value."""
    n_failed: int = Field(ge=0)
    """How many traces have none because of failed verdicts."""
    n_expected: int = Field(default=0, ge=0)
    """How many of these count with their expected value."""
    headline: Literal["mean", "bounds"] = "mean"
    """`bounds` if more than 5% of the run's verdicts failed and they leave this metric open."""
    n_undefined: int = Field(default=0, ge=0)
    """How many traces have none because there is nothing to measure: no claim, or no vital one."""
    interval: tuple[float, float] | None = None
    """95% confidence interval of the mean, whatever the failed verdicts would have been (Imbens-Manski).

    None under two traces (or clusters)."""
    method: str | None = None
    """How the interval was made, such as `gaffke` or `Imbens-Manski gaffke`; None where there is none."""
    clusters: int | None = None
    """How many clusters the traces came from; None where each stands for itself."""
    quantiles: Quantiles | None = None
    """None if no trace has a value."""
    tags: dict[str, TagMean] = Field(default_factory=dict)
    """The same metric over the traces of each tag, in alphabetical order."""
    bounds: tuple[float, float] | None = None
    """The least and the greatest mean over all traces with something to measure, whatever failed."""
    definition: str = ""

    @property
    def headline_mean(self) -> float | None:
        """The mean if it is the headline; None if the bounds are, for readers who take one number alone."""
        return self.mean if self.headline == "mean" else None

    @property
    def shown(self) -> str:
        """The headline as text: the mean, or both bounds, with four decimals; `none` without a mean."""
        if self.mean is None:
            return "none"
        if self.headline == "bounds" and self.bounds is not None:
            return "{:.4f} to {:.4f}".format(*self.bounds)
        return f"{self.mean:.4f}"


class Concentration(Record):
    """A group of traces in which verdicts failed more often than in the others."""

    kind: Literal["tag", "length"]
    name: str
    """The tag; or the range of the chunks' characters."""
    failed: int = Field(ge=0)
    """Traces of the group with a failed verdict."""
    traces: int = Field(ge=1)
    """Traces of the group."""
    others_failed: int = Field(ge=0)
    others: int = Field(ge=0)
    p: float
    """Of Fisher's exact test that they fail no more often than the others; Holm's over all groups."""


class Reranking(Record):
    """What a perfect order of the retrieved chunks would reach."""

    metric: str
    mean: float
    """As retrieved, over the traces without a failed verdict."""
    perfect: float
    """With each trace's chunks sorted by their grades."""
    traces: int = Field(ge=1)
    nothing_relevant: int = Field(ge=0)
    """How many of these traces have no relevant chunk."""


class Unanswerable(Record):
    """What was retrieved for the questions of which the dataset says that nothing answers them."""

    traces: int = Field(ge=1)
    empty: int = Field(ge=0)
    """For how many of them nothing was retrieved: all that a retriever can do right."""
    chunks: int = Field(ge=0)
    """Retrieved for them together."""
    accepted: int | None = Field(default=None, ge=0)
    """How many have a chunk that the judge calls relevant: the flag is wrong, or the judge was fooled. None if nobody
    was asked."""


class Shard(Record):
    """Which part of a dataset a run judged."""

    index: int = Field(ge=1)
    """Which part, counted from 1."""
    count: int = Field(ge=1)
    """How many parts there are."""
    traces: int = Field(default=0, ge=0)
    """How many traces fall into this part."""
    chunks: int = Field(default=0, ge=0)
    parts: tuple[int, ...] = ()
    """Where several parts were merged and others are still to come: which, `index` being the first."""

    @property
    def indices(self) -> tuple[int, ...]:
        """Which parts these are, in order."""
        return self.parts or (self.index,)

    def __str__(self) -> str:
        return f"{'+'.join(map(str, self.indices))}/{self.count}"


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time that cannot be expressed in UTC") from None


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A time with its zone, kept in UTC: times without one could not be put in order."""


class ClaimsOrigin(Record):
    """The file that claims came from."""

    name: str
    digest: str
    """64 hexadecimal digits over what it says."""


class Retrieval(Record):
    """How the chunks of a run were retrieved: by a function that the user named."""

    retriever: str
    """`module:function`, or the class of an object."""
    questions: int = Field(ge=1)
    failed: int = Field(default=0, ge=0)
    """Questions for which it raised an error; they have no trace, and the run is incomplete."""
    failures: tuple[str, ...] = ()
    """The first five of them, each as `id: error`."""
    seconds: tuple[float, float] | None = None
    """The median and the 95th percentile of its calls that returned."""


class CorpusSearch(Record):
    """What was searched in a corpus for the questions for which a run retrieved nothing relevant."""

    run: str
    """The id of the run."""
    name: str
    """What people call it."""
    corpus: str
    """The corpus as it was named."""
    chunks: int = Field(ge=1)
    """How many chunks with text it has."""
    depth: int = Field(ge=1)
    """How many chunks at most were taken for a question, of those that the run did not judge."""
    lost: int = Field(ge=1)
    """For how many questions of the run, without a failed verdict, nothing relevant was retrieved."""
    drawn: int = Field(ge=1)
    """How many of them were searched for: all, or a random sample."""
    open: int = Field(default=0, ge=0)
    """Questions without a relevant chunk that have a failed verdict; they were left out."""
    references: int = Field(default=0, ge=0)
    """For how many of those drawn the reference was searched with the question."""
    answered: int = Field(default=0, ge=0)
    """Questions with a relevant chunk that were searched for too: all, or a random sample."""
    answered_found: int = Field(default=0, ge=0)
    """For how many of these the search brings a chunk that the run called relevant among its first `depth`."""


class Dataset(Record):
    """Which traces a run judged."""

    name: str
    digest: str = ""
    """64 hexadecimal digits over the digests and ids of its traces in order."""
    traces: int = Field(default=0, ge=0)
    chunks: int = Field(default=0, ge=0)
    skipped: int = Field(default=0, ge=0)
    """Invalid records left out because the caller asked for it."""
    remarks: tuple[str, ...] = ()
    """What is worth knowing of its records, each with how many."""
    retrieval: Retrieval | None = None
    """How its chunks were retrieved; None if the data brought them."""
    search: CorpusSearch | None = None
    """What was searched, if the chunks are those that another run may have missed."""
    path: str | None = None
    limit: int | None = None
    seed: int | None = None
    shard: Shard | None = None
    """The part of the dataset that this run judged; digest and counts are those of the whole."""
    claims: ClaimsOrigin | None = None
    """The file that the claims of its traces came from; None where they bring them, or were split."""


class FailureExample(Record):
    """The most frequent reason of failed verdicts, and the first chunk in the order of the data that has it."""

    why: str
    detail: str
    """What happened to this chunk, cut to 200 characters."""
    trace_id: str
    chunk_id: str
    count: int = Field(ge=1)
    """How many verdicts failed for this reason; details that differ only in what they quote or count are one reason."""


class Tally(Record):
    """What a run took and what failed in it."""

    traces: int = 0
    verdicts: int = 0
    failed_verdicts: int = 0
    failed_traces: int = 0
    failures: dict[str, int] = Field(default_factory=dict)
    """Failed verdicts by reason."""
    example: FailureExample | None = None
    """The most frequent reason in detail; None if nothing failed."""
    unsupported: int = 0
    """Relevant verdicts whose quote is missing, too short or not in the chunk; the means count them."""
    beyond_total: int = 0
    """Traces with more relevant verdicts than `relevant_total` says exist; metrics count those found."""
    beyond: tuple[str, ...] = ()
    """The ids of the first five of them."""
    stages: dict[Stage, int] = Field(default_factory=dict)
    """Of a cascade: how many verdicts each of its judges gave; chunks without text are asked of none."""
    fewer_votes: int = 0
    """Of a panel: verdicts that rest on the votes of some of its members; a resume asks the others again."""
    repeated: int = 0
    """Chunks that read like an earlier one of their trace; each takes a rank of its own."""
    calls: int = 0
    """Completions paid for by this run (all its sessions), unreadable ones included."""
    killed: int = 0
    """Sessions that were killed."""
    lost: int | None = 0
    """At most so many calls more may have been paid: begun before a session or a worker was killed, and in no
    figure; None where it is not known."""
    hits: int = 0
    """Requests answered from the cache."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """In US dollars; None where the price is not known."""
    retries: dict[str, int] = Field(default_factory=dict)
    """Attempts that were repeated, by what had gone wrong."""
    dropped: tuple[str, ...] = ()
    """What the server would not take and was left out of requests."""
    served: tuple[str, ...] = ()
    """What servers called the models that answered; empty if they did not say or gave more than 100 names."""
    cache: dict[str, int] = Field(default_factory=dict)
    """Rows of the cache that were `refused`, and answers paid for `beside` those of another process."""

    @property
    def open_verdicts(self) -> int:
        """Failed verdicts that asking again may bring; see `NEVER_ASKED`."""
        return self.failed_verdicts - sum(self.failures.get(why, 0) for why in NEVER_ASKED)


class FileDigest(Record):
    """What a file beside a manifest must be."""

    bytes: int = Field(ge=0)
    """Its size."""
    sha256: str
    """Its SHA-256 in hexadecimal digits."""


EDITABLE: Final = ("label", "href", "tags")
"""The fields of a manifest that its digest does not cover: people may edit them."""


class Manifest(Record):
    """Everything about a run but its results: `manifest.json`."""

    v: int = Field(default=FORMAT, ge=1, le=FORMAT)
    id: str
    """A UUID."""
    label: str | None = None
    href: str | None = None
    """Where the run belongs: a pull request, a commit, a job."""
    tags: tuple[str, ...] = ()
    baseline: str | None = None
    """The id of the run it was judged to be compared with."""
    status: Status = "running"
    created: Moment
    finished: Moment | None = None
    dataset: Dataset
    judge: PlainObject
    """What `Judge.describe` returned: mode, prompt, scale, ..."""
    backend: PlainObject
    """Provider, model, base URL and parameters."""
    metrics: tuple[str, ...]
    intervals: Intervals = Intervals()
    aggregates: dict[str, Aggregate] = Field(default_factory=dict)
    concentrations: tuple[Concentration, ...] = ()
    """The groups of traces in which failed verdicts concentrate, at the 5% level."""
    unanswerable: Unanswerable | None = None
    """What was retrieved for questions that nothing answers; None without such a question. They are in no mean."""
    reranking: Reranking | None = None
    """What a perfect reranker would gain; None if no metric reads grades alone."""
    tally: Tally = Tally()
    environment: PlainObject = Field(default_factory=dict)
    """Versions of this package and of Python, and the revision of the working folder, where there is one."""
    files: dict[str, FileDigest] = Field(default_factory=dict)
    """By name the results, as they were when the run ended; else empty."""
    digest: str | None = None
    """The SHA-256 of all fields but label, address and tags; None while the run is written."""

    @property
    def baseline_id(self) -> str | None:
        """The baseline's id; None for anything but a UUID: a manifest names no path, address or label."""
        with suppress(ValueError):
            return self.baseline if str(UUID(self.baseline or "")) == self.baseline else None
        return None

    @property
    def results_digest(self) -> FileDigest | None:
        """What the results must be; None for as long as they are written."""
        return self.files.get(RESULTS)

    def under_way(self, status: Status | None = None) -> Self:
        """Return the manifest without digests, since what they are of is still written; perhaps with another status."""
        return self.replace(status=status or self.status, files={}, digest=None)

    @property
    def is_whole(self) -> bool:
        """Whether a resume has nothing to ask: every verdict is there, and every vote of a panel."""
        return self.status == "done" and not self.tally.fewer_votes

    @property
    def counted(self) -> int | None:
        """How many results there must be; None where the run has not ended."""
        return self.tally.traces if self.status in ("done", "incomplete") else None

    @property
    def name(self) -> str:
        """The run's label, else the start of its id."""
        return name_of(self.label, self.id)

    @property
    def imported(self) -> bool:
        """Whether its verdicts were given elsewhere: no request was sent, and nothing can be resumed."""
        return self.backend.get("provider") == IMPORT


def json_schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON schemas of a run's files and of the dataset's lines, by name."""
    records: dict[str, type[Record]] = {"manifest": Manifest, "result": TraceResult, "trace": Trace}
    return {name: record.model_json_schema() for name, record in records.items()}
