"""A line of the results file as scoring and comparing read it: fast, without what only people read."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from judge_eval import limits
from judge_eval.errors import Why


class VerdictLine(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="verdict"):
    """What is read of a `Verdict`."""

    kind: ClassVar[Literal["verdict"]] = "verdict"
    chunk_id: str
    grade: Annotated[int, msgspec.Meta(ge=0, le=limits.GRADE)]
    relevant: bool
    confidence: float | None = None
    expected_grade: float | None = None
    grade_probabilities: tuple[float, ...] | None = None


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


class PoolLine(msgspec.Struct, frozen=True, gc=False):
    """What is read of a `TracePool`."""

    grades: dict[str, int]
    maximum: int


class CallLine(msgspec.Struct, frozen=True, gc=False):
    """What is read of a `Call`."""

    model: str = ""


class TraceLine(msgspec.Struct, frozen=True, gc=False):
    """What is read of a `Trace`."""

    id: str
    query: str
    chunks: tuple[ChunkLine, ...]
    reference: str | None = None
    answer: str | None = None
    relevant_total: int | None = None
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
    calls: tuple[CallLine, ...] = ()


decode = msgspec.json.Decoder(ResultLine).decode
"""Read a line; raises `msgspec.DecodeError` (a `ValueError`) if it is not as this package writes it."""
