"""The nouns: frozen, closed records of what is judged and what came of it."""

from judge_eval.schema.claims import Claim, ClaimsJudged, ClaimSupport, Support
from judge_eval.schema.traces import Chunk, Pool, Trace, check_limits, has_made_id, made_id, repeats_of
from judge_eval.schema.verdicts import (
    BINARY,
    GRADED,
    NO_REASON,
    Call,
    EvidencePolicy,
    Judgment,
    NoVerdict,
    Outcome,
    Scale,
    Stage,
    Verdict,
)

__all__ = [
    "BINARY",
    "GRADED",
    "NO_REASON",
    "Call",
    "Chunk",
    "Claim",
    "ClaimSupport",
    "ClaimsJudged",
    "EvidencePolicy",
    "Judgment",
    "NoVerdict",
    "Outcome",
    "Pool",
    "Scale",
    "Stage",
    "Support",
    "Trace",
    "Verdict",
    "check_limits",
    "has_made_id",
    "made_id",
    "repeats_of",
]
