"""Which claims a candidate covers that the baseline did not, and the other way round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from judge_eval.comparison.pairing import Pairing
from judge_eval.record import Record
from judge_eval.runs.folder.judgedclaims import JudgedClaim, judged_claims
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.shown import shortened

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
    changes: tuple[ClaimChange, ...] = ()
    """Lost ones first, vital ones before others; at most `NAMED_CLAIMS`."""

    @property
    def sentence(self) -> str:
        """What was won and lost, in words; counts, no test."""
        both = self.lost + self.won + self.covered + self.missed
        told = (
            f"claims: {self.lost:,} lost ({self.lost_vital:,} vital), {self.won:,} won ({self.won_vital:,} "
            f"vital), of {both:,} known in both"
        )
        notes = [f"{self.unknown:,} not known in one of them"] if self.unknown else []
        notes += [f"{self.unpaired:,} of one run alone"] if self.unpaired else []
        if self.not_judged:
            traces = "1 trace" if self.not_judged == 1 else f"{self.not_judged:,} traces"
            notes.append(f"{traces} not judged by claims in one of them")
        return "; ".join([told, *notes])


def moved_claims(pairing: Pairing, before: Run, after: Run, candidate: int) -> ClaimsMoved | None:
    """Hold the claims of common traces against each other; None where no pair was judged by claims.

    A claim is the same where id and text are.

    Args:
        pairing: The traces that the runs have in common.
        before: The baseline.
        after: The candidate.
        candidate: Its place among the runs.
    """
    counts = Counter[str]()
    changes: list[ClaimChange] = []
    found = False
    for a, b in zip(pairing.a.tolist(), pairing.b.tolist(), strict=True):
        old, new = before.results[a], after.results[b]
        if old.claims is None and new.claims is None:
            if not found and _is_judged(old) and _is_judged(new):
                return None  # judged, and not by claims: so are the others
            continue
        found = True
        if old.claims is None or new.claims is None:
            counts["not_judged"] += 1
            continue
        counts["unpaired"] += _of_one(old, new)
        for claim, now in paired_claims(old, new):
            kind = _kind(claim, now)
            counts[kind] += 1
            if kind in ("lost", "won"):
                counts[f"{kind}_vital"] += claim.claim.vital
            if (change := change_of_claim(old, claim, now)) is not None:
                changes.append(change)
    if not found:
        return None
    names = (
        "lost",
        "won",
        "lost_vital",
        "won_vital",
        "covered",
        "missed",
        "unknown",
        "unpaired",
        "not_judged",
    )
    return ClaimsMoved(
        candidate=candidate,
        changes=tuple(worst_first(changes)[:NAMED_CLAIMS]),
        **{name: counts[name] for name in names},
    )


def paired_claims(old: TraceResult, new: TraceResult) -> Iterator[tuple[JudgedClaim, JudgedClaim]]:
    """Yield the claims that a trace has in two runs, in the baseline's order."""
    there = {(o.claim.id, o.claim.text): o for o in judged_claims(new.claims, new.outcomes) or ()}
    for one in judged_claims(old.claims, old.outcomes) or ():
        if (now := there.get((one.claim.id, one.claim.text))) is not None:
            yield one, now


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
    return sorted(changes, key=lambda one: (one.kind != "lost", not one.vital))


def _kind(was: JudgedClaim, now: JudgedClaim) -> str:
    covers = was.cover, now.cover
    if "unknown" in covers:
        return "unknown"
    before, after = (cover == "covered" for cover in covers)
    if before == after:
        return "covered" if before else "missed"
    return "lost" if before else "won"


def _of_one(old: TraceResult, new: TraceResult) -> int:
    assert old.claims is not None
    assert new.claims is not None
    names = [{(one.id, one.text) for one in side.claims} for side in (old.claims, new.claims)]
    return len(names[0] ^ names[1])


def _is_judged(result: TraceResult) -> bool:
    return any(outcome.kind == "verdict" for outcome in result.outcomes)
