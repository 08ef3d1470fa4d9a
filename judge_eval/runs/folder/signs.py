"""A retrieval at a glance: one sign a rank."""

from __future__ import annotations

from collections.abc import Iterable

from judge_eval.schema import Outcome


def strip(outcomes: Iterable[Outcome]) -> str:
    """Draw one sign a rank: `+` relevant, `.` not, a digit where graded, `!` failed."""
    return "".join(map(sign, outcomes)) or "(nothing retrieved)"


def sign(outcome: Outcome) -> str:
    """Return the sign of one outcome."""
    return "!" if outcome.kind == "no_verdict" else sign_of(outcome.grade, outcome.relevant)


def sign_of(grade: int, relevant: bool) -> str:
    """Return the sign of a grade."""
    if grade > 1 or (grade == 1 and not relevant):
        return str(grade)
    return "+" if relevant else "."
