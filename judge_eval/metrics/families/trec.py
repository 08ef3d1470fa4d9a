"""Metrics exactly as trec_eval computes them."""

from functools import partial
from typing import Any, Literal

import numpy as np

from judge_eval.metrics.families.gain import ndcg
from judge_eval.metrics.families.relevance import (
    V,
    average_precision,
    count_relevant,
    divide,
    hit_rate,
    recall,
    reciprocal_rank,
    total_relevant,
)
from judge_eval.metrics.spec import REL, Compute, Spec
from judge_eval.metrics.table import GradeTable, Values

INFAP_EPSILON = 0.00001


def p(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`P_k`: relevant documents within the top k over k, however short the list is."""
    total_relevant(table, rel)
    assert k is not None
    return count_relevant(table, k, rel) / k


def success(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`success_k`: 1 if the top k hold a relevant document, else 0."""
    total_relevant(table, rel)
    return hit_rate(table, k, rel=rel)


def recip_rank(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`recip_rank`: 1 / rank of the first relevant document in the whole list, else 0."""
    total_relevant(table, rel)
    return reciprocal_rank(table, k, rel=rel)


def relative_p(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`relative_P_k` and `set_relative_P`: relevant documents within the top k over the most there can be."""
    most = np.minimum(total_relevant(table, rel), table.lengths if k is None else k)
    return divide(count_relevant(table, k, rel), most)


def rprec(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`Rprec`: precision at rank R, where R is the number of relevant documents."""
    relevant = total_relevant(table, rel)
    least = table.relevant if rel is None else rel
    hits = np.zeros(len(table))
    for rows, grid in table.blocks(k):
        ranks = np.arange(len(grid))[:, None]
        hits[rows] = ((grid >= least) & (ranks < relevant[rows])).sum(axis=0)
    return divide(hits, relevant)


def bpref(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`bpref`: how seldom judged non-relevant documents stand above relevant ones (Buckley & Voorhees 2004)."""
    # Unjudged documents are passed over.
    relevant = total_relevant(table, rel)
    least = table.relevant if rel is None else rel
    # A verdict on a document outside the pool is a judgment too.
    others = np.maximum(table.pool_judged() - relevant, table.found_at(0) - table.found_at(least))
    most = np.minimum(relevant, others)
    sums = np.zeros(len(table))
    for rows, grid in table.blocks(k):
        cap, bound = relevant[rows], np.maximum(most[rows], 1)
        above = np.zeros(grid.shape[1], dtype=np.int64)
        total = np.zeros(grid.shape[1])
        for grades in grid:
            total += (grades >= least) * (1 - np.minimum(above, cap) / bound)
            above += (grades >= 0) & (grades < least)
        sums[rows] = total
    return divide(sums, relevant)


def infap(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`infAP`: average precision inferred from a sampled pool (Yilmaz & Aslam 2006)."""
    # "Pooled above" counts judged documents, and unjudged ones of the pool.
    relevant = total_relevant(table, rel)
    least = table.relevant if rel is None else rel
    sums = np.zeros(len(table))
    for rows, grid in table.blocks(k):
        n = grid.shape[1]
        good, judged, pooled, total = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
        for rank, grades in enumerate(grid, 1):
            chance = (good + INFAP_EPSILON) / (judged + 2 * INFAP_EPSILON)
            total += (grades >= least) * (1 + pooled * chance) / rank
            good += grades >= least
            judged += grades >= 0
            pooled += (grades >= 0) | (grades == -1)
        sums[rows] = total
    return divide(sums, relevant)


def set_p(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`set_P`: relevant documents in the list over its length."""
    total_relevant(table, rel)
    return divide(count_relevant(table, k, rel), table.lengths)


def set_map(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`set_map`: `set_P` times `set_recall`."""
    return set_p(table, k, rel=rel) * recall(table, k, rel=rel)


def set_f(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`set_F`: the harmonic mean of `set_P` and `set_recall`."""
    precision, share = set_p(table, k, rel=rel), recall(table, k, rel=rel)
    return divide(2 * precision * share, precision + share)


TR = "R = all relevant documents in the qrels (at least those retrieved); 0 if R = 0"


def _trec(name: str, compute: Compute, formula: str, cutoff: Literal["required", "none"] = "none", **more: Any) -> Spec:
    parameters, reads = more.pop("parameters", (REL,)), more.pop("reads", "relevance")
    return Spec(name, "trec", cutoff, parameters, compute, formula, needs_total=True, reads=reads, **more)


IDEAL_OF_POOL = (
    "gain_i = the grade at rank i, discount log2(i + 1), IDCG over all judged documents; the relevance level "
    "plays no part"
)

_MAP, _NDCG = partial(average_precision, norm="total"), partial(ndcg, ideal="judged")

SPECS = (
    _trec("map", _MAP, f"(1/R) * sum over ranks i of P@i * v_i, with {V}; {TR}"),
    _trec("map_cut", _MAP, f"(1/R) * sum over ranks i <= K of P@i * v_i, with {V}; {TR}", "required"),
    _trec("P", p, "relevant documents within the top K / K, however short the list is", "required"),
    _trec("recall", recall, f"relevant documents within the top K / R; {TR}", "required"),
    _trec("success", success, "1 if the top K hold a relevant document, else 0", "required"),
    _trec("relative_P", relative_p, f"relevant documents within the top K / min(K, R); {TR}", "required"),
    _trec("recip_rank", recip_rank, "1 / rank of the first relevant document; 0 if there is none"),
    _trec("Rprec", rprec, f"relevant documents within the top R / R; {TR}"),
    _trec(
        "bpref",
        bpref,
        f"(1/R) * sum over relevant retrieved documents of 1 - min(n, R) / min(N, R), with n = the judged "
        f"non-relevant documents above it, N = all judged non-relevant ones; {TR}",
        needs_pool=True,
    ),
    _trec(
        "infAP",
        infap,
        "average precision inferred from a sampled pool: at a relevant document of rank r, 1/r + (r-1)/r * "
        "(pooled above / (r-1)) * (relevant above + e) / (judged above + 2e), e = 0.00001, summed, over R; "
        f"{TR}",
        needs_pool=True,
        reads="anything",
    ),
    _trec("ndcg", _NDCG, f"DCG / IDCG with {IDEAL_OF_POOL}", parameters=(), needs_pool=True, reads="grades"),
    _trec(
        "ndcg_cut",
        _NDCG,
        f"DCG@K / IDCG@K with {IDEAL_OF_POOL}",
        "required",
        parameters=(),
        needs_pool=True,
        reads="grades",
    ),
    _trec("set_P", set_p, "relevant documents retrieved / retrieved; 0 for an empty list"),
    _trec("set_recall", recall, f"relevant documents retrieved / R; {TR}"),
    _trec("set_F", set_f, f"2 * set_P * set_recall / (set_P + set_recall); {TR}"),
    _trec("set_map", set_map, f"set_P * set_recall; {TR}"),
    _trec("set_relative_P", relative_p, f"relevant documents retrieved / min(retrieved, R); {TR}"),
)
