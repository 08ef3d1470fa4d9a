"""Metrics that reward claims on top and discount claims that were seen above."""

from dataclasses import replace
from functools import lru_cache
from typing import Literal, TypeAlias, Unpack

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import MetricError
from judge_eval.metrics import claim_bounds
from judge_eval.metrics.bounds import Bounds
from judge_eval.metrics.claim_table import LEFT_ALONE, ClaimTable
from judge_eval.metrics.families.relevance import divide
from judge_eval.metrics.ragged import ranks_of
from judge_eval.metrics.spec import Parameter, rag
from judge_eval.metrics.table import GradeTable, Values

Intents: TypeAlias = Literal["found", "all"]
"""Which claims an average is over: those that some retrieved chunk supports, or all."""

Ties: TypeAlias = Literal["rank", "id"]
"""Which of equally good chunks comes first in an ideal order."""

NOTHING = 1e-18
"""What adds nothing to a sum of at least 1."""
RANKS = 1 << 18
"""How many ranks are added up at once."""


def alpha_ndcg(
    table: GradeTable,
    k: int | None = None,
    *,
    alpha: float = 0.5,
    ties: Ties = "rank",
    **support: Unpack[claim_bounds.SupportOptions],
) -> Values:
    """Alpha-nDCG (Clarke et al. 2008) with claims as subtopics and the retrieved chunks as the pool."""
    # The ideal order is made rank by rank, as ndeval does; it need not be the best, so a list can beat it.
    claims, supports, _ = claim_bounds.support_of(table, **support)
    ideal = ideal_gain(claims, supports, k, alpha, ties)
    values = divide(discounted_gain(claims, supports, k, alpha), ideal)
    return claim_bounds.with_claims(np.minimum(values, 1.0), claims)


def discounted_gain(claims: ClaimTable, supports: NDArray[np.bool_], k: int | None, alpha: float) -> Values:
    """Return alpha-DCG of each row: what its first `k` chunks gain, discounted by their rank."""
    top = supports & claims.down_to(k)
    gains = np.bincount(claims.chunk[top], weights=_cell_gains(claims, top, alpha), minlength=len(claims.row_of_chunk))
    return claims.per_row_of_chunks(gains / np.log2(ranks_of(claims.chunk_starts) + 2.0))


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
    ranks = ranks_of(claims.chunk_starts)
    if k is not None:
        best_first = np.where(ranks < k, best_first, 0)
    return np.minimum(claims.per_row(sums[times]), claims.per_row_of_chunks(best_first / np.log2(ranks + 2.0)))


def err_ia(
    table: GradeTable,
    k: int | None = None,
    *,
    alpha: float = 0.5,
    of: Intents = "found",
    **support: Unpack[claim_bounds.SupportOptions],
) -> Values:
    """Intent-aware expected reciprocal rank (Chapelle et al. 2009) as ndeval scales it, claims as intents."""
    claims, supports, _ = claim_bounds.support_of(table, **support)
    gains = claims.per_row(intent_gains(claims, supports, k, alpha))
    intents = claims.per_row(claims.any_claim(supports)) if of == "found" else claims.counts
    return claim_bounds.with_claims(np.minimum(divide(gains, intents * best_of_intent(claims, k, alpha)), 1.0), claims)


def best_of_intent(claims: ClaimTable, k: int | None, alpha: float) -> Values:
    """Return for each row the gain of a claim that each of the first `k` chunks supports."""
    if k is not None:
        return np.full(len(claims), _best(k, alpha))
    longest = int(claims.lengths.max(initial=0))
    sums = np.cumsum(_fading(longest, alpha) / np.arange(1.0, longest + 1))
    return np.concatenate([[0.0], sums])[claims.lengths]


@lru_cache(maxsize=64)
def _best(k: int, alpha: float) -> float:
    """Add up (1 - alpha)^(i - 1) / i over the first `k` ranks, which may be far beyond any list."""
    if alpha == 0 and k > RANKS:
        return float(np.log(k) + np.euler_gamma + 1 / (2 * k) - 1 / (12 * k**2))
    total, worth, start = 0.0, 1.0, 0
    while start < k and worth > NOTHING:
        count = min(RANKS, k - start)
        factors = _fading(count, alpha) * worth
        total += float(np.sum(factors / np.arange(start + 1.0, start + count + 1)))
        start, worth = start + count, float(factors[-1]) * (1 - alpha)
    return total


def intent_gains(claims: ClaimTable, supports: NDArray[np.bool_], k: int | None, alpha: float) -> Values:
    """Return the gain of each claim in ERR-IA, before the average."""
    top = supports & claims.down_to(k)
    gains = _cell_gains(claims, top, alpha) / (claims.rank[top] + 1.0)
    return np.bincount(claims.claim[top], weights=gains, minlength=len(claims.vital)).astype(np.float64)


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
        near = np.round(gains, 12)  # gains that agree so far are one, summed in two orders
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


def err_ia_bounds(
    table: GradeTable,
    k: int | None = None,
    *,
    alpha: float = 0.5,
    of: Intents = "found",
    **support: Unpack[claim_bounds.SupportOptions],
) -> Bounds:
    """Return the exact bounds of ERR-IA."""
    # The gain of a claim never falls if one more chunk supports it: its t-th best rank can only improve.
    # Claims do not affect each other, but the mean is over every claim that is found; so its extremes are
    # over the claims that are surely found, with the worst (or the best) of the others.
    if of == "all":
        return claim_bounds.rising(err_ia)(table, k, alpha=alpha, of=of, **support)
    claims, sure, possible = claim_bounds.support_of(table, **support)
    left_alone = replace(table, claims=claims.filled(LEFT_ALONE, LEFT_ALONE))
    low = err_ia(left_alone, k, alpha=alpha, **support)
    high = low.copy()
    certain, maybe = claims.any_claim(sure), claims.any_claim(possible)
    least_gain = intent_gains(claims, sure, k, alpha)
    most = intent_gains(claims, sure | possible, k, alpha)
    last = np.zeros(len(claims.vital), dtype=np.int64)
    np.maximum.at(last, claims.claim[possible], claims.rank[possible] + 1)
    alone = np.where((last > 0) & (k is None or last <= k), 1.0 / np.maximum(last, 1), 0.0)
    whole = best_of_intent(claims, k, alpha)
    for row in np.flatnonzero(np.bincount(claims.row_of_claim[maybe], minlength=len(claims))).tolist():
        mine = slice(*np.searchsorted(claims.row_of_claim, [row, row + 1]).tolist())
        anyway, other = certain[mine], maybe[mine] & ~certain[mine]
        low[row] = _least_mean(least_gain[mine][anyway], alone[mine][other]) / whole[row]
        high[row] = min(1.0, -_least_mean(-most[mine][anyway], -most[mine][other]) / whole[row])
    return claim_bounds.unknown_claims(claims, low, high, np.ones(len(claims), dtype=np.bool_), 1.0)


def _least_mean(sure: Values, other: Values) -> float:
    """Return the least mean of all `sure` values and any of the `other` ones; the mean of none is 0."""
    means = [] if len(sure) else [0.0]
    values = np.concatenate([sure, np.sort(other)])
    sums = np.cumsum(values)
    means += [sums[count - 1] / count for count in range(max(1, len(sure)), len(values) + 1)]
    return float(min(means))


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

INTENTS = Parameter(
    "of",
    "found",
    {"found": "N = the claims that some retrieved chunk supports", "all": "N = all claims of the reference"},
    "claims",
)

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
    rag(
        "ERR-IA",
        (ALPHA, INTENTS, claim_bounds.LEAST, claim_bounds.CLAIM_DEDUP),
        err_ia,
        "(1/N) * sum over claims of E_j / E, E_j = sum over ranks i <= K whose chunk supports claim j of "
        "(1 - alpha)^(chunks above that support it) / i, E = the same if every chunk supports it (Chapelle "
        f"et al. 2009, in ndeval's scale); 0 if no chunk supports a claim, {claim_bounds.NONE}",
        bounds=err_ia_bounds,
    ),
)

ALIASES = {
    "alpha-nDCG": "alpha-NDCG",
    "alphaNDCG": "alpha-NDCG",
    "alpha_nDCG": "alpha-NDCG",
    "ERRIA": "ERR-IA",
    "ERR_IA": "ERR-IA",
}
