"""Runs judged by claims, whose verdicts stand in the data: a judge that asks nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from judge_eval import EvalRun, Evaluator, FakeBackend, Trace
from judge_eval.judges.judge import JudgingPlan
from judge_eval.schema import BINARY, Claim, ClaimsJudged, ClaimSupport, Judgment, NoVerdict, Outcome, Verdict

SAID: Mapping[str, Literal["full", "partial", "contradicts"]] = {"+": "full", "~": "partial", "x": "contradicts"}


class ByTable:
    """Judges by claims as the traces' own metadata say: `signs`, by claim a sign a rank, and `together`."""

    scale = BINARY
    needs = ()
    by_claims = True

    def describe(self) -> dict[str, Any]:
        """Everything that could change a verdict: nothing, as all stands in the data."""
        return {"kind": "by-table", "scale": self.scale.model_dump()}

    def check(self, trace: Trace) -> None:
        """Take every trace."""

    def plan(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> JudgingPlan:
        """Judge a trace without a request."""
        yield from ()
        result: Any = trace.metadata
        outcomes = [outcome_of(trace, rank) for rank in range(len(trace.chunks))]
        claims = None
        if result.get("split", True):
            claims = ClaimsJudged(claims=trace.claims or (), together=result.get("together", {}))
        return Judgment(trace_id=trace.id, outcomes=tuple(outcomes), claims=claims)


def outcome_of(trace: Trace, rank: int) -> Outcome:
    """Return what a chunk says by its column of signs; `!` anywhere in it is no verdict."""
    result: Any = trace.metadata
    chunk = trace.chunks[rank]
    column = {claim: signs[rank] for claim, signs in result["signs"].items()}
    if "!" in column.values() or not result.get("split", True):
        return NoVerdict(chunk_id=chunk.id, why="unreachable", detail="no answer in time")
    supports = tuple(
        ClaimSupport(claim=claim, support=SAID[sign], quote=chunk.text.rstrip("."), quote_found=True)
        for claim, sign in column.items()
        if sign in SAID
    )
    relevant = any(item.support != "contradicts" for item in supports)
    return Verdict(
        chunk_id=chunk.id,
        grade=int(relevant),
        relevant=relevant,
        reason=f"Counted: {len(supports)}.",
        evidence=chunk.text if relevant else "",
        evidence_found=True if relevant else None,
        supports=supports,
    )


def claimed(
    id: str,
    claims: Mapping[str, str],
    *,
    chunks: Sequence[str] | None = None,
    query: str = "",
    okay: Sequence[str] = (),
    tags: Sequence[str] = (),
    texts: Mapping[str, str] = {},
    **metadata: Any,
) -> Trace:
    """Make a trace.

    Args:
        id: Its id.
        claims: By claim a sign a rank.
        chunks: The texts of the chunks; made up where None.
        query: The question.
        okay: The claims that are not vital.
        tags: Its tags.
        texts: The texts of claims; made of their ids otherwise.
        metadata: What else the judge is to know: `together`, `split`.
    """
    ranks = max((len(signs) for signs in claims.values()), default=0)
    passages = [f"Passage {rank} of {id}." for rank in range(1, ranks + 1)] if chunks is None else chunks
    return Trace.parse(
        {
            "id": id,
            "query": query or f"Question {id}?",
            "reference": f"Reference of {query or id}.",
            "tags": list(tags),
            "chunks": [{"id": f"{id}-{n}", "text": text} for n, text in enumerate(passages, 1)],
            "claims": [
                Claim(id=name, text=texts.get(name, f"Claim {name} of {query or id}"), vital=name not in okay)
                for name in claims
            ],
            "metadata": {"signs": dict(claims), **metadata},
        }
    )


def run_by_claims(
    traces: Sequence[Trace], out: Path | None = None, *, metrics: Sequence[str] = ("AP@5",), **settings: Any
) -> EvalRun:
    """Judge traces by what they say of themselves."""
    with Evaluator(FakeBackend.table({}), judge=ByTable(), metrics=metrics, cache=False) as evaluator:
        return evaluator.evaluate(list(traces), out=out, **settings)


def espresso(**changed: Mapping[str, str]) -> list[Trace]:
    """Four traces: everything, a missing verdict, one question twice; claims by trace can be changed."""
    texts = {
        "c1": "An espresso is brewed at about nine bars of pressure.",
        "c2": "Between 18 and 20 grams of coffee go into a double shot.",
        "c3": "The shot takes 25 to 30 seconds.",
        "c4": "The water has about 93 degrees.",
        "c5": "The crema is a sign of fresh coffee.",
    }
    whole = {"c1": "..+..", "c2": "~.~..", "c3": "x....", "c4": ".....", "c5": "+...+"}
    chunks = (
        "A shot that runs for a minute is called a lungo.",
        "Grinders have flat or conical burrs.",
        "The pump holds nine bars while the water passes.",
        "Milk is steamed to 60 degrees.",
        "Fresh coffee shows a thick crema.",
    )
    made = {
        "q1": claimed("q1", changed.get("q1", whole), chunks=chunks, query="How is an espresso made?",
                      okay=["c5"], texts=texts, tags=["coffee", "how"], together={"c2": False}),
        "q2": claimed("q2", changed.get("q2", {"c1": "+!.", "c2": ".!."}), query="What is a lungo?",
                      okay=["c2"], tags=["coffee"]),
        "q3": claimed("q3", changed.get("q3", {"c1": "~~", "c2": ".."}), query="What is in a flat white?",
                      tags=["milk"], together={"c1": True}),
        "q4": claimed("q4", changed.get("q4", {"c1": "+.", "c2": ".."}), query="What is in a flat white?",
                      tags=["milk"]),
    }  # fmt: skip
    return list(made.values())
