"""The records of the REST API."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias
from uuid import UUID

from pydantic import ConfigDict, Field

from judge_eval import limits
from judge_eval.record import Record
from judge_eval.runs.folder.records import Aggregate, Manifest, Status, TraceResult
from judge_eval.runs.keeping.lookup import LABELLED
from judge_eval.runs.scoring.counting import RunProgress
from judge_eval.schema import Trace

Offset = Annotated[int, Field(ge=0, le=10**9)]
PageSize = Annotated[int, Field(ge=1, le=1000)]
QueryText = Annotated[str, Field(max_length=limits.ID)]
_Label = Annotated[str, Field(pattern=f"^{LABELLED}", min_length=7, max_length=6 + limits.LABEL)]
RunName: TypeAlias = UUID | _Label
"""A run's UUID, or `label:NAME` for the newest of that label."""
BaselineName: TypeAlias = RunName | Literal["none"] | None
"""A run, or `none`; None means the baseline that the run remembers, if it is in the folder."""


class ApiRecord(Record):
    """The base of these: compiled at once, since the framework wants to see into them."""

    model_config = ConfigDict(defer_build=False)


class Submission(ApiRecord):
    """Traces to be judged by the server's own judge."""

    traces: tuple[Trace, ...] = Field(min_length=1)
    label: str | None = Field(default=None, max_length=limits.LABEL)
    href: str | None = Field(default=None, max_length=limits.HREF)
    tags: tuple[str, ...] = Field(default=(), max_length=limits.RUN_TAGS)
    baseline: RunName | None = None
    """The run to show differences from."""
    name: str = Field(default="submitted traces", min_length=1, max_length=500)
    """What to call the dataset."""
    yes_ids: bool = False
    """Whether traces are judged whose chunks hold texts that look like ids, paths or file names."""


class Upload(ApiRecord):
    """A run judged elsewhere."""

    manifest: Manifest
    results: tuple[TraceResult, ...]


class GivenLabel(ApiRecord):
    """A human's grade of one chunk."""

    trace_id: str = Field(max_length=limits.ID)
    chunk_id: str = Field(max_length=limits.ID)
    label: int | None = Field(ge=0, le=limits.GRADE)
    """On the run's scale; null takes an earlier label back."""
    by: str = Field(default="", max_length=200)
    """Who gives it: a label replaces an earlier one of the same person alone."""
    blind: bool = False
    """Whether the judge's verdict was hidden when it was given."""
    comment: str = Field(default="", max_length=2_000)
    final: bool = False
    """Whether it decides a chunk that people label differently."""


class RunSummary(ApiRecord):
    """A run in a list."""

    id: str
    """A UUID."""
    uuid: str
    """The same, under the name hosted evaluators use."""
    label: str | None
    href: str | None
    tags: tuple[str, ...]
    status: Status
    created: datetime
    finished: datetime | None
    dataset: str
    dataset_digest: str
    questions: int
    model: str
    prompt: str | None
    """Or which panel or cascade judged."""
    judged_as: str
    """A digest, the same for runs of one judge: model, prompt, mode, scale, parameters."""
    traces: int
    failed: int
    """Chunks without a verdict."""
    metrics: dict[str, Aggregate]
    passed: dict[str, bool]
    """By metric with a threshold: whether the mean reaches it, or stays under it where less is better."""
    baseline: str | None = None
    """The run it was submitted to be compared with."""
    error: str | None = None
    """Why a submitted run failed."""
    progress: RunProgress | None = None
    """While it is judged; None if the process that judges it reports nothing."""
    silent: float | None = None
    """While it is judged: seconds since anything was heard of it. A process that was killed is silent."""

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it by itself."""
        return self.status in ("done", "incomplete", "failed")


class MeanSoFar(ApiRecord):
    """A metric over the traces of a run that have come by now."""

    name: str
    mean: float | None
    """None if no trace has a value, or failed verdicts leave traces open."""
    bounds: tuple[float, float] | None = None
    """The least and the greatest mean that the traces can have, if failed verdicts leave some open."""
    headline: Literal["mean", "bounds"] = "mean"
    n: int


class LiveRun(ApiRecord):
    """A run that is judged, as far as it has come."""

    run: RunSummary
    read: int
    """Traces that can be looked at by now."""
    means: tuple[MeanSoFar, ...]
    """Over those; none if verdicts stay hidden."""


class UnreadableRun(ApiRecord):
    """A folder that should hold a run, and cannot be read."""

    folder: str
    """Its name in the folder of runs."""
    error: str
    """What is wrong with it."""


class RunList(ApiRecord):
    """A page of the list of runs, newest first."""

    total: int
    offset: int
    runs: tuple[RunSummary, ...]
    main: str | None = None
    """The metric of these runs that is shown first; null without a metric."""
    thresholds: dict[str, float]
    unreadable: tuple[UnreadableRun, ...] = ()
    """What should be runs and cannot be read, whatever is asked for; the first 100."""


class ResultPage(ApiRecord):
    """A page of a run's results, in the dataset's order."""

    total: int
    offset: int
    results: tuple[TraceResult, ...]


class Health(ApiRecord):
    """Whether the server is up, and whether it can judge."""

    status: Literal["ok"] = "ok"
    version: str
    judging: bool
    """Whether traces can be submitted."""


class OfferedBaseline(ApiRecord):
    """A run that another can be compared with."""

    id: str
    label: str | None
    created: datetime
    dataset: str
    same: bool
    """Whether it judged data of the same name or content."""


class HostedChunk(ApiRecord):
    """A retrieved text with the retriever's own score."""

    document: str
    relevance: float | None = None
    """Kept as the chunk's `score`; never judged by."""


class HostedTrace(ApiRecord):
    """A question with its reference and what was retrieved, best first."""

    query: str
    reference: str
    contexts: tuple[HostedChunk, ...]
    trace_uuid: str | None = Field(default=None, max_length=limits.ID)
    """The trace's id; made from its content if there is none."""

    def trace(self) -> Trace:
        """Return it as one of ours."""
        chunks = [chunk.model_dump(exclude_none=True) for chunk in self.contexts]
        fields = {"query": self.query, "reference": self.reference, "chunks": chunks}
        return Trace.parse({**fields, "id": self.trace_uuid or ""})


class HostedSubmission(ApiRecord):
    """Traces to be judged, as the client of a hosted evaluator sends them."""

    data: tuple[HostedTrace, ...] = Field(min_length=1)
    label: str | None = Field(default=None, max_length=limits.LABEL)
    href: str | None = Field(default=None, max_length=limits.HREF)
    tags: tuple[str, ...] = Field(default=(), max_length=limits.RUN_TAGS)
    baseline_project_uuid: str | None = None
    """Read past: a server holds the runs of one project."""
    baseline_eval_run_label: str | None = None
    """The newest run of this label is the one to show differences from."""


class RunAnswer(RunSummary):
    """A run with what hosted evaluators answer of it."""

    score: float | None = None
    """Its context precision (`AP`), the mean over its traces; null until it has ended, and where failed
    verdicts leave no trace with a value."""
    verdicts: tuple[bool | None, ...] | None = None
    """Whether each chunk is relevant, trace after trace, in rank order; null in the place of a chunk without
    a verdict; null as a whole until the run has ended."""
