"""What changed in a trace between two runs."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from judge_eval.compare.comparison import Change, Flip, TraceChange
from judge_eval.compare.evidence_of_both import PairsRead, read_pairs
from judge_eval.compare.moved_claims import (
    ClaimChange,
    ClaimsMoved,
    ListClaims,
    ReadClaims,
    claim_changes,
    moved_claims,
)
from judge_eval.compare.pairing import Pairing, pair_traces
from judge_eval.metrics import Metric
from judge_eval.metrics.ragged import offsets_of
from judge_eval.runs.columns.cuts import SAME_CUT, Cuts, cuts_between
from judge_eval.runs.columns.table_reader import light_results
from judge_eval.runs.columns.verdict_table import Places, VerdictTable, passage_number
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import FilledColumn, is_partial, is_without_claims, known_metric
from judge_eval.runs.scoring.evidence import Evidence
from judge_eval.runs.scoring.rescore import opened
from judge_eval.safe_text import shortened

T = TypeVar("T", bound=Hashable)
Kinds: TypeAlias = NDArray[np.int8]
"""Of each pair its place in `KINDS`."""

KINDS: Final[tuple[Change | None, ...]] = (None, "scores", "verdicts", "retrieval", "both", "claims")
"""What the codes of kinds mean."""
_BLOCK = 65_536


def changes(
    pairing: Pairing, kinds: Kinds, before: Run, after: Run, candidate: int, keep: int, recut: bool = False
) -> list[TraceChange]:
    """Name the changed traces that moved most; `recut` says that the documents are cut differently."""
    moved = most_moved(pairing, kinds, keep)
    sides = before.results_at(pairing.a[moved], calls=False), after.results_at(pairing.b[moved], calls=False)
    values = [pairing.values(column) for column in range(len(pairing.first.metrics))]
    made = []
    for place, old, new in zip(moved.tolist(), *sides, strict=True):
        deltas = {
            name: float(after[place] - before[place])
            for name, (before, after) in zip(pairing.first.metrics, values, strict=True)
            if not np.isnan(after[place] - before[place])
        }
        kind = KINDS[kinds[place]]
        made.append(change_of(kind, old, new, deltas, candidate, claims_of_trace(kind, old, new, recut)))
    return made


def counts_of(kinds: Kinds) -> dict[Change, int]:
    """Count the traces that changed, by how; in the order in which each way first occurs."""
    codes, first, counts = np.unique(kinds, return_index=True, return_counts=True)
    ordered = np.argsort(first).tolist()
    return {kind: int(counts[k]) for k in ordered if (kind := KINDS[codes[k]]) is not None}


def most_moved(pairing: Pairing, kinds: Kinds, keep: int) -> NDArray[np.int64]:
    """Return the places of the changed pairs that moved most, at most `keep` of them."""
    changed = np.flatnonzero(kinds)
    moved = np.zeros(len(changed))
    for column in range(pairing.first.scores.shape[1]):
        before, after = pairing.values(column)
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


def claims_of_trace(kind: Change | None, before: TraceResult, after: TraceResult, recut: bool) -> list[ClaimChange]:
    """Describe the claims won and lost by chunks; none if the trace is cut differently, since its text may be read."""
    return [] if recut and kind in ("retrieval", "both") else claim_changes(before, after)


def change_of(
    kind: Change | None,
    before: TraceResult,
    after: TraceResult,
    differences: Mapping[str, float],
    candidate: int = 1,
    moved: Sequence[ClaimChange] = (),
) -> TraceChange:
    """Describe a changed trace: which chunks moved, which got another grade, what it did to the scores."""
    assert kind is not None
    ranks = {passage: rank for rank, passage in enumerate(_passages(before), 1)}
    places = [ranks.get(passage) for passage in _passages(after)]
    grades = _grades(before)
    now = zip(places, after.trace.chunks, _grades(after), strict=True)
    claims = Counter(claim.kind for claim in moved)
    return TraceChange(
        candidate=candidate,
        trace_id=before.trace_id,
        query=shortened(before.trace.query, 120),
        searched=_searched(before, after),
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
        differences=dict(differences),
    )


def _searched(before: TraceResult, after: TraceResult) -> tuple[str, str] | None:
    old, new = (side.trace.search_query or side.trace.query for side in (before, after))
    return None if old.strip() == new.strip() else (shortened(old, 120), shortened(new, 120))


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
    undefined: tuple[NDArray[np.bool_], ...]
    """By metric of the pairing which pairs have nothing to measure in one of the runs: no claim."""
    before: FilledColumn
    """The scores of the first run, filled where failed verdicts leave them open."""
    after: FilledColumn
    cuts: Cuts = SAME_CUT
    """Whether both runs cut the documents alike."""
    read: PairsRead | None = None
    """The lists word by word, if the cuts differ or a metric counts words."""

    @property
    def compared(self) -> tuple[str, ...]:
        """The metrics that can be compared: all, or, if the cuts differ, those with a cutoff in words."""
        names = self.pairing.first.metrics
        return tuple(name for name in names if words_metric(name) is not None) if self.cuts.differ else names

    def columns(self, column: int) -> tuple[FilledColumn, FilledColumn]:
        """Return a metric's values of both runs, pair by pair."""
        return self.before.at(self.pairing.a, column), self.after.at(self.pairing.b, column)

    def at(self, rows: NDArray[np.int64]) -> "Moved":
        """Return some of the pairs, without what became of their claims."""
        pairing = replace(self.pairing, a=self.pairing.a[rows], b=self.pairing.b[rows])
        undefined = tuple(each[rows] for each in self.undefined)
        return replace(self, pairing=pairing, kinds=self.kinds[rows], claims=None, undefined=undefined)


def words_metric(name: str) -> Metric | None:
    """Return a metric with a cutoff in words by its name; None if it is another."""
    return None if (known := known_metric(name)) is None or known.words is None else known


def moved_between(
    runs: tuple[Run, Run],
    scored: tuple[Run, Run],
    tables: Sequence[VerdictTable],
    candidate: int,
    names: Sequence[str] | None = None,
) -> Moved:
    """Bring two runs together; see `pair_traces` for which traces are one.

    Metrics with a cutoff in words have the values with the evidence of both runs. If the documents are cut differently
    and none is named, one at the common budget is added in front.

    Args:
        runs: The runs as they are.
        scored: The runs with scores of the metrics that have no cutoff in words.
        tables: Their tables.
        candidate: The place of the second in the comparison.
        names: The metrics; None takes those of the tables.
    """
    names = tables[0].metrics if names is None else tuple(names)
    first, second = (table.only([name for name in names if words_metric(name) is None]) for table in tables)
    pairing = pair_traces(first, second)
    kinds = kinds_of(pairing)
    filled = [opened(run, table) for run, table in zip(scored, (first, second), strict=True)]
    cuts = cuts_between(scored, (first, second), pairing.a, pairing.b)
    moved = Moved(pairing, kinds, None, _undefined(pairing, *scored), filled[0], filled[1], cuts)
    in_words = [metric for name in names if (metric := words_metric(name)) is not None]
    if (cuts.differ or in_words) and len(pairing):
        moved = _with_words(moved, scored, in_words, names)
    read = _read_claims(moved) if cuts.differ else None
    if cuts.differ and read is None:
        return moved  # a claim that is read is not lost, whatever is said of chunks
    claims, places = moved_claims(pairing, *runs, candidate, read)
    kinds[places[np.isin(kinds[places], _BY_CLAIMS)]] = KINDS.index("claims")
    return replace(moved, claims=claims)


def _read_claims(moved: Moved) -> ReadClaims | None:
    """Return where claims are read, for the first compared metric of claims; None if there is none."""
    metrics = [metric for name in moved.compared if (metric := words_metric(name)) is not None and metric.spec.claims]
    if moved.read is None or not metrics or metrics[0].words is None:
        return None
    sides = []
    for table in (moved.read.before.both, moved.read.after.both):
        assert table.claims is not None
        assert table.reading is not None
        starts = offsets_of(np.maximum(table.claims.counts, 0))
        sides.append(ListClaims(starts, table.reading.full, table.reading.possible))
    return ReadClaims(metrics[0].words, sides[0], sides[1])


def _judged_by_claims(run: Run, places: Places) -> bool:
    """Tell whether the first of these traces with a verdict was judged by claims."""
    results = light_results(run, places)
    return next((r.claims is not None for r in results if any(o.kind == "verdict" for o in r.outcomes)), False)


def _with_words(moved: Moved, runs: tuple[Run, Run], metrics: list[Metric], names: Sequence[str]) -> Moved:
    places = moved.pairing.a, moved.pairing.b
    by_claims = all(_judged_by_claims(run, at) for run, at in zip(runs, places, strict=True))
    wanted: list[Evidence] = [each.spec.evidence for each in metrics if each.spec.evidence is not None]
    read = read_pairs(runs, moved.pairing, wanted or ["of claims" if by_claims else "any"])
    if not metrics and read.budget and read.quoted:
        metrics = [Metric("ClaimRecall" if by_claims else "HitRate", words=read.budget)]
        names = (str(metrics[0]), *names)
    pairing, plain = moved.pairing, moved.pairing.first.metrics
    undefined = dict(zip(plain, moved.undefined, strict=True))
    for metric in metrics:
        undefined[str(metric)] = read.undefined if metric.spec.claims else np.zeros(len(pairing), dtype=np.bool_)
    by_name = {str(metric): read.columns(metric) for metric in metrics}
    every = [np.arange(len(table)) for table in (pairing.first, pairing.second)]
    sides = []
    for side, (table, at, own) in enumerate(
        ((pairing.first, pairing.a, moved.before), (pairing.second, pairing.b, moved.after))
    ):
        filled = {name: column[side].spread(at, len(table)) for name, column in by_name.items()}
        filled |= {name: own.at(every[side], place) for place, name in enumerate(plain)}
        ordered = [filled[name] for name in names]
        made = FilledColumn(*(np.column_stack([getattr(c, end) for c in ordered]) for end in ("value", "low", "high")))
        scores = [
            table.column(name) if name in plain else np.where(c.low == c.high, c.value, np.nan)
            for name, c in zip(names, ordered, strict=True)
        ]
        sides.append((replace(table, metrics=tuple(names), scores=np.column_stack(scores)), made))
    (first, before), (second, after) = sides
    return replace(
        moved,
        pairing=replace(pairing, first=first, second=second),
        undefined=tuple(undefined[name] for name in names),
        before=before,
        after=after,
        read=read,
    )


def _undefined(pairing: Pairing, before: Run, after: Run) -> tuple[NDArray[np.bool_], ...]:
    """Find by metric the pairs that have nothing to measure; only those without a value are read."""
    undefined = {name: np.zeros(len(pairing), dtype=np.bool_) for name in pairing.first.metrics}
    without: dict[str, NDArray[np.bool_]] = {
        name: np.asarray(np.isnan(np.column_stack(pairing.values(column))).any(axis=1))
        for column, name in enumerate(undefined)
        if is_partial(name)
    }
    empty = np.zeros(len(pairing), dtype=np.bool_)
    for rows in without.values():
        empty |= rows
    for place in np.flatnonzero(empty).tolist():
        sides = before.results[int(pairing.a[place])], after.results[int(pairing.b[place])]
        for name, rows in without.items():
            undefined[name][place] = bool(rows[place]) and any(is_without_claims(side, name) for side in sides)
    return tuple(undefined.values())
