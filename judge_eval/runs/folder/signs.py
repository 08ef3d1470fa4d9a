"""A retrieval at a glance: one sign a rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judge_eval.runs.folder.records import TraceResult
    from judge_eval.schema import NoVerdict, Verdict


def strip(result: TraceResult | Sequence[Verdict | NoVerdict]) -> str:
    """Draw one sign a rank: `+` relevant, `.` not, a digit where graded, `!` failed."""
    outcomes = result if isinstance(result, Sequence) else result.outcomes
    return "".join(sign(outcome) for outcome in outcomes) or "(nothing retrieved)"


def sign(outcome: Verdict | NoVerdict) -> str:
    """Return the sign of one outcome."""
    if outcome.kind == "no_verdict":
        return "!"
    if outcome.grade > 1 or (outcome.grade == 1 and not outcome.relevant):
        return str(outcome.grade)
    return "+" if outcome.relevant else "."


def word(outcome: Verdict | NoVerdict) -> str:
    """Say one outcome in words."""
    if outcome.kind == "no_verdict":
        return f"no verdict ({outcome.why})"
    return f"{'relevant' if outcome.relevant else 'not relevant'} (grade {outcome.grade})"


def printable(text: str) -> str:
    """Show control characters as escapes, so that no text steers the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)
