"""The metric that rewards claims on top and discounts claims that were seen above."""

from typing import Literal, TypeAlias, Unpack

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import MetricError
from judge_eval.metrics import claim_bounds
from judge_eval.metrics.bounds import Bounds
from judge_eval.metrics.claim_table import ClaimTable, Numbers
from judge_eval.metrics.families.relevance import divide
from judge_eval.metrics.spec import Parameter, rag
from judge_eval.metrics.table import GradeTable, Values

Ties: TypeAlias = Literal["rank", "id"]
"""Which of equally good chunks comes first in an ideal order."""

TIE = 12
"""Gains that agree in so many decimals are one, summed in two orders."""


def alpha_ndcg(
    table: GradeTable,
    k: int | None = None,
    *,
    alpha: float = 0.5,
    ties: Ties = "rank",
    **support: Unpack[claim_bounds.SupportOptions],
) -> Values:
    """Alpha-nDCG (Clarke et al. 2008) with claims as subtopics and the retrieved chunks as the pool."""
    # sum over ranks i <= k of g_i / log2(i + 1), g_i = sum over the claims that the chunk supports of (1 -
    # alpha)^(how many chunks above support it), over the same sum for an ideal order of all retrieved chunks.
    # That is made rank by rank, as ndeval does: next comes the chunk that gains most, of equals the one that
    # stands highest in the list (`ties="rank"`), or that with the greatest id (`ties="id"`, as ndeval). This
    # greedy order need not be the best; a list that beats it has 1.0.
    claims, supports, _ = claim_bounds.support_of(table, **support)
    ideal = ideal_gain(claims, supports, k, alpha, ties)
    values = divide(discounted_gain(claims, supports, k, alpha), ideal)
    return claim_bounds.with_claims(np.minimum(values, 1.0), claims)


def discounted_gain(claims: ClaimTable, supports: NDArray[np.bool_], k: int | None, alpha: float) -> Values:
    """Return alpha-DCG of each row: what its first `k` chunks gain, discounted by their rank."""
    top = supports & claims.down_to(k)
    gains = np.bincount(claims.chunk[top], weights=_cell_gains(claims, top, alpha), minlength=len(claims.row_of_chunk))
    return claims.per_row_of_chunks(gains / np.log2(_ranks(claims) + 1.0))


def most_gain(claims: ClaimTable, supports: NDArray[np.bool_], k: int | None, alpha: float) -> Values:
    """Return an upper bound of alpha-DCG over all orders."""
    # It is the smaller of two: each claim by itself at the best ranks; the chunks with the most claims on top
    # if claims did not fade.
    times = np.bincount(claims.claim[supports], minlength=len(claims.vital))
    if k is not None:
        times = np.minimum(times, k)
    top = int(times.max(initial=0))
    sums = np.concatenate([[0.0], np.cumsum(_fading(top, alpha) / np.log2(np.arange(2.0, top + 2)))])
    counts = np.bincount(claims.chunk[supports], minlength=len(claims.row_of_chunk))
    best_first = counts[np.lexsort((-counts, claims.row_of_chunk))]
    ranks = _ranks(claims)
    if k is not None:
        best_first = np.where(ranks <= k, best_first, 0)
    return np.minimum(claims.per_row(sums[times]), claims.per_row_of_chunks(best_first / np.log2(ranks + 1.0)))


def _ranks(claims: ClaimTable) -> Numbers:
    return np.arange(len(claims.row_of_chunk)) - claims.chunk_starts[:-1][claims.row_of_chunk] + 1


def _fading(times: int, alpha: float) -> NDArray[np.float64]:
    """Return the gain of a claim at its first, second, ... appearance, multiplied step by step."""
    factors = np.full(times, 1.0 - alpha)
    factors[:1] = 1.0
    return np.multiply.accumulate(factors)


def _cell_gains(claims: ClaimTable, supports: NDArray[np.bool_], alpha: float) -> Values:
    """Return the gain of each supporting cell: the less, the more chunks above support its claim."""
    times = claims.seen_before(supports)[supports]
    return _fading(int(times.max(initial=-1)) + 1, alpha)[times]


def ideal_gain(
    claims: ClaimTable, supports: NDArray[np.bool_], k: int | None, alpha: float, ties: Ties = "rank"
) -> Values:
    """Return alpha-DCG of the greedy order of all chunks: each next chunk gains most of those left."""
    if ties == "id" and claims.by_id is None:
        raise MetricError("ties=id needs the ids of the chunks; give the claims `ids`, or use ties=rank")
    ideal = np.zeros(len(claims))
    claim, chunk = claims.claim[supports], claims.chunk[supports]
    row_of_chunk = claims.row_of_chunk
    worth = np.ones(len(claims.vital))
    rank = 0
    while len(chunk) and (k is None or rank < k):
        rank += 1
        gains = np.bincount(chunk, weights=worth[claim], minlength=len(row_of_chunk))
        near = np.round(gains, TIE)
        left = np.unique(chunk)  # sorted, and so by trace and in it by rank
        rows = row_of_chunk[left]
        begins = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
        best = np.maximum.reduceat(near[left], begins)
        reached = left[near[left] == np.repeat(best, np.diff(np.append(begins, len(left))))]
        if ties == "id" and claims.by_id is not None:
            reached = reached[np.lexsort((claims.by_id[reached], row_of_chunk[reached]))]
        rows = row_of_chunk[reached]
        chosen = reached[np.concatenate([[True], rows[1:] != rows[:-1]])]
        ideal[row_of_chunk[chosen]] += gains[chosen] / np.log2(rank + 1.0)
        taken = np.zeros(len(row_of_chunk), dtype=np.bool_)
        taken[chosen] = True
        gone = taken[chunk]
        worth[claim[gone]] *= 1.0 - alpha
        claim, chunk = claim[~gone], chunk[~gone]
    return ideal


def alpha_ndcg_bounds(
    table: GradeTable,
    k: int | None = None,
    *,
    alpha: float = 0.5,
    ties: Ties = "rank",
    **support: Unpack[claim_bounds.SupportOptions],
) -> Bounds:
    """Return the bounds of alpha-nDCG: over all completions if they are few, else outer ones."""
    # Alpha-DCG never falls if one more chunk supports a claim. So the least is divided by the upper bound
    # over all orders, and the greatest by the least gain of the first chunk of the ideal list.
    claims, sure, possible = claim_bounds.support_of(table, **support)
    best = most_gain(claims, sure | possible, k, alpha)
    low = discounted_gain(claims, sure, k, alpha)
    np.divide(low, best, out=low, where=best > 0)
    first = ideal_gain(claims, sure, 1, alpha)
    high = discounted_gain(claims, sure | possible, k, alpha)
    high = np.where(first > 0, np.minimum(high / np.maximum(first, 1), 1.0), high > 0)
    params = {"alpha": alpha, "ties": ties, **support, "dedup": "none"}
    return claim_bounds.bounds_by_completion(table, claims, k, alpha_ndcg, params, (low, high))


ALPHA = Parameter("alpha", 0.5, {}, "alpha", "share")

TIES = Parameter(
    "ties",
    "rank",
    {
        "rank": "of equals the chunk that stands higher in the list comes first",
        "id": "of equals the chunk with the greater id comes first, as in ndeval",
    },
    "ties of the ideal order",
)

SPECS = (
    rag(
        "alpha-NDCG",
        (ALPHA, TIES, claim_bounds.LEAST, claim_bounds.CLAIM_DEDUP),
        alpha_ndcg,
        "alpha-DCG@K / its ideal, with alpha-DCG@K = sum over ranks i <= K of g_i / log2(i + 1), g_i = sum "
        "over the claims that the chunk at rank i supports of (1 - alpha)^(chunks above that support it), "
        "the ideal = the same for all retrieved chunks put in order one by one, the greatest gain first "
        f"(Clarke et al. 2008); 0 if the ideal is 0, never above 1, {claim_bounds.NONE}",
        bounds=alpha_ndcg_bounds,
    ),
)

ALIASES = {"alpha-nDCG": "alpha-NDCG", "alphaNDCG": "alpha-NDCG", "alpha_nDCG": "alpha-NDCG"}
