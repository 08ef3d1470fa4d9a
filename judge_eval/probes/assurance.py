"""How sure a judge was, where it told probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from judge_eval.probes.findings import Assurance
from judge_eval.runs.scoring.figure import Figure
from judge_eval.schema import Verdict
from judge_eval.stats import Estimate, mean_interval

SURE = 0.9
"""The probability from which an accepted chunk counts as accepted with certainty."""

Sourced = tuple[str, Verdict]
"""The trace a case was made from, and a verdict on it."""


def assurance_of(verdicts: Sequence[Sourced]) -> Assurance | None:
    """Sum up the probabilities told for irrelevant chunks.

    Args:
        verdicts: Each with the trace it belongs to.

    Returns:
        None where no verdict has a probability: there is no stand-in for one.
    """
    told = [(source, v.confidence, v.relevant) for source, v in verdicts if v.confidence is not None]
    if not told:
        return None
    sure = np.array([probability for _, probability, _ in told])
    accepted = sure[np.array([relevant for _, _, relevant in told])]
    return Assurance(
        n=len(told),
        untold=len(verdicts) - len(told),
        mean=Figure.of(_mean(sure.tolist(), [source for source, _, _ in told], (0.0, 1.0))),
        p90=float(np.quantile(sure, 0.9, method="inverted_cdf")),
        highest=float(sure.max()),
        accepted=accepted.size,
        accepted_mean=float(accepted.mean()) if accepted.size else None,
        accepted_sure=int((accepted >= SURE - 1e-9).sum()),  # a share of rounded probabilities may miss it
    )


def shift_of(pairs: Sequence[tuple[str, Verdict | None, Verdict]]) -> Figure | None:
    """Return how far the probability moves on average from the unaltered chunk to the altered one.

    Args:
        pairs: The trace, the verdict on the unaltered chunk and that on the altered one.

    Returns:
        None where no pair has both probabilities.
    """
    moved = [
        (source, new.confidence - old.confidence)
        for source, old, new in pairs
        if old is not None and old.confidence is not None and new.confidence is not None
    ]
    if not moved:
        return None
    return Figure.of(_mean([by for _, by in moved], [source for source, _ in moved], (-1.0, 1.0)))


def _mean(values: list[float], sources: list[str], limits: tuple[float, float]) -> Estimate:
    """Return the mean with its interval; several values of one trace are no evidence of their own."""
    repeated = len(set(sources)) < len(sources)
    return mean_interval(values, clusters=sources if repeated else None, limits=limits)
