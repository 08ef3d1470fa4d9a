"""What a corpus holds of what a retriever lost: what the judge accepted there, and what people confirm."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from judge_eval.errors import ConfigError
from judge_eval.record import Record
from judge_eval.runs.columns.graded_trace import cluster_of
from judge_eval.runs.folder.labels import with_labels
from judge_eval.runs.folder.records import CorpusSearch, TraceResult
from judge_eval.runs.folder.run import Run, scale_of
from judge_eval.runs.scoring.aggregate import fill_clusters
from judge_eval.stats import mean_interval

RANK: Final = "bm25_rank"
"""The key of a found chunk's metadata that holds its rank in the corpus."""


class AcceptedChunk(Record):
    """A chunk of the corpus that the judge accepted, for people to read."""

    chunk_id: str
    rank: int = Field(ge=1)
    """By BM25, in the whole corpus."""
    quote: str = ""
    """The words that the judge rests on; empty if it gave none."""
    text: str
    label: int | None = None
    """What people say of it, on the scale of the run; None if nobody has."""


class SearchedQuestion(Record):
    """A question that found nothing relevant, and what a corpus holds for it."""

    trace_id: str
    query: str
    looked_at: int = Field(ge=0)
    """How many chunks of the corpus were judged for it, or should have been."""
    failed: int = Field(ge=0)
    """How many of their verdicts failed."""
    accepted: tuple[AcceptedChunk, ...]
    """What the judge accepted, by rank; chunks that people call relevant come first."""


class MissingReport(Record):
    """Whether the corpus holds what a retriever lost, as far as is known."""

    run: str
    """The id of the run of what was found."""
    name: str
    search: CorpusSearch
    looked_at: int = Field(ge=0)
    """How many chunks were judged, or should have been."""
    accepted: int = Field(ge=0)
    """For how many questions a chunk was accepted."""
    failed: int = Field(ge=0)
    """For how many questions a verdict failed, and nothing was accepted."""
    not_found: int = Field(ge=0)
    """For how many questions nothing was accepted, without a failed verdict."""
    not_found_chunks: int = Field(ge=0)
    """How many chunks were judged for these."""
    read: int = Field(ge=0)
    """For how many questions with an accepted chunk people have confirmed one, or labelled all."""
    confirmed: int = Field(ge=0)
    """For how many questions people call a chunk relevant."""
    at_least: float | None = None
    """The lower end of the 95% interval of the share of such lost questions whose answer the corpus holds; None
    without a confirmed one."""
    questions: tuple[SearchedQuestion, ...]
    """All that were searched, in the order of the run."""


def missing_report(run: Run) -> MissingReport:
    """Report on a run of what was searched in a corpus, with the labels that people gave to it.

    Raises:
        ConfigError: The run is another one.
    """
    search = run.manifest.dataset.search
    if search is None:
        raise ConfigError(f"run {run.name} did not search a corpus")
    relevant = scale_of(run).relevant
    questions, confirmed, clusters, read = list[SearchedQuestion](), list[bool](), list[str | None](), 0
    for result in with_labels(run).results:
        clusters.append(cluster_of(result.trace, run.manifest.intervals.cluster))
        labels = (chunk.label for chunk in result.trace.chunks)
        confirmed.append(any(label is not None and label >= relevant for label in labels))
        question = _searched(result, relevant)
        questions.append(question)
        read += bool(question.accepted) and (confirmed[-1] or all(c.label is not None for c in question.accepted))
    share = mean_interval(confirmed, clusters=fill_clusters(clusters), limits=(0, 1)) if any(confirmed) else None
    nothing = [question for question in questions if not question.accepted]
    return MissingReport(
        run=run.id,
        name=run.name,
        search=search,
        looked_at=sum(question.looked_at for question in questions),
        accepted=len(questions) - len(nothing),
        failed=sum(question.failed > 0 for question in nothing),
        not_found=sum(question.failed == 0 for question in nothing),
        not_found_chunks=sum(question.looked_at for question in nothing if not question.failed),
        read=read,
        confirmed=sum(confirmed),
        at_least=share.interval.low if share is not None and share.interval is not None else None,
        questions=tuple(questions),
    )


def _searched(result: TraceResult, relevant: int) -> SearchedQuestion:
    accepted = []
    for place, (chunk, outcome) in enumerate(zip(result.trace.chunks, result.outcomes, strict=True), 1):
        if outcome.kind == "verdict" and outcome.relevant:
            rank = chunk.metadata.get(RANK)
            fields = {"chunk_id": chunk.id, "text": chunk.text, "label": chunk.label, "quote": outcome.quote}
            accepted.append(AcceptedChunk.parse({**fields, "rank": rank if isinstance(rank, int) else place}))
    accepted.sort(key=lambda chunk: chunk.label is None or chunk.label < relevant)
    return SearchedQuestion(
        trace_id=result.trace_id,
        query=result.trace.query,
        looked_at=len(result.outcomes),
        failed=result.failed,
        accepted=tuple(accepted),
    )
