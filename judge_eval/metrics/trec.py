"""Metrics exactly as trec_eval computes them."""

from __future__ import annotations

import numpy as np

from judge_eval.metrics.gain import ndcg
from judge_eval.metrics.relevance import count_relevant, divide, mean_precision, reciprocal_rank
from judge_eval.metrics.table import GradeTable, IntValues, Values

INFAP_EPSILON = 0.00001


def _relevant(table: GradeTable, rel: int | None) -> IntValues:
    """Return how many relevant chunks exist; every trec_eval measure rests on a known pool."""
    return table.totals_at(table.relevant if rel is None else rel)


def map_cut(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`map` and `map_cut_k`: the sum of precisions at relevant ranks <= k over all relevant documents."""
    return mean_precision(table, k, _relevant(table, rel), rel)


def p(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`P_k`: relevant documents within the top k over k, however short the list is."""
    _relevant(table, rel)
    assert k is not None
    return count_relevant(table, k, rel) / k


def recall_cut(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`recall_k` and `set_recall`: relevant documents within the top k over all relevant documents."""
    return divide(count_relevant(table, k, rel), _relevant(table, rel))


def success(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`success_k`: 1 where the top k hold a relevant document, else 0."""
    _relevant(table, rel)
    return (count_relevant(table, k, rel) > 0).astype(np.float64)


def recip_rank(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`recip_rank`: 1 / rank of the first relevant document in the whole list, else 0."""
    _relevant(table, rel)
    return reciprocal_rank(table, k, rel=rel)


def relative_p(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`relative_P_k` and `set_relative_P`: relevant documents within the top k over the most there can be."""
    most = np.minimum(_relevant(table, rel), table.lengths if k is None else k)
    return divide(count_relevant(table, k, rel), most)


def rprec(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`Rprec`: precision at rank R, where R is the number of relevant documents."""
    relevant = _relevant(table, rel)
    least = table.relevant if rel is None else rel
    hits = np.zeros(len(table))
    for rows, grid in table.blocks(k):
        ranks = np.arange(len(grid))[:, None]
        hits[rows] = ((grid >= least) & (ranks < relevant[rows])).sum(axis=0)
    return divide(hits, relevant)


def bpref(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`bpref`: how seldom judged non-relevant documents stand above relevant ones (Buckley & Voorhees 2004).

    (1 / R) * sum over relevant retrieved of 1 - min(n, R) / min(N, R), with n the judged non-relevant
    documents ranked above, N all judged non-relevant ones. Unjudged documents are passed over.
    """
    relevant = _relevant(table, rel)
    least = table.relevant if rel is None else rel
    # What a judge found beyond the pool is judged too.
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
    """`infAP`: average precision inferred from a sampled pool (Yilmaz & Aslam 2006).

    A relevant document at rank r adds 1/r + (r-1)/r * (pool above / (r-1)) * (relevant above + e) /
    (judged above + 2e), e = 0.00001; "pool above" counts judged and pooled-but-unjudged documents.
    """
    relevant = _relevant(table, rel)
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


def ndcg_cut(table: GradeTable, k: int | None = None) -> Values:
    """`ndcg` and `ndcg_cut_k`: linear gain, log2 discount, ideal over all judged documents."""
    return ndcg(table, k, ideal="judged")


def set_p(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`set_P`: relevant documents in the list over its length."""
    _relevant(table, rel)
    return divide(count_relevant(table, k, rel), table.lengths)


def set_map(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`set_map`: `set_P` times `set_recall`."""
    return set_p(table, k, rel=rel) * recall_cut(table, k, rel=rel)


def set_f(table: GradeTable, k: int | None = None, *, rel: int | None = None) -> Values:
    """`set_F`: the harmonic mean of `set_P` and `set_recall`."""
    precision, recall = set_p(table, k, rel=rel), recall_cut(table, k, rel=rel)
    return divide(2 * precision * recall, precision + recall)
