"""Metrics that ask which claims are covered, whatever the order."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import MetricError
from judge_eval.metrics.cells import CONTRADICTED, FULLY, PARTLY, ClaimTable
from judge_eval.metrics.relevance import depth, divide
from judge_eval.metrics.table import GradeTable, Values

Least: TypeAlias = Literal["full", "partial"]
"""The least support that counts as support."""
Dedup: TypeAlias = Literal["none", "text"]
"""Whether a chunk that reads like an earlier one says anything by itself."""
Score: TypeAlias = Literal["all", "all_strict", "vital", "vital_strict", "weighted", "weighted_strict"]

CREDITS = {"none": 0.0, "half": 0.5, "full": 1.0}
OKAY_WEIGHTS = {"all": 1.0, "vital": 0.0, "weighted": 0.5}


def claims_of(table: GradeTable, dedup: Dedup = "none") -> ClaimTable:
    """Return the claims of a table; with `dedup="text"` a repeated text says nothing of any.

    Raises:
        MetricError: Nobody judged by claims.
    """
    claims = table.claims
    if claims is None:
        raise MetricError(
            "nobody said which claims of the reference each chunk supports; it needs a judge that goes by "
            "claims (mode `claims`; a table by hand: `claims`)"
        )
    return claims if dedup == "none" or table.repeats is None else claims.without(table.repeats)


def with_claims(values: Values, claims: ClaimTable) -> Values:
    """Leave traces without a claim, or of which nobody knows the claims, without a value (NaN)."""
    return np.where(claims.counts > 0, values, np.nan)


def least_of(least: Least) -> int:
    """Return the least cell that counts as support."""
    return FULLY if least == "full" else PARTLY


def _recall(claims: ClaimTable, k: int | None, weights: NDArray[np.float64], partly: float) -> Values:
    """Return the weighted share of claims that the first `k` chunks cover; NaN where no claim has weight."""
    top = claims.down_to(k)
    fully = claims.any_claim(top & (claims.cells == FULLY))
    credit = fully.astype(np.float64)
    if partly:
        credit[~fully & claims.any_claim(top & (claims.cells == PARTLY))] = partly
    total = claims.per_row(weights)
    return np.where(total > 0, divide(claims.per_row(credit * weights), total), np.nan)


def claim_recall(
    table: GradeTable,
    k: int | None = None,
    *,
    partial: Literal["none", "half", "full"] = "none",
    of: Literal["all", "vital"] = "all",
) -> Values:
    """Share of the claims that a chunk among the first `k` supports.

    Args:
        table: The table with `claims`.
        k: The cutoff; None takes the whole list.
        partial: What a claim counts that is supported in part only: nothing, a half, or as if in full.
        of: All claims, or those that an answer must say.

    Returns:
        float64 in [0, 1], one value a row; 0 for an empty list, NaN where there is no such claim.

    Raises:
        MetricError: Nobody judged by claims.
    """
    claims = claims_of(table)
    weights = claims.vital if of == "vital" else np.ones(len(claims.vital))
    return _recall(claims, k, weights.astype(np.float64), CREDITS[partial])


def nugget_recall(table: GradeTable, k: int | None = None, *, score: Score = "vital_strict") -> Values:
    """Return the nugget scores of AutoNuggetizer (Pradeep et al. 2024), with claims as nuggets.

    A nugget has the best support that any of the first `k` chunks gives it, which counts 1 in full, 1/2 in
    part (0 under the strict scores).

    Args:
        table: The table with `claims`.
        k: The cutoff; None takes the whole list.
        score: All nuggets, the vital ones, or all with half a weight for those that are okay; or the same
            strictly.

    Returns:
        float64 in [0, 1], one value a row; 0 for an empty list, NaN where there is no such claim.

    Raises:
        MetricError: Nobody judged by claims.
    """
    claims = claims_of(table)
    weights = np.where(claims.vital, 1.0, OKAY_WEIGHTS[score.removesuffix("_strict")])
    return _recall(claims, k, weights, 0.0 if score.endswith("_strict") else 0.5)


def sufficiency(table: GradeTable, k: int | None = None) -> Values:
    """1.0 where each vital claim is supported by one of the first `k` chunks, or by all together, else 0.0.

    What all chunks cover together counts where the first `k` are all there are; of fewer nobody asked.

    Returns:
        float64, one value a row; 0 for an empty list, NaN where no claim is vital.

    Raises:
        MetricError: Nobody judged by claims.
    """
    claims = claims_of(table)
    covered = claims.any_claim(claims.down_to(k) & (claims.cells == FULLY))
    whole = (claims.lengths > 0) & (depth(table, k) == claims.lengths)
    covered |= whole[claims.row_of_claim] & (claims.together == FULLY)
    vital = claims.per_row(claims.vital)
    values = (claims.per_row(claims.vital & covered) == vital).astype(np.float64)
    return np.where(vital > 0, values, np.nan)


def claim_precision(
    table: GradeTable, k: int | None = None, *, least: Least = "full", dedup: Dedup = "text"
) -> Values:
    """Share of the first `k` chunks that support at least one claim.

    Args:
        table: The table with `claims`, and with `repeats` where texts may stand twice.
        k: The cutoff; None takes the whole list.
        least: The least support that counts.
        dedup: With `"text"` a chunk that reads like an earlier one counts as supporting nothing.

    Returns:
        float64 in [0, 1], one value a row; 0 for an empty list, NaN where there is no claim.

    Raises:
        MetricError: Nobody judged by claims.
    """
    claims = claims_of(table, dedup)
    return _share(table, claims, k, claims.cells >= least_of(least))


def conflict(table: GradeTable, k: int | None = None, *, dedup: Dedup = "text") -> Values:
    """Share of the first `k` chunks that contradict at least one claim: the less the better.

    Args:
        table: The table with `claims`, and with `repeats` where texts may stand twice.
        k: The cutoff; None takes the whole list.
        dedup: With `"text"` a chunk that reads like an earlier one counts as contradicting nothing more.

    Returns:
        float64 in [0, 1], one value a row; 0 for an empty list, NaN where there is no claim.

    Raises:
        MetricError: Nobody judged by claims.
    """
    claims = claims_of(table, dedup)
    return _share(table, claims, k, claims.cells == CONTRADICTED)


def novelty(table: GradeTable, k: int | None = None, *, least: Least = "full") -> Values:
    """Return how many claims the first `k` chunks support, a rank: their number over min(k, retrieved).

    Returns:
        float64 >= 0, one value a row; 0 for an empty list, NaN where there is no claim.

    Raises:
        MetricError: Nobody judged by claims.
    """
    claims = claims_of(table)
    new = claims.any_claim(claims.down_to(k) & (claims.cells >= least_of(least)))
    return with_claims(divide(claims.per_row(new), depth(table, k)), claims)


def redundancy(table: GradeTable, k: int | None = None, *, least: Least = "full") -> Values:
    """Share of the supporting chunks among the first `k` that support no claim which none above does.

    Returns:
        float64 in [0, 1), one value a row; 0 where no chunk supports a claim, NaN where there is no claim.

    Raises:
        MetricError: Nobody judged by claims.
    """
    claims = claims_of(table)
    supports = claims.down_to(k) & (claims.cells >= least_of(least))
    supporting = claims.any_chunk(supports)
    new = claims.any_chunk(supports & (claims.seen_before(supports) == 0))
    idle = claims.per_row_of_chunks(supporting & ~new)
    return with_claims(divide(idle, claims.per_row_of_chunks(supporting)), claims)


def _share(table: GradeTable, claims: ClaimTable, k: int | None, cells: NDArray[np.bool_]) -> Values:
    chunks = claims.any_chunk(claims.down_to(k) & cells)
    return with_claims(divide(claims.per_row_of_chunks(chunks), depth(table, k)), claims)
