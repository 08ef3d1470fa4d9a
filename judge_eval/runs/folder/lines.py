"""A line of the results file as scoring and comparing read it: fast, without what only people read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

import msgspec

from judge_eval import limits
from judge_eval.errors import Why
from judge_eval.schema import Chunk, Outcome, Support, Trace, TracePool, repeats_of


class SupportLine(msgspec.Struct, frozen=True, gc=False):
    """What is read of a `ClaimSupport`."""

    claim: str
    support: Support
    quote: str = ""
    quote_found: bool | None = None


class ClaimLine(msgspec.Struct, frozen=True, gc=False):
    """What is read of a `Claim`."""

    id: str
    text: str
    vital: bool = True


class ClaimsLine(msgspec.Struct, frozen=True, gc=False):
    """What is read of a `ClaimsJudged`."""

    claims: tuple[ClaimLine, ...]


class VerdictLine(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="verdict"):
    """What is read of a `Verdict`."""

    kind: ClassVar[Literal["verdict"]] = "verdict"
    chunk_id: str
    grade: Annotated[int, msgspec.Meta(ge=0, le=limits.GRADE)]
    relevant: bool
    confidence: float | None = None
    expected_grade: float | None = None
    grade_probabilities: tuple[float, ...] | None = None
    evidence: str | None = ""
    evidence_found: bool | None = None
    supports: tuple[SupportLine, ...] | None = None


class NoVerdictLine(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="no_verdict"):
    """What is read of a `NoVerdict`."""

    kind: ClassVar[Literal["no_verdict"]] = "no_verdict"
    chunk_id: str
    why: Why


class ChunkLine(msgspec.Struct, frozen=True, gc=False):
    """What is read of a `Chunk`."""

    id: str
    text: str
    title: str | None = None
    score: float | None = None
    label: int | None = None
    metadata: dict[str, Any] = {}


def text_read(chunk: Chunk | ChunkLine) -> str:
    """Return what the judge read of a chunk: title, then text."""
    return f"{chunk.title}\n{chunk.text}" if chunk.title else chunk.text


class PoolLine(msgspec.Struct, frozen=True, gc=False):
    """What is read of a `TracePool`."""

    grades: dict[str, int]
    maximum: int


class CallLine(msgspec.Struct, frozen=True, gc=False):
    """What is read of a `Call`."""

    model: str = ""


class TurnLine(msgspec.Struct, frozen=True, gc=False):
    """What is read of a `Turn`."""

    role: str
    content: str


class TraceLine(msgspec.Struct, frozen=True, gc=False):
    """What is read of a `Trace`."""

    id: str
    query: str
    chunks: tuple[ChunkLine, ...]
    history: tuple[TurnLine, ...] = ()
    reference: str | None = None
    answer: str | None = None
    relevant_total: int | None = None
    claims: tuple[ClaimLine, ...] | None = None
    answerable: bool | None = None
    search_query: str | None = None
    pool: PoolLine | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}


class ResultLine(msgspec.Struct, frozen=True, gc=False):
    """What is read of a `TraceResult`."""

    position: int
    trace_id: str
    outcomes: tuple[VerdictLine | NoVerdictLine, ...]
    scores: dict[str, float | None]
    trace: TraceLine
    claims: ClaimsLine | None = None
    calls: tuple[CallLine, ...] = ()


decode = msgspec.json.Decoder(ResultLine).decode
"""Read a line; raises `msgspec.DecodeError` (a `ValueError`) if it is not as this package writes it."""


ChunkNumbers: TypeAlias = tuple[float | None, ...]


class GradedTrace(NamedTuple):
    """A judged trace without its texts: some hundred bytes."""

    id: str
    grades: tuple[int | None, ...]
    """In rank order; None if the verdict failed."""
    total: int | None
    """How many relevant chunks exist."""
    pool: TracePool | PoolLine | None
    rest: tuple[int, ...]
    """The pool's grades of the chunks that were not retrieved."""
    repeats: tuple[bool, ...]
    """Whether an earlier chunk has the same title and text."""
    probable: ChunkNumbers = ()
    """The judge's probability that each chunk is relevant; empty if it gave none."""
    expected: ChunkNumbers = ()
    """Each chunk's mean grade under these probabilities."""
    abstains: ChunkNumbers = ()
    """The reader's probability to abstain with each chunk alone, as `abstentions` returns it."""
    chances: tuple[tuple[float, ...] | None, ...] = ()
    """Each chunk's probability of each grade."""

    @classmethod
    def of(cls, trace: Trace | TraceLine, outcomes: Sequence[Outcome | VerdictLine | NoVerdictLine]) -> GradedTrace:
        """Take from a trace and its outcomes what scoring reads."""
        verdicts = [outcome if outcome.kind == "verdict" else None for outcome in outcomes]
        rest: tuple[int, ...] = ()
        if trace.pool is not None:
            retrieved = {chunk.id for chunk in trace.chunks}
            rest = tuple(grade for chunk, grade in trace.pool.grades.items() if chunk not in retrieved)
        graded = cls(
            id=trace.id,
            grades=tuple(verdict.grade if verdict else None for verdict in verdicts),
            total=trace.relevant_total,
            pool=trace.pool,
            rest=rest,
            repeats=tuple(repeats_of(trace.chunks)),
            abstains=abstentions(trace),
        )
        for v in verdicts:
            if v is not None and (v.confidence is not None or v.expected_grade is not None):
                break
        else:
            return graded
        return graded._replace(
            probable=tuple(v.confidence if v else None for v in verdicts),
            expected=tuple(v.expected_grade if v else None for v in verdicts),
            chances=tuple(v.grade_probabilities if v else None for v in verdicts),
        )

    def as_read(self, relevant: int) -> tuple[GradedTrace, ChunkNumbers]:
        """Return the trace without the grade of chunks whose reader failed, and when the reader abstains if relevant.

        Their worst and best grade bound what they add: of a known grade nothing, or all that this grade can add.
        """
        failed = [p is not None and math.isnan(p) for p in self.abstains]
        if not any(failed):
            return self, self.abstains
        cells = list(zip(self.grades, self.abstains, failed, strict=True))
        grades = tuple(None if fault else grade for grade, _, fault in cells)
        low = tuple(float(grade is not None and grade >= relevant) if fault else p for grade, p, fault in cells)
        high = tuple(float(grade is not None and grade < relevant) if fault else p for grade, p, fault in cells)
        return self._replace(grades=grades, abstains=low), high


ABSTAINS: Final = "no_res_prob"
"""The key of a chunk's metadata that says with which probability a reader abstains if it has that chunk alone."""


def abstentions(trace: Trace | TraceLine) -> ChunkNumbers:
    """Return a reader's probabilities to abstain: None if nobody asked, NaN if it failed; empty if nobody asked at all.

    A value that is not a probability, such as null, says that the reader failed.
    """
    named = [chunk.metadata.get(ABSTAINS, _UNASKED) if chunk.metadata else _UNASKED for chunk in trace.chunks]
    if all(p is _UNASKED for p in named):
        return ()
    return tuple(None if p is _UNASKED else _probability(p) for p in named)


_UNASKED = object()


def _probability(p: object) -> float:
    return float(p) if isinstance(p, int | float) and 0 <= p <= 1 else math.nan
