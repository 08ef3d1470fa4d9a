"""The metrics by name, each with its parameters, its needs and its definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from judge_eval.metrics import expected, gain, relevance, soft, trec
from judge_eval.metrics.claims.named import CLAIM_ALIASES, CLAIM_SPECS
from judge_eval.metrics.spec import Compute, Parameter, Spec, rag

REL = Parameter("rel", None, {}, "relevant")
GAIN = Parameter(
    "gain", "linear", {"linear": "gain_i = the grade at rank i", "exp": "gain_i = 2^grade - 1"}, "gain"
)
PRECISION_NORM = Parameter(
    "norm", "retrieved", {"retrieved": "n = min(K, retrieved)", "k": "n = K, however short the list is"}, "n"
)
AP_NORM = Parameter(
    "norm",
    "found",
    {
        "found": "N = the relevant chunks within the top K",
        "min": "N = min(K, R), R = the relevant chunks that exist (at least those retrieved)",
        "total": "N = R, the relevant chunks that exist (at least those retrieved)",
    },
    "N",
)
IDEAL = Parameter(
    "ideal",
    "retrieved",
    {
        "retrieved": "all retrieved chunks, those below K too",
        "top": "the top K alone, whatever stands below",
        "judged": "all judged chunks of the pool, retrieved or not",
    },
    "ideal",
)
EXPECTED_GAIN = Parameter(
    "gain",
    "linear",
    {
        "linear": "gain_i = the grade at rank i",
        "binary": "gain_i = 1 where the chunk at rank i is relevant, else 0, whatever the scale",
    },
    "gain",
)
EXPECTED_IDEAL = Parameter(
    "ideal", "retrieved", {name: IDEAL.choices[name] for name in ("retrieved", "top")}, "ideal"
)
DEDUP = Parameter(
    "dedup",
    "none",
    {
        "none": "a text that is repeated counts at each of its ranks",
        "text": "a chunk with title and text of an earlier one takes its rank, and v_i = 0 there",
    },
    "repeated texts",
)


V = "v_i = 1 where the chunk at rank i is relevant, else 0"
R = "R = the relevant chunks that exist (at least those retrieved)"
TR = "R = all relevant documents in the qrels (at least those retrieved); 0 where R = 0"

P_I = (
    "p_i = the judge's probability that the chunk at rank i is relevant (1 or 0 by its verdict where the "
    "server told none)"
)
MEAN_OVER = f"over all ways in which the chunks can be relevant, each by itself with probability p_i; {P_I}"

_AP = (
    f"(1/N) * sum over ranks i <= K of P@i * v_i, with {V}, P@i = the share of relevant chunks in the first i"
)
_RR = "1 / rank of the first relevant chunk within the top K; 0 where there is none"
_NDCG = (
    "DCG@K / IDCG@K, with DCG@K = sum over ranks i <= K of gain_i / log2(i + 1), IDCG@K = the same sum over "
    "the grades sorted downwards; 0 where IDCG@K = 0, never above 1"
)


def _trec(
    name: str, compute: Compute, formula: str, cutoff: Literal["required", "none"] = "none", **more: Any
) -> Spec:
    parameters, reads = more.pop("parameters", (REL,)), more.pop("reads", "relevance")
    return Spec(name, "trec", cutoff, parameters, compute, formula, needs_total=True, reads=reads, **more)


_SPECS = (
    rag("AP", (REL, AP_NORM, DEDUP), relevance.average_precision, f"{_AP}; exactly 0 where N = 0"),
    rag(
        "P",
        (REL, PRECISION_NORM, DEDUP),
        relevance.precision,
        f"(1/n) * sum over ranks i <= K of v_i, with {V}; 0 where n = 0",
    ),
    rag(
        "SoftP",
        (PRECISION_NORM,),
        soft.soft_precision,
        f"(1/n) * sum over ranks i <= K of p_i, {P_I}; 0 where n = 0",
        soft=True,
    ),
    rag(
        "SoftRR",
        (),
        expected.expected_reciprocal_rank,
        "sum over ranks i <= K of (1/i) * p_i * (the product of 1 - p_j over ranks j < i), the mean of "
        f"RR@K {MEAN_OVER}",
        soft=True,
        reads="gains",
    ),
    rag(
        "EAP",
        (),
        expected.expected_average_precision,
        f"the mean of AP@K {MEAN_OVER}; AP@K = {_AP}; N = the relevant chunks within the top K; exactly 0 "
        "where N = 0",
        soft=True,
    ),
    rag(
        "ENDCG",
        (EXPECTED_GAIN, EXPECTED_IDEAL),
        expected.expected_ndcg,
        f"the mean of NDCG@K {MEAN_OVER}; on a graded scale over all grades, each with the judge's "
        f"probability of it; NDCG@K = {_NDCG}",
        soft=True,
        reads="grades",
    ),
    rag(
        "EDCG",
        (),
        soft.expected_dcg,
        "sum over ranks i <= K of e_i / log2(i + 1), e_i = the mean grade of the chunk at rank i under the "
        "judge's probabilities (its grade where the server told none)",
        soft=True,
        reads="gains",
    ),
    rag(
        "Recall",
        (REL,),
        relevance.recall,
        f"(1/R) * sum over ranks i <= K of v_i, with {V}; {R}; 0 where R = 0",
        needs_total=True,
    ),
    rag(
        "F1",
        (REL,),
        relevance.f1,
        f"2 * h / (min(K, retrieved) + R), the harmonic mean of P@K and Recall@K, h = the relevant chunks "
        f"within the top K; {R}",
        needs_total=True,
    ),
    rag("HitRate", (REL,), relevance.hit_rate, "1 where the top K hold a relevant chunk, else 0"),
    rag("RR", (REL,), relevance.reciprocal_rank, _RR),
    rag("MRR", (REL,), relevance.reciprocal_rank, f"the mean over traces of the reciprocal rank: {_RR}"),
    rag(
        "MAP",
        (REL, AP_NORM, DEDUP),
        relevance.average_precision,
        f"the mean over traces of average precision: {_AP}; exactly 0 where N = 0",
    ),
    rag("DCG", (GAIN,), gain.dcg, "sum over ranks i <= K of gain_i / log2(i + 1)", reads="gains"),
    rag("NDCG", (GAIN, IDEAL), gain.ndcg, _NDCG, reads="grades"),
    rag(
        "ERR",
        (),
        expected.err,
        "sum over ranks i <= K of (1/i) * R_i * (the product of 1 - R_j over ranks j < i), R_i = "
        "(2^grade_i - 1) / 2^g, g = the highest grade of the scale (Chapelle et al. 2009: how soon a reader "
        "whom better grades content sooner stops; no probability of the judge's)",
        reads="gains",
    ),
    _trec("map", trec.map_cut, f"(1/R) * sum over ranks i of P@i * v_i, with {V}; {TR}"),
    _trec("map_cut", trec.map_cut, f"(1/R) * sum over ranks i <= K of P@i * v_i, with {V}; {TR}", "required"),
    _trec("P", trec.p, "relevant documents within the top K / K, however short the list is", "required"),
    _trec("recall", trec.recall_cut, f"relevant documents within the top K / R; {TR}", "required"),
    _trec("success", trec.success, "1 where the top K hold a relevant document, else 0", "required"),
    _trec(
        "relative_P", trec.relative_p, f"relevant documents within the top K / min(K, R); {TR}", "required"
    ),
    _trec("recip_rank", trec.recip_rank, "1 / rank of the first relevant document; 0 where there is none"),
    _trec("Rprec", trec.rprec, f"relevant documents within the top R / R; {TR}"),
    _trec(
        "bpref",
        trec.bpref,
        f"(1/R) * sum over relevant retrieved documents of 1 - min(n, R) / min(N, R), with n = the judged "
        f"non-relevant documents above it, N = all judged non-relevant ones; {TR}",
        needs_pool=True,
    ),
    _trec(
        "infAP",
        trec.infap,
        "average precision inferred from a sampled pool: at a relevant document of rank r, 1/r + (r-1)/r * "
        "(pooled above / (r-1)) * (relevant above + e) / (judged above + 2e), e = 0.00001, summed, over R; "
        f"{TR}",
        needs_pool=True,
        reads="anything",
    ),
    _trec(
        "ndcg",
        trec.ndcg_cut,
        "DCG / IDCG with gain_i = the grade at rank i, discount log2(i + 1), IDCG over all judged ones; "
        "the relevance level plays no part",
        parameters=(),
        needs_pool=True,
        reads="grades",
    ),
    _trec(
        "ndcg_cut",
        trec.ndcg_cut,
        "DCG@K / IDCG@K with gain_i = the grade at rank i, discount log2(i + 1), IDCG over all judged ones; "
        "the relevance level plays no part",
        "required",
        parameters=(),
        needs_pool=True,
        reads="grades",
    ),
    _trec("set_P", trec.set_p, "relevant documents retrieved / retrieved; 0 for an empty list"),
    _trec("set_recall", trec.recall_cut, f"relevant documents retrieved / R; {TR}"),
    _trec("set_F", trec.set_f, f"2 * set_P * set_recall / (set_P + set_recall); {TR}"),
    _trec("set_map", trec.set_map, f"set_P * set_recall; {TR}"),
    _trec("set_relative_P", trec.relative_p, f"relevant documents retrieved / min(retrieved, R); {TR}"),
)

SPECS: Mapping[tuple[str, str], Spec] = {(spec.family, spec.name): spec for spec in (*_SPECS, *CLAIM_SPECS)}
"""Family and name to what they stand for; `P` is in both families, spelled `P@5` and `P_5`."""

ALIASES: Mapping[str, str] = {
    "ContextPrecision": "AP",
    "AveragePrecision": "AP",
    "Precision": "P",
    "ReciprocalRank": "RR",
    "Hit": "HitRate",
    "nDCG": "NDCG",
    **CLAIM_ALIASES,
}
"""Other spellings of RAG names; they print as the name they stand for."""
