"""A retrieval at a glance: one sign a rank."""

from __future__ import annotations

from collections.abc import Iterable

from judge_eval.schema import Outcome


def strip(outcomes: Iterable[Outcome]) -> str:
    """Draw one sign a rank: `+` relevant, `.` not, a digit where graded, `!` failed."""
    return "".join(map(sign, outcomes)) or "(nothing retrieved)"


def sign(outcome: Outcome) -> str:
    """Return the sign of one outcome."""
    if outcome.kind == "no_verdict":
        return "!"
    if outcome.grade > 1 or (outcome.grade == 1 and not outcome.relevant):
        return str(outcome.grade)
    return "+" if outcome.relevant else "."
