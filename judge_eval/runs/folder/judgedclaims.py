"""The claims of a judged trace, each with what its chunks say of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from judge_eval.schema import Claim, ClaimsJudged, ClaimSupport, Outcome, Support

Cover: TypeAlias = Literal["missing", "partly", "unknown", "covered"]
"""Whether what was retrieved says a claim: not at all, in part, nobody knows, in full."""
Said: TypeAlias = Support | Literal["none"] | None
"""What a chunk says of a claim; None where it has no verdict."""

ToldOfClaim: TypeAlias = ClaimSupport | Literal["none"] | None
"""The same with its quote."""

COVER_WORDS: Final[dict[Cover, str]] = {
    "missing": "not covered",
    "partly": "partly covered",
    "unknown": "not known",
    "covered": "covered",
}
"""From what is to be looked at first to what is well."""
SAID_WORDS: Final[dict[Said, str]] = {
    "full": "says it in full",
    "partial": "says it in part",
    "contradicts": "contradicts it",
    "none": "does not say it",
    None: "no verdict",
}
SAID_SIGNS: Final[dict[Said, str]] = {"full": "+", "partial": "~", "contradicts": "x", "none": ".", None: "!"}


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """One claim of a trace's reference, with what came of it."""

    claim: Claim
    supports: tuple[ToldOfClaim, ...]
    """What each chunk says, in rank order."""
    asked: bool
    """Whether it was asked if all chunks cover it together."""
    together: bool | None
    """What came of that; None where there is no verdict, or nobody asked."""

    @property
    def said(self) -> tuple[Said, ...]:
        """What each chunk says, in rank order, without the quotes."""
        return tuple(one.support if isinstance(one, ClaimSupport) else one for one in self.supports)

    @property
    def cover(self) -> Cover:
        """Whether it is covered: in full by one chunk, or by all together.

        Where it is not, and a verdict is missing that could have said so, nobody knows.
        """
        said = self.said
        if "full" in said or self.together:
            return "covered"
        if None in said or (self.asked and self.together is None):
            return "unknown"
        return "partly" if "partial" in said else "missing"

    @property
    def signs(self) -> str:
        """One sign a rank: `+` in full, `~` in part, `x` contradicts, `.` does not say it, `!` no verdict."""
        return "".join(SAID_SIGNS[one] for one in self.said)

    @property
    def word(self) -> str:
        """Whether it is covered, in words."""
        alone = "full" in self.said
        return COVER_WORDS[self.cover] + (" together" if self.cover == "covered" and not alone else "")

    def ranks(self, said: Said) -> tuple[int, ...]:
        """Return the ranks, from 1, whose chunks say this of it."""
        return tuple(rank for rank, one in enumerate(self.said, 1) if one == said)


def told_of_claims(outcome: Outcome, claims: Sequence[Claim]) -> tuple[ToldOfClaim, ...]:
    """Return what a chunk says of each claim.

    A claim that its verdict does not name is left alone; without a verdict, or with one that was not asked
    about claims, nobody knows.
    """
    if outcome.kind == "no_verdict" or outcome.supports is None:
        return (None,) * len(claims)
    named = {support.claim: support for support in outcome.supports}
    return tuple(named.get(claim.id, "none") for claim in claims)


def judged_claims(judged: ClaimsJudged | None, outcomes: Sequence[Outcome]) -> tuple[JudgedClaim, ...] | None:
    """Put together what the chunks of a trace say of its claims.

    Args:
        judged: The claims that it was judged by; None where it was not judged by claims.
        outcomes: One for each chunk, in rank order.

    Returns:
        The claims in the order of the reference; None where it was not judged by claims.
    """
    if judged is None:
        return None
    rows = [told_of_claims(outcome, judged.claims) for outcome in outcomes]
    return tuple(
        JudgedClaim(
            claim=claim,
            supports=tuple(row[place] for row in rows),
            asked=claim.id in judged.together,
            together=judged.together.get(claim.id),
        )
        for place, claim in enumerate(judged.claims)
    )


def needed_first(claims: Iterable[JudgedClaim]) -> list[JudgedClaim]:
    """Put claims in the order in which they need a look: what is missing first, vital ones before others."""
    order = list(COVER_WORDS)
    return sorted(claims, key=lambda one: (order.index(one.cover), not one.claim.vital))


def vital_word(vital: bool) -> str:
    """Say whether an answer must say a claim."""
    return "vital" if vital else "okay"


def cover_sentence(claims: Sequence[JudgedClaim]) -> str:
    """Say how many claims are covered, and what of the others: `2 of 5 claims covered; 3 not covered`."""
    if not claims:
        return "the reference makes no claim"
    counts = Counter(one.cover for one in claims)
    others = [f"{counts[cover]} {word}" for cover, word in COVER_WORDS.items() if cover != "covered"]
    told = [f"{counts['covered']} of {len(claims)} claim{'s' if len(claims) != 1 else ''} covered"]
    return "; ".join(told + [text for text in others if not text.startswith("0 ")])


def claims_in_words(claims: Sequence[JudgedClaim]) -> list[str]:
    """Say what is covered, and name what is not, vital claims first: a line each."""
    return [cover_sentence(claims)] + [
        f"{one.word} ({vital_word(one.claim.vital)}): {one.claim.text}"
        for one in needed_first(claims)
        if one.cover != "covered"
    ]
