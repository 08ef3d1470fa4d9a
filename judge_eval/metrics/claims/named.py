"""The metrics over claims by name, each with its parameters and its definition."""

from __future__ import annotations

from collections.abc import Mapping

from judge_eval.metrics.cells import CONTRADICTED
from judge_eval.metrics.claims import bounding, covering, ranking
from judge_eval.metrics.spec import Parameter, Spec, rag

IN_FULL = "c_j = 1 where a chunk within the top K supports claim j in full"
PARTIAL = Parameter(
    "partial",
    "none",
    {
        "none": f"{IN_FULL}, else 0",
        "half": f"{IN_FULL}, 1/2 where one does in part, else 0",
        "full": f"{IN_FULL} or in part, else 0",
    },
    "credit",
)
OF_CLAIMS = Parameter(
    "of", "all", {"all": "over all claims of the reference", "vital": "over its vital claims"}, "claims"
)
LEAST = Parameter(
    "least",
    "full",
    {"full": "support: in full", "partial": "support: in full or in part"},
    "support",
)
CLAIM_DEDUP = Parameter(
    "dedup",
    "text",
    {
        "text": "a chunk with title and text of an earlier one takes its rank and says nothing",
        "none": "a text that is repeated counts at each of its ranks",
    },
    "repeated texts",
)
ALPHA = Parameter("alpha", 0.5, {}, "alpha", "share")
INTENTS = Parameter(
    "of",
    "found",
    {
        "found": "N = the claims that some retrieved chunk supports",
        "all": "N = all claims of the reference",
    },
    "claims",
)
LENIENT, STRICT = (f"s_j = {worth} where the best support is partial" for worth in ("1/2", "0"))
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
NONE = "no value where the reference makes no claim"

CLAIM_SPECS: tuple[Spec, ...] = (
    rag(
        "ClaimRecall",
        (PARTIAL, OF_CLAIMS),
        covering.claim_recall,
        f"the mean of c_j over claims j of the reference; 0 for an empty list, {NONE} of the kind",
        bounds=bounding.rising(covering.claim_recall),
    ),
    rag(
        "ClaimPrecision",
        (LEAST, CLAIM_DEDUP),
        covering.claim_precision,
        "chunks within the top K that support at least one claim / min(K, retrieved); 0 for an empty list, "
        f"{NONE}",
        bounds=bounding.rising(covering.claim_precision),
    ),
    rag(
        "Sufficiency",
        (),
        covering.sufficiency,
        "1 where each vital claim is supported in full by a chunk within the top K, or, where K is not below "
        "the chunks retrieved, by all of them together, else 0 (of a part of the list nobody asked what it "
        "says together); 0 for an empty list, no value where no claim is vital",
        bounds=bounding.rising(covering.sufficiency),
    ),
    rag(
        "alpha-NDCG",
        (ALPHA, LEAST, CLAIM_DEDUP),
        ranking.alpha_ndcg,
        "alpha-DCG@K / its ideal, with alpha-DCG@K = sum over ranks i <= K of g_i / log2(i + 1), g_i = sum "
        "over the claims that the chunk at rank i supports of (1 - alpha)^(chunks above that support it), "
        "the ideal = the same for all retrieved chunks put in order one by one, what gains most first "
        f"(Clarke et al. 2008); 0 where the ideal is 0, never above 1, {NONE}",
        bounds=bounding.alpha_ndcg_bounds,
    ),
    rag(
        "ERR-IA",
        (ALPHA, INTENTS, LEAST, CLAIM_DEDUP),
        ranking.err_ia,
        "(1/N) * sum over claims of E_j / E, E_j = sum over ranks i <= K whose chunk supports claim j of "
        "(1 - alpha)^(chunks above that support it) / i, E = the same where every chunk does (Chapelle et "
        f"al. 2009, in ndeval's scale); 0 where no chunk supports a claim, {NONE}",
        bounds=bounding.err_ia_bounds,
    ),
    rag(
        "Novelty",
        (LEAST,),
        covering.novelty,
        "claims that the top K support / min(K, retrieved): new claims a rank, without a greatest value; "
        f"0 for an empty list, {NONE}",
        bounds=bounding.rising(covering.novelty, most=bounding.MOST_NOVEL),
    ),
    rag(
        "Redundancy",
        (LEAST,),
        covering.redundancy,
        "of the chunks within the top K that support a claim, the share that support none which no chunk "
        "above supports: the less the better, and a repeat of such a chunk never lowers it; 0 where no chunk "
        f"supports a claim, {NONE}",
        less_is_better=True,
        bounds=bounding.redundancy_bounds,
    ),
    rag(
        "Conflict",
        (CLAIM_DEDUP,),
        covering.conflict,
        "chunks within the top K that contradict at least one claim / min(K, retrieved): the less the "
        "better, a repeat counting once; "
        f"0 for an empty list, {NONE}",
        less_is_better=True,
        bounds=bounding.rising(covering.conflict, CONTRADICTED),
    ),
    rag(
        "NuggetRecall",
        (SCORE,),
        covering.nugget_recall,
        "sum of w_j * s_j / sum of w_j over the claims of the reference as nuggets, s_j = 1 where a chunk "
        "within the top K supports nugget j in full (AutoNuggetizer, Pradeep et al. 2024, with the top K as "
        "the answer); 0 for an empty list, no value where no nugget has weight",
        bounds=bounding.rising(covering.nugget_recall),
    ),
)
"""In the RAG spelling, each over `GradeTable.claims`."""

CLAIM_ALIASES: Mapping[str, str] = {
    "alpha-nDCG": "alpha-NDCG",
    "alphaNDCG": "alpha-NDCG",
    "alpha_nDCG": "alpha-NDCG",
    "ERRIA": "ERR-IA",
    "ERR_IA": "ERR-IA",
}
"""Other spellings, those of pyndeval and ir_measures among them."""
