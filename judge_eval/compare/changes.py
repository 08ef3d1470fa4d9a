"""What changed in a trace between two runs."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from judge_eval.compare.comparison import Change, Flip, TraceChange
from judge_eval.compare.moved_claims import ClaimsMoved, claim_changes, moved_claims
from judge_eval.compare.pairing import Pairing, pair_traces
from judge_eval.runs.columns.verdict_table import VerdictTable, passage_number
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import FilledColumn, is_partial, is_without_claims
from judge_eval.runs.scoring.opened import opened
from judge_eval.safe_text import shortened

T = TypeVar("T", bound=Hashable)
Kinds: TypeAlias = NDArray[np.int8]
"""Of each pair its place in `KINDS`."""

KINDS: Final[tuple[Change | None, ...]] = (None, "scores", "verdicts", "retrieval", "both", "claims")
"""What the codes of kinds mean."""
_BLOCK = 65_536


def changes(pairing: Pairing, kinds: Kinds, before: Run, after: Run, candidate: int, keep: int) -> list[TraceChange]:
    """Name the changed traces that moved most."""
    moved = most_moved(pairing, kinds, keep)
    sides = before.results_at(pairing.a[moved], calls=False), after.results_at(pairing.b[moved], calls=False)
    return [
        change_of(KINDS[kinds[place]], old, new, pairing.first.metrics, candidate)
        for place, old, new in zip(moved.tolist(), *sides, strict=True)
    ]


def counts_of(kinds: Kinds) -> dict[Change, int]:
    """Count the traces that changed, by how; in the order in which each way first occurs."""
    codes, first, counts = np.unique(kinds, return_index=True, return_counts=True)
    ordered = np.argsort(first).tolist()
    return {kind: int(counts[k]) for k in ordered if (kind := KINDS[codes[k]]) is not None}


def most_moved(pairing: Pairing, kinds: Kinds, keep: int, column: int | None = None) -> NDArray[np.int64]:
    """Return the places of the changed pairs that moved most, at most `keep` of them."""
    changed = np.flatnonzero(kinds)
    columns = range(pairing.first.scores.shape[1]) if column is None else [column]
    moved = np.zeros(len(changed))
    for each in columns:
        before, after = pairing.values(each)
        moved = np.fmax(moved, np.abs(after[changed] - before[changed]))
    return changed[np.argsort(-moved, kind="stable")[:keep]]


def kinds_of(pairing: Pairing) -> Kinds:
    """Say of each pair what changed, as places in `KINDS`; 0 where nothing did. Claims are not looked at."""
    first, second = pairing.first, pairing.second
    kinds = np.zeros(len(pairing), dtype=np.int8)
    with np.errstate(invalid="ignore"):
        for column in range(first.scores.shape[1]):
            before, after = pairing.values(column)
            kinds[~((before == after) | (np.isnan(before) & np.isnan(after)))] = 1
    unlike = first.sizes[pairing.a] != second.sizes[pairing.b]
    for start in range(0, len(pairing), _BLOCK):
        span = slice(start, start + _BLOCK)
        unlike[span] |= _chunks_differ(first, second, pairing.a[span], pairing.b[span])
    for place in np.flatnonzero(unlike).tolist():
        code = _kind(first, second, int(pairing.a[place]), int(pairing.b[place]))
        if code:
            kinds[place] = code
    return kinds


def _chunks_differ(
    first: VerdictTable, second: VerdictTable, a: NDArray[np.int64], b: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell which pairs of equally many chunks differ in a passage or a grade."""
    alike = np.flatnonzero(first.sizes[a] == second.sizes[b])
    rows, a_chunks, _ = first.chunks_of(a[alike])
    _, b_chunks, _ = second.chunks_of(b[alike])
    differs = first.passages[a_chunks] != second.passages[b_chunks]
    differs |= np.maximum(first.grades[a_chunks], -1) != np.maximum(second.grades[b_chunks], -1)
    return np.bincount(alike[rows[differs]], minlength=len(a)) > 0


def _kind(first: VerdictTable, second: VerdictTable, a: int, b: int) -> int:
    a_chunks, b_chunks = slice(*first.starts[a : a + 2]), slice(*second.starts[b : b + 2])
    before, after = first.passages[a_chunks].tolist(), second.passages[b_chunks].tolist()
    # Why there is no verdict is no grade.
    graded = dict(zip(numbered(before), np.maximum(first.grades[a_chunks], -1).tolist(), strict=True))
    now = zip(numbered(after), np.maximum(second.grades[b_chunks], -1).tolist(), strict=True)
    flipped = any(graded.get(passage, grade) != grade for passage, grade in now)
    if before != after:
        return 4 if flipped else 3
    return 2 if flipped else 0


def numbered(passages: Sequence[T]) -> list[tuple[T, int]]:
    """Tell equal passages of a trace apart by which time they stand there."""
    if len(set(passages)) == len(passages):  # nearly all traces
        return [(passage, 0) for passage in passages]
    seen: Counter[T] = Counter()
    out = []
    for passage in passages:
        out.append((passage, seen[passage]))
        seen[passage] += 1
    return out


def _passages(result: TraceResult) -> list[tuple[int, int]]:
    """Return what stands for each chunk: the same chunk is the same title and text."""
    return numbered([passage_number(chunk.title, chunk.text) for chunk in result.trace.chunks])


def _grades(result: TraceResult) -> list[int | None]:
    return [o.grade if o.kind == "verdict" else None for o in result.outcomes]


def change_of(
    kind: Change | None, before: TraceResult, after: TraceResult, metrics: Sequence[str], candidate: int = 1
) -> TraceChange:
    """Describe a changed trace: which chunks moved, which got another grade, what it did to the scores."""
    assert kind is not None
    ranks = {passage: rank for rank, passage in enumerate(_passages(before), 1)}
    places = [ranks.get(passage) for passage in _passages(after)]
    grades = _grades(before)
    now = zip(places, after.trace.chunks, _grades(after), strict=True)
    claims = Counter(claim.kind for claim in claim_changes(before, after))
    return TraceChange(
        candidate=candidate,
        trace_id=before.trace_id,
        query=shortened(before.trace.query, 120),
        kind=kind,
        before="".join(outcome.sign for outcome in before.outcomes),
        after="".join(outcome.sign for outcome in after.outcomes),
        moves=tuple(str(rank or "") for rank in places),
        flips=tuple(
            Flip(chunk_id=chunk.id, before=grades[rank - 1], after=grade)
            for rank, chunk, grade in now
            if rank and grades[rank - 1] != grade
        ),
        claims_lost=claims["lost"],
        claims_won=claims["won"],
        differences={
            name: after_score - before_score
            for name in metrics
            if (before_score := before.scores.get(name)) is not None
            and (after_score := after.scores.get(name)) is not None
        },
    )


_BY_CLAIMS = (KINDS.index(None), KINDS.index("scores"))
"""What a claim that was won or lost says more of."""


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """Two runs brought together."""

    pairing: Pairing
    kinds: Kinds
    """What changed in each pair, as places in `KINDS`."""
    claims: ClaimsMoved | None
    """None where no pair was judged by claims."""
    undefined: tuple[int, ...]
    """By metric of the pairing how many pairs have nothing to measure in one of the runs: no claim."""
    before: FilledColumn
    """The scores of the first run, filled where failed verdicts leave them open."""
    after: FilledColumn

    def columns(self, column: int) -> tuple[FilledColumn, FilledColumn]:
        """Return a metric's values of both runs, pair by pair."""
        return self.before.at(self.pairing.a, column), self.after.at(self.pairing.b, column)


def moved_between(
    runs: tuple[Run, Run], scored: tuple[Run, Run], tables: Sequence[VerdictTable], candidate: int
) -> Moved:
    """Bring two runs together; see `pair_traces` for which traces are one."""
    first, second = tables
    pairing = pair_traces(first, second)
    kinds = kinds_of(pairing)
    claims, places = moved_claims(pairing, *runs, candidate)
    kinds[places[np.isin(kinds[places], _BY_CLAIMS)]] = KINDS.index("claims")
    filled = [opened(run, table) for run, table in zip(scored, tables, strict=True)]
    return Moved(pairing, kinds, claims, _undefined(pairing, *scored), *filled)


def _undefined(pairing: Pairing, before: Run, after: Run) -> tuple[int, ...]:
    """Count by metric the pairs that have nothing to measure; only those without a value are read."""
    counts = dict.fromkeys(pairing.first.metrics, 0)
    without: dict[str, NDArray[np.bool_]] = {
        name: np.asarray(np.isnan(np.column_stack(pairing.values(column))).any(axis=1))
        for column, name in enumerate(counts)
        if is_partial(name)
    }
    empty = np.zeros(len(pairing), dtype=np.bool_)
    for rows in without.values():
        empty |= rows
    for place in np.flatnonzero(empty).tolist():
        sides = before.results[int(pairing.a[place])], after.results[int(pairing.b[place])]
        for name, rows in without.items():
            counts[name] += bool(rows[place]) and any(is_without_claims(side, name) for side in sides)
    return tuple(counts.values())
