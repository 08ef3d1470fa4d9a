"""Metrics that reward claims on top and discount claims that were seen above."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from judge_eval.metrics.cells import ClaimTable, Numbers
from judge_eval.metrics.claims.covering import Dedup, Least, claims_of, least_of, with_claims
from judge_eval.metrics.ragged import SLICE
from judge_eval.metrics.relevance import divide
from judge_eval.metrics.table import GradeTable, Values

Intents: TypeAlias = Literal["found", "all"]
"""Which claims an average is over: those that some retrieved chunk supports, or all."""

TIE = 12
"""Gains that agree in so many decimals are one, summed in two orders."""
NOTHING = 1e-18
"""What adds nothing to a sum of at least 1."""


def alpha_ndcg(
    table: GradeTable,
    k: int | None = None,
    *,
    alpha: float = 0.5,
    least: Least = "full",
    dedup: Dedup = "text",
) -> Values:
    """Alpha-nDCG (Clarke et al. 2008) with claims as subtopics and the retrieved chunks as the pool.

    sum over ranks i <= k of g_i / log2(i + 1), g_i = sum over the claims that the chunk supports of
    (1 - alpha)^(how many chunks above support it), over the same sum for an ideal order of all retrieved
    chunks. That is made rank by rank, as ndeval does: next comes the chunk that gains most, of equals the one
    that stands highest in the list.

    Args:
        table: The table with `claims`, and with `repeats` where texts may stand twice.
        k: The cutoff of both lists; None takes them whole.
        alpha: How much a claim loses each time it is seen, from 0 to 1.
        least: The least support that counts.
        dedup: With `"text"` a chunk that reads like an earlier one supports nothing.

    Returns:
        float64 in [0, 1], one value a row; 0 where no chunk supports a claim, NaN where there is no claim.
        Where the list is better than the ideal one, which need not be the best, 1.0.

    Raises:
        MetricError: Nobody judged by claims.
    """
    claims = claims_of(table, dedup)
    supports = claims.cells >= least_of(least)
    values = divide(discounted_gain(claims, supports, k, alpha), ideal_gain(claims, supports, k, alpha))
    return with_claims(np.minimum(values, 1.0), claims)


def discounted_gain(claims: ClaimTable, supports: NDArray[np.bool_], k: int | None, alpha: float) -> Values:
    """Return alpha-DCG of each row: what its first `k` chunks gain, discounted by their rank."""
    top = supports & claims.down_to(k)
    gains = np.bincount(
        claims.chunk[top], weights=_cell_gains(claims, top, alpha), minlength=len(claims.row_of_chunk)
    )
    return claims.per_row_of_chunks(gains / np.log2(_ranks(claims) + 1.0))


def most_gain(claims: ClaimTable, supports: NDArray[np.bool_], k: int | None, alpha: float) -> Values:
    """Return what alpha-DCG cannot exceed in any order.

    Neither what each claim brings by itself in the best places there are, nor what the chunks bring with the
    most claims on top, were no claim to fade.
    """
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
    return np.minimum(
        claims.per_row(sums[times]), claims.per_row_of_chunks(best_first / np.log2(ranks + 1.0))
    )


def err_ia(
    table: GradeTable,
    k: int | None = None,
    *,
    alpha: float = 0.5,
    of: Intents = "found",
    least: Least = "full",
    dedup: Dedup = "text",
) -> Values:
    """Intent-aware expected reciprocal rank (Chapelle et al. 2009) as ndeval scales it, claims as intents.

    For each claim the sum over ranks i <= k, whose chunk supports it, of (1 - alpha)^(how many above do) / i,
    averaged over the claims, and divided by what a list would have of which each chunk supports all.

    Args:
        table: The table with `claims`, and with `repeats` where texts may stand twice.
        k: The cutoff, which a shorter list is filled up to; None takes the list as it is.
        alpha: How much a claim loses each time it is seen, from 0 to 1.
        of: The claims that some retrieved chunk supports, as ndeval has it, or all.
        least: The least support that counts.
        dedup: With `"text"` a chunk that reads like an earlier one supports nothing.

    Returns:
        float64 in [0, 1], one value a row; 0 where no chunk supports a claim, NaN where there is no claim.

    Raises:
        MetricError: Nobody judged by claims.
    """
    claims = claims_of(table, dedup)
    supports = claims.cells >= least_of(least)
    gains = claims.per_row(intent_gains(claims, supports, k, alpha))
    intents = claims.per_row(claims.any_claim(supports)) if of == "found" else claims.counts
    return with_claims(np.minimum(divide(gains, intents * best_of_intent(claims, k, alpha)), 1.0), claims)


def best_of_intent(claims: ClaimTable, k: int | None, alpha: float) -> Values:
    """Return for each row what a claim would bring that every one of the first `k` chunks supports."""
    if k is not None:
        return np.full(len(claims), _best(k, alpha))
    longest = int(claims.lengths.max(initial=0))
    sums = np.cumsum(_fading(longest, alpha) / np.arange(1.0, longest + 1))
    return np.concatenate([[0.0], sums])[claims.lengths]


@lru_cache(maxsize=64)
def _best(k: int, alpha: float) -> float:
    """Add up (1 - alpha)^(i - 1) / i over the first `k` ranks, which may be far beyond any list."""
    if alpha == 0 and k > SLICE:
        return float(np.log(k) + np.euler_gamma + 1 / (2 * k) - 1 / (12 * k**2))
    total, worth, start = 0.0, 1.0, 0
    while start < k and worth > NOTHING:
        count = min(SLICE, k - start)
        factors = _fading(count, alpha) * worth
        total += float(np.sum(factors / np.arange(start + 1.0, start + count + 1)))
        start, worth = start + count, float(factors[-1]) * (1 - alpha)
    return total


def intent_gains(claims: ClaimTable, supports: NDArray[np.bool_], k: int | None, alpha: float) -> Values:
    """Return what each claim brings to ERR-IA before it is averaged."""
    top = supports & claims.down_to(k)
    gains = _cell_gains(claims, top, alpha) / (claims.rank[top] + 1.0)
    sums = np.bincount(claims.claim[top], weights=gains, minlength=len(claims.vital))
    return sums.astype(np.float64)


def _ranks(claims: ClaimTable) -> Numbers:
    """Return the rank of each chunk, counted from 1."""
    return np.arange(len(claims.row_of_chunk)) - claims.chunk_starts[:-1][claims.row_of_chunk] + 1


def _fading(times: int, alpha: float) -> NDArray[np.float64]:
    """Return what a claim gains that is seen for the first, second, ... time, multiplied step by step."""
    factors = np.full(times, 1.0 - alpha)
    factors[:1] = 1.0
    return np.multiply.accumulate(factors)


def _cell_gains(claims: ClaimTable, supports: NDArray[np.bool_], alpha: float) -> Values:
    """Return what each chosen cell brings: the less, the more chosen ones of its claim stand above."""
    times = claims.seen_before(supports)[supports]
    return _fading(int(times.max(initial=-1)) + 1, alpha)[times]


def ideal_gain(claims: ClaimTable, supports: NDArray[np.bool_], k: int | None, alpha: float) -> Values:
    """Return alpha-DCG of the greedy order of all chunks: each next chunk gains most of those left."""
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
        rows = row_of_chunk[reached]
        chosen = reached[np.concatenate([[True], rows[1:] != rows[:-1]])]
        ideal[row_of_chunk[chosen]] += gains[chosen] / np.log2(rank + 1.0)
        taken = np.zeros(len(row_of_chunk), dtype=np.bool_)
        taken[chosen] = True
        gone = taken[chunk]
        worth[claim[gone]] *= 1.0 - alpha
        claim, chunk = claim[~gone], chunk[~gone]
    return ideal
