"""The metrics by name, each with its parameters, its needs and its definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from judge_eval.metrics import gain, relevance, soft, trec
from judge_eval.metrics.bounds import Reads
from judge_eval.metrics.table import Values

Value: TypeAlias = int | str
Compute: TypeAlias = Callable[..., Values]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a metric: a word out of `choices`, or a grade >= 1 where there are none."""

    name: str
    default: Value | None
    choices: Mapping[str, str]
    """Each word with what it puts into the definition."""
    text: str
    """How the choice is introduced in the definition."""


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
DEDUP = Parameter(
    "dedup",
    "none",
    {
        "none": "a text that is repeated counts at each of its ranks",
        "text": "a chunk with title and text of an earlier one takes its rank, and v_i = 0 there",
    },
    "repeated texts",
)


@dataclass(frozen=True)
class Spec:
    """What a name stands for."""

    name: str
    family: Literal["rag", "trec"]
    cutoff: Literal["optional", "required", "none"]
    parameters: tuple[Parameter, ...]
    compute: Compute
    """Called with the table, the cutoff and the parameters that are not at their default."""
    formula: str
    needs_total: bool = False
    needs_pool: bool = False
    soft: bool = False
    """Whether it is over the judge's probabilities."""
    reads: Reads = "anything"
    """What the value depends on, which decides how its bounds are found."""

    def parameter(self, name: str) -> Parameter | None:
        """Return the parameter of that name, or None."""
        return next((parameter for parameter in self.parameters if parameter.name == name), None)


V = "v_i = 1 where the chunk at rank i is relevant, else 0"
R = "R = the relevant chunks that exist (at least those retrieved)"
TR = "R = all relevant documents in the qrels (at least those retrieved); 0 where R = 0"

_AP = (
    f"(1/N) * sum over ranks i <= K of P@i * v_i, with {V}, P@i = the share of relevant chunks in the first i"
)
_RR = "1 / rank of the first relevant chunk within the top K; 0 where there is none"
_NDCG = (
    "DCG@K / IDCG@K, with DCG@K = sum over ranks i <= K of gain_i / log2(i + 1), IDCG@K = the same sum over "
    "the grades sorted downwards; 0 where IDCG@K = 0, never above 1"
)


def _rag(name: str, parameters: tuple[Parameter, ...], compute: Compute, formula: str, **more: Any) -> Spec:
    reads = more.pop("reads", "relevance")
    return Spec(name, "rag", "optional", parameters, compute, formula, reads=reads, **more)


def _trec(
    name: str, compute: Compute, formula: str, cutoff: Literal["required", "none"] = "none", **more: Any
) -> Spec:
    parameters, reads = more.pop("parameters", (REL,)), more.pop("reads", "relevance")
    return Spec(name, "trec", cutoff, parameters, compute, formula, needs_total=True, reads=reads, **more)


_SPECS = (
    _rag("AP", (REL, AP_NORM, DEDUP), relevance.average_precision, f"{_AP}; exactly 0 where N = 0"),
    _rag(
        "P",
        (REL, PRECISION_NORM, DEDUP),
        relevance.precision,
        f"(1/n) * sum over ranks i <= K of v_i, with {V}; 0 where n = 0",
    ),
    _rag(
        "SoftP",
        (PRECISION_NORM,),
        soft.soft_precision,
        "(1/n) * sum over ranks i <= K of p_i, p_i = the judge's probability that the chunk at rank i is "
        "relevant (1 or 0 by its verdict where the server told none); 0 where n = 0",
        soft=True,
    ),
    _rag(
        "EDCG",
        (),
        soft.expected_dcg,
        "sum over ranks i <= K of e_i / log2(i + 1), e_i = the mean grade of the chunk at rank i under the "
        "judge's probabilities (its grade where the server told none)",
        soft=True,
        reads="gains",
    ),
    _rag(
        "Recall",
        (REL,),
        relevance.recall,
        f"(1/R) * sum over ranks i <= K of v_i, with {V}; {R}; 0 where R = 0",
        needs_total=True,
    ),
    _rag(
        "F1",
        (REL,),
        relevance.f1,
        f"2 * h / (min(K, retrieved) + R), the harmonic mean of P@K and Recall@K, h = the relevant chunks "
        f"within the top K; {R}",
        needs_total=True,
    ),
    _rag("HitRate", (REL,), relevance.hit_rate, "1 where the top K hold a relevant chunk, else 0"),
    _rag("RR", (REL,), relevance.reciprocal_rank, _RR),
    _rag("MRR", (REL,), relevance.reciprocal_rank, f"the mean over traces of the reciprocal rank: {_RR}"),
    _rag(
        "MAP",
        (REL, AP_NORM, DEDUP),
        relevance.average_precision,
        f"the mean over traces of average precision: {_AP}; exactly 0 where N = 0",
    ),
    _rag("DCG", (GAIN,), gain.dcg, "sum over ranks i <= K of gain_i / log2(i + 1)", reads="gains"),
    _rag("NDCG", (GAIN, IDEAL), gain.ndcg, _NDCG, reads="grades"),
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

SPECS: Mapping[tuple[str, str], Spec] = {(spec.family, spec.name): spec for spec in _SPECS}
"""Family and name to what they stand for; `P` is in both families, spelled `P@5` and `P_5`."""

ALIASES: Mapping[str, str] = {
    "ContextPrecision": "AP",
    "AveragePrecision": "AP",
    "Precision": "P",
    "ReciprocalRank": "RR",
    "Hit": "HitRate",
    "nDCG": "NDCG",
}
"""Other spellings of RAG names; they print as the name they stand for."""
