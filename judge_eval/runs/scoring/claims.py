"""From judgments to the table of cells, claim by chunk."""

from __future__ import annotations

from collections.abc import Sequence

from judge_eval.errors import MetricError
from judge_eval.metrics import ClaimTable
from judge_eval.runs.folder.judgedclaims import told_of_claims
from judge_eval.schema import Claim, ClaimsJudged, ClaimSupport, Outcome, Trace

Row = tuple[str | None, ...]


def claims_of_judged(
    judged: Sequence[tuple[Trace, Sequence[Outcome]]], claims: Sequence[ClaimsJudged | None] | None
) -> ClaimTable:
    """Make the table of what chunks say of claims.

    A chunk without a verdict, or with one that says nothing of claims, has failed cells only. Where nothing
    was judged at all, the claims are those that the trace brings, if it brings any.

    Args:
        judged: The traces with their outcomes.
        claims: What each was judged by; None where none was judged by claims.

    Raises:
        MetricError: A trace has verdicts but was not judged by claims; the message names it.
    """
    rows: list[list[Row]] = []
    vital: list[list[bool] | None] = []
    together: list[list[bool | str | None]] = []
    for place, (trace, outcomes) in enumerate(judged):
        known = None if claims is None else claims[place]
        if known is None and any(outcome.kind == "verdict" for outcome in outcomes):
            raise MetricError(
                f"trace {trace.id} was not judged by claims; judge it by them, or leave the metric out"
            )
        of: tuple[Claim, ...] | None = trace.claims if known is None else known.claims
        rows.append([_row(outcome, of or ()) for outcome in outcomes])
        vital.append(None if of is None else [claim.vital for claim in of])
        told = {} if known is None else known.together
        together.append([told.get(claim.id, "unasked") for claim in of or ()])
    return ClaimTable.from_rows(rows, vital, together)


def _row(outcome: Outcome, claims: Sequence[Claim]) -> Row:
    """Return what a chunk says of each claim."""
    told = told_of_claims(outcome, claims)
    return tuple(one.support if isinstance(one, ClaimSupport) else one for one in told)
