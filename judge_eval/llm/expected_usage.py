"""What a run would ask, and its likely output tokens by earlier answers to the same data."""

from dataclasses import dataclass

SHARE = 3
"""If nothing is known, an answer is expected to use one part in so many of its cap."""
_LEAST = 10  # the fewest answers from which others are estimated


@dataclass(slots=True)
class Plan:
    """What a run would ask, counted without a call."""

    traces: int = 0
    chunks: int = 0
    calls: int = 0
    """Requests of the first round without a known answer; repairs are not included."""
    splits: int = 0
    """How many of them split a reference into claims; the other counts are then estimates."""
    hits: int = 0
    input_tokens: int = 0
    """Estimated as a quarter of the characters."""
    output_tokens: int = 0
    """The most that the calls may return."""
    passages: int = 0
    """Passages in the calls."""
    answers: int = 0
    """Known answers whose token counts are known."""
    answered_passages: int = 0
    """Passages that those answers judged."""
    answered_tokens: int = 0
    """Output tokens of those answers."""
    fixed_tokens: int = 0
    """The longest fixed part (system text) of the calls, estimated as a quarter of the characters."""


@dataclass(frozen=True, slots=True)
class Expected:
    """How many output tokens are likely."""

    output_tokens: int
    source: str
    """Where that comes from, in words."""


def expect_output(plan: Plan) -> Expected:
    """Estimate a run's output tokens from cached answers to its data, else from the cap."""
    if plan.answers < _LEAST or not plan.answered_passages:
        return Expected(plan.output_tokens // SHARE, "a third of the cap, since no earlier answers are known")
    each = plan.answered_tokens / plan.answered_passages
    likely = min(plan.output_tokens, round(each * plan.passages))
    return Expected(likely, f"as the {plan.answers:,} answers to these data in the cache")
