"""Which claims a candidate covers that the baseline did not, and the other way round."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from judge_eval.compare.pairing import Pairing
from judge_eval.metrics.words import WordCounts
from judge_eval.note import MOST_NAMED
from judge_eval.record import Record
from judge_eval.runs.columns.verdict_table import Places, cluster_codes
from judge_eval.runs.folder.judgedclaims import JudgedClaim, judged_claims
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.safe_text import shortened
from judge_eval.stats import mean_interval

_COUNTED: Final = (
    "lost", "won", "lost_vital", "won_vital", "covered", "missed", "unknown", "unpaired", "not_judged",
)  # fmt: skip
_SHARES = (-1.0, 1.0)
"""How far a claim can move: from covered to not, or the other way."""
NAMED_CLAIMS = 200
"""How many claims that were won or lost a comparison names of each candidate; the counts are of all."""


class ClaimChange(Record):
    """A claim of one trace that is covered in one of two runs alone."""

    trace_id: str
    """In the baseline."""
    query: str
    """The question, shortened."""
    text: str
    vital: bool
    kind: Literal["lost", "won"]
    """Lost: covered in the baseline alone; won: in the candidate alone."""
    before: str
    """What the baseline's chunks say of it, a sign a rank, as `JudgedClaim.signs` draws them."""
    after: str
    read: tuple[int | None, int | None] | None = None
    """After how many words of either list its evidence has been read, None if never; None if the cuts are the same."""


class ShareMoved(Record):
    """The share of the claims known in both runs that is covered in each, over all common traces."""

    before: float
    after: float
    difference: float
    """After minus before: what was won less what was lost, over the claims."""
    interval: tuple[float, float] | None = None
    """95% of the difference, by whole traces or clusters of them; None under two of these."""
    method: str | None = None
    clusters: int
    """How many traces, or clusters of traces, the claims are of."""


class ClaimsMoved(Record):
    """The claims of the common traces in the baseline and in one candidate."""

    candidate: int = Field(ge=1)
    """Its place in `Comparison.runs`."""
    lost: int
    won: int
    lost_vital: int
    won_vital: int
    covered: int
    """Covered in both."""
    missed: int
    """Covered in neither."""
    unknown: int
    """A missing verdict leaves it open in one of them; neither won nor lost."""
    unpaired: int
    """In one of the two references' claims alone, where both traces were judged by claims."""
    not_judged: int = 0
    """Common traces that one of the runs could not judge by claims."""
    differing: int = 0
    """Common traces whose claims are not the same in both runs, in words or in what is vital."""
    differing_traces: tuple[str, ...] = ()
    """The ids of the first of them."""
    share: ShareMoved | None = None
    """None where no claim is known in both."""
    words: int | None = None
    """Within how many words of a list a claim must be read, with the evidence of both runs, to be covered; None if the
    documents are cut alike, so that a chunk that supports it covers it."""
    changes: tuple[ClaimChange, ...] = ()
    """Lost ones first, vital ones before others; at most `NAMED_CLAIMS`."""


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
        return _kind(covered[0], covered[1]), (read[0], read[1])


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
        names = [{(claim.id, claim.text) for claim in side.claims} for side in (old.claims, new.claims)]
        counts["unpaired"] += len(names[0] ^ names[1])
        words = [[(claim.text, claim.vital) for claim in side.claims] for side in (old.claims, new.claims)]
        if words[0] != words[1]:
            differing.append(new.trace_id)
        order = [[(claim.id, claim.text) for claim in side.claims] for side in (old.claims, new.claims)]
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
    codes = cluster_codes(pairing.first.clusters[pairing.a])
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
    return _kind(before, after)


def _kind(before: bool | None, after: bool | None) -> str:
    if before is None or after is None:
        return "unknown"
    if before == after:
        return "covered" if before else "missed"
    return "lost" if before else "won"
