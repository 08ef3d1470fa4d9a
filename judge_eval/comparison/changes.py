"""What changed in a trace between two runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from judge_eval.comparison.findings import Change, Flip, TraceChange
from judge_eval.comparison.pairing import Pairing
from judge_eval.runs.columns.packed import Columns, passage_hash
from judge_eval.runs.folder.records import TraceResult

T = TypeVar("T", bound=Hashable)

KINDS: Final[tuple[Change | None, ...]] = (None, "scores", "verdicts", "retrieval", "both")
"""What the codes of `kinds_of` mean."""
_BLOCK = 65_536


def changes(
    pairing: Pairing,
    read: Callable[[int, int], tuple[TraceResult, TraceResult]],
    metrics: Sequence[str],
    candidate: int,
    keep: int,
) -> tuple[dict[Change, int], list[TraceChange]]:
    """Classify every changed trace.

    Args:
        pairing: The same traces in two runs, baseline first.
        read: Reads a pair of results by their places.
        metrics: The names of the scores in the columns.
        candidate: The candidate's place among the runs.
        keep: How many changes to return, those that moved most first.

    Returns:
        How many traces changed in which way, and the changes.
    """
    kinds = kinds_of(pairing)
    counts = counts_of(kinds)
    told = []
    for place in most_moved(pairing, kinds, keep).tolist():
        before, after = read(int(pairing.a[place]), int(pairing.b[place]))
        kind = KINDS[kinds[place]]
        assert kind is not None
        told.append(_change(kind, before, after, metrics, candidate))
    return counts, told


def counts_of(kinds: NDArray[np.int8]) -> dict[Change, int]:
    """Count the traces that changed, by how; in the order in which each way first occurs."""
    found, first, counts = np.unique(kinds, return_index=True, return_counts=True)
    out: dict[Change, int] = {}
    for place in np.argsort(first).tolist():
        kind = KINDS[found[place]]
        if kind is not None:
            out[kind] = int(counts[place])
    return out


def most_moved(
    pairing: Pairing, kinds: NDArray[np.int8], keep: int, column: int | None = None
) -> NDArray[np.int64]:
    """Return the places of the changed pairs that moved most, at most `keep` of them.

    Args:
        pairing: The pairs.
        kinds: What changed in them.
        keep: How many to return.
        column: The metric whose movement counts; None takes the one that moved most.
    """
    changed = np.flatnonzero(kinds)
    columns = range(pairing.first.scores.shape[1]) if column is None else [column]
    moved = np.zeros(len(changed))
    for each in columns:
        before, after = pairing.values(each)
        moved = np.fmax(moved, np.abs(after[changed] - before[changed]))
    return changed[np.argsort(-moved, kind="stable")[:keep]]


def kinds_of(pairing: Pairing) -> NDArray[np.int8]:
    """Say of each pair what changed, as places in `KINDS`; 0 where nothing did."""
    first, second = pairing.first, pairing.second
    kinds = np.zeros(len(pairing), dtype=np.int8)
    with np.errstate(invalid="ignore"):
        for column in range(first.scores.shape[1]):
            before, after = pairing.values(column)
            kinds[~((before == after) | (np.isnan(before) & np.isnan(after)))] = 1
    unlike = ~_same_size(pairing)
    for start in range(0, len(pairing), _BLOCK):
        span = slice(start, start + _BLOCK)
        unlike[span] |= _chunks_differ(first, second, pairing.a[span], pairing.b[span])
    for place in np.flatnonzero(unlike).tolist():
        code = _kind(first, second, int(pairing.a[place]), int(pairing.b[place]))
        if code:
            kinds[place] = code
    return kinds


def _same_size(pairing: Pairing) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = pairing.first.sizes[pairing.a] == pairing.second.sizes[pairing.b]
    return same


def _chunks_differ(
    first: Columns, second: Columns, a: NDArray[np.int64], b: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell which pairs of equally many chunks differ in a passage or a grade."""
    sizes = np.where(first.sizes[a] == second.sizes[b], first.sizes[a], 0)
    rows = np.repeat(np.arange(len(a)), sizes)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    one, two = first.starts[a][rows] + within, second.starts[b][rows] + within
    differs = first.passages[one] != second.passages[two]
    differs |= np.maximum(first.grades[one], -1) != np.maximum(second.grades[two], -1)
    return np.bincount(rows[differs], minlength=len(a)) > 0


def _kind(first: Columns, second: Columns, a: int, b: int) -> int:
    one, two = slice(*first.starts[a : a + 2]), slice(*second.starts[b : b + 2])
    before, after = first.passages[one].tolist(), second.passages[two].tolist()
    # Why there is no verdict is no grade.
    graded = dict(zip(numbered(before), np.maximum(first.grades[one], -1).tolist(), strict=True))
    now = zip(numbered(after), np.maximum(second.grades[two], -1).tolist(), strict=True)
    flipped = any(graded.get(passage, grade) != grade for passage, grade in now)
    if before != after:
        return 4 if flipped else 3
    return 2 if flipped else 0


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


def numbered(passages: Sequence[T]) -> list[tuple[T, int]]:
    """Tell equal passages of a trace apart by which time they stand there."""
    seen: Counter[T] = Counter()
    out = []
    for passage in passages:
        out.append((passage, seen[passage]))
        seen[passage] += 1
    return out


def _passages(result: TraceResult) -> list[bytes]:
    return [passage_hash(chunk.title, chunk.text) for chunk in result.trace.chunks]


def _grades(result: TraceResult) -> list[int | None]:
    return [o.grade if o.kind == "verdict" else None for o in result.outcomes]


def flips(before: TraceResult, after: TraceResult) -> list[Flip]:
    """List the chunks of both that got another grade; the same chunk is the same title and text."""
    graded = dict(zip(numbered(_passages(before)), _grades(before), strict=True))
    now = zip(numbered(_passages(after)), after.trace.chunks, _grades(after), strict=True)
    return [
        Flip(chunk_id=chunk.id, before=graded[passage], after=grade)
        for passage, chunk, grade in now
        if passage in graded and graded[passage] != grade
    ]


def _change(
    kind: Change, before: TraceResult, after: TraceResult, metrics: Sequence[str], candidate: int
) -> TraceChange:
    ranks = {passage: rank for rank, passage in enumerate(numbered(_passages(before)), 1)}
    query = " ".join(before.trace.query.split())
    return TraceChange(
        candidate=candidate,
        trace_id=before.trace_id,
        query=query if len(query) <= 120 else query[:117] + "...",
        kind=kind,
        before=strip_of(before),
        after=strip_of(after),
        moves=tuple(str(ranks.get(passage, "")) for passage in numbered(_passages(after))),
        flips=tuple(flips(before, after)),
        differences={
            name: after_score - before_score
            for name in metrics
            if (before_score := before.scores.get(name)) is not None
            and (after_score := after.scores.get(name)) is not None
        },
    )
