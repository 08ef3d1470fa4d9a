"""The records of a run: what is written into its folder."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, Field

from judge_eval.record import PlainObject, Record
from judge_eval.schema import Call, ClaimsJudged, Outcome, Stage, Trace

FORMAT = 1
"""The version of the files; a reader refuses versions above its own."""

IMPORT = "import"
"""The provider of a run whose verdicts were not judged by it but given elsewhere."""

Status = Literal["submitted", "running", "done", "incomplete", "failed", "interrupted"]
"""`incomplete`: it ended, but some chunks have no verdict; `interrupted`: stopped early, resumable;
`failed`: ended by an error that another try may mend, resumable."""


def name_of(label: str | None, run_id: str) -> str:
    """Return what people call a run: its label, else the first eight characters of its id."""
    return label or run_id[:8]


class TraceResult(Record):
    """What came of one trace: a line of `results.jsonl`."""

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
    trace: Trace

    @property
    def beyond_total(self) -> bool:
        """Whether more chunks were judged relevant than the trace says exist."""
        total = self.trace.relevant_total
        return total is not None and sum(o.kind == "verdict" and o.relevant for o in self.outcomes) > total

    @property
    def failed(self) -> int:
        """How many chunks have no verdict."""
        return sum(outcome.kind == "no_verdict" for outcome in self.outcomes)

    def unsupported(self, imported: bool) -> int:
        """Count the relevant verdicts that rest on no quote found in their chunk, of judges that quote.

        Args:
            imported: Whether the verdicts were given elsewhere: who was never asked for a quote owes none.
        """
        return sum(
            o.kind == "verdict" and o.unsupported and bool(o.evidence or not imported) for o in self.outcomes
        )

    @property
    def stages(self) -> Counter[Stage]:
        """How many verdicts each stage of a cascade gave; empty where it was no cascade."""
        return Counter(o.stage for o in self.outcomes if o.kind == "verdict" and o.stage is not None)

    def _repr_html_(self) -> str:
        from judge_eval.runs.folder.fragment import trace_html

        return trace_html(self.trace, self.outcomes, self.scores, self.claims)


class Intervals(Record):
    """How the intervals of a run's means are made."""

    method: Literal["auto", "t", "bca"] = "auto"
    """What suits the values, named beside each interval; or always Student's t (cluster-robust where traces
    carry a cluster), or the BCa bootstrap."""
    cluster: str = "cluster"
    """The key of a trace's `metadata` that says which traces belong together."""
    seed: int = 0
    """Of the bootstrap; equal seeds give equal intervals."""


class Quantiles(Record):
    """Percentiles of a metric over traces, interpolated linearly."""

    p20: float
    p50: float
    p90: float


class TagMean(Record):
    """A metric over the traces that carry a tag."""

    mean: float | None
    """Over the traces that have a value; None where none has."""
    n: int = Field(ge=0)
    n_failed: int = Field(default=0, ge=0)
    interval: tuple[float, float] | None = None
    """95% confidence interval of the mean; None under two traces (or clusters)."""


class Aggregate(Record):
    """A metric over the traces of a run."""

    mean: float | None
    """Over the traces that have a value; None where none has."""
    n: int = Field(ge=0)
    """How many traces have a value."""
    n_failed: int = Field(ge=0)
    """How many traces have none because of failed verdicts."""
    n_undefined: int = Field(default=0, ge=0)
    """How many traces have none because there is nothing to measure: no claim, or no vital one."""
    interval: tuple[float, float] | None = None
    """95% confidence interval of the mean; None under two traces (or clusters)."""
    method: str | None = None
    """How the interval was made: `t`, `CR1 t` (robust to clusters) or `bca`; None where there is none."""
    clusters: int | None = None
    """How many clusters the traces came from; None where each stands for itself."""
    quantiles: Quantiles | None = None
    """Of the traces that have a value; None where none has."""
    tags: dict[str, TagMean] = Field(default_factory=dict)
    """The same metric over the traces of each tag, in alphabetical order."""
    bounds: tuple[float, float] | None = None
    """The least and the greatest mean over all traces with something to measure, whatever failed."""
    definition: str = ""


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
        raise ValueError("a time that has no like in UTC") from None


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A time with its zone, kept in UTC: times without one could not be put in order."""


class ClaimsOrigin(Record):
    """The file that claims came from."""

    name: str
    digest: str
    """64 hexadecimal digits over what it says."""


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
    path: str | None = None
    limit: int | None = None
    seed: int | None = None
    shard: Shard | None = None
    """The part of the dataset that this run judged; digest and counts are those of the whole."""
    claims: ClaimsOrigin | None = None
    """The file that the claims of its traces came from; None where they bring them, or were split."""


class Tally(Record):
    """What a run took and what failed in it."""

    traces: int = 0
    verdicts: int = 0
    failed_verdicts: int = 0
    failed_traces: int = 0
    failures: dict[str, int] = Field(default_factory=dict)
    """Failed verdicts by reason."""
    unsupported: int | None = None
    """Relevant verdicts whose quote is missing, too short or not in the chunk; the means count them.

    None in runs of older versions, which did not count them.
    """
    beyond_total: int | None = None
    """Traces with more relevant verdicts than `relevant_total` says exist; metrics count those found.

    None in runs of older versions, which did not count them.
    """
    beyond: tuple[str, ...] = ()
    """The ids of the first five of them."""
    stages: dict[Stage, int] = Field(default_factory=dict)
    """Of a cascade: how many verdicts each of its judges gave; chunks without text are asked of none."""
    repeated: int = 0
    """Chunks that read like an earlier one of their trace; each takes a rank of its own."""
    calls: int = 0
    """Completions paid for by this run (all its sittings), unreadable ones included."""
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
    cache: dict[str, int] = Field(default_factory=dict)
    """Rows of the cache that were `refused`, and answers paid for `beside` those of another process."""


class ResultsDigest(Record):
    """What the files beside a manifest must be, for as long as nobody changes them."""

    lines: int = Field(ge=0)
    """Of `results.jsonl`: one for each trace."""
    bytes: int = Field(ge=0)
    """Its size."""
    sha256: str
    """Its SHA-256 in hexadecimal digits."""
    blocks: tuple[str, ...] = ()
    """By block of lines the first 16 digits of its SHA-256, so that a change can be placed; at most 256."""
    figures: str
    """The SHA-256 of the manifest's metrics, means, intervals and counts."""
    origin: str
    """The SHA-256 of what the manifest says of judge, model and data."""
    parts: dict[str, str] = Field(default_factory=dict)
    """By name the SHA-256 of the Parquet files that were made from the results."""


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
    tally: Tally = Tally()
    environment: PlainObject = Field(default_factory=dict)
    """Versions of this package and of Python, and the revision of the working folder, where there is one."""
    results: ResultsDigest | None = None
    """What the results were when the run ended; None while it is written, and in runs of version 0.1.0."""

    @property
    def seal(self) -> ResultsDigest | None:
        """What the results must be; None for as long as they are written, and in runs of version 0.1.0."""
        return None if self.status in ("submitted", "running") else self.results

    @property
    def counted(self) -> int | None:
        """How many results there must be; None where the run has not ended."""
        return self.tally.traces if self.status in ("done", "incomplete") else None

    @property
    def name(self) -> str:
        """What people call the run: its label, else the start of its id."""
        return name_of(self.label, self.id)

    @property
    def imported(self) -> bool:
        """Whether its verdicts were given elsewhere: nobody was asked, and nothing can be resumed."""
        return self.backend.get("provider") == IMPORT


def json_schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON schemas of a run's files and of the dataset's lines, by name."""
    records: dict[str, type[Record]] = {"manifest": Manifest, "result": TraceResult, "trace": Trace}
    return {name: record.model_json_schema() for name, record in records.items()}
