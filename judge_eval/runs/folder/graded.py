"""What scoring reads of a trace: its grades, and what stands beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from judge_eval.schema import Outcome, Trace, TracePool, repeats_of

ChunkNumbers: TypeAlias = tuple[float | None, ...]


class GradedTrace(NamedTuple):
    """A judged trace without its texts: some hundred bytes."""

    id: str
    grades: tuple[int | None, ...]
    """In rank order; None if the verdict failed."""
    total: int | None
    """How many relevant chunks exist."""
    pool: TracePool | None
    rest: tuple[int, ...]
    """The pool's grades of the chunks that were not retrieved."""
    repeats: tuple[bool, ...]
    """Whether an earlier chunk has the same title and text."""
    probable: ChunkNumbers = ()
    """The judge's probability that each chunk is relevant; empty if it gave none."""
    expected: ChunkNumbers = ()
    """Each chunk's mean grade under these probabilities."""
    abstains: ChunkNumbers = ()
    """The reader's probability to abstain with each chunk alone, from `metadata.no_res_prob`; empty if none has one."""
    chances: tuple[tuple[float, ...] | None, ...] = ()
    """Each chunk's probability of each grade."""

    @classmethod
    def of(cls, trace: Trace, outcomes: Sequence[Outcome]) -> GradedTrace:
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


def abstentions(trace: Trace) -> ChunkNumbers:
    """Return a reader's probability to abstain with each chunk alone; nothing if none has one from 0 to 1."""
    named = [chunk.metadata.get("no_res_prob") if chunk.metadata else None for chunk in trace.chunks]
    known = tuple(float(p) if isinstance(p, int | float) and 0 <= p <= 1 else None for p in named)
    return known if any(p is not None for p in known) else ()
