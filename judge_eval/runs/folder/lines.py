"""A line of the results file as scoring and comparing read it: fast, without what only people read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec

from judge_eval import limits
from judge_eval.errors import Why
from judge_eval.schema import Chunk, Support

if TYPE_CHECKING:
    from judge_eval.data.collection import CorpusChunk


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


def text_read(chunk: Chunk | ChunkLine | CorpusChunk) -> str:
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
