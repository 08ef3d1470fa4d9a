"""What came of judging: verdicts, or why there is none, on a scale."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from judge_eval import limits
from judge_eval.errors import Why
from judge_eval.record import Record
from judge_eval.schema.claims import ClaimsJudged, ClaimSupport
from judge_eval.sureness import side_confidence


class Scale(Record):
    """The grades a judge may give, from 0 to `maximum`, and the least that counts as relevant."""

    name: Literal["binary", "graded"] = "binary"
    maximum: int = Field(default=1, ge=1, le=limits.GRADE)
    relevant: int = Field(default=1, ge=1, le=limits.GRADE)

    @model_validator(mode="after")
    def _threshold_on_scale(self) -> Self:
        if self.relevant > self.maximum:
            raise ValueError(f"relevant: {self.relevant} is above the highest grade {self.maximum}")
        return self


BINARY = Scale(name="binary", maximum=1, relevant=1)
GRADED = Scale(name="graded", maximum=3, relevant=2)


EvidencePolicy: TypeAlias = Literal["flag", "required"]
"""What becomes of a relevant verdict without sound evidence: `flag` counts it, in the means and by itself;
`required` makes it a `NoVerdict` with the reason `unsupported`."""


Stage: TypeAlias = Literal["cheap", "strong"]
"""The two judges of a cascade: the cheap one is asked first, the strong one where that is not sure."""

NO_REASON = "no reason: decision model"
"""What people read where a judge gives no reason."""


class Verdict(Record):
    """What the judge said of one chunk, in a form that can be read and checked."""

    kind: Literal["verdict"] = "verdict"
    chunk_id: str
    grade: int = Field(ge=0, le=limits.GRADE)
    """On the prompt's scale: 0 or 1 where it is binary, 0 to 3 where it is graded."""
    relevant: bool
    """Whether the grade reaches the scale's threshold."""
    reason: str | None = ""
    """Why, in the judge's words; None where the judge gives no reasons: a decision model."""
    evidence: str | None = ""
    """The quote the judge rests on; empty where it gave none, None where the judge never quotes."""
    evidence_found: bool | None = None
    """Whether the quote stands in the chunk (after folding) and is long enough; None without a quote."""
    instruction_in_chunk: bool = False
    """Whether the judge saw an attempt to instruct it inside the chunk."""
    confidence: float | None = Field(default=None, ge=0, le=1)
    """The probability that the chunk is relevant, where the server told; else None."""
    expected_grade: float | None = Field(default=None, ge=0)
    """The mean grade under the server's probabilities, where it told; else None."""
    grade_probabilities: tuple[Annotated[float, Field(ge=0, le=1)], ...] | None = None
    """On a graded scale the server's probability of each grade from 0 on, where it told; else None."""
    stage: Stage | None = None
    """Which judge of a cascade gave it; None where it was no cascade."""
    supports: tuple[ClaimSupport, ...] | None = None
    """What it says of the reference's claims, those it leaves alone left out; None where nobody asked."""

    @property
    def unsupported(self) -> bool:
        """Whether it is relevant without evidence that was found in the chunk, of a judge that quotes."""
        return self.relevant and self.evidence is not None and not self.evidence_found

    @property
    def sureness(self) -> float | None:
        """The probability of its own side, relevant or not; None where it has none."""
        return None if self.confidence is None else side_confidence(self.confidence, self.relevant)

    @property
    def explanation(self) -> str:
        """The reason, or that there is none, for people."""
        return NO_REASON if self.reason is None else self.reason

    @property
    def quote(self) -> str:
        """The evidence; empty where there is none."""
        return self.evidence or ""


class NoVerdict(Record):
    """A chunk that could not be judged, with the reason; never a grade, never left out of a count."""

    kind: Literal["no_verdict"] = "no_verdict"
    chunk_id: str
    why: Why
    detail: str = ""
    """What happened, safe to show."""

    @property
    def explanation(self) -> str:
        """What happened, as `Verdict.explanation` says why."""
        return self.detail

    @property
    def quote(self) -> str:
        """Nothing, as nothing was judged."""
        return ""


Outcome = Annotated[Verdict | NoVerdict, Field(discriminator="kind")]


class Call(Record):
    """One completion that a judgment rests on: what it was asked under and what it took."""

    key: str
    """64 hexadecimal digits: the digest of the request."""
    chunk_ids: tuple[str, ...]
    """The chunks it was asked about."""
    model: str = ""
    """The model's name as the server gave it."""
    finish: str = "stop"
    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    dropped: tuple[str, ...] = ()
    """What the server would not take and was left out (`strict`, `json_schema`, `temperature`, ...)."""


class Judgment(Record):
    """A trace's outcomes, one per chunk in rank order, always as many as there are chunks."""

    trace_id: str
    outcomes: tuple[Outcome, ...]
    calls: tuple[Call, ...] = ()
    votes: dict[str, tuple[int | None, ...]] = Field(default_factory=dict)
    """By member of a panel or stage of a cascade: its grade of each chunk, in rank order; None for none."""
    claims: ClaimsJudged | None = None
    """The claims it was judged by; None where it was not judged by claims."""

    @cached_property
    def failed(self) -> int:
        """How many chunks have no verdict."""
        return sum(outcome.kind == "no_verdict" for outcome in self.outcomes)
