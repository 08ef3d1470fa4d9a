"""The words for claims: what a chunk says of one, and whether it is covered."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from judge_eval.runs.folder.judgedclaims import ClaimVerdict, Cover, JudgedClaim
from judge_eval.safe_text import counted

COVER_WORDS: Final[dict[Cover, str]] = {
    "missing": "not covered",
    "partly": "partly covered",
    "unknown": "not known",
    "covered": "covered",
}
"""From what is to be looked at first to what is well."""
SAID_WORDS: Final[dict[ClaimVerdict, str]] = {
    "full": "says it in full",
    "partial": "says it in part",
    "contradicts": "contradicts it",
    "none": "does not say it",
    None: "no verdict",
}


def cover_word(judged: JudgedClaim) -> str:
    """Say whether a claim is covered."""
    together = judged.cover == "covered" and "full" not in judged.verdicts
    return COVER_WORDS[judged.cover] + (" together" if together else "")


def needed_first(claims: Iterable[JudgedClaim]) -> list[JudgedClaim]:
    """Put claims in the order in which they need a look: what is missing first, vital ones before others."""
    order = list(COVER_WORDS)
    return sorted(claims, key=lambda claim: (order.index(claim.cover), not claim.claim.vital))


def together_sentence(claim: JudgedClaim) -> str:
    """Say whether all chunks cover a claim together."""
    if not claim.asked:
        return "Nobody asked whether all chunks cover it together"
    if claim.together is None:
        return "All chunks together: no verdict"
    return f"All chunks together {'cover' if claim.together else 'do not cover'} it"


def vital_word(vital: bool) -> str:
    """Say whether an answer must say a claim."""
    return "vital" if vital else "okay"


def cover_sentence(claims: Sequence[JudgedClaim]) -> str:
    """Say how many claims are covered, and what of the others: `2 of 5 claims covered; 3 not covered`."""
    if not claims:
        return "the reference makes no claim"
    counts = Counter(claim.cover for claim in claims)
    others = [f"{counts[cover]} {word}" for cover, word in COVER_WORDS.items() if cover != "covered" and counts[cover]]
    return "; ".join([f"{counts['covered']} of {counted(len(claims), 'claim')} covered", *others])


def claims_in_words(claims: Sequence[JudgedClaim]) -> list[str]:
    """Say what is covered, and name what is not, vital claims first: a line each."""
    return [cover_sentence(claims)] + [
        f"{cover_word(claim)} ({vital_word(claim.claim.vital)}): {claim.claim.text}"
        for claim in needed_first(claims)
        if claim.cover != "covered"
    ]
