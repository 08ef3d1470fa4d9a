"""Numbers and verdicts in words."""

from __future__ import annotations

from typing import Literal

from judge_eval.schema import Outcome


def number(value: float | None) -> str:
    """Write a mean with four decimals; `none` where there is none."""
    return "none" if value is None else f"{value:.4f}"


def interval(value: tuple[float, float] | None, sign: Literal["-", "+"] = "-") -> str:
    """Write an interval with four decimals, under `+` with its signs; empty where there is none."""
    return "" if value is None else f"[{value[0]:{sign}.4f}, {value[1]:{sign}.4f}]"


def word(outcome: Outcome) -> str:
    """Say one outcome in words."""
    if outcome.kind == "no_verdict":
        return f"no verdict ({outcome.why})"
    return f"{'relevant' if outcome.relevant else 'not relevant'} (grade {outcome.grade})"
