"""The body that hosted evaluators take for context precision, and what is answered to it."""

from __future__ import annotations

from pydantic import Field

from judge_eval import limits
from judge_eval.schema import Trace
from judge_eval.server.models import ApiRecord, RunSummary


class HostedChunk(ApiRecord):
    """A retrieved text with the retriever's own score."""

    document: str
    relevance: float | None = None
    """Kept as the chunk's `score`; never judged by."""


class HostedTrace(ApiRecord):
    """A question with its reference and what was retrieved, best first."""

    query: str
    reference: str
    contexts: tuple[HostedChunk, ...] = ()
    trace_uuid: str | None = Field(default=None, max_length=limits.ID)
    """The trace's id; made from its content where there is none."""

    def trace(self) -> Trace:
        """Return it as one of ours.

        Raises:
            DataError: It is beyond a limit.
        """
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
