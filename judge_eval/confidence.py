"""The confidence of a verdict, and how a cascade's threshold is compared with it, in hundredths."""

import math
from typing import Final

from judge_eval.spelling import option

CONFIDENCE_GRID: Final[tuple[float, ...]] = tuple(hundredth / 100 for hundredth in range(50, 101))
"""The thresholds that a cascade chooses from: .50, .51, ... 1.00."""

WITH_CONFIDENCE: Final = option("confidence", True, python='params={"logprobs": True, "top_logprobs": 5}')
"""The option that has a judge return token probabilities."""
_SLACK = 1e-6


def side_confidence(probability: float, relevant: bool | None = None) -> float:
    """Return the probability of a verdict's own side, which may be below .5; of the likelier one for None."""
    if not 0 <= probability <= 1:
        raise ValueError(f"probability: {probability!r} is not between 0 and 1")
    if relevant is None:
        return max(probability, 1 - probability)
    return probability if relevant else 1 - probability


def hundredths(confidence: float) -> int:
    """Return the greatest number of hundredths that a confidence reaches, 0 to 100."""
    # A confidence less than a millionth below a hundredth counts as that hundredth, because of rounding: .57
    # times 100 is not 57 in binary floating point.
    if not -_SLACK <= confidence <= 1 + _SLACK:
        raise ValueError(f"confidence: {confidence!r} is not between 0 and 1")
    return min(100, max(0, math.floor((confidence + _SLACK) * 100)))


def is_sure(confidence: float | None, threshold: float | None) -> bool:
    """Return whether a cascade keeps a verdict: confidence >= threshold, both in hundredths."""
    # The confidence is the probability of the verdict's own side (`side_confidence`); None is never kept. The
    # threshold is on `CONFIDENCE_GRID`; None escalates all.
    if threshold is not None and threshold not in CONFIDENCE_GRID:
        raise ValueError(f"threshold: {threshold!r} is not one of .50, .51, ... 1.00")
    if confidence is None or threshold is None:
        return False
    return hundredths(confidence) >= round(threshold * 100)
