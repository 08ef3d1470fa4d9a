"""What hosted evaluators answer of a run: its context precision, and a boolean a chunk."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import rescore

CONTEXT_PRECISION: Final = "AP"
"""The metric that hosted evaluators call context precision: over the whole list, whatever a run computed."""

Booleans: TypeAlias = tuple[bool | None, ...]
"""A boolean a chunk, in rank order: whether it is relevant; None if it has no verdict."""


@dataclass(frozen=True, slots=True)
class JudgedPrecision:
    """The context precision of a run, with what it was computed from."""

    score: float | None
    """The mean over the traces that have a value, from 0 to 1; None if none has."""
    verdicts: Booleans
    """Of all chunks: trace after trace in the run's order, chunk after chunk in rank order."""
    by_trace: tuple[float | None, ...]
    """The value of each trace; None if a failed verdict leaves it without one."""


def context_precision_of(run: Run) -> JudgedPrecision:
    """Compute a run's context precision from its verdicts, without a call."""
    again = rescore(run, [CONTEXT_PRECISION])
    scores, verdicts = [], list[bool | None]()
    for result in again.results:
        scores.append(result.scores[CONTEXT_PRECISION])
        verdicts += booleans_of(result)
    return JudgedPrecision(again.aggregate(CONTEXT_PRECISION).headline_mean, tuple(verdicts), tuple(scores))


def booleans_of(result: TraceResult) -> Booleans:
    """Return a trace's verdicts as booleans."""
    return tuple(o.relevant if o.kind == "verdict" else None for o in result.outcomes)
