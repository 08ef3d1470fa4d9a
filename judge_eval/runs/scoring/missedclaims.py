"""Which claims the retrieved chunks miss most, over all traces of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from pydantic import Field

from judge_eval.record import Record
from judge_eval.runs.folder.judgedclaims import Cover, judged_claims
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.scoring.aggregate import MOST_TAGS
from judge_eval.safe_text import shortened

LISTED_CLAIMS = 200
"""How many missed claims are named; the counts are of all."""
NAMED_TRACES = 5
"""How many traces a missed claim names."""


class CoverCounts(Record):
    """How many claims are covered, a claim of each trace counted by itself."""

    covered: int = Field(default=0, ge=0)
    partly: int = Field(default=0, ge=0)
    """Not covered, but one chunk says a part."""
    missing: int = Field(default=0, ge=0)
    """Not covered, and no chunk says a part."""
    unknown: int = Field(default=0, ge=0)
    """A verdict is missing that could have shown them covered; part of no share."""

    @classmethod
    def of(cls, counts: Mapping[Cover, int]) -> CoverCounts:
        """Make them of counts by cover."""
        return cls(**{str(cover): count for cover, count in counts.items()})

    @property
    def known(self) -> int:
        """How many are known to be covered or not."""
        return self.covered + self.missed

    @property
    def missed(self) -> int:
        """How many are known not to be covered."""
        return self.partly + self.missing

    @property
    def missed_share(self) -> float | None:
        """Of those that are known, the share that is not covered; None where none is known."""
        return self.missed / self.known if self.known else None

    @property
    def covered_share(self) -> float | None:
        """Of those that are known, the share that is covered; None where none is known."""
        return self.covered / self.known if self.known else None


class MissedClaim(Record):
    """A claim of a question's reference that is not covered in at least one trace."""

    text: str
    vital: bool
    query: str
    """The question, in one line, cut where it is long."""
    counts: CoverCounts
    """Over the traces of this question and reference."""
    traces: tuple[str, ...]
    """The first of the traces that miss it."""


class TagCover(Record):
    """The claims of the traces of one tag."""

    tag: str
    counts: CoverCounts


class ClaimsMissed(Record):
    """What a run covers of the claims of its references, and what it misses most."""

    traces: int
    """How many traces were judged by claims."""
    without_claims: int
    """How many of them have a reference that makes no claim."""
    not_judged: int
    """How many other traces there are: no verdict of them came so far as to tell of claims."""
    counts: CoverCounts
    vital: CoverCounts
    """Of the claims that an answer must say."""
    contradicted: int
    """How many claims a chunk contradicts, a claim of each trace counted by itself."""
    distinct: int
    """How many different claims are missed in at least one trace."""
    missed: tuple[MissedClaim, ...]
    """These, by the share of their traces that miss them, then by how many do; at most `LISTED_CLAIMS`."""
    tags: tuple[TagCover, ...]
    """By tag, what is covered least first; at most those of `MOST_TAGS` tags."""


def missed_claims(results: Iterable[TraceResult]) -> ClaimsMissed | None:
    """Count over traces which claims are covered; None where they were not judged by claims."""
    # Claims are the same where question, reference, id and text are. A trace whose verdicts failed before
    # anybody told of claims is counted apart, and so is a claim whose cover nobody knows. The results are
    # read once; of traces not judged by claims only up to the first verdict.
    judged = _begun(results)
    if judged is None:
        return None
    traces = without = not_judged = contradicted = 0
    counts, vital = Counter[Cover](), Counter[Cover]()
    by_tag: dict[str, Counter[Cover]] = {}
    by_claim: dict[tuple[str, str | None, str, str], _Tallied] = {}
    for result in judged:
        trace, claims = result.trace, judged_claims(result.claims, result.outcomes)
        if claims is None:
            not_judged += 1
            continue
        traces += 1
        without += not claims
        covers = Counter(each.cover for each in claims)
        counts += covers
        for tag in trace.tags if claims else ():
            by_tag.setdefault(tag, Counter()).update(covers)
        for each in claims:
            claim, cover = each.claim, each.cover
            vital[cover] += claim.vital
            contradicted += bool(each.ranks("contradicts"))
            key = trace.query, trace.reference, claim.id, claim.text
            tallied = by_claim.setdefault(key, _Tallied(claim.vital))
            tallied.covers[cover] += 1
            if cover in ("missing", "partly") and len(tallied.traces) < NAMED_TRACES:
                tallied.traces.append(trace.id)
    missed = [
        MissedClaim(
            text=text,
            vital=tallied.vital,
            query=shortened(query, 120),
            counts=CoverCounts.of(tallied.covers),
            traces=tuple(tallied.traces),
        )
        for (query, _, _, text), tallied in by_claim.items()
        if tallied.traces
    ]
    missed.sort(key=lambda each: (-(each.counts.missed_share or 0), -each.counts.missed, not each.vital))
    most = sorted(by_tag.items(), key=lambda pair: -pair[1].total())[:MOST_TAGS]
    tags = [TagCover(tag=tag, counts=CoverCounts.of(covers)) for tag, covers in most]
    tags.sort(key=lambda each: (-(each.counts.missed_share or 0), each.tag))
    return ClaimsMissed(
        traces=traces,
        without_claims=without,
        not_judged=not_judged,
        counts=CoverCounts.of(counts),
        vital=CoverCounts.of(vital),
        contradicted=contradicted,
        distinct=len(missed),
        missed=tuple(missed[:LISTED_CLAIMS]),
        tags=tuple(tags),
    )


def _begun(results: Iterable[TraceResult]) -> Iterator[TraceResult] | None:
    """Return all results again where they were judged by claims, which the first that was judged tells."""
    left, read = iter(results), list[TraceResult]()
    for result in left:
        read.append(result)
        if result.claims is not None:
            return chain(read, left)
        if any(outcome.kind == "verdict" for outcome in result.outcomes):
            return None
    return None


@dataclass(slots=True)
class _Tallied:
    vital: bool
    covers: Counter[Cover] = field(default_factory=Counter)
    traces: list[str] = field(default_factory=list)
