"""Claims: what a reference answer says, piece by piece, and which chunk supports which."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from judge_eval import limits
from judge_eval.record import Record

Support: TypeAlias = Literal["full", "partial", "contradicts"]
"""How a chunk stands to a claim that it does not leave alone."""


class Claim(Record):
    """One thing that a reference answer says, which can be understood by itself."""

    id: str = Field(min_length=1, max_length=limits.ID)
    """Unique among the claims of its reference."""
    text: str = Field(min_length=1)
    """The claim, in words that need no other claim."""
    vital: bool = True
    """Whether an answer to the question must say it; others are okay to say."""
    quote: str = ""
    """The words of the reference that it comes from; empty where nobody told."""


class ClaimSupport(Record):
    """What one chunk says of one claim."""

    claim: str
    """The claim's id."""
    support: Support
    quote: str = ""
    """The words of the chunk that show it."""
    quote_found: bool | None = None
    """Whether the quote stands in the chunk (after folding); None without a quote."""


class ClaimsJudged(Record):
    """The claims that a trace was judged by."""

    claims: tuple[Claim, ...]
    """Those of its reference; empty where it makes none."""
    together: dict[str, bool | None] = Field(default_factory=dict)
    """By claim that no chunk covers alone: whether the chunks do together; None where that has no verdict.

    A claim that is not named here was not asked about in this way."""
