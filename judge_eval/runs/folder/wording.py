"""Numbers and verdicts in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from judge_eval.schema import Outcome, Stage, Verdict


def number(value: float | None) -> str:
    """Write a mean with four decimals; `none` where there is none."""
    return "none" if value is None else f"{value:.4f}"


def interval(value: tuple[float, float] | None, sign: Literal["-", "+"] = "-") -> str:
    """Write an interval with four decimals, under `+` with its signs; empty where there is none."""
    return "" if value is None else f"[{value[0]:{sign}.4f}, {value[1]:{sign}.4f}]"


def signed_pair(value: float, ends: tuple[float, float] | None) -> str:
    """Write a difference with its interval, both with signs: `-0.187 [-0.225, -0.148]`.

    Three decimals; up to six where fewer would show a number that is not 0 as 0.
    """
    numbers = [value, *(ends or ())]
    digits = next((n for n in range(3, 6) if all(not x or abs(x) >= 0.5 * 10**-n for x in numbers)), 6)
    span = "without an interval" if ends is None else f"[{ends[0]:+.{digits}f}, {ends[1]:+.{digits}f}]"
    return f"{value:+.{digits}f} {span}"


def word(outcome: Outcome) -> str:
    """Say one outcome in words: the grade, the probability of being relevant and the stage, where told."""
    if outcome.kind == "no_verdict":
        return f"no verdict ({outcome.why})"
    return f"{'relevant' if outcome.relevant else 'not relevant'} (grade {', '.join(_asides(outcome))})"


def _asides(verdict: Verdict) -> Iterator[str]:
    yield str(verdict.grade)
    if verdict.confidence is not None:
        yield f"probability of relevance {verdict.confidence:.2f}"
    if verdict.stage is not None:
        yield by_stage(verdict.stage)


def by_stage(stage: Stage) -> str:
    """Say which judge of a cascade gave a verdict."""
    return f"{stage} judge"
