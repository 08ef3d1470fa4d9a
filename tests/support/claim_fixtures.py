"""The traces of `fixtures/claims.jsonl`, with what is true of their claims."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from judge_eval.judges.judge import JudgingPlan
from judge_eval.schema import BINARY, ClaimsJudged, ClaimSupport, Judgment, NoVerdict, Outcome, Scale, Trace, Verdict
from tests.support.command import FIXTURES
from tests.support.naive_claims import Case

CLAIMS = FIXTURES / "claims.jsonl"
CELLS = FIXTURES / "claims_cells.jsonl"


@dataclass(frozen=True)
class Truth:
    """What is true of one trace."""

    rows: Mapping[str, tuple[ClaimSupport, ...]]
    """By chunk id; a claim that is not named is left alone."""
    together: Mapping[str, bool]
    """By claim that chunks support in part only: whether all do together."""


def claim_traces() -> list[Trace]:
    """Read the traces strictly."""
    lines = CLAIMS.read_text(encoding="utf-8").splitlines()
    return [Trace.parse(json.loads(line), file="claims.jsonl", line=number) for number, line in enumerate(lines, 1)]


@cache
def truths() -> Mapping[str, Truth]:
    """Read what is true, by trace id."""
    collected = {}
    for line in CELLS.read_text(encoding="utf-8").splitlines():
        document = json.loads(line)
        rows = {
            chunk: tuple(ClaimSupport.model_validate({**cell, "quote_found": True}) for cell in cells)
            for chunk, cells in document["chunks"].items()
        }
        collected[document["trace"]] = Truth(rows, document["together"])
    return collected


def case_of(trace: Trace) -> Case:
    """The truth of a trace as the naive reference takes it."""
    truth, claims = truths()[trace.id], trace.claims or ()
    rows = []
    for chunk in trace.chunks:
        values = {cell.claim: cell.support for cell in truth.rows[chunk.id]}
        rows.append(tuple(values.get(claim.id, "none") for claim in claims))
    texts = [chunk.text for chunk in trace.chunks]
    return Case(
        tuple(rows),
        tuple(claim.vital for claim in claims),
        tuple(truth.together.get(claim.id, "unasked") for claim in claims),
        tuple(text in texts[:rank] for rank, text in enumerate(texts)),
    )


@dataclass(frozen=True)
class TrueJudge:
    """Judges by claims as the fixture has it, without a request; chunks and traces named have no verdict."""

    failing: frozenset[str] = frozenset()
    """Ids of chunks that fail, and of traces whose reference cannot be split."""
    without: frozenset[str] = frozenset()
    """Kinds of support that it does not see."""
    scale: Scale = field(default=BINARY)
    by_claims: bool = True
    needs: tuple[Any, ...] = ()

    def describe(self) -> dict[str, Any]:
        """What could change a verdict."""
        return {"kind": "true", "scale": self.scale.model_dump(), "failing": sorted(self.failing)}

    def plan(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> JudgingPlan:
        """Return what is true at once."""
        yield from ()
        return self.judgment(trace)

    def judgment(self, trace: Trace) -> Judgment:
        """What is true of a trace, as a judge by claims writes it."""
        truth = truths()[trace.id.partition("/")[0]]
        outcomes: list[Outcome] = []
        for chunk in trace.chunks:
            if not trace.claims or {chunk.id, trace.id} & self.failing:
                why = "unparsable" if trace.claims else "refused"
                outcomes.append(NoVerdict(chunk_id=chunk.id, why=why))
                continue
            row = tuple(cell for cell in truth.rows[chunk.id] if cell.support not in self.without)
            relevant = any(cell.support != "contradicts" for cell in row)
            outcomes.append(Verdict(chunk_id=chunk.id, grade=int(relevant), relevant=relevant, supports=row))
        if trace.id in self.failing:
            return Judgment(trace_id=trace.id, outcomes=tuple(outcomes))
        together = dict(truth.together)
        judged = ClaimsJudged(claims=trace.claims or (), together=together)
        return Judgment(trace_id=trace.id, outcomes=tuple(outcomes), claims=judged)
