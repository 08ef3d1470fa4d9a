"""Which claims a candidate covers that the baseline did not, and the other way round."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from judge_eval.compare.pairing import Pairing
from judge_eval.record import Record
from judge_eval.runs.columns.verdict_table import cluster_codes
from judge_eval.runs.folder.judgedclaims import JudgedClaim, judged_claims
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.safe_text import counted, shortened, signed_pair
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
    """The ids of some of them, three at most."""
    share: ShareMoved | None = None
    """None where no claim is known in both."""
    changes: tuple[ClaimChange, ...] = ()
    """Lost ones first, vital ones before others; at most `NAMED_CLAIMS`."""

    @property
    def doubt(self) -> str | None:
        """In how many traces the claims differ, in words; None where they are the same."""
        if not self.differing:
            return None
        which = ", ".join(self.differing_traces)
        which += ", ..." if self.differing > len(self.differing_traces) else ""
        traces = counted(self.differing, "trace")
        return f"the claims differ in {traces} ({which}): the judged claims are not the same there"

    @property
    def sentence(self) -> str:
        """What was won and lost, in words: counts, and the share covered with its interval."""
        both = self.lost + self.won + self.covered + self.missed
        sentence = (
            f"claims: {self.lost:,} lost ({self.lost_vital:,} vital), {self.won:,} won ({self.won_vital:,} "
            f"vital), of {both:,} known in both"
        )
        if self.share is not None:
            size = signed_pair(self.share.difference, self.share.interval)
            sentence += f"; share covered {self.share.before:.3f} before, {self.share.after:.3f} after, {size}"
        notes = [f"{self.unknown:,} unknown in one run"] if self.unknown else []
        notes += [f"{self.unpaired:,} in only one run"] if self.unpaired else []
        if self.not_judged:
            traces = "1 trace" if self.not_judged == 1 else f"{self.not_judged:,} traces"
            notes.append(f"{traces} not judged by claims in one run")
        return "; ".join([sentence, *notes])


def moved_claims(
    pairing: Pairing, before: Run, after: Run, candidate: int
) -> tuple[ClaimsMoved | None, NDArray[np.int64]]:
    """Hold the claims of common traces against each other; a claim is the same where id and text are."""
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
        for claim, now in paired_claims(old, new):
            kind = _kind(claim, now)
            counts[kind] += 1
            if kind != "unknown":
                known.append((place, kind in ("covered", "lost"), kind in ("covered", "won")))
            if kind in ("lost", "won"):
                counts[f"{kind}_vital"] += claim.claim.vital
            if (change := change_of_claim(old, claim, now)) is not None:
                changes.append(change)
    if not by_claims:
        return None, nowhere
    moved = ClaimsMoved(
        candidate=candidate,
        changes=tuple(worst_first(changes)[:NAMED_CLAIMS]),
        share=_share(pairing, known),
        differing=len(differing),
        differing_traces=tuple(differing[:3]),
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
    changes = (change_of_claim(old, was, now) for was, now in paired_claims(old, new))
    return worst_first([change for change in changes if change is not None])


def paired_claims(old: TraceResult, new: TraceResult) -> Iterator[tuple[JudgedClaim, JudgedClaim]]:
    """Yield the claims that a trace has in two runs, in the baseline's order."""
    there = {(o.claim.id, o.claim.text): o for o in judged_claims(new.claims, new.outcomes) or ()}
    for was in judged_claims(old.claims, old.outcomes) or ():
        if (now := there.get((was.claim.id, was.claim.text))) is not None:
            yield was, now


def change_of_claim(old: TraceResult, was: JudgedClaim, now: JudgedClaim) -> ClaimChange | None:
    """Describe a claim that was won or lost; None of others."""
    kind = _kind(was, now)
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


def _kind(was: JudgedClaim, now: JudgedClaim) -> str:
    covers = was.cover, now.cover
    if "unknown" in covers:
        return "unknown"
    before, after = (cover == "covered" for cover in covers)
    if before == after:
        return "covered" if before else "missed"
    return "lost" if before else "won"
