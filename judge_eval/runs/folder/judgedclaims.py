"""The claims of a judged trace, each with what its chunks say about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from judge_eval.schema import Claim, ClaimsJudged, ClaimSupport, Outcome, Support

Cover: TypeAlias = Literal["missing", "partly", "unknown", "covered"]
"""Whether what was retrieved says a claim: not at all, in part, nobody knows, in full."""
ClaimVerdict: TypeAlias = Support | Literal["none"] | None
"""What a chunk says about a claim; None if the chunk has no verdict."""

ClaimAnswer: TypeAlias = ClaimSupport | Literal["none"] | None
"""The same with its quote."""

CLAIM_SIGNS: Final[dict[ClaimVerdict, str]] = {"full": "+", "partial": "~", "contradicts": "x", "none": ".", None: "!"}


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """One claim of a trace's reference, with its verdicts."""

    claim: Claim
    supports: tuple[ClaimAnswer, ...]
    """What each chunk says, in rank order."""
    asked: bool
    """Whether it was asked if all chunks cover it together."""
    together: bool | None
    """The answer to that; None if there is none, or it was not asked."""

    @property
    def verdicts(self) -> tuple[ClaimVerdict, ...]:
        """What each chunk says, in rank order, without the quotes."""
        return tuple(map(verdict_of, self.supports))

    @property
    def cover(self) -> Cover:
        """Whether it is covered: in full by one chunk, or by all together."""
        # Where it is not, and a verdict is missing that could have said so, nobody knows.
        verdicts = self.verdicts
        if "full" in verdicts or self.together:
            return "covered"
        if None in verdicts or (self.asked and self.together is None):
            return "unknown"
        return "partly" if "partial" in verdicts else "missing"

    @property
    def signs(self) -> str:
        """One sign a rank: `+` in full, `~` in part, `x` contradicts, `.` does not say it, `!` no verdict."""
        return "".join(CLAIM_SIGNS[verdict] for verdict in self.verdicts)

    def ranks(self, verdict: ClaimVerdict) -> tuple[int, ...]:
        """Return the ranks, from 1, whose chunks say this of it."""
        return tuple(rank for rank, each in enumerate(self.verdicts, 1) if each == verdict)


def verdict_of(answer: ClaimAnswer) -> ClaimVerdict:
    """Return what a chunk says of a claim, without its quote."""
    return answer.support if isinstance(answer, ClaimSupport) else answer


def answers_on_claims(outcome: Outcome, claims: Sequence[Claim]) -> tuple[ClaimAnswer, ...]:
    """Return what a chunk says of each claim; nobody knows if its verdict was not asked or is missing."""
    if outcome.kind == "no_verdict" or outcome.supports is None:
        return (None,) * len(claims)
    named = {support.claim: support for support in outcome.supports}
    return tuple(named.get(claim.id, "none") for claim in claims)


def judged_claims(judged: ClaimsJudged | None, outcomes: Sequence[Outcome]) -> tuple[JudgedClaim, ...] | None:
    """Return a trace's claims with what its chunks say about them, in order; None without claims."""
    if judged is None:
        return None
    rows = [answers_on_claims(outcome, judged.claims) for outcome in outcomes]
    return tuple(
        JudgedClaim(
            claim=claim,
            supports=tuple(row[place] for row in rows),
            asked=claim.id in judged.together,
            together=judged.together.get(claim.id),
        )
        for place, claim in enumerate(judged.claims)
    )
