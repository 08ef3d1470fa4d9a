"""Two runs brought together: which traces are one, what changed in each, which claims were won and lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from judge_eval.compare.comparison import Change, ClaimChange, ClaimsMoved, Flip, ShareMoved, TraceChange
from judge_eval.compare.evidence_of_both import PairsRead, read_pairs
from judge_eval.metrics import Metric
from judge_eval.metrics.ragged import offsets_of
from judge_eval.metrics.words import WordCounts
from judge_eval.note import MOST_NAMED
from judge_eval.runs.columns.cuts import SAME_CUT, Cuts, cuts_between
from judge_eval.runs.columns.verdict_table import (
    Places,
    VerdictTable,
    cluster_codes,
    find_ids,
    light_results,
    passage_number,
    stated_once,
)
from judge_eval.runs.folder.judgedclaims import JudgedClaim, judged_claims
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run, scale_of
from judge_eval.runs.scoring.aggregate import (
    FilledColumn,
    compare_columns,
    is_partial,
    is_without_claims,
    known_metric,
    opened,
)
from judge_eval.runs.scoring.evidence import Evidence
from judge_eval.safe_text import shortened
from judge_eval.schema import Scale
from judge_eval.stats import PairedComparison, mean_interval


@dataclass(frozen=True, slots=True)
class Pairing:
    """Which traces two runs have in common, all told by their places in the runs' columns."""

    first: VerdictTable
    second: VerdictTable
    a: Places
    """Of each pair, the place in the first run."""
    b: Places
    """And in the second."""
    only_first: Places
    only_second: Places
    other_question: Places
    """Places in the first run whose id stands for another question in the second; those are not paired."""
    unanswerable: int = 0
    """How many pairs are left out because nothing answers the question, as one of the runs says."""
    flags_differ: int = 0
    """In how many of these the other run says nothing of the kind."""

    def __len__(self) -> int:
        return len(self.a)

    @property
    def same_searches(self) -> NDArray[np.bool_]:
        """Which pairs were searched in the same words, shape (pairs,)."""
        same: NDArray[np.bool_] = self.first.searches[self.a] == self.second.searches[self.b]
        return same

    def clusters(self, pairs: Places | slice = slice(None)) -> list[int] | None:
        """Return the cluster of each of some pairs, or None if no two traces share one."""
        return cluster_codes(self.first.clusters[self.a[pairs]])

    def values(self, column: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a metric's scores of both runs, shape (pairs,) each; NaN where there is none."""
        return self.first.scores[self.a, column], self.second.scores[self.b, column]


def pair_traces(first: VerdictTable, second: VerdictTable) -> Pairing:
    """Pair traces by id where they ask the same; what is left, by what it asks."""
    # An id that was made from a trace's content changes with its chunks, so a trace without a partner of its
    # id is paired with the one that asks the same question for the same reference, where there is just one.
    partner = find_ids(first.ids, second.ids)
    there = np.flatnonzero(partner >= 0)
    same = first.questions[there] == second.questions[partner[there]]
    a, b = there[same], partner[there[same]]
    other = there[~same]
    left = np.flatnonzero(partner < 0)
    free = np.ones(len(second), dtype=bool)
    free[partner[there]] = False
    open_second = np.flatnonzero(free)
    if left.size and open_second.size:
        more_a, more_b = _by_question(first, second, left, open_second)
        a, b = np.concatenate([a, more_a]), np.concatenate([b, more_b])
        left = left[~np.isin(left, more_a)]
        open_second = open_second[~np.isin(open_second, more_b)]
    here, there_too = first.unanswerable[a], second.unanswerable[b]
    out = here | there_too
    left = left[~first.unanswerable[left]]
    open_second = open_second[~second.unanswerable[open_second]]
    counts = int(out.sum()), int((here != there_too).sum())
    return Pairing(first, second, a[~out], b[~out], left, open_second, other, *counts)


def _by_question(first: VerdictTable, second: VerdictTable, left: Places, free: Places) -> tuple[Places, Places]:
    first_questions, of_left = stated_once(first.questions[left])
    second_questions, of_free = stated_once(second.questions[free])
    _, at_left, at_free = np.intersect1d(first_questions, second_questions, assume_unique=True, return_indices=True)
    rows, partners = left[of_left[at_left]], free[of_free[at_free]]
    order = np.argsort(rows)
    return rows[order], partners[order]


_COUNTED: Final = (
    "lost", "won", "lost_vital", "won_vital", "covered", "missed", "unknown", "unpaired", "not_judged",
)  # fmt: skip
_SHARES = (-1.0, 1.0)
"""How far a claim can move: from covered to not, or the other way."""
NAMED_CLAIMS = 200
"""How many claims that were won or lost a comparison names of each candidate; the counts are of all."""


class ListClaims(NamedTuple):
    """After how many words the lists of a run show the evidence of both runs for each claim."""

    starts: Places
    """Where the claims of each trace begin."""
    full: WordCounts
    """Of each claim, infinite if never."""
    possible: WordCounts
    """The least that it could be, whatever failed verdicts would have said."""


class ReadClaims(NamedTuple):
    """Where two runs read claims, pair by pair."""

    words: int
    """A claim is covered if it is read within so many."""
    before: ListClaims
    after: ListClaims

    def at(self, pair: int, *places: int) -> tuple[str, tuple[int | None, int | None]]:
        """Return what became of a claim, at these places of both references, and after how many words it is read."""
        covered, read = list[bool | None](), list[int | None]()
        for side, place in zip((self.before, self.after), places, strict=True):
            at = side.starts[pair] + place
            sure, possible = side.full[at] <= self.words, side.possible[at] <= self.words
            covered.append(bool(sure) if sure == possible else None)
            read.append(int(side.full[at]) if np.isfinite(side.full[at]) else None)
        return _claim_kind(covered[0], covered[1]), (read[0], read[1])


def moved_claims(
    pairing: Pairing, before: Run, after: Run, candidate: int, read: ReadClaims | None = None
) -> tuple[ClaimsMoved | None, NDArray[np.int64]]:
    """Hold the claims of common traces against each other; a claim is the same where id and text are.

    A claim is covered by a chunk that supports it or, if `read` says where claims are read, by words of either list.
    """
    # Returns also the places of the pairs in which a claim was won or lost; None if no pair was judged by claims.
    counts = Counter[str]()
    changes: list[ClaimChange] = []
    known: list[tuple[int, bool, bool]] = []
    differing: list[str] = []
    by_claims, nowhere = False, np.empty(0, dtype=np.int64)
    pairs = zip(before.results_at(pairing.a), after.results_at(pairing.b), strict=True)
    for place, (old, new) in enumerate(pairs):
        if old.claims is None and new.claims is None:
            if not by_claims and all(any(o.kind == "verdict" for o in r.outcomes) for r in (old, new)):
                return None, nowhere  # judged, and not by claims: so are the others
            continue
        by_claims = True
        if old.claims is None or new.claims is None:
            counts["not_judged"] += 1
            continue
        sides = old.claims.claims, new.claims.claims
        order = [[(claim.id, claim.text) for claim in claims] for claims in sides]
        counts["unpaired"] += len({*order[0]} ^ {*order[1]})
        words = [[(claim.text, claim.vital) for claim in claims] for claims in sides]
        if words[0] != words[1]:
            differing.append(new.trace_id)
        for claim, now in paired_claims(old, new):
            kind, at = _kind_by_chunks(claim, now), None
            if read is not None:
                key = claim.claim.id, claim.claim.text
                kind, at = read.at(place, *(side.index(key) for side in order))
            counts[kind] += 1
            if kind != "unknown":
                known.append((place, kind in ("covered", "lost"), kind in ("covered", "won")))
            if kind in ("lost", "won"):
                counts[f"{kind}_vital"] += claim.claim.vital
            if (change := change_of_claim(old, claim, now, kind)) is not None:
                changes.append(change.replace(read=at))
    if not by_claims:
        return None, nowhere
    moved = ClaimsMoved(
        candidate=candidate,
        words=None if read is None else read.words,
        changes=tuple(worst_first(changes)[:NAMED_CLAIMS]),
        share=_share(pairing, known),
        differing=len(differing),
        differing_traces=tuple(differing[:MOST_NAMED]),
        **{name: counts[name] for name in _COUNTED},
    )
    return moved, np.unique([place for place, was, now in known if was != now]).astype(np.int64)


def _share(pairing: Pairing, known: list[tuple[int, bool, bool]]) -> ShareMoved | None:
    if not known:
        return None
    places, before, after = (np.array(column) for column in zip(*known, strict=True))
    codes = pairing.clusters()
    clusters = places if codes is None else np.array(codes)[places]
    moved = after.astype(np.float64) - before
    span = mean_interval(moved, clusters=clusters.tolist(), limits=_SHARES).interval
    return ShareMoved(
        before=float(before.mean()),
        after=float(after.mean()),
        difference=float(moved.mean()),
        interval=span,
        method=None if span is None else span.method,
        clusters=len(np.unique(clusters)),
    )


def claim_changes(old: TraceResult, new: TraceResult) -> list[ClaimChange]:
    """Describe the claims of a trace that were won or lost, the worst first."""
    pairs = paired_claims(old, new)
    changes = (change_of_claim(old, was, now, _kind_by_chunks(was, now)) for was, now in pairs)
    return worst_first([change for change in changes if change is not None])


def paired_claims(old: TraceResult, new: TraceResult) -> Iterator[tuple[JudgedClaim, JudgedClaim]]:
    """Yield the claims that a trace has in two runs, in the baseline's order."""
    there = {(o.claim.id, o.claim.text): o for o in judged_claims(new.claims, new.outcomes) or ()}
    for was in judged_claims(old.claims, old.outcomes) or ():
        if (now := there.get((was.claim.id, was.claim.text))) is not None:
            yield was, now


def change_of_claim(old: TraceResult, was: JudgedClaim, now: JudgedClaim, kind: str) -> ClaimChange | None:
    """Describe a claim that was won or lost; None of others."""
    if kind not in ("lost", "won"):
        return None
    return ClaimChange(
        trace_id=old.trace_id,
        query=shortened(old.trace.query, 120),
        text=was.claim.text,
        vital=was.claim.vital,
        kind="lost" if kind == "lost" else "won",
        before=was.signs,
        after=now.signs,
    )


def worst_first(changes: list[ClaimChange]) -> list[ClaimChange]:
    """Put claims in order: lost ones before won ones, of each the vital ones first."""
    return sorted(changes, key=lambda change: (change.kind != "lost", not change.vital))


def _kind_by_chunks(was: JudgedClaim, now: JudgedClaim) -> str:
    before, after = (None if each.cover == "unknown" else each.cover == "covered" for each in (was, now))
    return _claim_kind(before, after)


def _claim_kind(before: bool | None, after: bool | None) -> str:
    if before is None or after is None:
        return "unknown"
    if before == after:
        return "covered" if before else "missed"
    return "lost" if before else "won"


T = TypeVar("T", bound=Hashable)
Kinds: TypeAlias = NDArray[np.int8]
"""Of each pair its place in `KINDS`."""

KINDS: Final[tuple[Change | None, ...]] = (None, "scores", "verdicts", "retrieval", "both", "claims")
"""What the codes of kinds mean."""
_BLOCK = 65_536


def changes(moved: Moved, keep: int) -> list[TraceChange]:
    """Name the changed traces that moved most."""
    pairing, (first, second) = moved.pairing, moved.runs
    places = most_moved(pairing, moved.kinds, keep)
    sides = first.results_at(pairing.a[places], calls=False), second.results_at(pairing.b[places], calls=False)
    values = [pairing.values(column) for column in range(len(pairing.first.metrics))]
    made = []
    for place, old, new in zip(places.tolist(), *sides, strict=True):
        deltas = {
            name: float(after[place] - before[place])
            for name, (before, after) in zip(pairing.first.metrics, values, strict=True)
            if not np.isnan(after[place] - before[place])
        }
        kind = KINDS[moved.kinds[place]]
        claims = claims_of_trace(kind, old, new, moved.cuts.differ)
        made.append(change_of(kind, old, new, deltas, moved.candidate, claims))
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

    runs: tuple[Run, Run]
    """The baseline and the candidate as they are."""
    scales: tuple[Scale, Scale]
    candidate: int
    """The candidate's place in `Comparison.runs`, from 1."""
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

    def difference(self, column: int, **options: Any) -> PairedComparison | None:
        """Compare both runs by a metric, as `test`."""
        return self.test(self.pairing.first.metrics[column], self.columns(column), **options)

    def test(self, metric: str, sides: tuple[FilledColumn, FilledColumn], **options: Any) -> PairedComparison | None:
        """Compare values of both runs, pair by pair; None if no pair has both. Options: see `compare_paired`."""
        both = np.flatnonzero(~(np.isnan(sides[0].value) | np.isnan(sides[1].value)))
        if not both.size:
            return None
        before, after = (side.at(both) for side in sides)
        return compare_columns(metric, before, after, self.pairing.clusters(both), **options)

    def at(self, rows: NDArray[np.int64]) -> Moved:
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
    and none is named, one at the common budget is added in front. `scored` are the runs with scores of the metrics that
    have no cutoff in words, `tables` their tables; `names` None takes the metrics of the tables.
    """
    names = tables[0].metrics if names is None else tuple(names)
    first, second = (table.only([name for name in names if words_metric(name) is None]) for table in tables)
    pairing = pair_traces(first, second)
    kinds = kinds_of(pairing)
    filled = [opened(run, table) for run, table in zip(scored, (first, second), strict=True)]
    cuts = cuts_between(scored, (first, second), pairing.a, pairing.b)
    scales, undefined = (scale_of(runs[0]), scale_of(runs[1])), _undefined(pairing, *scored)
    moved = Moved(runs, scales, candidate, pairing, kinds, None, undefined, filled[0], filled[1], cuts)
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
    read = read_pairs(runs, places, wanted or ["of claims" if by_claims else "any"])
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
    for place in np.flatnonzero(np.any([*without.values()], axis=0)).tolist() if without else ():
        sides = before.results[int(pairing.a[place])], after.results[int(pairing.b[place])]
        for name, rows in without.items():
            undefined[name][place] = bool(rows[place]) and any(is_without_claims(side, name) for side in sides)
    return tuple(undefined.values())
