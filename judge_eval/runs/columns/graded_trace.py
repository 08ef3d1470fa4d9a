"""What of a judged trace its scores are computed from, and to which cluster it belongs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from judge_eval.digest import canonical_json
from judge_eval.runs.folder.lines import NoVerdictLine, PoolLine, TraceLine, VerdictLine
from judge_eval.schema import Outcome, Trace, TracePool, repeats_of

DEFAULT_CLUSTER = "cluster"
DEPENDENT = ("session_id", "trace_id", "traceId")
"""Names of the conversation, or else the agent's trace, that a retrieval belongs to."""


def cluster_of(trace: Trace | TraceLine, key: str) -> str | None:
    """Return the id of a trace's cluster, by a key of its metadata, or None; what is not text goes by its JSON."""
    # Under the default key, turns of one conversation are a cluster, or else retrievals of one agent trace.
    keys = (key, *DEPENDENT) if key == DEFAULT_CLUSTER else (key,)
    value = next((trace.metadata[name] for name in keys if trace.metadata.get(name) is not None), None)
    return value if value is None or isinstance(value, str) else canonical_json(value)


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
