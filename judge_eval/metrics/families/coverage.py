"""Metrics that ask which claims are covered, whatever the order."""

from dataclasses import replace
from typing import Literal, TypeAlias, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from judge_eval import limits
from judge_eval.metrics import claim_bounds
from judge_eval.metrics.bounds import Bounds
from judge_eval.metrics.claim_table import CONTRADICTED, FULLY, LEFT_ALONE, PARTLY, ClaimTable
from judge_eval.metrics.families.relevance import READ, depth, divide, reading_of
from judge_eval.metrics.spec import Parameter, rag
from judge_eval.metrics.table import GradeTable, Values

Score: TypeAlias = Literal["all", "all_strict", "vital", "vital_strict", "weighted", "weighted_strict"]

CREDITS = {"none": 0.0, "half": 0.5, "full": 1.0}
OKAY_WEIGHTS = {"all": 1.0, "vital": 0.0, "weighted": 0.5}


def _recall(claims: ClaimTable, k: int | None, weights: NDArray[np.float64], partly: float) -> Values:
    """Return the weighted share of claims that the first `k` chunks cover; NaN if no claim has weight."""
    top = claims.down_to(k)
    fully = claims.any_claim(top & (claims.cells == FULLY))
    credit = fully.astype(np.float64)
    if partly:
        credit[~fully & claims.any_claim(top & (claims.cells == PARTLY))] = partly
    total = claims.per_row(weights)
    return np.where(total > 0, divide(claims.per_row(credit * weights), total), np.nan)


class RecallOptions(TypedDict, total=False):
    """The parameters of ClaimRecall."""

    partial: Literal["none", "half", "full"]
    of: Literal["all", "vital"]


def claim_recall(table: GradeTable, k: int | None = None, **options: Unpack[RecallOptions]) -> Values:
    """Return the share of the claims (all, or the vital ones) that a chunk among the first `k` supports."""
    claims = claim_bounds.claims_of(table)
    weights = claims.vital if options.get("of") == "vital" else np.ones(len(claims.vital))
    return _recall(claims, k, weights.astype(np.float64), CREDITS[options.get("partial", "none")])


def _claims_read(table: GradeTable, words: int, options: RecallOptions, *, failed: bool) -> Values:
    """Return ClaimRecall within so many words; `failed`: the most it could be if failed verdicts supported claims."""
    claims, reading = claim_bounds.claims_of(table), reading_of(table)
    credit = ((reading.possible if failed else reading.full) <= words).astype(np.float64)
    credit = np.maximum(credit, CREDITS[options.get("partial", "none")] * (reading.partly <= words))
    only_vital = options.get("of") == "vital"
    weights = claims.per_row(claims.vital) if only_vital else np.maximum(claims.counts, 0)
    read = claims.per_row(credit * claims.vital if only_vital else credit)
    return np.where(weights > 0, divide(read, weights), np.nan)


def claim_recall_in_words(table: GradeTable, words: int, **options: Unpack[RecallOptions]) -> Values:
    """Return the share of the claims whose evidence has been read within the first words of the list."""
    return _claims_read(table, words, options, failed=False)


def claim_recall_in_words_bounds(table: GradeTable, words: int, **options: Unpack[RecallOptions]) -> Bounds:
    """Return the bounds of `claim_recall_in_words`: a failed chunk may support any claim with any words of it."""
    low, high = (_claims_read(table, words, options, failed=failed) for failed in (False, True))
    return claim_bounds.unknown_claims(claim_bounds.claims_of(table), low, high, np.ones(len(low), dtype=np.bool_), 1.0)


def nugget_recall(table: GradeTable, k: int | None = None, *, score: Score = "vital_strict") -> Values:
    """Return the nugget scores of AutoNuggetizer (Pradeep et al. 2024), with claims as nuggets."""
    claims = claim_bounds.claims_of(table)
    weights = np.where(claims.vital, 1.0, OKAY_WEIGHTS[score.removesuffix("_strict")])
    return _recall(claims, k, weights, 0.0 if score.endswith("_strict") else 0.5)


def sufficiency(table: GradeTable, k: int | None = None) -> Values:
    """Return 1.0 if one of the first `k` chunks, or all together, support each vital claim, else 0.0."""
    # What the chunks cover together counts only if the first `k` are all chunks. NaN if no claim is vital.
    claims = claim_bounds.claims_of(table)
    covered = claims.any_claim(claims.down_to(k) & (claims.cells == FULLY))
    whole = (claims.lengths > 0) & (depth(table, k) == claims.lengths)
    covered |= whole[claims.row_of_claim] & (claims.together == FULLY)
    vital = claims.per_row(claims.vital)
    values = (claims.per_row(claims.vital & covered) == vital).astype(np.float64)
    return np.where(vital > 0, values, np.nan)


def claim_precision(table: GradeTable, k: int | None = None, **support: Unpack[claim_bounds.SupportOptions]) -> Values:
    """Return the share of the first `k` chunks that support at least one claim."""
    claims, supports, _ = claim_bounds.support_of(table, **support)
    return _share(table, claims, k, supports)


def conflict(table: GradeTable, k: int | None = None, *, dedup: claim_bounds.Dedup = "text") -> Values:
    """Return the share of the first `k` chunks that contradict at least one claim: the less the better."""
    claims = claim_bounds.claims_of(table, dedup)
    return _share(table, claims, k, claims.cells == CONTRADICTED)


def novelty(table: GradeTable, k: int | None = None, *, least: claim_bounds.Least = "full") -> Values:
    """Return the number of claims that the first `k` chunks support, over min(k, retrieved)."""
    claims, supports, _ = claim_bounds.support_of(table, least, "none")
    new = claims.any_claim(claims.down_to(k) & supports)
    return claim_bounds.with_claims(divide(claims.per_row(new), depth(table, k)), claims)


def redundancy(table: GradeTable, k: int | None = None, *, least: claim_bounds.Least = "full") -> Values:
    """Return the share of the supporting chunks among the first `k` without a new claim, in [0, 1)."""
    claims, supports, _ = claim_bounds.support_of(table, least, "none")
    supports &= claims.down_to(k)
    supporting = claims.any_chunk(supports)
    new = claims.any_chunk(supports & (claims.seen_before(supports) == 0))
    idle = claims.per_row_of_chunks(supporting & ~new)
    return claim_bounds.with_claims(divide(idle, claims.per_row_of_chunks(supporting)), claims)


def _share(table: GradeTable, claims: ClaimTable, k: int | None, cells: NDArray[np.bool_]) -> Values:
    chunks = claims.any_chunk(claims.down_to(k) & cells)
    return claim_bounds.with_claims(divide(claims.per_row_of_chunks(chunks), depth(table, k)), claims)


def redundancy_bounds(table: GradeTable, k: int | None = None, *, least: claim_bounds.Least = "full") -> Bounds:
    """Return the bounds of Redundancy: over all completions where they are few, else outer ones."""
    # A chunk is surely redundant if all its cells are known and a chunk above surely supports each of its
    # claims. It is surely not if no chunk above can support one of its claims; at least one chunk is not.
    claims, sure, possible = claim_bounds.support_of(table, least, "none")
    top = claims.down_to(k)
    claims = replace(claims, cells=np.where(top, claims.cells, LEFT_ALONE).astype(np.int8))
    sure, possible = sure & top, possible & top
    supporting, open_ = claims.any_chunk(sure), claims.any_chunk(possible)
    seen, maybe = claims.seen_before(sure) > 0, claims.seen_before(possible) > 0
    idle = supporting & ~open_ & ~claims.any_chunk(sure & ~seen)
    new = claims.any_chunk(sure & ~seen & ~maybe)
    there = claims.per_row_of_chunks(supporting | open_)
    low, high = claims.per_row_of_chunks(idle), there - np.maximum(claims.per_row_of_chunks(new), 1.0)
    for values in (low, high):
        np.divide(values, there, out=values, where=there > 0)
    high = np.maximum(high, 0.0)
    return claim_bounds.bounds_by_completion(table, claims, k, redundancy, {"least": least}, (low, high))


IN_FULL = "c_j = 1 if a chunk within the top K supports claim j in full"

PARTIAL = Parameter(
    "partial",
    "none",
    {
        "none": f"{IN_FULL}, else 0",
        "half": f"{IN_FULL}, 1/2 if one does in part, else 0",
        "full": f"{IN_FULL} or in part, else 0",
    },
    "credit",
)

READ_IN_FULL = "c_j = 1 if evidence of full support for claim j is read within the first B words of the list"

PARTIAL_IN_WORDS = Parameter(
    "partial",
    "none",
    {
        "none": f"{READ_IN_FULL}, else 0",
        "half": f"{READ_IN_FULL}, 1/2 if evidence of partial support is, else 0",
        "full": "c_j = 1 if evidence of support for claim j, full or partial, is read within the first B words of the "
        "list, else 0",
    },
    "credit",
)

OF_CLAIMS = Parameter(
    "of", "all", {"all": "over all claims of the reference", "vital": "over its vital claims"}, "claims"
)

LENIENT, STRICT = (f"s_j = {worth} if the best support is partial" for worth in ("1/2", "0"))

ALL, VITAL, WEIGHTED = "w_j = 1", "w_j = 1 for vital nuggets, else 0", "w_j = 1 for vital nuggets, else 1/2"

SCORE = Parameter(
    "score",
    "vital_strict",
    {
        "all": f"{ALL}; {LENIENT}",
        "all_strict": f"{ALL}; {STRICT}",
        "vital": f"{VITAL}; {LENIENT}",
        "vital_strict": f"{VITAL}; {STRICT}",
        "weighted": f"{WEIGHTED}; {LENIENT}",
        "weighted_strict": f"{WEIGHTED}; {STRICT}",
    },
    "score",
)

SPECS = (
    rag(
        "ClaimRecall",
        (PARTIAL, OF_CLAIMS),
        claim_recall,
        f"the mean of c_j over claims j of the reference; 0 for an empty list, {claim_bounds.NONE} of the kind",
        bounds=claim_bounds.rising(claim_recall),
        in_words=rag(
            "ClaimRecall",
            (PARTIAL_IN_WORDS, OF_CLAIMS),
            claim_recall_in_words,
            f"the mean of c_j over claims j of the reference; {READ}; 0 for an empty list, {claim_bounds.NONE} of "
            "the kind",
            bounds=claim_recall_in_words_bounds,
            evidence="of claims",
        ),
    ),
    rag(
        "ClaimPrecision",
        (claim_bounds.LEAST, claim_bounds.CLAIM_DEDUP),
        claim_precision,
        "chunks within the top K that support at least one claim / min(K, retrieved); 0 for an empty list, "
        f"{claim_bounds.NONE}",
        bounds=claim_bounds.rising(claim_precision),
    ),
    rag(
        "Sufficiency",
        (),
        sufficiency,
        "1 if a chunk within the top K supports each vital claim in full, or if the top K are the whole list "
        "and all chunks together support it, else 0 (nobody asked what a part of the list says together); "
        "0 for an empty list, no value if no claim is vital",
        bounds=claim_bounds.rising(sufficiency),
    ),
    rag(
        "Novelty",
        (claim_bounds.LEAST,),
        novelty,
        "claims that the top K support / min(K, retrieved): new claims for each rank, without a maximum; "
        f"0 for an empty list, {claim_bounds.NONE}",
        limits=(0.0, None),
        bounds=claim_bounds.rising(novelty, most=float(limits.CLAIMS)),
    ),
    rag(
        "Redundancy",
        (claim_bounds.LEAST,),
        redundancy,
        "the share of the supporting chunks within the top K that support no new claim (one that no chunk "
        "above supports): the less the better, and a repeated chunk never lowers it; 0 if no chunk supports "
        f"a claim, {claim_bounds.NONE}",
        less_is_better=True,
        bounds=redundancy_bounds,
    ),
    rag(
        "Conflict",
        (claim_bounds.CLAIM_DEDUP,),
        conflict,
        "chunks within the top K that contradict at least one claim / min(K, retrieved): the less the "
        f"better, a repeat counts once; 0 for an empty list, {claim_bounds.NONE}",
        less_is_better=True,
        bounds=claim_bounds.rising(conflict, CONTRADICTED),
    ),
    rag(
        "NuggetRecall",
        (SCORE,),
        nugget_recall,
        "sum of w_j * s_j / sum of w_j over the claims of the reference as nuggets, s_j = 1 if a chunk "
        "within the top K supports nugget j in full (AutoNuggetizer, Pradeep et al. 2024, with the top K as "
        "the answer); 0 for an empty list, no value if no nugget has weight",
        bounds=claim_bounds.rising(nugget_recall),
    ),
)
