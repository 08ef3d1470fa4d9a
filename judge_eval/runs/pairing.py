"""The traces of two runs brought together."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from judge_eval.digest import digest_parts
from judge_eval.runs.journal import cluster_of
from judge_eval.runs.records import TraceResult
from judge_eval.schema import Trace

_NONE = 255


@dataclass(frozen=True, slots=True)
class Row:
    """What a comparison needs of a trace: a few short values, packed, however long its texts are."""

    trace_id: str
    question: bytes
    """8 bytes over query, reference and answer."""
    query: str
    chunk_ids: tuple[str, ...]
    packed_passages: bytes
    """8 bytes over title and text of each chunk, in rank order."""
    packed_grades: bytes
    """One byte a chunk; 255 where there is no verdict."""
    strip: str
    scores: tuple[float | None, ...]
    cluster: str | None

    @property
    def passages(self) -> tuple[bytes, ...]:
        """8 bytes over title and text of each chunk, in rank order."""
        packed = self.packed_passages
        return tuple(packed[at : at + 8] for at in range(0, len(packed), 8))

    @property
    def grades(self) -> tuple[int | None, ...]:
        """The grade of each chunk, in rank order; None where there is no verdict."""
        return tuple(None if grade == _NONE else grade for grade in self.packed_grades)


@dataclass(frozen=True, slots=True)
class Pairing:
    """Which traces two runs have in common."""

    pairs: list[tuple[Row, Row]]
    only_first: list[str]
    only_second: list[str]
    other_question: list[str]
    """Ids that stand for another question in the second run; those are not paired."""


def rows_of(results: Iterable[TraceResult], metrics: Sequence[str], cluster: str) -> list[Row]:
    """Read off what a comparison needs."""
    return [_row(result, metrics, cluster) for result in results]


def _row(result: TraceResult, metrics: Sequence[str], cluster: str) -> Row:
    trace = result.trace
    query = " ".join(trace.query.split())
    return Row(
        # Interned: the other run's row of the same trace holds the same texts.
        trace_id=sys.intern(result.trace_id),
        question=_question(trace),
        query=sys.intern(query if len(query) <= 120 else query[:117] + "..."),
        chunk_ids=tuple(sys.intern(chunk.id) for chunk in trace.chunks),
        packed_passages=b"".join(digest_parts([c.title or "", c.text])[:8] for c in trace.chunks),
        packed_grades=bytes(o.grade if o.kind == "verdict" else _NONE for o in result.outcomes),
        strip=sys.intern(strip_of(result)),
        scores=tuple(result.scores.get(name) for name in metrics),
        cluster=cluster_of(trace, cluster),
    )


def _question(trace: Trace) -> bytes:
    return digest_parts([trace.query, trace.reference or "", trace.answer or ""])[:8]


def strip_of(result: TraceResult) -> str:
    """Draw one sign a rank: `+` relevant, `.` not, a digit where graded, `!` failed."""
    signs = []
    for outcome in result.outcomes:
        if outcome.kind == "no_verdict":
            signs.append("!")
        elif outcome.grade > 1 or (outcome.grade == 1 and not outcome.relevant):
            signs.append(str(outcome.grade))
        else:
            signs.append("+" if outcome.relevant else ".")
    return "".join(signs)


def pair_rows(first: Sequence[Row], second: Sequence[Row]) -> Pairing:
    """Pair traces by id where they ask the same; what is left, by what it asks.

    An id that was made from a trace's content changes with its chunks, so a trace without a partner of its
    id is paired with the one that asks the same question for the same reference, where there is just one.
    """
    by_id = {row.trace_id: row for row in second}
    pairs, left, other = [], [], []
    taken: set[str] = set()
    for row in first:
        partner = by_id.get(row.trace_id)
        if partner is None:
            left.append(row)
            continue
        taken.add(row.trace_id)
        if partner.question == row.question:
            pairs.append((row, partner))
        else:
            other.append(row.trace_id)
    open_second = [row for row in second if row.trace_id not in taken]
    asking: dict[bytes, list[Row]] = {}
    for row in open_second:
        asking.setdefault(row.question, []).append(row)
    asked: dict[bytes, int] = {}
    for row in left:
        asked[row.question] = asked.get(row.question, 0) + 1
    only_first, matched = [], set()
    for row in left:
        partners = asking.get(row.question, [])
        if len(partners) == 1 and asked[row.question] == 1:
            pairs.append((row, partners[0]))
            matched.add(partners[0].trace_id)
        else:
            only_first.append(row.trace_id)
    only_second = [row.trace_id for row in open_second if row.trace_id not in matched]
    return Pairing(pairs, only_first, only_second, other)
